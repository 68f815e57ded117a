"""The simulation of the paper: two Gaussian classes and anomalies on a ring around both."""

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

MAX_RADIUS = 1e6
COVARIANCE = np.array([[20.0, 16.0], [16.0, 20.0]])
Layout = Literal["paper", "separated"]
RingLabels = Literal["balanced", "random"]
MEANS_OF_NEGATIVE_CLASS = {"paper": np.array([3.0, 3.0]), "separated": np.array([3.0, -3.0])}


class RingData(NamedTuple):
    """Training data with ground truth, and clean test data.

    Examples
    --------
    >>> from gemmed.datasets import make_ring
    >>> data = make_ring(50, corruption=0.2, random_state=0)
    >>> data.X.shape, data.X_test.shape, int(data.anomalous.sum())
    ((100, 2), (4000, 2), 20)
    """

    X: npt.NDArray[np.float64]
    """Shape (n_samples, 2)."""
    y: npt.NDArray[np.int64]
    """-1 or +1, shape (n_samples,)."""
    anomalous: npt.NDArray[np.bool_]
    """The truth: which samples are on the ring, shape (n_samples,)."""
    X_test: npt.NDArray[np.float64]
    """Shape (n_test_samples, 2)."""
    y_test: npt.NDArray[np.int64]
    """Shape (n_test_samples,)."""


def make_ring(
    n_per_class: int = 100,
    *,
    radius: float = 55.0,
    corruption: float = 0.2,
    layout: Layout = "paper",
    ring_labels: RingLabels = "balanced",
    n_test_per_class: int = 2000,
    random_state: int | np.random.Generator | None = None,
) -> RingData:
    """Draw two Gaussian classes in the plane, part of the training samples moved to a ring.

    A share ``corruption`` of the training samples is drawn uniformly from the ring between
    ``radius`` and ``radius + 1`` instead. The ring is the same for both labels, so the label of an
    anomaly says nothing. Test samples are all nominal.

    Parameters
    ----------
    n_per_class : training samples of each class, anomalies included
    radius : inner radius of the ring, the paper's noise level R (15, 35, 55, 75)
    corruption : share of anomalies, the paper's r_a (0.2 to 0.5)
    layout : where the class means are. ``"paper"``: -(3, 3) and (3, 3), along the long axis of the
        covariance, as printed (Bayes error 24.0 %). ``"separated"``: (-3, 3) and (3, -3), across
        it (Bayes error 1.7 %).
    ring_labels : ``"balanced"``: each class has ``round(corruption * n_per_class)`` anomalies.
        ``"random"``: labels of the ring are drawn with equal probability, as the paper says, and
        nominal samples fill each class up to ``n_per_class``.
    n_test_per_class : clean test samples of each class
    random_state : seed or generator

    Returns
    -------
    RingData
        Labels are -1 and +1. Training samples are shuffled.

    Examples
    --------
    >>> from gemmed.datasets import make_ring
    >>> data = make_ring(100, radius=55, corruption=0.2, random_state=0)
    >>> data.X.shape, int(data.anomalous.sum())
    ((200, 2), 40)
    """
    if layout not in MEANS_OF_NEGATIVE_CLASS:
        raise ValueError(
            f"layout={layout!r} is unknown: use one of {sorted(MEANS_OF_NEGATIVE_CLASS)}."
        )
    if ring_labels not in ("balanced", "random"):
        raise ValueError(f"ring_labels={ring_labels!r} is unknown: use 'balanced' or 'random'.")
    if not 0.0 <= corruption <= 1.0:
        raise ValueError(f"corruption={corruption!r} must lie between 0 and 1.")
    if n_per_class < 1 or n_test_per_class < 0:
        raise ValueError(
            f"n_per_class={n_per_class!r} must be at least 1 and "
            f"n_test_per_class={n_test_per_class!r} at least 0."
        )
    if not 0 <= radius <= MAX_RADIUS:
        raise ValueError(f"radius={radius!r} must lie between 0 and {MAX_RADIUS:g}.")
    rng = np.random.default_rng(random_state)
    mean = MEANS_OF_NEGATIVE_CLASS[layout]
    n_of_class = [round(corruption * n_per_class)] * 2
    if ring_labels == "random":
        n_ring = sum(n_of_class)
        drawn = int(np.clip(rng.binomial(n_ring, 0.5), n_ring - n_per_class, n_per_class))
        n_of_class = [drawn, n_ring - drawn]
    rows, labels, anomalous, test_rows = [], [], [], []
    for label, n_anomalous in zip((-1, 1), n_of_class, strict=True):
        nominal = rng.multivariate_normal(-label * mean, COVARIANCE, n_per_class - n_anomalous)
        rows += [nominal, _uniform_ring(rng, radius, n_anomalous)]
        labels.append(np.full(n_per_class, label))
        anomalous.append(np.arange(n_per_class) >= n_per_class - n_anomalous)
        test_rows.append(rng.multivariate_normal(-label * mean, COVARIANCE, n_test_per_class))
    order = rng.permutation(2 * n_per_class)
    return RingData(
        np.concatenate(rows)[order],
        np.concatenate(labels)[order],
        np.concatenate(anomalous)[order],
        np.concatenate(test_rows),
        np.repeat([-1, 1], n_test_per_class),
    )


def _uniform_ring(rng: np.random.Generator, radius: float, n: int) -> npt.NDArray[np.float64]:
    # Uniform in area: the square of the radius is uniform.
    distance = np.sqrt(rng.uniform(radius**2, (radius + 1.0) ** 2, n))
    angle = rng.uniform(0.0, 2.0 * np.pi, n)
    return np.column_stack([distance * np.cos(angle), distance * np.sin(angle)])
