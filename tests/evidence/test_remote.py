"""Faults that resemble each other are seen by the distance to the class, if they come and go."""

from __future__ import annotations

import numpy as np

from gemmed import GEMMEDClassifier
from gemmed.evidence.sources.remote import remote_evidence

N_GROUPS, SIZE = 12, 20


def recordings(seed, *, faulty_groups=None, share=0.0):
    """Two classes of recordings; faulty segments sit close together, away from both classes."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(2 * N_GROUPS), SIZE)
    y = (groups >= N_GROUPS).astype(int)
    X = rng.normal(size=(len(y), 6))
    X[:, 0] += 3.0 * y
    if faulty_groups is None:
        faulty = rng.random(len(y)) < share
    else:
        faulty = np.isin(groups % N_GROUPS, faulty_groups)
    X[faulty] = [0.0, 0.0, 6.0, 0.0, 0.0, 0.0] + 0.3 * rng.normal(size=(int(faulty.sum()), 6))
    return X, y, groups, faulty


def evidence_of(X, y, groups):
    spread = np.array(
        [np.median(np.linalg.norm(X[y == z] - x, axis=1)) for x, z in zip(X, y, strict=True)]
    )
    return remote_evidence(spread, [np.flatnonzero(y == z) for z in (0, 1)], groups)


def test_faults_that_come_and_go_are_evidence():
    X, y, groups, faulty = recordings(0, share=0.3)
    evidence = evidence_of(X, y, groups)
    assert np.mean(evidence[faulty] > 3.0) > 0.95
    assert np.mean(evidence[~faulty] > 3.0) < 0.02


def test_whole_recordings_apart_are_a_mode_of_the_class():
    X, y, groups, _ = recordings(1, faulty_groups=[0, 1, 2])
    assert not evidence_of(X, y, groups).any()


def test_healthy_recordings_are_no_evidence():
    for seed in range(5):
        X, y, groups, _ = recordings(seed)
        assert not evidence_of(X, y, groups).any()


def test_the_classifier_uses_it_with_groups():
    X, y, groups, faulty = recordings(2, share=0.3)
    model = GEMMEDClassifier(random_state=0).fit(X, y, groups=groups)
    assert np.mean((model.nominal_proba_ < 0.5) == faulty) > 0.95
