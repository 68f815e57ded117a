"""Where is the limit? States by our own fit beside those of oracles that know more, same rows.

python benchmarks/states/limits.py FOLDER [--rows 500] [--seeds 3] [--tables a,b] [--out FILE.csv]

Tables and cells are those of ``protocol.py``, without the clean ones, where an oracle of rates has
nothing to say. GEM-MED has a forest as base. What each line knows:

own            nothing
known rates    its own p(t | x) and nats of bad rows, and the true rates
known link     its own held-out scores, weights and biases fitted to true labels, and the true rates
clean-trained  classifiers cross-fitted to true labels and undamaged rows, and the true rates; for
               bad rows the true states of other rows (``oracles.py``)

Flags at 0.5 are measured for either fault, wrong labels and bad rows apart. Standard errors are
over tables. Precision and recall count rows of all tables together; "at recall .5" is the precision
where half of the faults of a table are above the threshold. The seed moves the split as well as
the faults.
"""

import argparse
import warnings
from unittest import mock

import numpy as np
import oracles
import pandas as pd
from protocol import CELLS, average_precision, damage, split, tables
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import precision_recall_curve
from sklearn.preprocessing import StandardScaler

from gemmed import GEMMEDClassifier
from gemmed.estimators import state_fit

DAMAGED = CELLS[1:]
N_BINS = 20
METHODS = ("own", "known rates", "known link", "clean-trained")
INTERVALS = ("wrong", "bad", "either")


def fit_and_scores(Z, y, seed):
    """Our own fit and the held-out scores that its states are inferred from."""
    seen = []
    infer = state_fit.infer_states

    def watched(model):
        seen.append(model)
        return infer(model)

    with mock.patch.object(state_fit, "infer_states", watched):
        base = RandomForestClassifier(100, random_state=0)
        fitted = GEMMEDClassifier(base=base, random_state=seed).fit(Z, y)
    return fitted, seen[-1]


def at_half_recall(faults, score):
    """Precision at the highest threshold above which half of the faults are."""
    if not faults.any():
        return np.nan
    precision, recall, _ = precision_recall_curve(faults, score)
    return float(precision[np.flatnonzero(recall >= 0.5)[-1]])


def measured(states, wrong, bad):
    """What one method's states of one cell are measured by."""
    found = {"rows": len(wrong)}
    targets = {"wrong": (wrong, states[:, 1]), "bad": (bad, states[:, 2])}
    targets["either"] = (wrong | bad, 1.0 - states[:, 0])
    for name, (faults, probability) in targets.items():
        flagged = probability > 0.5
        found |= {
            f"AP {name}": average_precision(faults, probability),
            f"half {name}": at_half_recall(faults, probability),
            f"flagged {name}": flagged.sum(),
            f"right {name}": (flagged & faults).sum(),
            f"faults {name}": faults.sum(),
        }
    faults, probability = targets["either"]
    place = np.minimum((probability * N_BINS).astype(int), N_BINS - 1)
    for name, counted in (("n", np.ones(len(faults))), ("p", probability), ("bad", faults)):
        for b, total in enumerate(np.bincount(place, counted, N_BINS)):
            found[f"bin {name} {b}"] = total
    return found


def covers(interval, share, name):
    low, high = interval
    inside = float(low - 1e-9 <= share <= high + 1e-9)
    return {f"covers {name}": inside, f"width {name}": high - low}


def one_table(folder, name, seed, n_rows):
    """Cell, method and measures of all cells of a table."""
    undamaged, truth, *_ = split(folder, name, seed, n_rows)
    k = int(truth.max()) + 1
    cells = {cell: damage(undamaged, truth, cell, seed) for cell in DAMAGED}
    tuned = GEMMEDClassifier(random_state=seed).fit(
        StandardScaler().fit_transform(undamaged), truth
    )
    moved = [cell for cell in DAMAGED if not np.array_equal(cells[cell][0], undamaged)]
    scores = oracles.clean_trained(
        undamaged, truth, [cells[cell][0] for cell in moved], tuned.gamma_, seed
    )
    clean_link = oracles.link(scores[0], truth)
    for cell in DAMAGED:
        X, y, wrong, bad = cells[cell]
        if len(np.unique(y)) < k:
            raise ValueError(f"{cell}: no row of some class has its label any more")
        share, good = bad.mean(), ~bad
        T = oracles.true_confusion(truth, wrong, bad, cell, k)
        fitted, seen = fit_and_scores(StandardScaler().fit_transform(X), y, seed)
        nats = np.zeros(len(y)) if seen.log_bayes is None else seen.log_bayes
        own_link = oracles.link(seen.scores[:, good], truth[good])
        linked = own_link(seen.scores)
        with_clean = clean_link(scores[1 + moved.index(cell)] if cell in moved else scores[0])
        known_bad = np.zeros(len(y))
        if bad.any():
            known_bad = oracles.bad_rows_known(X, y, bad, nats, cell, undamaged, truth, seed)
        by_nats = (T, share, nats, seen.class_shares)
        states = {
            "own": fitted.state_proba_,
            "known rates": oracles.states_of_nats(fitted.held_out_proba_, y, *by_nats),
            "known link": oracles.states_of_nats(linked, y, *by_nats),
            "clean-trained": oracles.states_from(with_clean, y, T, known_bad),
        }
        found = {method: measured(states[method], wrong, bad) for method in METHODS}
        own = (
            fitted.label_error_interval_,
            fitted.bad_measurement_interval_,
            fitted.contamination_interval_,
        )
        for kind, faults, interval in zip(INTERVALS, (wrong, bad, wrong | bad), own, strict=True):
            found["own"] |= covers(interval, faults.mean(), kind)
        if wrong.any():
            for method, p in (("known link", linked), ("clean-trained", with_clean)):
                interval = oracles.wrong_share_interval(p, y, cell, truth, good, seed)
                found[method] |= covers(interval, wrong.mean(), "wrong")
        for method in METHODS:
            yield cell, method, found[method]


def ratio(runs, part, whole):
    """Sum of a part over sum of a whole, and its standard error over tables."""
    sums = runs.groupby("table")[[part, whole]].sum()
    total = sums[whole].sum()
    if total == 0:
        return np.nan, np.nan
    value, n = sums[part].sum() / total, len(sums)
    rest = sums[part] - value * sums[whole]
    return value, np.sqrt((rest**2).sum() * n / max(n - 1, 1)) / total


def ratio_less(runs, own, part, whole):
    """Difference of two such ratios on the same tables, and its standard error."""
    values, rests = [], []
    for frame in (runs, own):
        sums = frame.groupby("table")[[part, whole]].sum()
        total = max(sums[whole].sum(), 1)
        values.append(sums[part].sum() / total)
        rests.append((sums[part] - values[-1] * sums[whole]) / total)
    difference = (rests[0] - rests[1]).to_numpy()
    n = len(difference)
    return values[0] - values[1], np.sqrt((difference**2).sum() * n / max(n - 1, 1))


def table_mean(runs, measure):
    """Mean over tables of the means over seeds, and its standard error."""
    means = runs.groupby("table")[measure].mean().dropna()
    if means.empty:
        return np.nan, np.nan
    return means.mean(), means.std() / np.sqrt(len(means))


def calibration_error(runs):
    n, p, bad = (
        runs[[f"bin {name} {b}" for b in range(N_BINS)]].sum().to_numpy()
        for name in ("n", "p", "bad")
    )
    pairs = (N_BINS // 2, 2)  # ten bins, as in benchmarks/quality
    return np.abs((p - bad).reshape(pairs).sum(axis=1)).sum() / n.sum()


def flags_over_draws(runs):
    """Largest over smallest number of flagged rows over the seeds, median over tables."""
    flagged = runs.groupby("table")["flagged either"]
    spread = flagged.max() / np.maximum(flagged.min(), 1)
    return spread[flagged.count() > 1].median()


def thresholds(runs):
    """Precision and recall at thresholds above 0.5, the same for all tables."""
    n, bad = (
        runs[[f"bin {name} {b}" for b in range(N_BINS)]].sum().to_numpy() for name in ("n", "bad")
    )
    lines = []
    for first in range(N_BINS // 2, N_BINS, 2):
        right, flagged = bad[first:].sum(), max(n[first:].sum(), 1)
        lines.append(f"{first / N_BINS:.1f}: {right / flagged:.2f} / {right / bad.sum():.2f}")
    return ", ".join(lines)


def summary(results):
    for cell in DAMAGED:
        part = results[results["cell"] == cell]
        print(f"\n{cell}: {part['table'].nunique()} tables, {len(part) // len(METHODS)} cells")
        own = part[part["method"] == "own"]
        for method in METHODS:
            runs = part[part["method"] == method]
            print(f"  {method}")
            kinds = ["either"] + [kind for kind in ("wrong", "bad") if cell == "mixed"]
            for kind in kinds:
                flagged, right, faults = (f"{w} {kind}" for w in ("flagged", "right", "faults"))
                line = [
                    "precision {:.3f} ± {:.3f}".format(*ratio(runs, right, flagged)),
                    "recall {:.3f} ± {:.3f}".format(*ratio(runs, right, faults)),
                    "at recall .5 {:.3f} ± {:.3f}".format(*table_mean(runs, f"half {kind}")),
                    "AP {:.3f} ± {:.3f}".format(*table_mean(runs, f"AP {kind}")),
                ]
                if method != "own":
                    less = ratio_less(runs, own, right, flagged)
                    line.append("precision over own {:+.3f} ± {:.3f}".format(*less))
                print(f"    {kind}: " + ", ".join(line))
            print(f"    thresholds {thresholds(runs)}")
            print(
                f"    ECE {calibration_error(runs):.3f}, "
                f"flags over draws {flags_over_draws(runs):.2f}"
            )
            for kind in INTERVALS:
                if runs[f"covers {kind}"].notna().any():
                    print(
                        f"    interval of {kind}: covers {runs[f'covers {kind}'].mean():.3f}, "
                        f"width {runs[f'width {kind}'].mean():.3f}"
                    )
    print("\nECE, all cells")
    for method in METHODS:
        print(f"  {method}: {calibration_error(results[results['method'] == method]):.3f}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder")
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--tables", default="")
    parser.add_argument("--out", default="limits.csv")
    parser.add_argument("--read", action="store_true", help="summarise --out, fit nothing")
    options = parser.parse_args()
    if options.read:
        summary(pd.read_csv(options.out))
        return
    names = options.tables.split(",") if options.tables else tables(options.folder)
    results = []
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        for name in names:
            key = {"table": name, "seed": seed}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    for cell, method, found in one_table(options.folder, name, seed, options.rows):
                        results.append({**key, "cell": cell, "method": method, **found})
                except ValueError as error:  # a class that damage left too small
                    print(f"{name}, seed {seed}: left out from here ({error})", flush=True)
            pd.DataFrame(results).to_csv(options.out, index=False)
            print(f"{name} done", flush=True)
    summary(pd.DataFrame(results))


if __name__ == "__main__":
    main()
