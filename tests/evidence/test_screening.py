"""Screening: p-values of new samples hold their level, for any trust; ties, groups, splits."""

import math
import pickle

import numpy as np
import pytest
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    RobustScaler,
    StandardScaler,
)

from gemmed._core.exceptions import (
    CalibrationWarning,
    DegenerateDataError,
    NeighborsReducedWarning,
    UnscaledDataError,
)
from gemmed.evidence import distances
from gemmed.evidence.distances import EuclideanDistances, KernelDistances, euclidean
from gemmed.evidence.scaled_along import training_distances
from gemmed.evidence.screening import (
    beyond_gap,
    conformal_p_values,
    kernel_distances,
    screen,
    trust_distances,
    trust_points,
    warn_out_of_reach,
)

RATES = np.array([0.01, 0.05, 0.1])


# --- against loops ---------------------------------------------------------------------------


def nothing(n):
    """No sample."""
    return np.zeros(n, dtype=bool)


def mean_of_nearest(x, candidates, k):
    return sum(sorted(math.dist(x, c) for c in candidates)[:k]) / k


def p_values_by_loops(X, z, trust, groups, k, dropped, new):
    """Pooled and class-wise p-values, straight from their definition."""
    n, classes = len(X), sorted(set(z.tolist()))

    def statistics(x, group):
        return [
            mean_of_nearest(
                x,
                [X[j] for j in range(n) if z[j] == c and trust[j] >= 0.5 and groups[j] != group],
                k,
            )
            for c in classes
        ]

    training = [statistics(X[i], groups[i]) for i in range(n)]
    scale = [
        np.median([training[i][c] for i in range(n) if z[i] == c and trust[i] >= 0.5])
        for c in classes
    ]
    kept = []
    for c in classes:
        members = [i for i in range(n) if z[i] == c]
        members.sort(key=lambda i: (trust[i], -training[i][z[i]]))
        kept += members[round(dropped[c] * len(members)) :]
    pooled, by_class = [], []
    for x in new:
        s = statistics(x, None)
        smallest = min(a / b for a, b in zip(s, scale, strict=True))
        further = sum(
            min(a / b for a, b in zip(training[i], scale, strict=True)) >= smallest for i in kept
        )
        pooled.append((1 + further) / (1 + len(kept)))
        by_class.append([])
        for c in classes:
            own = [training[i][c] for i in kept if z[i] == c]
            by_class[-1].append((1 + sum(v >= s[c] for v in own)) / (1 + len(own)))
    return np.array(pooled), np.array(by_class)


@pytest.mark.parametrize("grouped", [False, True])
def test_p_values_agree_with_their_definition(grouped):
    rng = np.random.default_rng(0)
    z = rng.permutation(np.repeat([0, 1, 2], [20, 25, 30]))
    X = rng.normal(size=(75, 3)) * (1 + z[:, None]) + 3 * z[:, None]
    trust = rng.choice([0.1, 0.2, 0.7, 0.9], 75)
    groups = rng.integers(0, 8, 75) if grouped else np.arange(75)
    new = 4 * rng.normal(size=(40, 3)) + 3
    dropped = np.array([0.0, 0.2, 0.4])
    own = groups if grouped else None
    distances = training_distances(X, z, own)
    everything = trust_points(X, z, trust, n_neighbors=4, left_out=nothing(75), groups=own)
    statistics = everything.training_statistics(distances, z, own)[np.arange(75), z]
    left_out = nothing(75)
    for c, share in enumerate(dropped):
        members = np.flatnonzero(z == c)
        order = members[np.lexsort((-statistics[members], trust[members]))]
        left_out[order[: round(share * len(members))]] = True
    reference = trust_points(X, z, trust, n_neighbors=4, left_out=left_out, groups=own)
    expected = p_values_by_loops(X, z, trust, groups, 4, dropped, new)
    result = reference.p_values(new)
    np.testing.assert_allclose(result.p_values, expected[0], rtol=1e-12)
    np.testing.assert_allclose(result.class_p_values, expected[1], rtol=1e-12)
    assert np.all(trust[reference.reference_index] >= 0.5)


def test_weights_of_p_values_count_as_copies():
    rng = np.random.default_rng(1)
    calibration, statistics = rng.normal(size=30), rng.normal(size=50)
    np.testing.assert_allclose(
        conformal_p_values(calibration, statistics, np.full(30, 0.7)),
        conformal_p_values(calibration, statistics),
    )
    copies = rng.integers(1, 4, 30)
    expected = [
        (3 + np.sum(np.repeat(calibration, copies) >= s)) / (3 + copies.sum()) for s in statistics
    ]
    np.testing.assert_allclose(
        conformal_p_values(calibration, statistics, copies.astype(float)), expected
    )


def test_benjamini_hochberg_agrees_with_its_definition():
    rng = np.random.default_rng(2)
    for _ in range(50):
        p = np.round(rng.beta(0.4, 1.0, 23), 2)
        passed = [i for i, v in enumerate(sorted(p), 1) if v <= 0.2 * i / 23]
        expected = p <= (sorted(p)[passed[-1] - 1] if passed else -1.0)
        np.testing.assert_array_equal(screen(p, fdr=0.2), expected)
    assert screen(np.empty(0), fdr=0.1).shape == (0,)


# --- levels ----------------------------------------------------------------------------------


def mixture(rng, n):
    return rng.normal(size=(n, 2)) + 8.0 * (rng.random(n) < 0.3)[:, None]


DISTRIBUTIONS = {
    "normal, d = 2": lambda rng, n: rng.normal(size=(n, 2)),
    "normal, d = 20": lambda rng, n: rng.normal(size=(n, 20)),
    "normal, d = 50": lambda rng, n: rng.normal(size=(n, 50)),
    "mixture": mixture,
    "grid": lambda rng, n: rng.integers(0, 6, (n, 2)).astype(float),
    "Student t, 1.5 degrees": lambda rng, n: rng.standard_t(1.5, size=(n, 3)),
}


def trust_by(kind, X, rng):
    """Everything trusted, the outskirts distrusted, or coins that have nothing to do with X."""
    if kind == "full":
        return np.ones(len(X))
    if kind == "coins":
        return rng.random(len(X))
    ranks = np.linalg.norm(X - np.median(X, axis=0), axis=1).argsort().argsort() / len(X)
    return np.where(ranks >= 0.7, 0.01, 0.99)


def error_of_level(rates, n, n_new, repetitions):
    """Standard deviation of a mean level: a Beta law for the training set, binomial given it."""
    return np.sqrt(rates * (1 - rates) * (1 / (n + 2) + 1 / n_new) / repetitions)


@pytest.mark.parametrize("kind", ["full", "outskirts", "coins"])
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_level_holds_on_clean_data_whatever_the_trust(name, kind):
    n, n_new, repetitions = 99, 50, 100
    alarms = np.zeros(3)
    for seed in range(repetitions):
        rng = np.random.default_rng(seed)
        X = DISTRIBUTIONS[name](rng, n)
        trust = trust_by(kind, X, rng)
        reference = trust_points(X, np.zeros(n, dtype=int), trust, left_out=nothing(n))
        p = reference.p_values(DISTRIBUTIONS[name](rng, n_new)).p_values
        alarms += [screen(p, false_alarm_rate=rate).mean() for rate in RATES]
    level = alarms / repetitions
    error = error_of_level(RATES, n, n_new, repetitions)
    assert np.all(level <= RATES + 3.5 * error), level
    if name != "grid":  # ties are settled against alarms
        assert np.all(level >= 0.85 * RATES - 3.5 * error), level


@pytest.mark.parametrize("kind", ["outskirts", "coins"])
@pytest.mark.parametrize("name", sorted(set(DISTRIBUTIONS) - {"mixture"}))
def test_clean_data_are_found_clean(name, kind):
    """Distrust of the outskirts or by chance is no contamination; the mixture loses a mode."""
    found = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        X = DISTRIBUTIONS[name](rng, 99)
        reference = trust_points(X, np.zeros(99, dtype=int), trust_by(kind, X, rng))
        found += len(reference.class_statistics) < 99
    assert found <= 3


def test_throwing_the_distrusted_out_of_the_calibration_costs_the_level():
    """The mistake that a gap avoids: outskirts that are missing come back as alarms."""
    levels = {"beyond a gap": [], "distrusted": []}
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X, new = rng.normal(size=(200, 2)), rng.normal(size=(200, 2))
        trust = np.where(np.linalg.norm(X, axis=1).argsort().argsort() >= 190, 0.01, 0.99)
        for kind, found in levels.items():
            left_out = trust < 0.5 if kind == "distrusted" else None
            reference = trust_points(X, np.zeros(200, dtype=int), trust, left_out=left_out)
            found.append(np.mean(reference.p_values(new).p_values <= 0.01))
    assert np.mean(levels["distrusted"]) > 0.04
    assert np.mean(levels["beyond a gap"]) <= 0.01 + 3.5 * error_of_level(0.01, 200, 200, 60)


@pytest.mark.parametrize("share", [0.05, 0.2, 0.4])
@pytest.mark.parametrize("dimension", [2, 20])
def test_gross_outliers_in_training_cost_neither_level_nor_power(share, dimension):
    """Outliers of trust near 0, and distrusted outskirts of the nominal samples besides."""
    n, repetitions = 200, 60
    levels, powers, shares = [], [], []
    for seed in range(repetitions):
        rng = np.random.default_rng(seed)
        anomalous = np.arange(n) < share * n
        X = rng.normal(size=(n, dimension))
        X[anomalous] = outliers(rng, anomalous.sum(), dimension)
        far = np.linalg.norm(X, axis=1)
        trust = np.where(far > np.quantile(far[~anomalous], 0.9), 0.1, 0.9)
        trust[anomalous] = 0.01
        reference = trust_points(X, np.zeros(n, dtype=int), trust)
        level = reference.p_values(rng.normal(size=(200, dimension))).p_values
        levels.append([np.mean(level <= rate) for rate in RATES])
        power = reference.p_values(outliers(rng, 200, dimension)).p_values
        powers.append([np.mean(power <= rate) for rate in RATES])
        shares.append(1.0 - len(reference.class_statistics) / n)
    error = error_of_level(RATES, (1 - share) * n, 200, repetitions)
    assert np.all(np.mean(levels, axis=0) <= RATES + 3.5 * error)
    assert np.all(np.mean(levels, axis=0)[1:] >= 0.8 * RATES[1:])
    assert np.all(np.mean(powers, axis=0)[1:] > 0.95)
    assert abs(np.mean(shares) - share) < 0.01


def outliers(rng, n, dimension):
    direction = rng.normal(size=(n, dimension))
    radius = rng.uniform(3, 4, (n, 1)) * (3 + np.sqrt(dimension))
    return radius * direction / np.linalg.norm(direction, axis=1, keepdims=True)


def wide_rows(rng, n):
    return rng.normal(size=(n, 1500))


SCALERS = {
    "standardised": StandardScaler(),
    "range": MinMaxScaler(),
    "quartiles": RobustScaler(),
    "as they are": FunctionTransformer(),
}


@pytest.mark.parametrize("scaler", SCALERS)
def test_level_holds_with_more_columns_than_rows_whatever_the_scaler(scaler):
    """Measured in the scale that all rows gave, 20 % of the new ones would be alarms."""
    n, n_new, repetitions = 79, 100, 20
    levels, plain = [], []
    for seed in range(repetitions):
        rng = np.random.default_rng(seed)
        raw, z = wide_rows(rng, n), np.arange(n) % 2
        fitted = SCALERS[scaler].fit(raw)
        X, new = fitted.transform(raw), fitted.transform(wide_rows(rng, n_new))
        levels.append(np.mean(trust_points(X, z, np.ones(n)).p_values(new).p_values <= 0.05))
        reference = trust_distances(EuclideanDistances(X), z, np.ones(n))
        points = X[reference.reference_index]
        p = reference.p_values_from_distances(
            lambda rows, new=new, points=points: euclidean(new[rows], points), n_new
        ).p_values
        plain.append(np.mean(p <= 0.05))
    assert 0.03 <= np.mean(levels) <= 0.07
    if scaler != "as they are":
        assert np.mean(plain) > 0.12


COPIED = {
    "twice": lambda z, rng: np.r_[: len(z), : len(z) // 2],
    "with replacement": lambda z, rng: rng.integers(len(z), size=len(z)),
    "rare class": lambda z, rng: np.r_[: len(z), np.repeat(np.flatnonzero(z == 1), 9)],
}


@pytest.mark.parametrize("name", COPIED)
def test_level_holds_if_training_rows_stand_several_times(name):
    repetitions, levels, own_levels = 40, [], []
    for seed in range(repetitions):
        rng = np.random.default_rng(seed)
        z, new_z = (rng.random(240) < 0.25).astype(int), (rng.random(400) < 0.25).astype(int)
        X, new = (rng.normal(size=(len(c), 4)) + 3.0 * c[:, None] for c in (z, new_z))
        rows = COPIED[name](z, rng)
        reference = trust_points(X[rows], z[rows], np.ones(len(rows)))
        assert len(reference.calibration_class) == len(np.unique(rows))
        p = reference.p_values(new)
        levels.append(np.mean(p.p_values <= 0.05))
        own_levels.append(np.mean(p.class_p_values[np.arange(400), new_z] <= 0.05))
    assert 0.035 <= np.mean(levels) <= 0.065
    assert 0.035 <= np.mean(own_levels) <= 0.065


def test_copies_with_another_label_are_held_out_together():
    """A table joined to itself with some labels changed."""
    rng = np.random.default_rng(13)
    X = np.tile(rng.normal(size=(60, 3)), (2, 1))
    z = np.repeat([0, 1], 60)
    reference = trust_points(X, z, np.ones(120))
    assert len(reference.calibration_class) == 120
    assert reference.pooled_statistics.min() > 0.2
    distances = training_distances(X, z)
    statistics = reference.training_statistics(distances, z)
    np.testing.assert_allclose(statistics[:60], statistics[60:])
    assert statistics.min() > 0.2


def test_coarse_rows_that_coincide_all_count():
    rng = np.random.default_rng(14)
    X = rng.integers(0, 3, (300, 3)).astype(float)
    reference = trust_points(X, np.zeros(300, dtype=int), np.ones(300))
    assert len(reference.calibration_class) == 300
    np.testing.assert_allclose(reference.p_values(np.full((1, 3), 9.0)).p_values, 1 / 301)


def test_class_wise_and_pooled_levels_hold_for_unlike_classes():
    """A small tight class beside a large wide one; both are trusted in part."""
    sizes, repetitions = np.array([49, 149]), 200
    class_level, pooled_level = np.zeros(2), 0.0
    for seed in range(repetitions):
        rng = np.random.default_rng(seed)

        def draw(z, rng=rng):
            return rng.normal(size=(len(z), 3)) * np.where(z == 0, 0.1, 3.0)[:, None] + 2.0 * (
                z[:, None] == 0
            )

        z = np.repeat([0, 1], sizes)
        reference = trust_points(draw(z), z, rng.random(198), left_out=nothing(198))
        result = reference.p_values(draw(z))
        own = result.class_p_values[np.arange(198), z] <= 0.1
        class_level += [own[z == 0].mean(), own[z == 1].mean()]
        pooled_level += np.mean(result.p_values <= 0.1)
    error = error_of_level(0.1, sizes, sizes, repetitions)
    assert np.all(np.abs(class_level / repetitions - 0.1) <= 3.5 * error + 0.01)
    assert abs(pooled_level / repetitions - 0.1) <= 3.5 * error.min() + 0.005


def test_a_tight_class_is_guarded_by_its_own_scale():
    """Ten widths from the tight class is far, though near on the scale of the wide one."""
    rng = np.random.default_rng(3)
    z = np.repeat([0, 1], 100)
    X = rng.normal(size=(200, 2)) * np.where(z == 0, 0.05, 3.0)[:, None] + 40.0 * z[:, None]
    result = trust_points(X, z, np.ones(200)).p_values(np.array([[0.5, 0.0], [40.5, 40.0]]))
    assert result.p_values[0] <= 0.05 < result.p_values[1]
    assert result.class_p_values[1, 0] == 1 / 101


def test_false_discovery_rate_holds_over_batches():
    proportions, found = [], []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        reference = trust_points(rng.normal(size=(400, 2)), np.zeros(400, dtype=int), np.ones(400))
        new = np.vstack([rng.normal(size=(90, 2)), 7.0 * rng.choice([-1, 1], (10, 2))])
        alarms = screen(reference.p_values(new).p_values, fdr=0.1)
        proportions.append(alarms[:90].sum() / max(alarms.sum(), 1))
        found.append(alarms[90:].mean())
    assert np.mean(proportions) <= 0.1 + 3 * np.std(proportions) / np.sqrt(200)
    assert np.mean(found) > 0.8


# --- the gap ---------------------------------------------------------------------------------


def test_gap_test_holds_its_level_for_pareto_tails():
    found = 0
    for seed in range(2000):
        rng = np.random.default_rng(seed)
        scores = rng.pareto(1.0, 60) + 1.0
        found += beyond_gap(scores, scores < np.quantile(scores, 0.7)).any()
    assert 0 < found <= 2000 * 0.05 + 3 * np.sqrt(2000 * 0.05 * 0.95)


def test_gap_takes_only_distrusted_samples_beyond_it():
    rng = np.random.default_rng(4)
    scores = np.concatenate([rng.uniform(1, 2, 60), rng.uniform(20, 30, 20)])
    trusted = np.arange(80) < 50
    trusted[79] = True
    np.testing.assert_array_equal(beyond_gap(scores, trusted), (scores > 10) & ~trusted)
    assert not beyond_gap(scores, np.ones(80, dtype=bool)).any()
    assert not beyond_gap(np.zeros(80), trusted).any()
    assert not beyond_gap(scores, np.zeros(80, dtype=bool)).any()


def test_kernel_distances_give_the_same_p_values_as_points():
    rng = np.random.default_rng(5)
    X, new = rng.normal(size=(80, 3)), 2 * rng.normal(size=(30, 3))
    z, trust = rng.integers(0, 2, 80), rng.random(80)
    by_points = trust_points(X, z, trust, n_neighbors=3)
    by_kernel = trust_distances(KernelDistances(X @ X.T), z, trust, n_neighbors=3)
    index = by_kernel.reference_index
    cross, own = new @ X[index].T, np.sum(new**2, axis=1)
    before = cross.copy()
    result = by_kernel.p_values_from_distances(
        lambda rows: kernel_distances(cross[rows], own[rows], np.sum(X[index] ** 2, axis=1)), 30
    )
    for one, other in zip(result, by_points.p_values(new), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(cross, before)
    with pytest.raises(ValueError, match="p_values_from_distances"):
        by_kernel.p_values(new)


def test_order_position_and_unit_do_not_matter():
    rng = np.random.default_rng(6)
    X, new = rng.normal(size=(90, 2)), rng.normal(size=(30, 2))
    z, trust = np.zeros(90, dtype=int), rng.random(90)
    expected = trust_points(X, z, trust).p_values(new).p_values
    order = rng.permutation(90)
    moved = trust_points(7 * X[order] + 3, z[order], trust[order]).p_values(7 * new + 3).p_values
    np.testing.assert_allclose(moved, expected)


def test_work_in_blocks_changes_nothing(monkeypatch):
    rng = np.random.default_rng(7)
    X, new = rng.normal(size=(90, 2)), rng.normal(size=(40, 2))
    z, trust = rng.integers(0, 2, 90), rng.random(90)
    expected = trust_points(X, z, trust, n_neighbors=5).p_values(new)
    monkeypatch.setattr(distances, "BLOCK_SIZE", 333)
    for one, other in zip(
        trust_points(X, z, trust, n_neighbors=5).p_values(new), expected, strict=True
    ):
        np.testing.assert_array_equal(one, other)
    assert trust_points(X, z, trust, n_neighbors=5).p_values(new[:0]).class_p_values.shape == (0, 2)


def test_large_classes_are_split_into_references_and_calibration():
    repetitions, level = 100, np.zeros(3)
    for seed in range(repetitions):
        rng = np.random.default_rng(seed)
        z = np.repeat([0, 1], [300, 90])
        X = rng.normal(size=(390, 2)) * (1 + z[:, None])
        trust = np.where(np.linalg.norm(X, axis=1) > 2.5 * (1 + z), 0.1, 0.9)
        reference = trust_points(X, z, trust, max_references=50, random_state=seed)
        assert np.sum(reference.reference_class == 0) <= 50 < np.sum(reference.reference_class == 1)
        assert np.bincount(reference.calibration_class).tolist() == [250, 90]
        np.testing.assert_allclose(np.unique(reference.calibration_weights), [1.0, 1.2])
        new = rng.normal(size=(390, 2)) * (1 + z[:, None])
        p = reference.p_values(new).p_values
        level += [np.mean(p <= rate) for rate in RATES]
    error = error_of_level(RATES, 340 / 1.2, 390, repetitions)
    assert np.all(np.abs(level / repetitions - RATES) <= 3.5 * error + 0.05 * RATES)
    again = trust_points(X, z, trust, max_references=50, random_state=seed)
    np.testing.assert_array_equal(again.reference_index, reference.reference_index)


def test_segments_of_one_recording_are_held_out_together():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(200, 2))
    X[:12] = 9 + 0.01 * rng.normal(size=(12, 2))  # one broken recording, by mistake trusted
    groups = np.arange(200)
    groups[:12] = 0
    z, trust = np.zeros(200, dtype=int), np.ones(200)
    blind = trust_points(X, z, trust, left_out=nothing(200))
    aware = trust_points(X, z, trust, left_out=nothing(200), groups=groups)
    assert blind.class_statistics[:12].max() < blind.class_statistics[12:].max()
    assert aware.class_statistics[:12].min() > aware.class_statistics[12:].max()


def test_ties_are_settled_against_alarms():
    """Every training sample and the new one stand on a corner of a square."""
    corners = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    X = np.repeat(corners, 25, axis=0) / 3.0
    reference = trust_points(X, np.zeros(100, dtype=int), np.ones(100))
    np.testing.assert_array_equal(reference.p_values(corners / 3.0).p_values, 1.0)
    np.testing.assert_allclose(reference.p_values(np.array([[5.0, 5.0]])).p_values, 1 / 101)


def test_it_survives_pickle_and_skops():
    rng = np.random.default_rng(9)
    X, new = rng.normal(size=(60, 2)), rng.normal(size=(10, 2))
    reference = trust_points(X, np.repeat([0, 1], 30), np.ones(60))
    expected = reference.p_values(new)
    loaded = pickle.loads(pickle.dumps(reference)).p_values(new)
    np.testing.assert_array_equal(loaded.class_p_values, expected.class_p_values)
    skops = pytest.importorskip("skops.io")
    data = skops.dumps(reference)
    loaded = skops.loads(data, trusted=skops.get_untrusted_types(data=data)).p_values(new)
    np.testing.assert_array_equal(loaded.class_p_values, expected.class_p_values)


# --- what goes wrong --------------------------------------------------------------------------


def test_rates_out_of_reach_are_told():
    rng = np.random.default_rng(10)
    z = np.repeat([0, 1], [15, 40])
    reference = trust_points(rng.normal(size=(55, 2)), z, np.ones(55))
    warn_out_of_reach(55, 0.05)
    warn_out_of_reach(15, 1 / 16)
    with pytest.warns(CalibrationWarning, match=r"15 samples of class 'a' .* takes 19"):
        warn_out_of_reach(15, 0.05, "samples of class 'a'")
    with pytest.warns(CalibrationWarning, match="55 calibration samples cannot .* takes 99"):
        warn_out_of_reach(55, 0.01)
    far = reference.p_values(np.array([[99.0, 99.0]]))
    np.testing.assert_allclose(far.class_p_values[0], [1 / 16, 1 / 41])
    np.testing.assert_allclose(far.p_values, 1 / 56)


def test_small_classes_use_fewer_neighbours():
    X = np.random.default_rng(11).normal(size=(30, 2))
    z = np.repeat([0, 1], [24, 6])
    with pytest.warns(NeighborsReducedWarning, match=r"n_neighbors=10 .* class 1: only 5 trusted"):
        reference = trust_points(X, z, np.ones(30))
    assert reference.n_neighbors.tolist() == [10, 5]


def test_bad_input():
    X = np.random.default_rng(12).normal(size=(40, 2))
    z, trust = np.repeat([0, 1], 20), np.ones(40)
    with pytest.raises(ValueError, match="between 0 and 1"):
        trust_points(X, z, np.full(40, np.nan))
    with pytest.raises(ValueError, match="each of the 40"):
        trust_points(X, z, trust[:5])
    with pytest.raises(ValueError, match="every class"):
        trust_points(X, 2 * z, trust)
    with pytest.raises(ValueError, match="n_neighbors=0"):
        trust_points(X, z, trust, n_neighbors=0)
    with pytest.raises(ValueError, match="max_references=0"):
        trust_points(X, z, trust, max_references=0)
    with pytest.raises(DegenerateDataError, match="class 1: 0 samples are trusted"):
        trust_points(X, z, 1.0 - z)
    with pytest.raises(DegenerateDataError, match="groups"):
        trust_points(X, z, trust, groups=z)
    with pytest.raises(UnscaledDataError, match="scale X"), np.errstate(all="ignore"):
        trust_points(1e200 * X, z, trust)
    for rates in ({}, {"false_alarm_rate": 0.1, "fdr": 0.1}):
        with pytest.raises(ValueError, match="one of the two"):
            screen(np.ones(3), **rates)
    for name in ("false_alarm_rate", "fdr"):
        for rate in (0.0, 1.0, np.nan):
            with pytest.raises(ValueError, match=f"{name}="):
                screen(np.ones(3), **{name: rate})
