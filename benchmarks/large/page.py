"""docs/benchmarks.md and its pictures, from what the other parts have measured.

python benchmarks/large/page.py [--quick]   (--quick reads and writes build/bench)
"""

import json
import sys

import numpy as np
from record import FOLDER, QUICK_FOLDER, parser

PARTS = ("peers", "flip_limit", "grid", "scaling", "cluster", "stages", "exactness")
GIVEN, TUNED = "gemmed, kernel given", "gemmed, kernel tuned"
ORACLE = "SVC, clean rows only"
KINDS = {
    "clean": "clean",
    "flips": "20 % flips",
    "one class": "20 % of one class",
    "ring": "20 % far rows",
}


def load(folder):
    """Rows of every part that has been measured, and the setting of the last one."""
    parts, setting = {}, {}
    for part in PARTS:
        path = folder / f"{part}.json"
        content = json.loads(path.read_text()) if path.exists() else {"rows": []}
        parts[part] = content["rows"]
        setting = content.get("setting", setting)
    return parts, setting


def pick(rows, **identity):
    return next((r for r in rows if all(r.get(k) == v for k, v in identity.items())), None)


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])


def number(value, digits=3):
    return "" if value is None else f"{value:.{digits}g}"


# -- what must hold ----------------------------------------------------------------------------


def claims(parts):
    """(claim, measured, holds) for everything that has been measured."""
    found = [*_against_svc(parts["peers"]), *_automatic(parts), *_large(parts["scaling"])]
    found += [*_cluster(parts["cluster"])]
    return found


def _against_svc(rows):
    for n, most in ((2000, 1.5), (5000, 1 / 1.5), (20_000, 0.1)):
        for clock, text in (("seconds", ""), ("cpu", ", processor time of all threads")):
            ratios = [
                pick(rows, n=n, kind=kind, method=GIVEN)[clock] / theirs[clock]
                for kind in KINDS
                if (theirs := pick(rows, n=n, kind=kind, method="SVC"))
                and pick(rows, n=n, kind=kind, method=GIVEN)
            ]
            if ratios:
                wanted = f"{most:g} times" if most > 1 else f"1/{1 / most:.3g} of"
                yield (
                    f"N = {n:,}: at most {wanted} the time of SVC, kernel given{text}",
                    ", ".join(f"{ratio:.3f}" if most < 1 else f"{ratio:.2f}" for ratio in ratios),
                    max(ratios) <= most,
                )
    for n in (2000, 5000, 20_000):
        for kind in KINDS:
            ours, theirs, tuned, oracle = (
                pick(rows, n=n, kind=kind, method=m) for m in (GIVEN, "SVC", TUNED, ORACLE)
            )
            if ours and theirs:
                gains = [
                    f"{100 * (row['accuracy'] - theirs['accuracy']):+.1f}{text}"
                    for row, text in ((ours, " points"), (tuned, " tuned"), (oracle, " oracle"))
                    if row
                ]
                gain = 100 * (ours["accuracy"] - theirs["accuracy"])
                claim = "within 0.5 points of" if kind == "clean" else "more accurate than"
                holds = gain >= -0.5 if kind == "clean" else gain > 0.5
                yield f"N = {n:,}, {KINDS[kind]}: {claim} SVC", "; ".join(gains), holds
    ours, theirs = (pick(rows, n=20_000, kind="flips", method=m) for m in (GIVEN, "SVC"))
    if ours and theirs:
        ratio = theirs["predict_cpu"] / ours["predict_cpu"]
        yield "predicts 20 times as fast as SVC at N = 20,000", f"{ratio:.0f} times", ratio >= 20


def _automatic(parts):
    for row in parts["grid"]:
        if row["method"] != TUNED:
            continue
        other = pick(parts["grid"], n=row["n"], kind=row["kind"], method="GridSearchCV of SVC")
        if other:
            ratio = row["cpu"] / other["cpu"]
            yield (
                f"N = {row['n']:,}, {KINDS[row['kind']]}: no slower than a grid search of SVC",
                f"{ratio:.2f} of its time, {100 * (row['accuracy'] - other['accuracy']):+.1f} "
                "points",
                ratio <= 1,
            )
    for kind in KINDS:
        ours, theirs = (pick(parts["peers"], n=20_000, kind=kind, method=m) for m in (TUNED, "SVC"))
        if ours and theirs:
            ratio = ours["seconds"] / theirs["seconds"]
            yield (
                f"N = 20,000, {KINDS[kind]}, kernel tuned: faster than one SVC",
                f"{ratio:.2f} of its time",
                ratio < 1,
            )


def _large(rows):
    ours, yardstick, boosting = (
        pick(rows, n=100_000, method=m) for m in (GIVEN, "prototype", "boosting")
    )
    if ours and yardstick:
        ratio = ours["cpu"] / yardstick["cpu"]
        yield "N = 100,000: at most 5 times the yardstick", f"{ratio:.1f} times", ratio <= 5
    tuned = pick(rows, n=100_000, method=TUNED)
    for name, row in (("given", ours), ("tuned", tuned)):
        if row and boosting:
            gain = 100 * (row["accuracy"] - boosting["accuracy"])
            yield (
                f"N = 100,000, kernel {name}: as accurate as gradient boosting",
                f"{gain:+.1f} points",
                gain >= 0,
            )
    if ours:
        yield "N = 100,000: below 2 GB", f"{ours['memory_gb']:.2f} GB", ours["memory_gb"] < 2
    for method in (GIVEN, TUNED):
        row = pick(rows, n=1_000_000, method=method)
        if row:
            yield (
                f"N = 1,000,000, {method.split(', ')[1]}: minutes",
                f"{row['seconds'] / 60:.1f} minutes",
                row["seconds"] < 15 * 60,
            )
            holds = row["memory_gb"] < 4
            yield f"... in less than 4 GB", f"{row['memory_gb']:.2f} GB", holds  # noqa: F541
            exponent = growth(rows, method)
            yield "... growth of time from 50,000 rows on", f"N^{exponent:.2f}", exponent <= 1.1


def _cluster(rows):
    one, two, killed = (pick(rows, workers=w) for w in ("1", "2", "2, one killed"))
    if one and two:
        ratio = one["seconds"] / two["seconds"]
        yield (
            "two Dask workers: 1.6 times as fast as one",
            f"{ratio:.2f} times ({one['seconds']:.0f} s with one)",
            ratio >= 1.6 and one["seconds"] >= 30,
        )
        own = [row["cpu"] + row["cpu_busiest"] for row in (one, two)]
        yield (
            "... by processor time, of this process and the busiest worker",
            f"{own[0] / own[1]:.2f} times ({own[0]:.0f} s with one)",
            own[0] / own[1] >= 1.6 and own[0] >= 30,
        )
        difference = max(two["difference_from_none"], two["difference_from_1"])
        yield "... the same function to 1e-6", f"{difference:.1g}", difference <= 1e-6
    if killed:
        difference = killed["difference_from_none"]
        yield (
            "... also when a worker is killed",
            f"{difference:.1g}, after {killed['seconds']:.0f} s",
            killed["killed"] and difference <= 1e-6,
        )


def growth(rows, method):
    """Exponent of the time from 50,000 rows on."""
    points = [(r["n"], r["cpu"]) for r in rows if r["method"] == method and r["n"] >= 50_000]
    if len(points) < 2:
        return float("nan")
    n, seconds = np.array(sorted(points), dtype=float).T
    return float(np.polyfit(np.log(n), np.log(seconds), 1)[0])


# -- sections ----------------------------------------------------------------------------------


def peers_section(rows):
    for n in sorted({row["n"] for row in rows}):
        names = list(dict.fromkeys(row["method"] for row in rows if row["n"] == n))
        lines = []
        for name in names:
            own = {kind: pick(rows, n=n, kind=kind, method=name) for kind in KINDS}
            svc = {kind: pick(rows, n=n, kind=kind, method="SVC") for kind in KINDS}
            ratios = [
                number(own[k]["cpu"] / svc[k]["cpu"], 2) if own[k] and svc[k] else ""
                for k in ("clean", "flips")
            ]
            faster = (
                number(svc["flips"]["predict_cpu"] / own["flips"]["predict_cpu"], 2)
                if own["flips"] and svc["flips"]
                else ""
            )
            scores = [f"{100 * own[k]['accuracy']:.1f}" if own[k] else "" for k in KINDS]
            lines.append([name, *ratios, faster, *scores])
        svc = pick(rows, n=n, kind="clean", method="SVC")
        yield f"### N = {n:,}\n"
        if svc:
            yield f"SVC takes {svc['cpu']:.2g} s for clean data.\n"
        yield table(
            [
                "",
                "fit, clean",
                "fit, flips",
                "prediction, times faster",
                *(f"accuracy, {text}" for text in KINDS.values()),
            ],
            lines,
        )
        yield ""


def flip_limit_section(rows):
    yield table(
        ["N", "", "accuracy, %"],
        [[f"{r['n']:,}", r["method"], f"{100 * r['accuracy']:.1f}"] for r in rows],
    )


def grid_section(rows):
    yield table(
        ["N", "data", "method", "candidates", "seconds", "accuracy"],
        [
            [
                f"{r['n']:,}",
                KINDS[r["kind"]],
                r["method"],
                r["candidates"],
                number(r["cpu"]),
                f"{100 * r['accuracy']:.1f}",
            ]
            for r in rows
        ],
    )


def scaling_section(rows):
    yield table(
        ["N", "method", "seconds", "processor seconds", "accuracy", "memory, GB", "load"],
        [
            [
                f"{r['n']:,}",
                "yardstick" if r["method"] == "prototype" else r["method"],
                number(r["seconds"]),
                number(r["cpu"]),
                f"{100 * r['accuracy']:.1f}",
                f"{r['memory_gb']:.2f}",
                r["load"],
            ]
            for r in sorted(rows, key=lambda r: r["n"])
        ],
    )
    staged = [r for r in rows if "seconds_solver" in r]
    if staged:
        yield "\nSeconds of the stages:\n"
        stages = ["distances", "kernel", "features", "solver", "probabilities"]
        yield table(
            ["N", "kernel", *stages, "iterations"],
            [
                [
                    f"{r['n']:,}",
                    r["method"].split()[-1],
                    *(number(r.get(f"seconds_{s}", 0.0), 2) for s in stages),
                    r["iterations"],
                ]
                for r in sorted(staged, key=lambda r: (r["n"], r["method"]))
            ],
        )


def cluster_section(rows):
    yield table(
        ["N", "workers", "seconds", "processor, here", "processor, workers", "difference", "load"],
        [
            [
                f"{r['n']:,}",
                r["workers"],
                number(r["seconds"]),
                number(r["cpu"]),
                number(r.get("cpu_workers")),
                number(r.get("difference_from_none"), 1),
                r["load"],
            ]
            for r in rows
        ],
    )


def stages_section(rows):
    product, memory = pick(rows, stage="matrix product"), pick(rows, stage="memory")
    yield (
        f"A matrix product in single precision runs at {product['rate'] / 1e9:.0f} thousand "
        f"million multiplications a second, memory is read at {memory['rate'] / 1e9:.1f} GB a "
        f"second (N = {product['n']:,}).\n"
    )
    yield table(
        ["stage", "seconds", "share of what is possible"],
        [
            [r["stage"], number(r["seconds"]), f"{100 * r['share_of_peak']:.0f} %"]
            for r in rows
            if "share_of_peak" in r
        ],
    )


def exactness_section(rows):
    yield table(
        ["N", "features", "mean difference of probabilities", "other predictions", "accuracy"],
        [
            [
                f"{r['n']:,}",
                {"None": "exact kernel", "auto": "auto"}.get(r["components"], r["components"]),
                number(r.get("mean_nominal_difference"), 2),
                f"{100 * r.get('other_predictions', 0.0):.2f} %",
                f"{100 * r['accuracy']:.1f}",
            ]
            for r in rows
        ],
    )


# -- pictures ----------------------------------------------------------------------------------


def draw(parts, folder):
    """Pictures of what is there; returns their names."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    drawn = []

    def finish(figure, name):
        figure.tight_layout()
        figure.savefig(folder / f"{name}.png", dpi=110, metadata={"Software": None})
        plt.close(figure)
        drawn.append(name)

    rows = parts["peers"]
    if rows:
        figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
        for name in dict.fromkeys(row["method"] for row in rows):
            own = sorted((r for r in rows if r["method"] == name), key=lambda r: r["n"])
            flips = [r for r in own if r["kind"] == "flips"]
            style = {"marker": "o", "lw": 2.5 if "gemmed" in name else 1.2, "label": name}
            if name == ORACLE:
                style |= {"color": "black", "ls": "--"}
            left.loglog([r["n"] for r in flips], [r["cpu"] for r in flips], **style)
            right.semilogx([r["n"] for r in flips], [100 * r["accuracy"] for r in flips], **style)
        left.set(xlabel="samples", ylabel="processor seconds of a fit")
        right.set(xlabel="samples", ylabel="accuracy, 20 % of the labels flipped")
        sizes = sorted({row["n"] for row in rows})
        for axes in (left, right):
            axes.set_xticks(sizes, [f"{n:,}" for n in sizes])
            axes.minorticks_off()
        right.legend(fontsize=7)
        finish(figure, "peers")
    rows = parts["scaling"]
    if rows:
        figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
        for name in dict.fromkeys(row["method"] for row in rows):
            own = sorted((r for r in rows if r["method"] == name), key=lambda r: r["n"])
            n = np.array([r["n"] for r in own], dtype=float)
            exponent = growth(rows, name)
            text = name if np.isnan(exponent) else f"{name}: N^{exponent:.2f}"
            left.loglog(n, [r["cpu"] for r in own], marker="o", label=text)
            right.semilogx(n, [r["memory_gb"] for r in own], marker="o", label=name)
        left.set(xlabel="samples", ylabel="processor seconds of a fit")
        right.set(xlabel="samples", ylabel="peak memory, GB")
        left.legend(fontsize=8)
        finish(figure, "scaling")
    rows = [row for row in parts["stages"] if "share_of_peak" in row]
    if rows:
        figure, axes = plt.subplots(figsize=(6.5, 3))
        axes.barh([r["stage"] for r in rows], [100 * r["share_of_peak"] for r in rows])
        axes.invert_yaxis()
        axes.set(xlabel="share of what processor or memory can do, %", xlim=(0, 100))
        finish(figure, "stages")
    return drawn


INTRODUCTION = """# Benchmarks

Written by `make bench`. Each part can be run alone and resumed: `benchmarks/large/PART.py`, with
`--quick` for a look. {cores} cores. A part that was resumed mixes rows of different times, and of
different states of the code; `--again` measures all anew. Times are processor seconds unless said
otherwise (in the first table: by the clock unless said otherwise, of SVC as well, which has one
thread); "load" is how many processes wanted to run in the minute before, on as many cores.
Python {python}, NumPy {numpy}, SciPy {scipy}, scikit-learn {scikit-learn}, gemmed {gemmed}.
"""

SECTIONS = {
    "peers": (
        "Against other classifiers",
        "50 features, classes made of 16 clusters; 20,000 clean test samples. Times of a fit are "
        "multiples of SVC's. Nystroem has 1,000 features. *SVC, clean rows only* is told which "
        "rows are corrupted: where it is no better than SVC, the corruption does no harm. cleanlab "
        "is left out above 5,000 samples and RampSVC above 2,000: they would take minutes.",
        peers_section,
    ),
    "flip_limit": (
        "What flipped labels leave",
        "The same data with 20 % of the labels flipped and the same given kernel, three seeds, "
        "5,000 test samples. A Gaussian process classifier (its most likely function) with the "
        "amplitude that is best on the test set, without and with knowledge of the true share of "
        "flips: SVC loses little more than is lost anyway, and labels alone do not bring it back.",
        flip_limit_section,
    ),
    "grid": (
        "The kernel from the data",
        "gemmed compares its candidates by itself; SVC has a grid of as many in three folds.",
        grid_section,
    ),
    "scaling": (
        "Large samples",
        "50 features, 10 % of the labels flipped, rows in a file in single precision, 1,000 "
        "landmarks. The yardstick is about the least a kernel classifier can do: Nystroem features "
        "and preconditioned conjugate gradients for the squared loss "
        "(benchmarks/large/prototype.py). Memory is the peak of the process, libraries included.",
        scaling_section,
    ),
    "cluster": (
        "Dask",
        'Worker processes of one thread on this machine; "none" is the local solver on one thread. '
        "The difference is the largest of the decision function at the test samples.",
        cluster_section,
    ),
    "stages": (
        "Stages",
        "What each stage needs at least (multiplications or bytes) over what was measured, on one "
        "thread.",
        stages_section,
    ),
    "exactness": (
        "Exactness",
        'Up to 2,000 samples "auto" is the exact kernel, up to 3,000 with two classes. More '
        "landmarks come closer to it.",
        exactness_section,
    ),
}


def main():
    options = parser(__doc__).parse_args()
    folder = QUICK_FOLDER if options.quick else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    parts, setting = load(folder)
    if not setting:
        sys.exit(f"nothing has been measured: run the other parts first ({', '.join(PARTS)})")
    drawn = draw(parts, folder)
    lines = [INTRODUCTION.format(**setting), "## What must hold\n"]
    held = [
        [claim, measured, "yes" if holds else "**no**"] for claim, measured, holds in claims(parts)
    ]
    lines += [table(["", "measured", "holds"], held), ""]
    where = "." if options.quick else "benchmarks"
    for part, (title, text, section) in SECTIONS.items():
        if parts[part]:
            lines += [f"## {title}\n", f"{text}\n"]
            if part in drawn:
                lines += [f"![{title}]({where}/{part}.png)\n"]
            lines += [*section(parts[part]), ""]
    target = folder / "benchmarks.md" if options.quick else FOLDER.parent / "benchmarks.md"
    target.write_text("\n".join(lines).rstrip() + "\n")
    print(target)


if __name__ == "__main__":
    main()
