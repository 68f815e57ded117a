"""Held-out likelihood of the labels: calibrated class probabilities, rates of wrong labels.

Every unknown is a coordinate x of a standard normal vector (docs/research/model.md, section 10):

    (43)  p(t | x_n) = (1 - eps) softmax(sum_j b_j F_jn + c)_t + eps pi_t
    (44)  rho_t = rho_max Phi(x_0 + tau (x_t + x_t^3 / 3))^2
    (45)  L_n = (1 - e) sum_t T[t, y_n] p(t | x_n) + e B_n (pi_y + p_0(y_n | x_n)) / 2,
          T[t, y] = 1 - rho_t if y = t, else rho_t / (K - 1)

F_j are held-out class scores of the members: the kernel classifier, and a base classifier if there
is one; p_0 is (43) at x = 0 without eps. A sample is nominal, wrongly labelled or badly measured in
proportion to the three parts of L_n. The cube in (44) lets a single class have a rate of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy import special

from ..._core.types import FloatArray

KERNEL_SCALE = 5.6
"""Log-odds for a unit of the held-out score of MED: what true labels ask for, whatever the data."""
POOLED_SCALE = 1.16
"""Times that, for a pool of members: its errors are smaller."""
SLOPE_SPREAD = 0.6
"""Standard deviation of log b around that scale."""
NEAR_BOUNDARY, CROWDED = 0.3, 0.12
"""A sample is near the boundary if its lead is below this part of a large one (the 90 % quantile),
and the boundary is crowded if so many samples are."""
CLEAR = 0.5
"""Classes between which nobody stands do not overlap: the scale is then larger by e to this power,
the spread smaller by this part, and the overlap by the fourth power of e to it."""
BIAS_SPREAD = 1.5
"""Standard deviation of the class biases c: wide, one-sided errors move them."""
OVERLAP = 0.01
"""Median of eps, times or by e: classes overlap everywhere by about so much."""
RATE_SPREAD = 0.3
"""Median of tau, times or by e: how far the rate of a class is from the common one."""
BAD_RATE, BAD_SPREAD = 0.02, 1.5
"""Median of the rate e of bad measurements, and the standard deviation of its log-odds."""
TEMPER, ENOUGH = 0.5, 500.0
"""Power of the likelihood, and total weight beyond which it stops growing: held-out terms depend on
each other through the shared classifier, and the link is an approximation that more samples do not
make better."""
LARGEST_OVERLAP = 0.5
LARGEST_LOG_BAYES = 30.0
LEAST, LEAST_SINGLE = 1e-300, 1e-37
"""Of a known wrong label in a class that has next to none; smaller likelihoods have no digits."""
FARTHEST = 8.0
"""Exponents beyond it are as good as infinite; draws and steps may go there."""


@dataclass(frozen=True, eq=False)
class LabelModel:
    """Data of the likelihood.

    Parameters
    ----------
    scores : held-out class scores of the members, shape (n_members, n_samples, n_classes)
    class_index : given labels, shape (n_samples,)
    log_bayes : nats for "the measurement is bad", shape (n_samples,); None if nothing can be said
    weights : sample weights, shape (n_samples,)
    distinct : share of rows that are no copies: between few codes there is nowhere to stand
    checked : what somebody found, 1 for nominal, -1 for faulty, 0 where nobody looked, shape
        (n_samples,); other states have no part in the likelihood of such a sample
    known : true class of the samples of which it is known, -1 elsewhere, shape (n_samples,). L_n of
        such a sample is the one term (1 - e) T[t, y_n] p(t | x_n)
    """

    scores: FloatArray
    class_index: np.ndarray
    log_bayes: FloatArray | None
    weights: FloatArray
    distinct: float = 1.0
    checked: np.ndarray | None = None
    known: np.ndarray | None = None

    @property
    def n_members(self) -> int:
        return int(self.scores.shape[0])

    @property
    def n_classes(self) -> int:
        return int(self.scores.shape[2])

    @cached_property
    def places(self) -> Places:
        """Where each unknown stands in the vector of coordinates."""
        members = self.n_members if self.n_members > 1 else 0
        sizes = (1, members, self.n_classes, 1, int(self.log_bayes is not None), 1, 1)
        edges = np.cumsum([0, *sizes, self.n_classes])
        return Places(*(slice(int(a), int(b)) for a, b in pairwise(edges)))

    @property
    def n_coordinates(self) -> int:
        return self.places.own_rates.stop

    @cached_property
    def centred(self) -> FloatArray:
        """Scores around their mean over the classes, on the scale of log-odds."""
        return centred_scores(self.scores) * self.member_scales[:, None, None]

    @cached_property
    def centred_single(self) -> np.ndarray:
        """The same in single precision, shape (n_members, n_classes * n_samples).

        With the classes first: numpy takes tens of times as long along an axis as short as theirs.
        """
        by_class = np.moveaxis(self.centred, 2, 1)
        return by_class.reshape(self.n_members, -1).astype(np.float32)

    @cached_property
    def own_single(self) -> np.ndarray:
        """1 for the given label, shape (n_classes, n_samples)."""
        return np.ascontiguousarray(self.own.T, dtype=np.float32)

    def part(self, rows: np.ndarray) -> LabelModel:
        """The likelihood of some of the samples, on the scale of all of them."""
        if len(rows) == len(self.class_index):
            return self
        nats = None if self.log_bayes is None else self.log_bayes[rows]
        some = LabelModel(
            self.scores[:, rows],
            self.class_index[rows],
            nats,
            self.weights[rows],
            checked=None if self.checked is None else self.checked[rows],
            known=None if self.known is None else self.known[rows],
        )
        for name in ("member_scales", "class_shares", "clearness"):
            some.__dict__[name] = getattr(self, name)  # cached as what all samples say
        return some

    @cached_property
    def member_scales(self) -> FloatArray:
        """Factors of the members: the first has its natural scale, others its spread."""
        centred = centred_scores(self.scores)
        spread = np.maximum(np.sqrt((centred**2).sum(axis=2).mean(axis=1)), 1e-300)
        pooled = POOLED_SCALE if self.n_members > 1 else 1.0
        lift = np.exp(CLEAR * self.clearness)
        return KERNEL_SCALE * lift * pooled * spread[0] / spread

    @cached_property
    def clearness(self) -> float:
        """From 0, the boundary is crowded, to 1, nobody stands near it."""
        ordered = np.sort(self.scores[0], axis=1)
        # A bad measurement stands anywhere.
        good = (self.weights > 0.0) & (self.bayes <= 1.0)
        lead = (ordered[:, -1] - ordered[:, -2])[good]
        if not len(lead):
            return 0.0
        share = float(np.mean(lead < NEAR_BOUNDARY * np.quantile(lead, 0.9)))
        return self.distinct * max(1.0 - share / CROWDED, 0.0)

    @property
    def slope_spread(self) -> float:
        """Standard deviation of log b."""
        return SLOPE_SPREAD * (1.0 - CLEAR * self.clearness)

    @cached_property
    def tempered(self) -> FloatArray:
        """Weights of the samples in the likelihood, shape (n_samples,)."""
        total = max(float(self.weights.sum()), 1e-300)
        return TEMPER * min(1.0, ENOUGH / total) * self.weights

    @cached_property
    def class_shares(self) -> FloatArray:
        counts = np.bincount(self.class_index, self.weights, self.n_classes) + 1.0
        return counts / counts.sum()

    @cached_property
    def bayes(self) -> FloatArray:
        nats = np.zeros(len(self.class_index)) if self.log_bayes is None else self.log_bayes
        return np.exp(np.clip(nats, -LARGEST_LOG_BAYES, LARGEST_LOG_BAYES)) * self.may_be_bad

    @cached_property
    def label_if_bad(self) -> FloatArray:
        """Probability of the given label of a bad measurement, shape (n_samples,).

        It was given before the measurement went bad or after, hence the mean of two. What is
        learned of good samples has no part in it: else many bad ones with one label would teach
        that label to all.
        """
        rows = np.arange(len(self.class_index))
        usual = special.softmax(self.centred.mean(axis=0), axis=1)[rows, self.class_index]
        return 0.5 * (self.class_shares[self.class_index] + usual)

    @cached_property
    def own(self) -> FloatArray:
        """1 in the column of the given label, shape (n_samples, n_classes)."""
        return np.eye(self.n_classes)[self.class_index]

    @cached_property
    def nominally(self) -> FloatArray:
        """The same, 0 for samples that are known not to be nominal."""
        return self.own * self.may_be_nominal[:, None]

    @cached_property
    def elsewhere(self) -> FloatArray:
        """Probability of the given label if it is wrong, by true label."""
        chances: FloatArray = (1.0 - self.own) * self.may_be_wrong[:, None] / (self.n_classes - 1)
        rows, labels = self.known_wrong
        chance = chances[rows, labels]
        chances[rows] = 0.0
        chances[rows, labels] = chance
        return chances

    @cached_property
    def true_label(self) -> np.ndarray:
        """Of the samples of which it is known, -1 elsewhere."""
        unknown = np.full(len(self.class_index), -1)
        return unknown if self.known is None else self.known

    @cached_property
    def known_wrong(self) -> tuple[np.ndarray, np.ndarray]:
        """Samples whose label is known to be wrong, and their true labels."""
        rows = np.flatnonzero((self.true_label >= 0) & (self.true_label != self.class_index))
        return rows, self.true_label[rows]

    @cached_property
    def may_be_nominal(self) -> FloatArray:
        """0 for samples that are known to be faulty, else 1."""
        possible = (self.true_label < 0) | (self.true_label == self.class_index)
        return 1.0 * (possible if self.checked is None else possible & (self.checked >= 0))

    @cached_property
    def may_be_wrong(self) -> FloatArray:
        """0 for samples whose label is known to be right, else 1."""
        possible = self.true_label != self.class_index
        return 1.0 * (possible if self.checked is None else possible & (self.checked <= 0))

    @cached_property
    def may_be_bad(self) -> FloatArray:
        """0 for samples of which the true label, or that they are nominal, is known, else 1."""
        possible = self.true_label < 0
        return 1.0 * (possible if self.checked is None else possible & (self.checked <= 0))

    @property
    def largest_rate(self) -> float:
        """Beyond it labels would say the opposite."""
        return (self.n_classes - 1) / self.n_classes

    def member_weights(self, x: FloatArray) -> FloatArray:
        """b_j for coordinates of shape (..., n_coordinates)."""
        at = self.places
        size = np.exp(np.clip(self.slope_spread * x[..., at.slope], -FARTHEST, FARTHEST))
        return size * special.softmax(x[..., at.members], axis=-1) if self.n_members > 1 else size

    def rate_roots(self, x: FloatArray) -> FloatArray:
        """u_t with rho_t = largest_rate u_t^2, of shape (..., n_classes)."""
        at = self.places
        own = x[..., at.own_rates]
        tau = RATE_SPREAD * np.exp(np.minimum(x[..., at.spread], FARTHEST))
        roots: FloatArray = special.ndtr(x[..., at.rate] + tau * (own + own**3 / 3.0))
        return roots

    def overlap(self, x: FloatArray) -> FloatArray:
        """eps for coordinates of shape (..., n_coordinates), shape (..., 1)."""
        usual = OVERLAP * np.exp(-4.0 * CLEAR * self.clearness)
        found: FloatArray = np.minimum(
            usual * np.exp(np.minimum(x[..., self.places.overlap], FARTHEST)), LARGEST_OVERLAP
        )
        return found

    def bad_rate(self, x: FloatArray) -> FloatArray:
        """e for coordinates of shape (..., n_coordinates), shape (..., 1)."""
        if self.log_bayes is None:
            return np.zeros((*x.shape[:-1], 1))
        logits = special.logit(BAD_RATE) + BAD_SPREAD * x[..., self.places.bad]
        rate: FloatArray = special.expit(logits)
        return rate


class Places(NamedTuple):
    """Coordinates of each unknown."""

    slope: slice
    members: slice
    biases: slice
    overlap: slice
    bad: slice
    rate: slice
    spread: slice
    own_rates: slice


class Density(NamedTuple):
    """Minus the log posterior at one point, its gradient and, if asked for, its information."""

    value: float
    gradient: FloatArray
    information: FloatArray | None = None


def centred_scores(scores: FloatArray) -> FloatArray:
    """Scores minus their mean over the classes (the last axis)."""
    return scores - scores.mean(axis=-1, keepdims=True)


def minus_log_posterior(
    model: LabelModel, x: FloatArray, *, information: bool = False, below: float = np.inf
) -> Density:
    """Value and gradient at coordinates x; the information is that of the outer products.

    A value that is not smaller than ``below`` has neither: no step goes there.
    """
    at, weights = model.places, model.tempered
    b = model.member_weights(x)
    plain = special.softmax(
        np.einsum("j,jnk->nk", b, model.centred) + BIAS_SPREAD * x[at.biases], axis=1
    )
    eps = float(model.overlap(x)[0])
    p = (1.0 - eps) * plain + eps * model.class_shares
    u = model.rate_roots(x)
    mixing = model.elsewhere - model.nominally
    confusion = model.nominally + model.largest_rate * u * u * mixing
    good = np.einsum("nk,nk->n", confusion, p)
    e = float(model.bad_rate(x)[0])
    bad = model.bayes * model.label_if_bad
    likelihood = np.maximum((1.0 - e) * good + e * bad, LEAST)
    value = 0.5 * float(x @ x) - float(weights @ np.log(likelihood))
    if value >= below:
        return Density(value, np.empty(0))
    inverse = 1.0 / likelihood
    # d log L / d p, then through the softmax.
    slope_p = ((1.0 - e) * inverse)[:, None] * confusion
    through = np.einsum("nk,nk->n", plain, slope_p)
    slope_g = (1.0 - eps) * plain * (slope_p - through[:, None])
    by_member = np.einsum("jnk,nk->jn", model.centred, slope_g) * b[:, None]
    parts = [model.slope_spread * by_member.sum(axis=0)[None]]
    if model.n_members > 1:
        shared = special.softmax(x[at.members])[:, None]
        parts.append(by_member - shared * by_member.sum(axis=0))
    parts.append(BIAS_SPREAD * slope_g.T)
    moves = eps < LARGEST_OVERLAP
    parts.append((eps * moves * (slope_p @ model.class_shares - through))[None])
    if model.log_bayes is not None:
        parts.append((BAD_SPREAD * inverse * (bad - good) * e * (1.0 - e))[None])
    own, tau = x[at.own_rates], RATE_SPREAD * np.exp(np.minimum(x[at.spread], FARTHEST))
    argument = x[at.rate] + tau * (own + own**3 / 3.0)
    normal = np.exp(-0.5 * argument**2) / np.sqrt(2.0 * np.pi)
    slope_v = ((1.0 - e) * inverse)[:, None] * p * mixing * (2.0 * model.largest_rate * u * normal)
    parts.append(slope_v.sum(axis=1)[None])
    parts.append((slope_v @ (tau * (own + own**3 / 3.0)))[None])
    parts.append((slope_v * (tau * (1.0 + own**2))).T)
    scores = np.concatenate(parts)
    gradient = x - scores @ weights
    if not information:
        return Density(value, gradient)
    matrix = (scores * weights) @ scores.T
    matrix.flat[:: len(x) + 1] += 1.0
    return Density(value, gradient, matrix)


class StateDraws(NamedTuple):
    """States of all samples for several draws of the coordinates."""

    log_likelihood: FloatArray
    """Shape (n_draws,)."""
    clean: FloatArray
    """p(t | x), shape (n_draws, n_samples, n_classes)."""
    nominal: FloatArray
    wrong: FloatArray
    bad: FloatArray
    """Shape (n_draws, n_samples)."""
    rates: FloatArray
    """rho, shape (n_draws, n_classes)."""


def states_of_draws(model: LabelModel, x: FloatArray) -> StateDraws:
    """States for draws of the coordinates, shape (n_draws, n_coordinates).

    In single precision: averages over draws need no more, and exponentials cost most of the time.
    """
    at, n, single = model.places, len(model.class_index), np.float32
    b = model.member_weights(x).astype(single)
    clean = (b @ model.centred_single).reshape(len(x), model.n_classes, n)
    clean += (BIAS_SPREAD * x[:, at.biases, None]).astype(single)
    clean -= clean.max(axis=1, keepdims=True)
    np.exp(clean, out=clean)
    eps = model.overlap(x).astype(single)[:, :, None]
    clean *= (1.0 - eps) / clean.sum(axis=1, keepdims=True)
    clean += eps * model.class_shares.astype(single)[:, None]
    given = np.einsum("dkn,kn->dn", clean, model.own_single)
    e = model.bad_rate(x).astype(single)
    rates = model.largest_rate * model.rate_roots(x) ** 2
    nominal = (1.0 - e) * (1.0 - rates.astype(single)[:, model.class_index]) * given
    nominal *= model.may_be_nominal.astype(single)
    # A wrong label is any of the others, alike: the own one is left out of the sum, not taken off
    # it, for the sake of the digits.
    others = clean * (single(1.0) - model.own_single)
    wrong = np.einsum("dkn,dk->dn", others, rates.astype(single))
    rows, labels = model.known_wrong
    wrong[:, rows] = clean[:, labels, rows] * rates.astype(single)[:, labels]
    wrong *= (1.0 - e) * model.may_be_wrong.astype(single) / single(model.n_classes - 1)
    bad = e * (model.bayes * model.label_if_bad).astype(single)
    likelihood = np.maximum(nominal + wrong + bad, single(LEAST_SINGLE))
    return StateDraws(
        np.log(likelihood) @ model.tempered,
        np.moveaxis(clean, 1, 2),
        nominal / likelihood,
        wrong / likelihood,
        bad / likelihood,
        rates,
    )
