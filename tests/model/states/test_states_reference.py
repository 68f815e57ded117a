"""States and rates against a second implementation, written from research/model.md, section 10.

The reference knows nothing of the code but the names of its coordinates. Averages over rates and
calibration are sums over the prior itself (many evenly spread points, or a product of Gauss-Hermite
rules); averages over states are sums over all of them.
"""

from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
from gemmed.model.states.likelihood import LabelModel, minus_log_posterior, states_of_draws
from scipy import special, stats

from gemmed.model.states.posterior import infer_states
from problems import central_difference


class Coordinates(NamedTuple):
    """Standard normal unknowns of (43)-(45), a row for each draw."""

    slope: np.ndarray
    members: np.ndarray
    biases: np.ndarray
    overlap: np.ndarray
    bad: np.ndarray
    rate: np.ndarray
    spread: np.ndarray
    own_rates: np.ndarray

    @classmethod
    def of(cls, model, x):
        """From the vectors of the code."""
        places = model.places._asdict()
        return cls(**{name: np.atleast_2d(x)[:, place] for name, place in places.items()})

    @classmethod
    def from_normal(cls, z, n_members, n_classes, with_bad):
        """Columns of standard normal numbers, in the order of the fields."""
        widths = [1, n_members if n_members > 1 else 0, n_classes, 1, int(with_bad), 1, 1]
        return cls(*np.split(z, np.cumsum(widths), axis=1))


class Data(NamedTuple):
    """What the labels are explained by."""

    scores: np.ndarray
    y: np.ndarray
    nats: np.ndarray | None
    weights: np.ndarray
    known: np.ndarray | None = None
    """True labels, -1 where they are not known."""

    @property
    def model(self):
        """The same for the code."""
        return LabelModel(*self[:4], known=self.known)


class Parts(NamedTuple):
    """Terms of the likelihood (45)."""

    p: np.ndarray
    """(n_draws, n_samples, n_classes)"""
    rho: np.ndarray
    """(n_draws, n_classes)"""
    joint: np.ndarray
    """(1 - e) T[t, y_n] p(t | x_n), of the shape of p."""
    bad: np.ndarray
    """(n_draws, n_samples)"""

    @property
    def likelihood(self):
        # A known wrong label may have no chance at all in a draw.
        return np.maximum(self.joint.sum(axis=2) + self.bad, 1e-300)


def emptiness(data):
    """h of section 10: 1 where no good sample stands near the boundary, 0 where it is crowded."""
    scores, _, nats, weights, known = data
    good = weights > 0 if nats is None else (weights > 0) & (nats <= 0)
    if known is not None:  # a measurement whose true label is known is a good one
        good |= (weights > 0) & (known >= 0)
    leads = np.sort(scores[0][good], axis=1)
    leads = leads[:, -1] - leads[:, -2]
    if not len(leads):
        return 0.0
    return max(1.0 - np.mean(leads < 0.3 * np.quantile(leads, 0.9)) / 0.12, 0.0)


def member_factors(scores):
    """Log-odds for a unit of each score: 5.6 for one member; a pool is sharper by 1.16, and later
    members have the spread of the first."""
    centred = scores - scores.mean(axis=2, keepdims=True)
    spread = np.sqrt((centred**2).sum(axis=2).mean(axis=1))
    return 5.6 * (1.16 if len(scores) > 1 else 1.0) * spread[0] / spread


def parts_of(data, x):
    """(43)-(45) for many draws."""
    scores, y, nats, weights, known = data
    n_members, n, k = scores.shape
    share = np.exp(x.members)
    share = share / share.sum(axis=1, keepdims=True) if n_members > 1 else np.ones((1, 1))
    h = emptiness(data)
    b = np.exp(h / 2 + 0.6 * (1 - h / 2) * x.slope) * share * member_factors(scores)
    logits = np.tensordot(b, scores, 1) + 1.5 * x.biases[:, None, :]
    shares = np.array([1.0 + weights[y == z].sum() for z in range(k)])
    shares /= shares.sum()
    eps = np.minimum(0.01 * np.exp(-2 * h + x.overlap), 0.5)[:, :, None]
    soft = np.exp(logits - special.logsumexp(logits, axis=2, keepdims=True))
    p = (1.0 - eps) * soft + eps * shares
    tau = 0.3 * np.exp(x.spread)
    own = x.own_rates
    rho = (k - 1) / k * stats.norm.cdf(x.rate + tau * (own + own**3 / 3.0)) ** 2
    right = y[:, None] == np.arange(k)
    confusion = np.where(right, 1.0 - rho[:, None, :], rho[:, None, :] / (k - 1))
    if nats is None:
        e, bayes = np.zeros((len(p), 1)), np.zeros(n)
    else:
        e, bayes = 1.0 / (1.0 + 49.0 * np.exp(-1.5 * x.bad)), np.exp(nats)
    usual = special.softmax(
        np.tensordot(np.exp(h / 2) * member_factors(scores) / n_members, scores, 1), axis=1
    )
    bad = e * bayes * (shares[y] + usual[np.arange(n), y]) / 2.0
    joint = (1.0 - e[:, :, None]) * confusion * p
    if known is not None:
        bad = np.where(known >= 0, 0.0, bad)
        joint = joint * ((known[:, None] < 0) | (known[:, None] == np.arange(k)))
    return Parts(p, rho, joint, bad)


def tempered_log_likelihood(data, parts):
    weights = data[3]
    power = 0.5 * min(1.0, 500.0 / weights.sum())
    return power * (np.log(parts.likelihood) @ weights)


class Averages(NamedTuple):
    nominal: np.ndarray
    wrong: np.ndarray
    bad: np.ndarray
    true_label: np.ndarray
    rates: np.ndarray
    count_of_wrong: np.ndarray
    """P(so many of the samples are wrongly labelled), shape (n_samples + 1,)."""
    effective: float


def averages(data, draws, log_weights=0.0):
    """Posterior means over weighted draws of the prior, in blocks."""
    n, k = data[0].shape[1:]
    y = data[1]
    log_w = np.concatenate(
        [tempered_log_likelihood(data, parts_of(data, block)) for block in blocks(draws)]
    )
    log_w = log_w + log_weights
    weights = np.exp(log_w - log_w.max())
    weights /= weights.sum()
    joint, bad, rates = np.zeros((n, k)), np.zeros(n), np.zeros(k)
    counts, clean_if_bad, start = np.zeros(n + 1), np.zeros((n, k)), 0
    for block in blocks(draws):
        parts = parts_of(data, block)
        w = weights[start : start + len(block.rate)]
        start += len(w)
        likelihood = parts.likelihood
        joint += np.tensordot(w, parts.joint / likelihood[:, :, None], 1)
        bad += w @ (parts.bad / likelihood)
        clean_if_bad += np.tensordot(w, parts.p * (parts.bad / likelihood)[:, :, None], 1)
        rates += w @ parts.rho
        counts += w @ count_distribution(parts, y)
    rows = np.arange(n)
    nominal = joint[rows, y]
    wrong = joint.sum(axis=1) - nominal
    return Averages(
        nominal, wrong, bad, joint + clean_if_bad, rates, counts, 1.0 / float(weights @ weights)
    )


def blocks(draws, size=4096):
    for start in range(0, len(draws.rate), size):
        yield Coordinates(*(part[start : start + size] for part in draws))


def count_distribution(parts, y):
    """P(number of wrong labels) of every draw, by the sum over all sets of samples."""
    n = len(y)
    likelihood = parts.likelihood
    nominal = parts.joint[:, np.arange(n), y]
    wrong = (parts.joint.sum(axis=2) - nominal) / likelihood
    found = np.zeros((len(wrong), n + 1))
    for chosen in product((False, True), repeat=n):
        found[:, sum(chosen)] += np.where(chosen, wrong, 1.0 - wrong).prod(axis=1)
    return found


def prior_draws(n_members, n_classes, with_bad, log2=15):
    width = 4 + n_members * (n_members > 1) + 2 * n_classes + int(with_bad)
    points = stats.qmc.Sobol(width, seed=5).random_base2(log2)
    normal = special.ndtri(np.clip(points, 1e-12, 1.0 - 1e-12))
    return Coordinates.from_normal(normal, n_members, n_classes, with_bad)


def product_rule(sizes):
    """Nodes and log weights of a product of Gauss-Hermite rules for the standard normal."""
    rules = [np.polynomial.hermite_e.hermegauss(size) for size in sizes]
    nodes = np.stack(np.meshgrid(*(rule[0] for rule in rules), indexing="ij"), axis=-1)
    grids = np.meshgrid(*(np.log(rule[1]) for rule in rules), indexing="ij")
    return nodes.reshape(-1, len(sizes)), sum(grids).ravel()


def random_data(n, n_classes, n_members=1, with_bad=True, seed=0, weighted=False, some_known=False):
    """A few samples, some of which contradict their labels; the true labels of three may be known:
    one that is wrong and looks so, one that is right, one that is wrong and does not look so."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    scores = 0.25 * rng.normal(size=(n_members, n, n_classes))
    scores[:, np.arange(n), y] += 0.5
    scores[:, 0, y[0]] -= 1.2  # a wrong label, most likely
    nats = rng.normal(-0.5, 2.0, n) if with_bad else None
    weights = rng.uniform(0.5, 2.0, n) if weighted else np.ones(n)
    known = None
    if some_known:
        known = np.full(n, -1)
        known[:3] = (y[0] + 1) % n_classes, y[1], (y[2] + n_classes - 1) % n_classes
    return Data(scores, y, nats, weights, known)


CASES = list(product((1, 2), (2, 3), (False, True)))
KNOWN = pytest.mark.parametrize("some_known", [False, True], ids=["given", "known"])


@KNOWN
@pytest.mark.parametrize(("n_members", "n_classes", "with_bad"), CASES)
def test_density_and_gradient(n_members, n_classes, with_bad, some_known):
    """Value of the reference; gradient by finite differences of the reference."""
    data = random_data(9, n_classes, n_members, with_bad, weighted=True, some_known=some_known)
    model = data.model

    def minus_log(x):
        parts = parts_of(data, Coordinates.of(model, x))
        return 0.5 * x @ x - tempered_log_likelihood(data, parts)[0]

    rng = np.random.default_rng(1)
    for x in rng.normal(size=(5, model.n_coordinates)):
        density = minus_log_posterior(model, x)
        assert density.value == pytest.approx(minus_log(x), rel=1e-10)
        np.testing.assert_allclose(density.gradient, central_difference(minus_log, x), atol=1e-6)


def test_more_samples_count_no_more_than_five_hundred():
    data = random_data(1200, 2, seed=3)
    model = data.model
    x = np.random.default_rng(2).normal(size=model.n_coordinates)
    parts = parts_of(data, Coordinates.of(model, x))
    expected = 0.5 * x @ x - tempered_log_likelihood(data, parts)[0]
    assert minus_log_posterior(model, x).value == pytest.approx(expected, rel=1e-10)


@KNOWN
@pytest.mark.parametrize(("n_members", "n_classes", "with_bad"), CASES)
def test_states_given_everything_else(n_members, n_classes, with_bad, some_known):
    """Sums over all joint assignments of true labels and faults to four samples."""
    n = 4
    data = random_data(n, n_classes, n_members, with_bad, seed=4, some_known=some_known)
    model = data.model
    x = 0.8 * np.random.default_rng(3).normal(size=(1, model.n_coordinates))
    parts = parts_of(data, Coordinates.of(model, x))
    y = data[1]
    total, nominal, wrong, bad = 0.0, np.zeros(n), np.zeros(n), np.zeros(n)
    # True label of a sample with a good measurement, or -1 for a bad one.
    for joint in product(range(-1, n_classes), repeat=n):
        terms = [parts.bad[0, k] if t < 0 else parts.joint[0, k, t] for k, t in enumerate(joint)]
        weight, labels = np.prod(terms), np.array(joint)
        total += weight
        bad += weight * (labels < 0)
        nominal += weight * (labels == y)
        wrong += weight * ((labels >= 0) & (labels != y))
    assert total == pytest.approx(parts.likelihood.prod())
    draws = states_of_draws(model, x)
    for name, expected in (("nominal", nominal), ("wrong", wrong), ("bad", bad)):
        found = getattr(draws, name)[0]
        np.testing.assert_allclose(found, expected / total, rtol=1e-5, atol=1e-7, err_msg=name)
    np.testing.assert_allclose(draws.clean[0], parts.p[0], rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(draws.rates[0], parts.rho[0], rtol=1e-5)
    if some_known:
        assert draws.wrong[0, 0] == draws.nominal[0, 1] == draws.wrong[0, 2] == 1.0


def test_two_ways_to_average_over_the_prior_agree():
    """Product rule and evenly spread points: what the reference itself is worth."""
    data = random_data(5, 2, with_bad=False, seed=6)
    nodes, log_weights = product_rule((7, 7, 3, 12, 6, 8, 8))
    slope, bias, overlap, rate, spread, first, second = nodes.T[:, :, None]
    # Only the difference of two biases matters.
    biases = np.hstack([bias, -bias]) / np.sqrt(2.0)
    empty = np.zeros((len(nodes), 0))
    own = np.hstack([first, second])
    draws = Coordinates(slope, empty, biases, overlap, empty, rate, spread, own)
    dense = averages(data, draws, log_weights)
    even = averages(data, prior_draws(1, 2, False))
    for name in ("nominal", "rates", "count_of_wrong"):
        np.testing.assert_allclose(getattr(even, name), getattr(dense, name), atol=4e-3)


@KNOWN
@pytest.mark.parametrize(("n_members", "n_classes", "with_bad"), CASES)
@pytest.mark.parametrize("seed", [7, 8])
def test_averages_are_those_of_the_whole_prior(n_members, n_classes, with_bad, seed, some_known):
    """Importance sampling with a few hundred draws against 32,768 points of the prior."""
    n = 7
    data = random_data(n, n_classes, n_members, with_bad, seed, some_known=some_known)
    exact = averages(data, prior_draws(n_members, n_classes, with_bad))
    assert exact.effective > 1000
    found = infer_states(data.model)
    if some_known:
        known = np.flatnonzero(data.known >= 0)
        truth = np.eye(n_classes)[data.known[known]]
        np.testing.assert_allclose(found.true_label[known], truth, atol=1e-6)
    for name in ("nominal", "wrong", "bad", "true_label", "rates"):
        np.testing.assert_allclose(
            getattr(found, name), getattr(exact, name), atol=0.06, err_msg=name
        )
    share = exact.count_of_wrong @ np.arange(n + 1) / n
    assert share == pytest.approx(exact.wrong.mean(), abs=1e-9)
    assert found.wrong_share.mean == pytest.approx(share, abs=0.03)
    low, high = (round(n * end) for end in found.wrong_share[1:])
    assert exact.count_of_wrong[low : high + 1].sum() > 0.87


def test_known_labels_tell_the_rates():
    """Four right and four wrong labels of one class, two right ones of the other."""
    y = np.array([0, 0, 0, 0, 1, 1, 1, 1, 1, 1])
    known = np.array([0, 0, 0, 0, 0, 0, 0, 0, 1, 1])
    scores = np.full((1, 10, 2), [0.0, 1e-9])  # next to nothing is known from elsewhere
    data = Data(scores, y, None, np.ones(10), known)
    exact = averages(data, prior_draws(1, 2, False))
    found = infer_states(data.model)
    np.testing.assert_allclose(found.rates, exact.rates, atol=0.02)
    assert found.rates[0] > found.rates[1] + 0.05
    assert found.wrong_share == pytest.approx((0.4, 0.4, 0.4))


def test_a_class_may_have_no_wrong_labels_in_a_draw():
    """However small the rate of a known wrong label is in a draw, nothing becomes infinite."""
    data = random_data(6, 3, some_known=True)
    model = data.model
    x = np.zeros((2, model.n_coordinates))
    x[0, model.places.rate], x[1, model.places.own_rates], x[1, model.places.spread] = -60, -9, 2
    draws = states_of_draws(model, x)
    for found in (draws.log_likelihood, draws.nominal, draws.wrong, draws.bad):
        assert np.all(np.isfinite(found))
    assert np.isfinite(minus_log_posterior(model, x[0]).value)
    assert np.all(np.isfinite(minus_log_posterior(model, x[1]).gradient))
