"""Reviews simulated on tables with known faults: do the intervals hold, and what are they worth?

python benchmarks/checks/coverage.py DATA [--reviews 200] [--parts 1,2,3,4,5,6,7,8] [--cache FOLDER]

DATA holds real_errors/cifar10n.npz and pmlb/*.tsv.gz. Parts:

1  coverage and width of intervals and of confidence sequences at 30, 60, 120 and 240 checks
2  stopping at "at most 2 % of the labels left are wrong": kept promises, number of checks
3  lists at a stated false share of 5, 10, 20 % beside the threshold 0.5
4  calibration error, precision and recall of the threshold 0.5 before and after 60 checks
5  a reviewer who errs in 5 % of the checks
6  order of the next rows: faults found in a tenth of the time, if rows take different times
7  suggested labels accepted in bulk at a confidence of 0.9: errors made, errors expected
8  stopping at "at least 70 % (90 %) of the flagged rows are faulty", or when this is refuted

The level is 95 % throughout. A review that never errs looks the answers up. Every part writes a
table of the page docs/research/checks.md, if all cells are run.
"""

import argparse
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from populations import populations
from scipy.stats import hypergeom

from gemmed.checks import (
    confidence_sequence,
    estimate,
    flag_fdr,
    next_rows,
    plan_checks,
    recalibrate,
)
from gemmed.checks.stopping import next_step
from gemmed.review.suggestions import BulkOffer, Suggestion, confidence_in, with_checks

sys.path.insert(0, str(Path(__file__).parents[1]))
from figures import write_figures

SIZES = (30, 60, 120, 240)
GOAL, LEVEL = 0.02, 0.95


class Part(NamedTuple):
    """One table: what it is called, and what gives its row for a cell (None leaves it out)."""

    name: str
    title: str
    columns: tuple[str, ...]
    work: Callable


LOOK_EVERY, LOOK_GROWTH = 20, 0.15
"""Checks between two decisions on draws or picks: at least so many, and this part of those made.
The goal is looked at after every check."""


@cache
def exact_interval(k, n, size, alpha=1.0 - LEVEL):
    """Shares that a plain random sample without replacement does not refute."""
    totals = np.arange(k, size - n + k + 1)
    upper = hypergeom.sf(k - 1, size, totals, n) > alpha / 2
    lower = hypergeom.cdf(k, size, totals, n) > alpha / 2
    kept = totals[upper & lower]
    return kept[0] / size, kept[-1] / size


def answers(kinds, rows):
    return {int(row): str(kinds[row]) for row in rows}


def intervals(cell, n_reviews):
    """Part 1."""
    kinds, size = cell.kinds, len(cell.kinds)
    truth = float((kinds != "right").mean())
    plain_proba = np.full(size, np.clip(cell.proba.sum(axis=1), 0, 1).mean())
    widths, missed = {}, {}
    for seed in range(n_reviews):
        plan, plain = (plan_checks(p, max(SIZES), seed=seed) for p in (cell.proba, plain_proba))
        sequences = [
            confidence_sequence(one, answers(kinds, one.rows), level=LEVEL) for one in (plan, plain)
        ]
        for n in SIZES:
            own = estimate(plan, answers(kinds, plan.order[:n]), level=LEVEL)
            k = int((kinds[plain.order[:n]] != "right").sum())
            ends = {
                "interval": (own.low, own.high),
                "exact plain": exact_interval(k, n, size),
                "sequence": (sequences[0].low[n - 1], sequences[0].high[n - 1]),
                "plain sequence": (sequences[1].low[n - 1], sequences[1].high[n - 1]),
            }
            for name, (low, high) in ends.items():
                widths.setdefault((name, n), []).append(high - low)
                # The intervals of a sequence are nested: the last holds if and only if all do.
                missed.setdefault((name, n), []).append(not low - 1e-9 <= truth <= high + 1e-9)
    found, covered = [f"{cell.name} ({truth:.2f})"], []
    for name, plain_name in (("interval", "exact plain"), ("sequence", "plain sequence")):
        for n in SIZES:
            ratio = np.mean(widths[name, n]) / np.mean(widths[plain_name, n])
            found.append(f"{np.mean(widths[name, n]):.3f} ({ratio:.2f})")
        covered.append(f"{min(1.0 - np.mean(missed[name, n]) for n in SIZES):.3f}")
    return found + covered


def guided_review(cell, seed):
    """Number of checks at the stop, share of wrong labels left then, expected number at 60.

    The next step does not depend on the bound, and a sequence does not depend on later draws. All
    rows are therefore checked in the order of a review, and the stop is read off one sequence.
    """
    wrong, size = cell.kinds == "wrong", len(cell.kinds)
    plan = plan_checks(cell.proba, 1, seed=seed)
    ranking = iter(np.argsort(-cell.proba[:, 0], kind="stable").tolist())
    marks, picked, draws_after = {}, {}, []
    n_draws, expected = 0, np.nan
    while len(marks) < size:
        step, more = next_step(plan, marks, goal=GOAL, kind="wrong", level=LEVEL, picked=picked)
        if np.isnan(expected) and len(marks) >= 60:
            expected = len(marks) + more
        for turn in range(max(LOOK_EVERY, int(LOOK_GROWTH * len(marks)))):
            if step == "pick" and turn % 3 != 2:
                row = next((row for row in ranking if row not in marks), None)
                if row is not None:
                    picked[row] = n_draws
            else:
                while n_draws < size and int(plan.order[n_draws]) in marks:
                    n_draws += 1
                row = int(plan.order[n_draws]) if n_draws < size else None
            if row is None:
                continue
            marks[row] = str(cell.kinds[row])
            n_draws = _n_answered(plan, marks, n_draws)
            draws_after.append(n_draws)
    rows, tails = np.array(list(marks)), (0.0, 1.0 - LEVEL)
    sequence = confidence_sequence(
        plan, marks, kind="wrong", level=LEVEL, picked=picked, tails=tails
    )
    high = np.append(1.0, sequence.high)[draws_after]
    return *stop_at(high, wrong[rows]), expected


def _n_answered(plan, marks, n):
    while n < len(plan) and int(plan.order[n]) in marks:
        n += 1
    return n


def stop_at(high, wrong):
    """Checks at the first look with the goal reached, and the share left wrong then."""
    size, found = len(wrong), np.cumsum(wrong)
    n_left = size - np.arange(1, size + 1)
    reached = (high * size - found <= GOAL * n_left) | (n_left == 0)
    stop = int(np.argmax(reached))
    return stop + 1, float((wrong.sum() - found[stop]) / max(n_left[stop], 1))


def random_review(cell, seed):
    """The same for equal draws without a model."""
    plan = plan_checks(np.full(len(cell.kinds), cell.proba[:, 0].mean()), 1, seed=seed)
    marks = answers(cell.kinds, plan.order)
    tails = (0.0, 1.0 - LEVEL)
    sequence = confidence_sequence(plan, marks, kind="wrong", level=LEVEL, tails=tails)
    return *stop_at(sequence.high, (cell.kinds == "wrong")[plan.order]), np.nan


def stopping(cell, n_reviews):
    """Part 2."""
    row = [cell.name, str(len(cell.kinds)), str(n_reviews)]
    for review in (guided_review, random_review):
        runs = [review(cell, seed) for seed in range(n_reviews)]
        n, left = (np.array([run[i] for run in runs], float) for i in range(2))
        row += [f"{n.mean():.0f}", f"{np.mean(left > GOAL):.3f}"]
        if review is guided_review:
            row.append(f"{left.mean():.4f}")
    wrong = (cell.kinds == "wrong")[np.argsort(-cell.proba[:, 0], kind="stable")]
    left = (wrong.sum() - np.cumsum(wrong)) / np.maximum(
        len(wrong) - np.arange(1, len(wrong) + 1), 1
    )
    first = int(np.argmax(left <= GOAL)) + 1 if wrong.mean() > GOAL else 0
    return [*row, str(first)]


def false_shares(cell, n_reviews):
    """Part 3: at 240 checks."""
    faulty = cell.kinds != "right"
    proba = np.minimum(cell.proba.sum(axis=1), 1.0)

    def false_and_power(rows):
        false = np.mean(~faulty[rows]) if rows.any() else 0.0
        return f"{false:.2f} / {np.mean(rows[faulty]) if faulty.any() else np.nan:.2f}"

    row = [cell.name, false_and_power(proba > 0.5)]
    for fdr in (0.05, 0.1, 0.2):
        row.append(false_and_power(flag_fdr(cell.proba, fdr).rows))
        for n in (60, 240):
            false, power = [], []
            for seed in range(n_reviews):
                plan = plan_checks(cell.proba, n, seed=seed)
                marks = answers(cell.kinds, plan.rows)
                rows = flag_fdr(cell.proba, fdr, plan=plan, marks=marks).rows
                false.append(np.mean(~faulty[rows]) if rows.any() else 0.0)
                unchecked = faulty.copy()
                unchecked[plan.rows] = False
                power.append(np.mean(rows[unchecked]) if unchecked.any() else np.nan)
            row.append(f"{np.mean(false):.3f} / {np.mean(power):.2f}")
    return row


def calibration(cell, n_reviews):
    """Part 4: before and after 60 checks, of the rows without a check."""
    faulty = cell.kinds != "right"
    proba = np.minimum(cell.proba.sum(axis=1), 1.0)
    sums = []
    for seed in range(n_reviews):
        plan = plan_checks(cell.proba, 60, seed=seed)
        corrected = recalibrate(plan, answers(cell.kinds, plan.rows))(proba)
        left = np.ones(len(proba), bool)
        left[plan.rows] = False
        for p in (proba, corrected):
            flags = p[left] > 0.5
            error = _calibration_error(p[left], faulty[left])
            precision = np.mean(faulty[left][flags]) if flags.any() else np.nan
            recall = np.mean(flags[faulty[left]]) if faulty[left].any() else np.nan
            sums.append((error, precision, recall))
    found = np.array(sums).reshape(n_reviews, 2, 3)
    with np.errstate(all="ignore"):
        means = np.array(
            [
                [np.nanmean(c) if np.isfinite(c).any() else np.nan for c in r]
                for r in np.moveaxis(found, 0, -1)
            ]
        )
    digits = (3, 2, 2)
    return [cell.name, *(f"{means[i, j]:.{digits[j]}f}" for j in range(3) for i in range(2))]


def _calibration_error(proba, faulty, n_bins=10):
    """Mean distance of predicted and true share in bins of equal size."""
    parts = np.array_split(np.argsort(proba, kind="stable"), n_bins)
    gaps = [abs(proba[part].mean() - faulty[part].mean()) for part in parts]
    return float(np.average(gaps, weights=[len(part) for part in parts]))


def erring_reviewer(cell, n_reviews, rate=0.05, n=120):
    """Part 5."""
    kinds = cell.kinds
    truth = float((kinds != "right").mean())
    shares, covered = [], []
    for seed in range(n_reviews):
        rng = np.random.default_rng([seed, 5])
        plan = plan_checks(cell.proba, n, seed=seed)
        marks = {
            int(row): bool((kinds[row] != "right") ^ (rng.random() < rate)) for row in plan.rows
        }
        found = estimate(plan, marks, level=LEVEL)
        shares.append(found.share)
        covered.append(found.low <= truth <= found.high)
    return [cell.name, *(f"{value:.3f}" for value in (truth, np.mean(shares), np.mean(covered)))]


def precision_goal(cell, n_reviews, level=LEVEL):
    """Part 8: flags at 0.5, one looks after every check of a flagged row."""
    faulty = cell.kinds != "right"
    flagged = np.minimum(cell.proba.sum(axis=1), 1.0) > 0.5
    if not flagged.any():
        return None
    truth = float(faulty[flagged].mean())
    row = [cell.name, str(int(flagged.sum())), f"{truth:.3f}"]
    for goal in (0.7, 0.9):
        runs = []
        for seed in range(n_reviews):
            plan = plan_checks(cell.proba, 1, seed=seed)
            sequence = confidence_sequence(
                plan,
                answers(cell.kinds, plan.order),
                within=flagged,
                level=level,
                tails=(1 - level, 1 - level),
            )
            reached, refuted = sequence.low >= goal, sequence.high < goal
            stop = int(np.argmax(reached | refuted))
            runs.append((stop + 1, reached[stop], bool(reached[stop]) != (truth >= goal)))
        n, said, false = np.mean(runs, axis=0)
        row += [f"{n:.0f}", f"{said:.3f}", f"{false:.3f}"]
    return row


def next_order(cell, n_reviews):
    """Part 6: times to check are log-normal with a deviation of 0.7, independent of the rows."""
    faulty, proba = cell.kinds != "right", np.minimum(cell.proba.sum(axis=1), 1.0)
    found = []
    for seed in range(n_reviews):
        minutes = np.exp(0.7 * np.random.default_rng(seed).normal(size=len(proba)))
        in_time = []
        for order in (next_rows(proba), next_rows(proba, minutes=minutes)):
            spent = np.cumsum(minutes[order])
            in_time.append(faulty[order[spent <= 0.1 * spent[-1]]].sum())
        found.append(in_time)
    plain, timed = np.mean(found, axis=0)
    return [cell.name, f"{plain:.1f}", f"{timed:.1f}"] if faulty.any() else None


def bulk(cell, n_reviews, confidence=0.9):
    """Part 7: before checks, and after 60 and 240 for the rows without a check."""
    given = cell.labels
    others = cell.true_label.copy()
    others[np.arange(len(given)), given] = -1.0
    suggested = np.argmax(others, axis=1)
    is_error = suggested != cell.truth
    flagged = cell.proba[:, 0] > 0.5

    def offer(wrong, allowed):
        certain = confidence_in(wrong, cell.true_label, given, suggested)
        rows = np.flatnonzero(allowed & flagged & (certain >= confidence))
        found = [Suggestion(int(i), "", float(certain[i]), float(wrong[i])) for i in rows]
        return BulkOffer(found, float((1.0 - certain[rows]).sum())), int(is_error[rows].sum())

    first, n_errors = offer(cell.proba[:, 0], np.ones(len(given), bool))
    row = [cell.name, str(len(first.suggestions)), str(n_errors), f"{first.expected_errors:.1f}"]
    for n in (60, 240):
        counts = []
        for seed in range(n_reviews):
            plan = plan_checks(cell.proba, n, seed=seed)
            marks = answers(cell.kinds, plan.rows)
            left = np.ones(len(given), bool)
            left[plan.rows] = False
            corrected = recalibrate(plan, marks, kind="wrong").averaged(cell.proba[:, 0])
            own, n_errors = offer(corrected, left)
            own = with_checks(own, plan, marks, {})
            most = len(own.suggestions) if own.most_errors is None else own.most_errors
            counts.append(
                (len(own.suggestions), n_errors, own.expected_errors, most, n_errors > most)
            )
        digits = (1, 2, 2, 1, 3)
        row += [f"{m:.{d}f}" for m, d in zip(np.mean(counts, axis=0), digits, strict=True)]
    return row


CHECKED = ("accepted", "errors", "expected", "bound", "exceeded")
PARTS = {
    "1": Part(
        "checks-intervals",
        "Width and coverage of the intervals by table",
        (
            "table (true share)",
            *(f"width of one look (over a plain sample): {n}" for n in SIZES),
            *(f"at every look: {n}" for n in SIZES),
            "coverage, least of four: one look",
            "every look",
        ),
        intervals,
    ),
    "2": Part(
        "checks-stopping",
        "Stopping at 2 % wrong labels by table",
        ("table", "rows", "reviews", "checks until the stop", "goal broken", "labels left wrong")
        + ("equal draws: checks", "broken", "from the top, if the truth were known"),
        stopping,
    ),
    "3": Part(
        "checks-lists",
        "Lists with a stated share of false flags by table",
        ("table", "flags at 0.5: false / power")
        + tuple(f"{p} %: {by}" for p in (5, 10, 20) for by in ("model", "60 checks", "240")),
        false_shares,
    ),
    "4": Part(
        "checks-calibration",
        "Calibration, precision and recall before and after 60 checks",
        ("table", "calibration error before", "after", "precision before", "after")
        + ("recall before", "after"),
        calibration,
    ),
    "5": Part(
        "checks-erring-reviewer",
        "A reviewer who errs in 5 % of the checks, by table",
        ("table", "true share", "mean estimate", "coverage of the 95 % interval"),
        erring_reviewer,
    ),
    "6": Part(
        "checks-order",
        "Faults found in a tenth of the time by table",
        ("table", "plain ranking", "faults per minute"),
        next_order,
    ),
    "7": Part(
        "checks-bulk",
        "Suggested labels accepted in bulk by table",
        ("table", "by the model: accepted", "errors", "expected")
        + tuple(f"{n} checks: {what}" for n in (60, 240) for what in CHECKED),
        bulk,
    ),
    "8": Part(
        "checks-precision-goals",
        "Stopping at a precision of the flags by table",
        ("table", "flagged rows", "of these faulty")
        + tuple(f"goal {g} %: {w}" for g in (70, 90) for w in ("checks", "reached", "false")),
        precision_goal,
    ),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data")
    parser.add_argument("--reviews", type=int, default=200)
    parser.add_argument("--parts", default="1,2,3,4,5,6,7,8")
    parser.add_argument("--cells", default="", help="part of the names of cells (default: all)")
    parser.add_argument("--cache", default="/tmp/gemmed-checks")
    options = parser.parse_args()
    cells = [c for c in populations(options.data, options.cache) if options.cells in c.name]
    for part in options.parts.split(","):
        one = PARTS[part]
        print(f"\n{part}. {one.title} ({options.reviews} reviews a cell)")
        print(" | ".join(one.columns))
        started, rows = time.process_time(), []
        for cell in cells:
            row = one.work(cell, options.reviews)
            if row is not None:  # nothing to check here
                print(" | ".join(row), flush=True)
                rows.append(row)
        print(f"{time.process_time() - started:.0f} s")
        if not options.cells:
            command = f"python benchmarks/checks/coverage.py DATA --reviews {options.reviews}"
            write_figures(one.name, one.title, one.columns, rows, f"{command} --parts {part}")


if __name__ == "__main__":
    main()
