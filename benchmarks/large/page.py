"""docs/benchmarks/benchmarks.md and its pictures, from what the other parts have measured.

python benchmarks/large/page.py [--quick]   (--quick reads and writes build/bench)
"""

import json
import sys

import numpy as np
from claims import KINDS, claims, growth, pick
from record import FOLDER, QUICK_FOLDER, parser

from gemmed.report.palette import method_style

PARTS = ("peers", "flip_limit", "grid", "scaling", "cluster", "stages", "exactness")


def load(folder):
    """Rows of every part that has been measured, and the setting of the last one."""
    parts, setting = {}, {}
    for part in PARTS:
        path = folder / f"{part}.json"
        content = json.loads(path.read_text()) if path.exists() else {"rows": []}
        parts[part] = content["rows"]
        setting = content.get("setting", setting)
    return parts, setting


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])


def number(value, digits=3):
    return "" if value is None else f"{value:.{digits}g}"


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
        figure.savefig(folder / f"{name}.png", dpi=110, metadata={"Software": None})
        plt.close(figure)
        drawn.append(name)

    rows = parts["peers"]
    if rows:
        figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
        for name in dict.fromkeys(row["method"] for row in rows):
            own = sorted((r for r in rows if r["method"] == name), key=lambda r: r["n"])
            flips = [r for r in own if r["kind"] == "flips"]
            look = method_style(name)
            style = {"color": look.colour, "marker": look.marker, "ls": look.line, "label": name}
            style |= {"lw": 2.5 if "gemmed" in name else 1.2}
            left.loglog([r["n"] for r in flips], [r["cpu"] for r in flips], **style)
            right.semilogx([r["n"] for r in flips], [100 * r["accuracy"] for r in flips], **style)
        left.set(xlabel="samples", ylabel="processor seconds of a fit")
        right.set(xlabel="samples", ylabel="accuracy, 20 % of the labels flipped")
        sizes = sorted({row["n"] for row in rows})
        for axes in (left, right):
            axes.set_xticks(sizes, [f"{n:,}" for n in sizes])
            axes.minorticks_off()
        handles = left.get_legend_handles_labels()
        figure.legend(
            *handles, loc="outside lower center", ncols=4, fontsize=8, title="one run a point"
        )
        finish(figure, "peers")
    rows = parts["scaling"]
    if rows:
        figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
        for name in dict.fromkeys(row["method"] for row in rows):
            own = sorted((r for r in rows if r["method"] == name), key=lambda r: r["n"])
            n = np.array([r["n"] for r in own], dtype=float)
            exponent = growth(rows, name)
            text = "yardstick" if name == "prototype" else name
            text += "" if np.isnan(exponent) else f": N^{exponent:.2f}"
            look = method_style(name)
            style = {"color": look.colour, "marker": look.marker, "ls": look.line, "label": text}
            left.loglog(n, [r["cpu"] for r in own], **style)
            right.semilogx(n, [r["memory_gb"] for r in own], **style)
        left.set(xlabel="samples", ylabel="processor seconds of a fit")
        right.set(xlabel="samples", ylabel="peak memory, GB")
        left.legend(fontsize=8, title="one run a point", title_fontsize=8)
        finish(figure, "scaling")
    rows = [row for row in parts["stages"] if "share_of_peak" in row]
    if rows:
        figure, axes = plt.subplots(figsize=(6.5, 3), layout="constrained")
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
    for part, (title, text, section) in SECTIONS.items():
        if parts[part]:
            lines += [f"## {title}\n", f"{text}\n"]
            if part in drawn:
                lines += [f"![{title}]({part}.png)\n"]
            lines += [*section(parts[part]), ""]
    target = folder / "benchmarks.md"
    target.write_text("\n".join(lines).rstrip() + "\n")
    print(target)


if __name__ == "__main__":
    main()
