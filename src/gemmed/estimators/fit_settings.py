"""Parameters and labels of GEMMEDClassifier, checked and turned into what a fit takes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from .._core.threads import block_threads
from .._core.types import BoolArray, FloatArray
from ..evidence.neighbours import Neighbourhood
from ..model.how_many import feature_prior
from ..model.kernels.exact_or_features import Prior, components_for, exact_prior
from ..model.kernels.kernel import Kernel
from ..model.settings import Priors, Selection, Solver, record_of
from ..model.tuning import ToTune
from ..rows.training_rows import ArrayRows, BlockRows, GramRows, TrainingRows
from .kernel_classifier import encode_labels, signs_of
from .kernel_parameters import what_is_tuned
from .known_labels import (
    check_known_labels,
    check_priors_agree,
    check_taught_classes,
    taught_index,
)
from .validation import (
    check_groups,
    check_margin_rate,
    check_n_jobs,
    check_number,
    check_per_sample,
    check_some_trust,
)

USUAL_PRIOR = 0.95
"""``prior_nominal`` of a sample of which nothing is known: other values move its log-odds by what
theirs differ. How frequent faults are is learned."""


class Labelled(NamedTuple):
    """What is known of the samples beside their rows; arrays of shape (n_samples,)."""

    classes: np.ndarray
    """Shape (n_classes,)."""
    labels: FloatArray
    """-1 and +1, with a column for each class where there are more than two."""
    class_index: np.ndarray
    weights: FloatArray
    prior: FloatArray
    """Prior nominal probabilities."""
    groups: np.ndarray | None
    known: np.ndarray | None = None
    """True classes, -1 where they are not known; None if none is. The prior of such samples is 1 or
    0: their labels are right or wrong."""

    @property
    def names(self) -> list:
        return self.classes.tolist()

    @property
    def is_known(self) -> BoolArray:
        """Samples whose true labels are known."""
        return np.zeros(len(self.prior), dtype=bool) if self.known is None else self.known >= 0

    @property
    def useless(self) -> BoolArray:
        """Samples that are certainly faulty, in a way that leaves nothing to learn from them."""
        return (self.prior <= 0.0) & ~self.is_known

    @property
    def taught(self) -> Labelled:
        """The same with the true labels, where they are known, in place of the given ones."""
        if self.known is None:
            return self
        index = taught_index(self.class_index, self.known)
        return self._replace(class_index=index, labels=signs_of(index, len(self.classes)))


class Settings(NamedTuple):
    """Parameters of a fit."""

    neighbourhood: Neighbourhood
    c: float
    to_tune: ToTune
    priors: Priors
    n_components: int | None
    """Nystroem features; None for the exact kernel."""
    max_iter: int
    tol: float
    engine_seed: int
    n_jobs: int | None


class Records(NamedTuple):
    """The settings of an estimator, with defaults where it has None."""

    priors: Priors
    selection: Selection
    solver: Solver


def check_parameters(estimator: Any) -> Records:
    """Refuse parameters of GEMMEDClassifier that mean nothing, by name."""
    check_margin_rate(estimator.C)
    check_number("n_neighbors", estimator.n_neighbors, at_least=1, whole=True)
    if not isinstance(estimator.warm_start, (bool, np.bool_)):
        raise ValueError(f"warm_start={estimator.warm_start!r} must be True or False.")
    check_n_jobs(estimator.n_jobs)
    return Records(
        record_of("priors", estimator.priors, Priors),
        record_of("selection", estimator.selection, Selection),
        record_of("solver", estimator.solver, Solver),
    )


def label_samples(
    y: np.ndarray,
    weights: FloatArray,
    prior_nominal: Any,
    groups: Any,
    known_labels: Any = None,
) -> Labelled:
    """Labels, and what the arguments of ``fit`` say of the samples."""
    classes, labels = encode_labels(y)
    prior = np.full(len(y), USUAL_PRIOR)
    if prior_nominal is not None:
        prior = check_per_sample("prior_nominal", prior_nominal, len(y))
    class_index = np.searchsorted(classes, y)
    known = check_known_labels(known_labels, classes, len(y))
    if known is not None:
        check_taught_classes(class_index, known, weights, classes)
        if prior_nominal is not None:
            check_priors_agree(prior, class_index, known, classes)
        prior = np.where(known >= 0, 1.0 * (known == class_index), prior)
    groups = check_groups(groups, len(y))
    samples = Labelled(classes, labels, class_index, weights, prior, groups, known)
    check_some_trust(~samples.useless, weights)
    return samples


def features_for(n_components: Any, kernel: Kernel, samples: Labelled) -> int | None:
    """Number of Nystroem features in place of the kernel, None for the kernel itself."""
    if kernel.name == "precomputed":
        return None
    n_functions = samples.labels.size // len(samples.labels)
    return components_for(
        n_components,
        len(samples.labels),
        n_iterated=n_functions if kernel.has_width else 0,
        cross_fitted=True,
    )


def settings_of(
    estimator: Any, records: Records, samples: Labelled, n_components: int | None, *, tunable: bool
) -> Settings:
    """The parameters of a classifier for these samples.

    ``tunable`` says whether what is to be tuned of the kernel is tuned now.
    """
    random = check_random_state(estimator.random_state)
    split_seed, engine_seed = (int(s) for s in random.randint(2**31 - 1, size=2))
    graph = records.selection.neighbor_graph
    to_tune = what_is_tuned(estimator)._replace(selection=records.selection)
    return Settings(
        Neighbourhood(estimator.n_neighbors, graph, samples.groups, split_seed),
        c=float(estimator.C),
        to_tune=to_tune if tunable else ToTune(False, False, False),
        priors=records.priors,
        n_components=n_components,
        max_iter=records.solver.max_iter,
        tol=records.solver.tol,
        engine_seed=engine_seed,
        n_jobs=estimator.n_jobs,
    )


def prior_of(
    rows: TrainingRows, kernel: Kernel, samples: Labelled, trusted: FloatArray, settings: Settings
) -> Prior:
    """Functions of the kernel itself, or of features of it where rows are in blocks."""
    if isinstance(rows, BlockRows):
        assert settings.n_components is not None
        return feature_prior(
            kernel,
            rows,
            samples.class_index,
            trusted,
            settings.n_components,
            settings.neighbourhood.seed,
            c=settings.c,
            weights=samples.weights,
        )
    assert isinstance(rows, (ArrayRows, GramRows))
    return exact_prior(kernel, rows.X, block_threads(settings.n_jobs))
