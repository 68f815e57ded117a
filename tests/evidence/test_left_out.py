"""Distances in the scale that the other rows alone would have given."""

import numpy as np
import pytest
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

from gemmed.evidence import left_out
from gemmed.evidence.distances import EuclideanDistances
from gemmed.evidence.left_out import leave_out

N = 40
EVERYONE = np.arange(N)


@pytest.fixture
def raw():
    rng = np.random.default_rng(0)
    return rng.normal(size=(N, 6)) * np.logspace(-2, 3, 6) + rng.normal(size=6)


def units_of(kind, raw):
    """Rows alone, in groups of several sizes, or with a copy."""
    groups = None
    if kind == "groups":
        groups = np.random.default_rng(1).integers(0, 9, N)
    if kind == "copies":
        raw = raw.copy()
        raw[[30, 31]] = raw[5]
    return raw, groups


def rows_without(row, raw, groups):
    others = np.any(raw != raw[row], axis=1)
    return raw[others if groups is None else groups != groups[row]]


@pytest.mark.parametrize("kind", ["rows", "groups", "copies"])
def test_standardised_rows_are_measured_as_by_a_scaler_that_never_saw_them(raw, kind):
    raw, groups = units_of(kind, raw)
    distances = leave_out(StandardScaler().fit_transform(raw), np.zeros(N, dtype=int), groups)
    found = distances.between(EVERYONE, EVERYONE)
    for row in range(N):
        X = StandardScaler().fit(rows_without(row, raw, groups)).transform(raw)
        expected = np.linalg.norm(X[row] - X, axis=1)
        np.testing.assert_allclose(found[row], expected, rtol=1e-7, atol=1e-6)


@pytest.mark.parametrize("kind", ["rows", "groups", "copies"])
@pytest.mark.parametrize(
    "scaler",
    [MinMaxScaler(), MinMaxScaler((-1, 1)), MaxAbsScaler(), RobustScaler()],
    ids=["range", "range of two", "largest", "quartiles"],
)
def test_other_scalers_are_refitted_up_to_what_fewer_rows_do(raw, scaler, kind):
    raw, groups = units_of(kind, raw)
    distances = leave_out(scaler.fit_transform(raw), np.zeros(N, dtype=int), groups)
    np.testing.assert_array_equal(np.sort(distances.scaled), np.arange(6))
    scale = np.array([_scale(scaler, rows_without(row, raw, groups)) for row in range(N)])
    wanted = np.square(_scale(scaler, raw) / scale)
    firsts = np.unique(distances.unit, return_index=True)[1]
    wanted = wanted / wanted[firsts].mean(axis=0)
    found = np.empty((N, 6))
    found[:, distances.scaled] = distances.factors[distances.unit]
    np.testing.assert_allclose(found, wanted, rtol=1e-7)


def _scale(scaler, raw):
    fitted = type(scaler)().fit(raw)
    return 1.0 / fitted.scale_ if isinstance(scaler, MinMaxScaler) else fitted.scale_


def test_columns_in_units_of_their_own_stay_as_they_are(raw):
    mixed = raw.copy()
    mixed[:, 2] = StandardScaler().fit_transform(raw[:, 2:3])[:, 0]
    mixed[:, 4] = np.arange(N) % 2  # whole numbers of range one
    assert leave_out(mixed, np.zeros(N, dtype=int)).scaled.tolist() == [2]
    distances = leave_out(raw, np.zeros(N, dtype=int))
    plain = EuclideanDistances(raw)
    np.testing.assert_array_equal(
        distances.between(EVERYONE, EVERYONE[:9]), plain.between(EVERYONE, EVERYONE[:9])
    )


def test_scalers_of_other_packages_and_single_precision_are_seen(raw):
    X = (raw - raw.mean(axis=0)) / raw.std(axis=0, ddof=1)
    assert len(leave_out(X, np.zeros(N, dtype=int)).scaled) == 6
    X = StandardScaler().fit_transform(raw.astype(np.float32)).astype(float)
    assert len(leave_out(X, np.zeros(N, dtype=int)).scaled) == 6


def test_a_column_that_only_one_row_fills_says_nothing_of_that_row(raw):
    raw[:, 1] = 0.0
    raw[3, 1] = 2.0
    X = StandardScaler().fit_transform(raw)
    distances = leave_out(X, np.zeros(N, dtype=int))
    place = distances.scaled.tolist().index(1)
    assert distances.factors[distances.unit[3], place] == 0.0
    assert np.all(np.delete(distances.factors[:, place], distances.unit[3]) > 0.9)


def test_of_many_rows_none_has_a_share_worth_the_time(raw, monkeypatch):
    monkeypatch.setattr(left_out, "MAX_UNITS", N - 1)
    assert not len(leave_out(StandardScaler().fit_transform(raw), np.zeros(N, dtype=int)).scaled)
    groups = np.arange(N) // 2
    assert len(leave_out(StandardScaler().fit_transform(raw), groups % 2, groups).scaled) == 6


def test_work_in_parts_changes_nothing(raw, monkeypatch):
    X = MinMaxScaler().fit_transform(raw)
    X[:, :3] = StandardScaler().fit_transform(raw[:, :3])
    expected = leave_out(X, np.zeros(N, dtype=int)).between(EVERYONE, EVERYONE)
    monkeypatch.setattr(left_out, "COLUMNS_AT_A_TIME", 2)
    found = leave_out(X, np.zeros(N, dtype=int)).between(EVERYONE, EVERYONE)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
