"""Parameters and labels of GEMMEDClassifier, checked and turned into what a joint fit takes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from .._core.types import BoolArray, FloatArray
from ..engines.base import needs_of, refuse_unfit
from ..evidence.neighbours import Neighbourhood
from ..model.kernels.exact_or_features import components_for
from ..model.kernels.kernel import Kernel
from ..model.tuning import ToTune
from .kernel_classifier import encode_labels, signs_of
from .kernel_parameters import what_is_tuned
from .known_labels import (
    check_known_labels,
    check_priors_agree,
    check_taught_classes,
    taught_index,
)
from .validation import (
    check_choice,
    check_groups,
    check_margin_rate,
    check_n_jobs,
    check_number,
    check_number_or_auto,
    check_per_sample,
    check_some_trust,
)

MODELS = ("states", "paper")
ONLY_OF_PAPER = {"coverage": "auto", "entropy_slack": "auto", "engine": "mean_field"}
"""Parameters that the states do not have, and their defaults."""
AUTO_COVERAGE, AUTO_SLACK = 0.5, 0.3
"""At most half of a class may be anomalous before its majority is; the slack is that of the paper's
entropy constraint."""


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
    usual_prior: float
    """Of samples of which nothing is known."""
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
    """Parameters of a joint fit."""

    neighbourhood: Neighbourhood
    c: float
    coverage: FloatArray
    """Least share of each class that is kept, shape (n_classes,)."""
    entropy_slack: float
    """Of the paper's entropy constraint."""
    to_tune: ToTune
    n_components: int | None
    """Nystroem features; None for the exact kernel."""
    max_iter: int
    tol: float
    engine_seed: int
    n_jobs: int | None


def check_parameters(estimator: Any) -> None:
    """Refuse parameters of GEMMEDClassifier that mean nothing, by name."""
    check_margin_rate(estimator.C)
    check_number("prior_nominal", estimator.prior_nominal, above=0, at_most=1)
    check_choice("model", estimator.model, MODELS)
    check_number_or_auto("coverage", estimator.coverage, above=0, at_most=1)
    check_number_or_auto("entropy_slack", estimator.entropy_slack, at_least=0, infinite=True)
    of_other_model = ONLY_OF_PAPER if estimator.model == "states" else {"base": None}
    for name, default in of_other_model.items():
        given = getattr(estimator, name)
        if not (given is default or (isinstance(given, str) and given == default)):
            other = "paper" if estimator.model == "states" else "states"
            raise ValueError(
                f"{name}={given!r} belongs to model={other!r}, not to model={estimator.model!r}: "
                f"set model={other!r}, or leave {name}={default!r}."
            )
    check_number("n_neighbors", estimator.n_neighbors, at_least=1, whole=True)
    check_choice("neighbor_graph", estimator.neighbor_graph, ("bipartite", "leave_one_out"))
    check_number("max_iter", estimator.max_iter, at_least=1, whole=True)
    check_number("tol", estimator.tol, above=0)
    if estimator.n_components is not None:
        check_number_or_auto("n_components", estimator.n_components, at_least=1, whole=True)
    if not isinstance(estimator.warm_start, (bool, np.bool_)):
        raise ValueError(f"warm_start={estimator.warm_start!r} must be True or False.")
    check_n_jobs(estimator.n_jobs)


def label_samples(
    estimator: Any,
    engine: Any,
    y: np.ndarray,
    weights: FloatArray,
    prior_nominal: Any,
    groups: Any,
    known_labels: Any = None,
) -> Labelled:
    """Labels, and what the arguments of ``fit`` say of the samples.

    An engine that cannot solve for these samples at all is refused here, by name.
    """
    classes, labels = encode_labels(y)
    unit_weights = bool(np.all(weights == 1.0))
    refuse_unfit(engine, n_classes=len(classes), unit_weights=unit_weights)
    prior = np.full(len(y), float(estimator.prior_nominal))
    if prior_nominal is not None:
        prior = check_per_sample("prior_nominal", prior_nominal, len(y))
    class_index = np.searchsorted(classes, y)
    known = check_known_labels(known_labels, classes, len(y), estimator.model)
    if known is not None:
        check_taught_classes(class_index, known, weights, classes)
        if prior_nominal is not None:
            check_priors_agree(prior, class_index, known, classes)
        prior = np.where(known >= 0, 1.0 * (known == class_index), prior)
    groups = check_groups(groups, len(y))
    usual = float(estimator.prior_nominal)
    samples = Labelled(classes, labels, class_index, weights, prior, groups, usual, known)
    check_some_trust(~samples.useless, weights)
    return samples


def features_for(n_components: Any, engine: Any, kernel: Kernel, samples: Labelled) -> int | None:
    """Number of Nystroem features in place of the kernel, None for the kernel itself."""
    needs = needs_of(engine)
    if kernel.name == "precomputed" or needs.exact_kernel:
        return None
    n_functions = samples.labels.size // len(samples.labels)
    by_products = kernel.has_width and needs.products_suffice
    return components_for(
        n_components,
        len(samples.labels),
        n_iterated=n_functions if by_products else 0,
        kernel_is_chosen=True,
    )


def settings_of(
    estimator: Any, samples: Labelled, n_components: int | None, *, tunable: bool
) -> Settings:
    """The parameters of a classifier for these samples.

    ``tunable`` says whether what is to be tuned of the kernel is tuned now.
    """
    random = check_random_state(estimator.random_state)
    split_seed, engine_seed = (int(s) for s in random.randint(2**31 - 1, size=2))
    coverage, slack = estimator.coverage, estimator.entropy_slack
    return Settings(
        Neighbourhood(estimator.n_neighbors, estimator.neighbor_graph, samples.groups, split_seed),
        c=float(estimator.C),
        coverage=np.full(
            len(samples.classes), AUTO_COVERAGE if coverage == "auto" else float(coverage)
        ),
        entropy_slack=AUTO_SLACK if slack == "auto" else float(slack),
        to_tune=what_is_tuned(estimator) if tunable else ToTune(*[False] * 4),
        n_components=n_components,
        max_iter=estimator.max_iter,
        tol=estimator.tol,
        engine_seed=engine_seed,
        n_jobs=estimator.n_jobs,
    )
