"""Parameters and labels of GEMMEDClassifier, checked and turned into what a fit takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from .._core.threads import block_threads
from .._core.types import BoolArray, FloatArray
from ..evidence.distances import Neighbourhood
from ..model.kernels.function_space import Prior, components_for, exact_prior, function_space
from ..model.kernels.kernel import KERNELS, RADIAL, Kernel
from ..model.kernels.landmark_space import landmark_prior
from ..model.settings import Priors, Selection, Solver, record_of
from ..model.states.answers import Answers, TrueLabels
from ..model.tuning import ToTune
from ..rows.blocks import ArrayRows, BlockRows, GramRows, LocalBlocks, TrainingRows
from .kernel_classifier import encode_labels, signs_of
from .validation import (
    check_choice,
    check_groups,
    check_margin_rate,
    check_n_jobs,
    check_number,
    check_per_sample,
    check_precomputed,
    check_some_trust,
    check_varying_features,
)

TUNED = "tuned"
"""Value of kernel, gamma and the variances that has them chosen from the data."""


class KernelOptions(NamedTuple):
    """What belongs to a kernel beside its name and gamma."""

    degree: Any = 3
    coef0: Any = 0.0
    function_variance: Any = 1.0
    bias_variance: Any = 1.0


def kernel_options(estimator: Any, *, tunable: bool) -> KernelOptions:
    """The entries of ``kernel_params``, or single parameters of the same names; else defaults.

    ``tunable`` says that variances are tuned where nothing is given.
    """
    options = KernelOptions()
    if not hasattr(estimator, "kernel_params"):
        # Not every classifier has an amplitude: for an SVM it is the same as C.
        names = (name for name in options._fields if hasattr(estimator, name))
        return options._replace(**{name: getattr(estimator, name) for name in names})
    if tunable:
        options = options._replace(function_variance=TUNED, bias_variance=TUNED)
    given = estimator.kernel_params
    if given is None:
        return options
    if not isinstance(given, Mapping) or not set(given) <= set(options._fields):
        raise ValueError(
            f"kernel_params={given!r} must be None or a dict with some of the keys "
            f"{', '.join(map(repr, options._fields))}."
        )
    return options._replace(**given)


def make_kernel(
    estimator: Any, X: FloatArray, *, tunable: bool = False, variance: float | None = None
) -> Kernel:
    """The kernel described by an estimator's parameters, with gamma resolved on X.

    Where parameters are to be tuned, gamma is that of "scale" and variances are 1. ``variance`` is
    that of all training data where X is a part of them.
    """
    name = estimator.kernel
    if not callable(name):
        check_choice("kernel", name, (*((TUNED,) if tunable else ()), *KERNELS))
        name = RADIAL[0] if name == TUNED else name
    options = kernel_options(estimator, tunable=tunable)
    check_number("degree", options.degree, at_least=1, whole=True)
    check_number("coef0", options.coef0)
    if name == "precomputed":
        check_precomputed(X)
    else:
        check_varying_features(X)
    hint = f"{TUNED!r} is allowed too." if tunable else ""
    fixed = {}
    limits: dict[str, dict[str, Any]] = {
        "bias_variance": {"at_least": 0},
        "function_variance": {"above": 0},
    }
    for key, limit in limits.items():
        value = getattr(options, key)
        if not (tunable and value == TUNED):
            check_number(key, value, hint=hint, **limit)
            fixed[key] = float(value)
    gamma = _resolve_gamma(estimator.gamma, X, tunable, variance)
    return Kernel(name, gamma, options.degree, options.coef0, **fixed)


def what_is_tuned(estimator: Any) -> ToTune:
    """What of the kernel is chosen from the data."""
    options = kernel_options(estimator, tunable=True)
    gamma, variance, bias = (
        isinstance(value, str) and value == TUNED
        for value in (estimator.gamma, options.function_variance, options.bias_variance)
    )
    return ToTune(gamma, variance, bias)


def _resolve_gamma(gamma: Any, X: FloatArray, tunable: bool, variance: float | None) -> float:
    choices = ("scale", "auto", *((TUNED,) if tunable else ()))
    if isinstance(gamma, str):
        check_choice("gamma", gamma, choices)
        if gamma == "auto":
            return 1.0 / X.shape[1]
        variance = float(X.var()) if variance is None else variance
        return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0
    check_number("gamma", gamma, above=0, hint=f"{', '.join(choices)} are allowed too.")
    return float(gamma)


def check_known_labels(known_labels: Any, classes: np.ndarray, n_samples: int) -> np.ndarray | None:
    """Class index of every sample whose true label is known, -1 elsewhere; None if none is.

    Missing are None, NaN, NA and what is masked.
    """
    if known_labels is None:
        return None
    is_masked = isinstance(known_labels, np.ma.MaskedArray)
    labels = np.array(known_labels.data if is_masked else known_labels, dtype=object)
    if is_masked:
        labels[np.ma.getmaskarray(known_labels)] = None
    if labels.shape != (n_samples,):
        raise ValueError(
            f"known_labels has shape {labels.shape}: give one entry per sample, shape "
            f"({n_samples},), None or NaN where the true label is not known."
        )
    names = classes.tolist()
    positions = {name: z for z, name in enumerate(names)}
    found = np.full(n_samples, -1, dtype=np.intp)
    for sample, label in enumerate(labels.tolist()):
        if is_missing(label):
            continue
        try:
            found[sample] = positions[label]
        except (KeyError, TypeError):  # a list, say, has no place
            shown = ", ".join(map(repr, names[:10])) + ", ..." * (len(names) > 10)
            raise ValueError(
                f"known_labels[{sample}]={label!r} is not a class of y: use one of {shown}, or "
                "None where the true label is not known."
            ) from None
    return found if np.any(found >= 0) else None


def is_missing(label: Any) -> bool:
    """Whether a label is None, NaN, NaT or NA."""
    if label is None or np.ma.is_masked(label):
        return True
    try:
        return bool(label != label)
    except (TypeError, ValueError):  # NA of pandas says neither yes nor no
        return type(label).__name__ == "NAType"


def check_known_classes(samples: Labelled) -> None:
    """Every class keeps samples that may be of it."""
    total = np.bincount(samples.known_or_given, samples.weights, len(samples.classes))
    for z in np.flatnonzero(total <= 0):
        raise ValueError(
            f"known_labels says that no sample (of a weight above 0) is of class "
            f"{samples.names[z]!r}: it cannot be learned. Give these samples their true label "
            "in y."
        )


def check_priors_agree(prior: FloatArray, samples: Labelled) -> None:
    """Refuse certainties of ``prior_nominal`` that known labels contradict."""
    assert samples.known is not None
    is_right = samples.known == samples.class_index
    contradicted = np.where(is_right, prior <= 0.0, prior >= 1.0) & samples.is_known
    if not np.any(contradicted):
        return
    first = int(np.argmax(contradicted))
    if is_right[first]:
        said = "not nominal, although its label is right"
        remedy = "leave known_labels out where the measurement is bad"
    else:
        said, remedy = "nominal", "give one of the two only"
    raise ValueError(
        f"prior_nominal[{first}]={prior[first]:g} says that the sample is {said}, "
        f"known_labels[{first}]={samples.names[samples.known[first]]!r} the opposite: {remedy}."
    )


DEFAULT_PRIOR_NOMINAL = 0.95
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
    answers: Answers | None = None
    """Several answers a sample, in place of one label: ``class_index`` is then a first guess."""
    said: TrueLabels | None = None
    """What the answers say by themselves."""

    @property
    def names(self) -> list:
        return self.classes.tolist()

    @property
    def is_known(self) -> BoolArray:
        """Samples whose true labels are known."""
        return np.zeros(len(self.prior), dtype=bool) if self.known is None else self.known >= 0

    @property
    def is_uninformative(self) -> BoolArray:
        """Samples that are certainly faulty, in a way that leaves nothing to learn from them."""
        return (self.prior <= 0.0) & ~self.is_known

    @property
    def known_or_given(self) -> np.ndarray:
        """Classes with the true ones, where they are known, in place of the given ones."""
        if self.known is None:
            return self.class_index
        return np.where(self.known >= 0, self.known, self.class_index)

    def columns(self, index: np.ndarray) -> FloatArray:
        """Labels -1 and +1 of these classes, shape (n_samples, n_functions)."""
        return signs_of(index, len(self.classes)).reshape(len(index), -1)


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
    seed: int
    """Of landmarks, and of bases that predict; samples are judged with that of the neighbourhood,
    so that verdicts do not depend on ``random_state``."""
    n_jobs: int | None


class Records(NamedTuple):
    """The settings of an estimator, with defaults where it has None."""

    priors: Priors = Priors()
    selection: Selection = Selection()
    solver: Solver = Solver()


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
    prior = np.full(len(y), DEFAULT_PRIOR_NOMINAL)
    if prior_nominal is not None:
        prior = check_per_sample("prior_nominal", prior_nominal, len(y))
    class_index = np.searchsorted(classes, y)
    known = check_known_labels(known_labels, classes, len(y))
    groups = check_groups(groups, len(y))
    samples = Labelled(classes, labels, class_index, weights, prior, groups, known)
    if known is not None:
        check_known_classes(samples)
        if prior_nominal is not None:
            check_priors_agree(prior, samples)
        prior = np.where(known >= 0, 1.0 * (known == class_index), prior)
        samples = samples._replace(prior=prior)
    check_some_trust(~samples.is_uninformative, weights)
    return samples


def features_for(
    n_components: Any, kernel: Kernel, samples: Labelled, base: Any = None
) -> int | None:
    """Number of Nystroem features in place of the kernel, None for the kernel itself."""
    if kernel.name == "precomputed":
        return None
    n_functions = samples.labels.size // len(samples.labels)
    return components_for(
        n_components,
        len(samples.labels),
        several=n_functions > 1 and kernel.has_width,
        beside=base is not None,
    )


def settings_of(
    estimator: Any, records: Records, samples: Labelled, n_components: int | None, *, tunable: bool
) -> Settings:
    """The parameters of a classifier for these samples.

    ``tunable`` says whether what is to be tuned of the kernel is tuned now.
    """
    neighbourhood = Neighbourhood(graph=records.selection.neighbor_graph, groups=samples.groups)
    if hasattr(estimator, "n_neighbors"):
        neighbourhood = neighbourhood._replace(n_neighbors=estimator.n_neighbors)
    to_tune = what_is_tuned(estimator)._replace(selection=records.selection)
    return Settings(
        neighbourhood,
        c=float(estimator.C),
        to_tune=to_tune if tunable else ToTune(False, False, False),
        priors=records.priors,
        n_components=n_components,
        max_iter=records.solver.max_iter,
        tol=records.solver.tol,
        seed=int(check_random_state(estimator.random_state).randint(2**31 - 1)),
        n_jobs=estimator.n_jobs,
    )


def rows_of(X: FloatArray, kernel: Kernel, n_components: int | None, n_jobs: int | None) -> Any:
    """Training rows in memory: as they are, as a kernel matrix, or in blocks for features."""
    if kernel.name == "precomputed":
        return GramRows(X, function_space(kernel, X)[0].gram())
    if n_components is None:
        return ArrayRows(X)
    return BlockRows(LocalBlocks(X, n_threads=block_threads(n_jobs)))


def prior_of(
    rows: TrainingRows,
    kernel: Kernel,
    class_index: np.ndarray,
    trusted: FloatArray,
    settings: Settings,
) -> Prior:
    """Functions of the kernel itself, or of features of it where rows are in blocks."""
    if rows.blocks is None:
        assert rows.X is not None
        return exact_prior(kernel, rows.X)
    assert settings.n_components is not None
    blocks = BlockRows(rows.blocks)
    return landmark_prior(
        kernel, blocks, class_index, trusted, settings.n_components, settings.seed
    )
