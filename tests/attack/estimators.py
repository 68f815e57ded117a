"""Strange but possible data for every estimator, and what must hold for all data.

A fit ends in one of two ways. Either it raises an error of one line, of a kind that callers expect,
and leaves the estimator as it was. Or it gives a model with finite numbers and valid probabilities,
and a second fit gives the same model, to the bit.
"""

import time
import warnings

import numpy as np
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from gemmed import (
    GEMDetector,
    GEMMEDClassifier,
    MEDClassifier,
    MEDDetector,
    RampSVC,
    RODClassifier,
    TrimmedSVC,
    TwoStageClassifier,
)
from gemmed.paper import GEMMEDClassifier as PaperGEMMEDClassifier

EXPECTED = (ValueError, TypeError)
"""GemmedErrors of data and parameters are ValueErrors too."""
CLASSIFIERS = {
    "states": GEMMEDClassifier(random_state=0),
    "paper": PaperGEMMEDClassifier(random_state=0),
    "linear": GEMMEDClassifier("linear", random_state=0),
    "med": MEDClassifier(gamma="scale"),
    "ramp": RampSVC(random_state=0),
    "trimmed": TrimmedSVC(random_state=0),
    "rod": RODClassifier(max_iter=10, random_state=0),
    "two-stage": TwoStageClassifier(false_alarm_rate=0.2),
}
DETECTORS = {
    **{name: GEMDetector(name, n_neighbors=3, n_splits=2, random_state=0)
       for name in ("bipartite", "leave_one_out", "average", "spanning_tree", "density")},
    "gaussian": MEDDetector(),
}  # fmt: skip
ESTIMATORS = {**CLASSIFIERS, **DETECTORS}
TAKES = {"states", "paper", "linear"}
"""Take priors and groups."""
WEIGHTED = {*TAKES, "med", "ramp", "trimmed"}

SPECIAL = [0.0, -0.0, 1.0, 1e-300, 5e-324, 1e-8, 1e8, 1e15, 1e140, 1e200, 1e308, -1e308]
NOT_FINITE = [float("nan"), float("inf"), float("-inf")]
KINDS = ["float64", "float32", "float16", "int8", "int64", "uint8", "bool", "object", ">f8"]
LAYOUTS = ["C", "F", "strided", "reversed", "read-only", "list", "masked"]
LABELS = [
    (0, 1), (-1, 1), ("a", "b"), (True, False), (1.0, 2.0), ("", " "), (b"x", b"y"), (2**62, 0),
    ("ä\x1b[31m", "漢"), (0, "a"), (None, 1), (0.5, 1.5), (float("nan"), 1.0), (0, 1, 2), (3, 3),
]  # fmt: skip


@st.composite
def numbers(draw, n, d):
    """A matrix: of a seed, with columns and cells replaced by something special."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = rng.normal(size=(n, d)) * draw(st.sampled_from([1.0, 1.0, 1e-6, 1e6, 1e-160]))
    X += draw(st.sampled_from([0.0, 0.0, 1e6, -1e12]))
    for _ in range(draw(st.sampled_from([0, 0, 1, 3]))):
        way = draw(st.sampled_from(["cell", "column", "row", "duplicate", "round", "not finite"]))
        i, j = draw(st.integers(0, n - 1)), draw(st.integers(0, d - 1))
        value = draw(st.sampled_from(SPECIAL))
        if way == "cell":
            X[i, j] = value
        elif way == "column":
            X[:, j] = value
        elif way == "row":
            X[i] = value
        elif way == "duplicate":
            X[: i + 1] = X[i]
        elif way == "round":
            X = np.round(X)
        else:
            X[i, j] = draw(st.sampled_from(NOT_FINITE))
    return X


def laid_out(X, kind, layout):
    """The same matrix as another type, in another order of memory."""
    with np.errstate(all="ignore"):
        X = X.astype(kind) if np.all(np.isfinite(X)) or kind[-2] == "f" or "f" in kind else X
    if layout == "F":
        return np.asfortranarray(X)
    if layout == "strided":
        wide = np.zeros((len(X), 2 * X.shape[1]), dtype=X.dtype)
        wide[:, ::2] = X
        return wide[:, ::2]
    if layout == "reversed":
        return X[::-1].copy()[::-1]
    if layout == "read-only":
        X = X.copy()
        X.setflags(write=False)
        return X
    if layout == "list":
        return X.tolist()
    if layout == "masked":
        return np.ma.MaskedArray(X)
    return X


@st.composite
def cases(draw, names=tuple(ESTIMATORS)):
    """Name of an estimator, its data and the options of its fit."""
    name = draw(st.sampled_from(names))
    n = draw(st.integers(2, 8) if draw(st.integers(0, 3)) == 0 else st.integers(9, 30))
    d = draw(st.integers(1, 4))
    X = draw(numbers(n, d))
    labels = draw(st.sampled_from(LABELS if draw(st.integers(0, 3)) == 0 else LABELS[:5]))
    share = draw(st.sampled_from([0.1, 0.5, 1.0]))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    index = np.where(rng.random(n) < share, rng.integers(len(labels), size=n), np.arange(n) % 2)
    y = np.array([labels[i] for i in index], dtype=draw(st.sampled_from([None, object])))
    options = {}
    if name in WEIGHTED and draw(st.booleans()):
        weights = [0.0, 1.0, 1e-300, 1e8, 1e12, 1e200, -1.0, float("nan")]
        chosen = draw(st.sampled_from(weights))
        options["sample_weight"] = np.where(rng.random(n) < 0.5, chosen, 1.0)
    if name in TAKES and draw(st.booleans()):
        chosen = draw(st.sampled_from([0.0, 1.0, 0.5, 1e-300, 1.5, float("nan")]))
        part = draw(st.sampled_from([0.3, 1.1]))
        options["prior_nominal"] = np.where(rng.random(n) < part, chosen, 0.9)
    if name in {*TAKES, "bipartite", "density", "spanning_tree"} and draw(st.booleans()):
        made = draw(st.sampled_from(["same", "pairs", "own", "text", "missing"]))
        options["groups"] = {
            "same": np.zeros(n),
            "pairs": np.arange(n) // 2,
            "own": np.arange(n),
            "text": np.array(["x", "y"])[np.arange(n) % 2],
            "missing": np.array([None, *range(n - 1)], dtype=object),
        }[made]
    X = laid_out(X, draw(st.sampled_from(KINDS)), draw(st.sampled_from(LAYOUTS)))
    if name in DETECTORS and (name == "gaussian" or draw(st.booleans())):
        y = None
    return name, X, y, options


def check(case):
    """Raise an AssertionError if something does not hold; whether a model came out."""
    name, X, y, options = case
    model = clone(ESTIMATORS[name])
    before = dict(vars(model))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model.fit(X, y, **options)
        except EXPECTED as error:
            message = str(error)
            if not message:
                raise AssertionError(f"{name}: {type(error).__name__} without a message") from error
            left = set(vars(model)) - set(before)
            assert vars(model) == before, f"{name}: a failed fit left {left}"
            try:
                check_is_fitted(model)
            except NotFittedError:
                return False
            raise AssertionError(f"{name}: fitted after an error") from error
        again = clone(ESTIMATORS[name]).fit(X, y, **options)
        queries = np.asarray(np.ma.getdata(X) if not isinstance(X, list) else X, dtype=np.float64)
        if name in DETECTORS:
            _check_detector(name, model, again, queries)
        else:
            absent = np.any(options.get("sample_weight", 1.0) == 0.0)
            _check_classifier(name, model, again, queries, absent=absent)
    return True


def _check_classifier(name, model, again, X, *, absent):
    """``absent``: some samples have weight 0, and are not judged."""
    predicted = model.predict(X)
    assert set(predicted.tolist()) <= set(model.classes_.tolist()), name
    values = model.decision_function(X)
    assert np.all(np.isfinite(values)), f"{name}: decision function {values}"
    assert values.tobytes() == again.decision_function(X).tobytes(), f"{name}: not the same again"
    if hasattr(model, "predict_proba"):
        proba = model.predict_proba(X)
        assert proba.shape == (len(X), len(model.classes_)), name
        assert np.all((proba >= 0) & (proba <= 1)), f"{name}: probabilities {proba}"
        assert np.allclose(proba.sum(axis=1), 1.0), f"{name}: probabilities {proba}"
    for attribute in ("nominal_proba_", "anomaly_scores_"):
        shares = getattr(model, attribute, np.zeros(1))
        shares = shares[~np.isnan(shares)] if absent else shares
        assert np.all((shares >= 0) & (shares <= 1)), f"{name}: {attribute} {shares}"
    gap = np.max(getattr(model, "duality_gap_", 0.0))
    if getattr(model, "converged_", False):
        assert np.isfinite(gap), f"{name}: converged with a gap of {gap}"


def _check_detector(name, model, again, X):
    scores = model.score_samples(X)
    assert not np.any(np.isnan(scores)), f"{name}: scores {scores}"
    assert scores.tobytes() == again.score_samples(X).tobytes(), f"{name}: not the same again"
    p_values = model.p_values(X)
    assert np.all((p_values > 0) & (p_values <= 1)), f"{name}: p-values {p_values}"
    assert set(model.predict(X).tolist()) <= {-1, 1}, name


def attack_estimators(seconds, number):
    """Cases until the time is over, for the command."""
    counts = {"tried": 0, "refused": 0, "slowest": 0.0}
    wrong, begin, batch = {}, time.process_time(), 0

    def one(case):
        start = time.process_time()
        counts["tried"] += 1
        try:
            counts["refused"] += not check(case)
        except Exception as error:
            wrong.setdefault(f"{case[0]}: {type(error).__name__}: {str(error)[:150]}", case)
        counts["slowest"] = max(counts["slowest"], time.process_time() - start)

    while time.process_time() < begin + seconds:
        quick = settings(
            max_examples=20, deadline=None, database=None, suppress_health_check=list(HealthCheck)
        )
        seed(1000 * number + batch)(quick(given(cases())(one)))()
        batch += 1
    return {**counts, "wrong": sorted(wrong), "memory": 0}
