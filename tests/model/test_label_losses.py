"""The likelihood of labels of which some are wrong."""

import numpy as np
import pytest
from scipy import special

from gemmed.model.how_many import held_out_losses
from gemmed.model.label_losses import label_losses


def drawn(n_classes, wrong, n=20_000, seed=0):
    """Log-odds of classes, and labels drawn from them; a share is another one."""
    rng = np.random.default_rng(seed)
    scores = 2.0 * rng.normal(size=(n, n_classes))
    labels = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
    hit = rng.random(n) < wrong
    labels[hit] = (labels[hit] + rng.integers(1, n_classes, hit.sum())) % n_classes
    return scores, labels


@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize("wrong", [0.0, 0.2])
def test_it_is_the_likelihood_by_which_labels_were_drawn(n_classes, wrong):
    scores, labels = drawn(n_classes, wrong)
    own = special.softmax(scores, axis=1)[np.arange(len(labels)), labels]
    expected = -np.log((1.0 - wrong) * own + wrong * (1.0 - own) / (n_classes - 1))
    found = label_losses(0.1 * scores, labels, np.ones(len(labels)))  # any scale of scores
    assert found.mean() <= expected.mean() + 1e-5
    np.testing.assert_allclose(found, expected, atol=0.05, rtol=0.1)
    assert found.mean() == pytest.approx(expected.mean(), abs=1e-3)


def test_sure_scores_are_not_blamed_for_wrong_labels():
    """Scores that are right and sure against the same ones that are never sure: with 20 % wrong
    labels a loss that knows of none is lower for the latter, though they are right less often."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 20_000)
    given = np.where(rng.random(20_000) < 0.2, 1 - truth, truth)
    sign = 2.0 * truth - 1.0
    sure = sign * np.exp(rng.normal(size=20_000))
    unsure = sign * np.where(rng.random(20_000) < 0.02, -1.0, 1.0)
    weights = np.ones(20_000)

    def robust(f):
        return label_losses(np.column_stack([-f, f]), given, weights).mean()

    def plain(f):
        return held_out_losses((f * (2.0 * given - 1.0))[:, None], weights).mean()

    assert plain(unsure) < plain(sure)
    assert robust(sure) < robust(unsure)


def test_weights_count():
    scores, labels = drawn(3, 0.3, n=2000)
    wrong = np.argmax(scores, axis=1) != labels
    without = label_losses(scores[~wrong], labels[~wrong], np.ones((~wrong).sum()))
    found = label_losses(scores, labels, np.where(wrong, 0.0, 1.0))
    np.testing.assert_allclose(found[~wrong], without)


def test_a_hopeless_label_has_a_finite_loss():
    scores = np.array([[1e6, -1e6], [-1e6, 1e6], [1e6, -1e6]])
    found = label_losses(scores, np.array([0, 1, 1]), np.ones(3))
    assert np.all(np.isfinite(found))
