"""Plans, estimates, sequences, stopping, lists and order of checks by hand."""

import json

import numpy as np
import pytest

from gemmed._core.exceptions import ReviewError
from gemmed.checks import (
    check_flags,
    check_stopping,
    compare_slices,
    confidence_sequence,
    estimate,
    flag_fdr,
    load_plan,
    missed_share,
    next_rows,
    plan_checks,
    plan_for_model,
    recalibrate,
    save_plan,
)


@pytest.fixture(scope="module")
def table():
    """Probabilities, and faults that follow them with another share."""
    rng = np.random.default_rng(0)
    proba = rng.beta(0.3, 2.0, 800)
    return proba, rng.random(800) < np.minimum(1.5 * proba, 1.0)


def marks_of(plan, faulty, n=None):
    return {int(row): bool(faulty[row]) for row in plan.order[: n or plan.n]}


def test_a_plan_is_fixed_by_its_seed_and_can_be_enlarged(table):
    proba, _ = table
    plan = plan_checks(proba, 50, seed=3)
    assert np.array_equal(plan.rows, plan_checks(proba, 50, seed=3).rows)
    assert not np.array_equal(plan.rows, plan_checks(proba, 50, seed=4).rows)
    assert np.array_equal(plan.enlarged(90).rows[:50], plan.rows)
    assert sorted(plan.order) == list(range(800))
    assert plan.weights.min() > 0.25


def test_inclusion_probabilities_are_those_of_the_draws(table):
    proba, _ = table
    plan = plan_checks(proba[:40], 10)
    counts = np.zeros(40)
    for seed in range(3000):
        counts[plan_checks(proba[:40], 10, seed=seed).rows] += 1
    assert plan.inclusion().sum() == pytest.approx(10)
    assert np.abs(counts / 3000 - plan.inclusion()).max() < 0.04


def test_strata_give_small_groups_more_checks(table):
    proba, _ = table
    strata = np.where(np.arange(800) < 40, "rare", "common")
    share = [
        np.mean(plan_checks(proba, 100, strata=given, seed=1).inclusion()[:40])
        for given in (None, strata)
    ]
    assert share[1] > 3 * share[0]


def test_intervals_cover_and_a_sequence_is_nested(table):
    proba, faulty = table
    truth, missed = faulty.mean(), np.zeros(2)
    for seed in range(60):
        plan = plan_checks(proba, 60, seed=seed)
        marks = marks_of(plan, faulty)
        found = estimate(plan, marks, level=0.9)
        sequence = confidence_sequence(plan, marks, level=0.9)
        assert (np.diff(sequence.low) >= 0).all() and (np.diff(sequence.high) <= 0).all()
        missed += not found.low <= truth <= found.high, not sequence.low[-1] <= truth
    assert (missed <= 12).all()  # 6 expected at most, 12 has probability 0.01


def test_a_model_that_knows_makes_the_interval_shorter(table):
    _, faulty = table
    good = np.where(faulty, 0.9, 0.05)
    widths = [
        np.ptp(estimate(plan := plan_checks(p, 120), marks_of(plan, faulty))[2:4])
        for p in (good, np.full(800, 0.2))
    ]
    assert widths[0] < 0.6 * widths[1]


def test_equal_chances_and_no_model_give_the_exact_interval():
    from scipy.stats import beta

    faulty = np.arange(100_000) % 10 == 0
    plan = plan_checks(np.full(100_000, 0.1), 50)
    k = int(faulty[plan.rows].sum())
    found = estimate(plan, marks_of(plan, faulty))
    assert found.low == pytest.approx(beta.ppf(0.025, k, 51 - k), abs=0.01)
    assert found.high == pytest.approx(beta.ppf(0.975, k + 1, 50 - k), abs=0.01)


def test_all_rows_checked_leaves_no_doubt(table):
    proba, faulty = table
    plan = plan_checks(proba, 800)
    marks = marks_of(plan, faulty)
    for anytime in (False, True):
        found = estimate(plan, marks, anytime=anytime)
        assert found.low == pytest.approx(faulty.mean()) == pytest.approx(found.high)


def test_unsure_rows_widen_the_interval_and_gaps_end_it(table):
    proba, faulty = table
    plan = plan_checks(proba, 60)
    marks = marks_of(plan, faulty)
    before = estimate(plan, marks)
    unsure = {**marks, **dict.fromkeys(plan.rows[:6].tolist(), "unsure")}
    after = estimate(plan, unsure)
    assert after.low <= before.low and after.high >= before.high
    del marks[int(plan.rows[20])]
    assert estimate(plan, marks).n_checks == 20


def test_rows_that_were_not_drawn_change_no_interval(table):
    proba, faulty = table
    plan = plan_checks(proba, 60)
    marks = marks_of(plan, faulty)
    picked = {int(row): True for row in plan.order[100:200]}
    assert estimate(plan, {**marks, **picked}) == estimate(plan, marks)


def test_shares_of_flags_and_slices(table):
    proba, faulty = table
    plan = plan_checks(proba, 300, seed=2)
    marks = marks_of(plan, faulty)
    flagged = proba > 0.5
    precision = estimate(plan, marks, within=flagged)
    assert precision.low <= faulty[flagged].mean() <= precision.high
    missed = missed_share(plan, marks, flagged)
    assert missed.low <= (faulty & ~flagged).sum() / faulty.sum() <= missed.high
    slices = compare_slices(plan, marks, np.arange(800) % 4)
    alone = estimate(plan, marks, within=np.arange(800) % 4 == 0)
    assert len(slices) == 4 and slices["0"].n_intervals == 4
    assert slices["0"].high - slices["0"].low > alone.high - alone.low


def test_recalibration_moves_towards_the_truth_and_nothing_without_checks(table):
    proba, faulty = table
    plan = plan_checks(proba, 200)
    assert np.array_equal(recalibrate(plan, {})(proba), proba)
    corrected = recalibrate(plan, marks_of(plan, faulty))
    assert abs(corrected(proba).mean() - faulty.mean()) < abs(proba.mean() - faulty.mean())
    early = recalibrate(plan, marks_of(plan, faulty, 10))
    for found in (early, corrected):
        certain = np.abs(found(proba) - 0.5)
        assert (np.abs(found.averaged(proba) - 0.5) <= certain).all()
    assert np.array_equal(recalibrate(plan, {}).averaged(proba), proba)
    low, high = corrected.interval(proba)
    assert (low <= corrected(proba)).all() and (corrected(proba) <= high).all()


def test_stopping_is_reached_on_clean_rows_and_counts_what_is_missing(table):
    proba = np.full(600, 0.01)
    plan = plan_checks(proba, 400)
    right = np.zeros(600, dtype=bool)
    early = check_stopping(plan, marks_of(plan, right, 30), goal=0.02)
    assert not early.reached and early.expected_more > 50 and "more checks" in early.sentence()
    late = check_stopping(plan, marks_of(plan, right, 300), goal=0.02)
    assert late.reached and late.bound <= 0.02 and late.next_step == "stop"


def test_lists_at_a_false_share(table):
    proba, faulty = table
    by_model = flag_fdr(proba, 0.3)
    assert by_model.basis == "model" and 1 - proba[by_model.rows].mean() <= 0.3
    good = np.where(faulty, 0.9, 0.05)
    plan = plan_checks(good, 200)
    found = flag_fdr(good, 0.1, plan=plan, marks=marks_of(plan, faulty))
    assert found.basis == "checked" and faulty[found.rows].all() and found.rows.sum() > 20
    assert not found.rows[plan.rows].any() and "guaranteed" in found.sentence()


def test_the_next_rows_follow_probability_and_time(table):
    proba, _ = table
    order = np.argsort(-proba, kind="stable")
    assert np.array_equal(next_rows(proba), order)
    assert np.array_equal(next_rows(proba, {int(order[0]): True}, n=5), order[1:6])
    minutes = np.where(np.arange(800) % 2 == 1, 1000.0, 1.0)
    assert (next_rows(proba, minutes=minutes, n=40) % 2 == 0).all()
    with pytest.raises(ReviewError, match="minutes must hold"):
        next_rows(proba, minutes=[1.0])


def test_a_plan_in_a_file(table, tmp_path):
    proba, _ = table
    path = tmp_path / "p.json"
    save_plan(plan_checks(proba, 30, seed=7, digest="abc"), path)
    assert np.array_equal(load_plan(path, digest="abc").rows, plan_checks(proba, 30, seed=7).rows)
    with pytest.raises(ReviewError, match="made for another table"):
        load_plan(path, digest="other")
    record = json.loads(path.read_text())
    for change, words in (
        ({"seed": 8}, "seed 8 does not give the rows"),
        ({"weights": [1.0]}, "damaged"),
        ({"weights": [10**400] * 800}, "damaged"),
        ({"weights": [1e308] * 800}, "damaged"),
        ({"weights": [1e-300] + [800 / 799] * 799}, "damaged"),
        ({"proba": [[10**400, 0]] * 800}, "damaged"),
        ({"first_rows": [float("inf")] * 20}, "damaged"),
        ({"seed": list(range(10**5))}, r"seed=\[0, 1, 2, 3, 4, 5, \.\.\.\] must"),
        ({"n": True}, "damaged"),
        ({"version": 9}, "version 9"),
        ({"format": "x"}, "not a plan"),
    ):
        path.write_text(json.dumps({**record, **change}))
        with pytest.raises(ReviewError, match=words):
            load_plan(path)
    path.write_text("[" * 100_000)
    with pytest.raises(ReviewError, match="not a plan"):
        load_plan(path)
    with pytest.raises(ReviewError, match="is a device"):
        load_plan("/dev/zero")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda p, q: plan_checks(p, 0), "n=0"),
        (lambda p, q: plan_checks(p, 10, seed=-1), "seed=-1"),
        (lambda p, q: plan_checks([0.1, np.nan], 1), "without NaN"),
        (lambda p, q: plan_checks(p, 10, strata=["a"]), "strata has shape"),
        (lambda p, q: estimate(q, {900: True}), "row 900"),
        (lambda p, q: estimate(q, {0: "maybe"}), "mark 'maybe'"),
        (lambda p, q: estimate(q, {}, kind="odd"), "kind='odd'"),
        (lambda p, q: estimate(q, {}, level=95), "level=95"),
        (lambda p, q: check_stopping(q, {}, goal=2), "goal=2"),
        (lambda p, q: flag_fdr(p, 0), "fdr=0"),
        (lambda p, q: flag_fdr(p, plan=q), "plan and marks belong together"),
        (lambda p, q: estimate(q, [1, 2]), "marks is a list"),
        (lambda p, q: next_rows(p, n=-1), "n=-1 must be"),
        (lambda p, q: confidence_sequence(q, {0: True}, picked={0: 9999}), "numbers of draws"),
        (lambda p, q: q.enlarged(5), "n=5 must lie"),
    ],
)
def test_bad_input_is_refused_with_a_sentence(table, call, words):
    with pytest.raises(ReviewError, match=words):
        call(table[0], plan_checks(table[0], 20))


def test_a_plan_for_a_model():
    class Model:
        state_proba_ = np.array([[0.9, 0.1, 0.0], [0.2, 0.3, 0.5], [1.0, 0.0, 0.0]])

    plan = plan_for_model(Model(), 2)
    assert plan.fault_proba("bad").tolist() == [0.0, 0.5, 0.0]
    assert plan.fault_proba("fault").tolist() == pytest.approx([0.1, 0.8, 0.0])


def test_a_goal_for_the_flags_is_reached_refuted_or_open(table):
    proba, _ = table
    flagged = np.arange(800) < 200
    plan = plan_checks(proba, 120, seed=5)
    order = [int(row) for row in plan.order if flagged[row]]
    for share, n, reached, step in ((1.0, 60, True, "stop"), (0.5, 60, False, "stop")):
        marks = {row: number % 10 < 10 * share for number, row in enumerate(order[:n])}
        state = check_flags(plan, marks, flagged, goal=0.9)  # unflagged draws need no mark
        assert (state.reached, state.next_step, state.n_rows) == (reached, step, 200)
        assert ("you can stop" if reached else "no further check") in state.sentence()
    early = check_flags(plan, dict.fromkeys(order[:5], True), flagged)
    assert 0 < early.expected_more <= 195 and "more checks of flagged rows" in early.sentence()
    assert check_flags(plan, {}, flagged).bound == 0.0
    with pytest.raises(ReviewError, match="goal=90"):
        check_flags(plan, {}, flagged, goal=90)


def test_a_goal_for_the_flags_is_seldom_claimed_falsely(table):
    proba, _ = table
    flagged = np.arange(800) < 100
    faulty = np.arange(800) % 100 < 88  # 88 % of the flags are right
    false = 0
    for seed in range(40):
        plan = plan_checks(proba, 1, seed=seed)
        marks = {int(row): bool(faulty[row]) for row in plan.order[flagged[plan.order]]}
        sequence = confidence_sequence(plan, marks, within=flagged, tails=(0.05, 0.05))
        assert len(sequence.low) == 100
        false += (sequence.low >= 0.9).any()
    assert false <= 6  # 2 expected at most, 6 has probability 0.01
