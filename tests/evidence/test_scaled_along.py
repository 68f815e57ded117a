"""Distances of new rows in the scale that a scaler fitted to them as well would have given."""

import numpy as np
import pytest
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

from gemmed.evidence import scaled_along
from gemmed.evidence.distances import EuclideanDistances
from gemmed.evidence.scaled_along import fitted_scale, training_distances

N = 40
EVERYONE = np.arange(N)
ONE_CLASS = np.zeros(N, dtype=int)


@pytest.fixture
def raw():
    rng = np.random.default_rng(0)
    return rng.normal(size=(N, 6)) * np.logspace(-2, 3, 6) + rng.normal(size=6)


@pytest.fixture
def new(raw):
    """Rows within and far beyond the training rows."""
    rng = np.random.default_rng(1)
    return raw.mean(axis=0) + 3.0 * raw.std(axis=0) * rng.normal(size=(30, 6))


def up_to_average(distances, factors, X):
    """Distances if those among the training rows X stay what they are on average."""
    variance = X.var(axis=0)
    return distances / np.sqrt(factors @ variance / variance.sum())


def refitted(scaler, raw, more):
    """The same scaler with one row more, and its squared scale relative to that without."""
    before = _scale(scaler.fit(raw))
    fitted = scaler.fit(np.vstack([raw, more]))
    return fitted, np.square(before / _scale(fitted))


def _scale(fitted):
    return 1.0 / fitted.scale_ if isinstance(fitted, MinMaxScaler) else fitted.scale_


@pytest.mark.parametrize(
    "scaler",
    [StandardScaler(), MinMaxScaler(), MinMaxScaler((-1, 1)), MaxAbsScaler(), RobustScaler()],
    ids=["standard", "range", "range of two", "largest", "quartiles"],
)
def test_new_rows_are_measured_as_by_a_scaler_that_saw_them(raw, new, scaler):
    X, Z = scaler.fit_transform(raw), scaler.transform(new)
    scale = fitted_scale(X)
    found = scale.distances(Z, X)
    for row, x in enumerate(new):
        again, factors = refitted(scaler, raw, x)
        expected = np.linalg.norm(again.transform([x]) - again.transform(raw), axis=1)
        np.testing.assert_allclose(found[row], up_to_average(expected, factors, X), rtol=1e-7)


@pytest.mark.parametrize("kind", ["groups", "copies"])
def test_kin_of_a_training_row_has_no_share_in_its_scale(raw, kind):
    groups = np.random.default_rng(2).integers(0, 9, N) if kind == "groups" else None
    raw[[30, 31]] = raw[5]
    X = StandardScaler().fit_transform(raw)
    distances = training_distances(X, ONE_CLASS, groups)
    found = distances.between(EVERYONE, EVERYONE)
    for row in EVERYONE:
        kin = groups == groups[row] if kind == "groups" else np.all(raw == raw[row], axis=1)
        kin[row] = False
        again = StandardScaler().fit(raw[~kin])
        factors = np.square(raw.std(axis=0) / again.scale_)
        Z = again.transform(raw)
        expected = up_to_average(np.linalg.norm(Z[row] - Z, axis=1), factors, X)
        np.testing.assert_allclose(found[row], expected, rtol=1e-7, atol=1e-6)


def test_rows_without_kin_are_measured_as_they_are(raw):
    X = StandardScaler().fit_transform(raw)
    found = training_distances(X, ONE_CLASS).between(EVERYONE, EVERYONE[:9])
    np.testing.assert_array_equal(found, EuclideanDistances(X).between(EVERYONE, EVERYONE[:9]))


def test_columns_in_units_of_their_own_stay_as_they_are(raw):
    assert fitted_scale(raw) is None
    raw[:, 2] = StandardScaler().fit_transform(raw[:, 2:3])[:, 0]
    raw[:, 4] = EVERYONE % 2  # whole numbers of range one
    scale = fitted_scale(raw)
    assert scale.standardised.tolist() == [2]
    assert len(scale.ranked) == 0


def test_scalers_of_other_packages_and_single_precision_are_seen(raw):
    X = (raw - raw.mean(axis=0)) / raw.std(axis=0, ddof=1)
    assert len(fitted_scale(X).standardised) == 6
    X = StandardScaler().fit_transform(raw.astype(np.float32)).astype(float)
    assert len(fitted_scale(X).standardised) == 6


def test_several_scalers_side_by_side(raw, new):
    """As of a ColumnTransformer: every column by its own."""
    parts = [StandardScaler().fit(raw[:, :2]), MinMaxScaler().fit(raw[:, 2:4])]
    parts.append(RobustScaler().fit(raw[:, 4:]))

    def scaled(rows):
        return np.hstack(
            [part.transform(rows[:, 2 * i : 2 * i + 2]) for i, part in enumerate(parts)]
        )

    scale = fitted_scale(scaled(raw))
    assert scale.standardised.tolist() == [0, 1]
    assert sorted(scale.ranked.tolist()) == [2, 3, 4, 5]
    factors = scale.factors(scaled(new))
    assert factors.shape == new.shape
    assert np.all(np.isfinite(factors) & (factors > 0))


def test_of_many_rows_none_has_a_share_worth_the_time(raw, monkeypatch):
    X, groups = StandardScaler().fit_transform(raw), EVERYONE // 2
    monkeypatch.setattr(scaled_along, "MAX_UNITS", N - 1)
    assert training_distances(X, ONE_CLASS).scale is None
    assert training_distances(X, ONE_CLASS, groups).scale is not None


def test_constant_columns_do_no_harm(raw, new):
    raw[:, 1] = 7.0
    new[:, 1] = 7.5
    scaler = StandardScaler().fit(raw)
    X, Z = scaler.transform(raw), scaler.transform(new)
    assert np.all(np.isfinite(fitted_scale(X).distances(Z, X)))
    nothing = np.zeros((N, 3))
    np.testing.assert_array_equal(training_distances(nothing, ONE_CLASS).between(EVERYONE, [0]), 0)
