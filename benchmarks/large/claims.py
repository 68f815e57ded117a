"""What the project promises of its speed and accuracy, against what was measured."""

import numpy as np

GIVEN, TUNED = "gemmed, kernel given", "gemmed, kernel tuned"
ORACLE = "SVC, clean rows only"
KINDS = {
    "clean": "clean",
    "flips": "20 % flips",
    "one class": "20 % of one class",
    "ring": "20 % far rows",
}


def pick(rows, **identity):
    return next((r for r in rows if all(r.get(k) == v for k, v in identity.items())), None)


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
