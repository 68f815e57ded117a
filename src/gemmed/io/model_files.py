"""Models in files that can be opened without running code from them (skops, not pickle).

A model file is an uncompressed zip archive of two members: ``header.json`` says what is inside,
``model.skops`` is the estimator as skops writes it. Three checks stand between a file and an
object:

- the SHA-256 of the payload in the header finds files that were damaged or cut off. It is no
  signature: whoever changes a file on purpose can write a new sum.
- nothing is compressed but the arrays of sparse matrices, nothing is read or walked twice, and
  arrays are as large as what is there of them (``payload_limits``): a small file cannot ask for
  much memory or time.
- only types of a closed list are built: what skops trusts of numpy, scipy and scikit-learn, the
  estimators of gemmed and their parts, and what the caller names in ``trusted``. This is what keeps
  a foreign file from running code. Forests are arrays in a file, checked by ``stored_trees``.
"""

import hashlib
import importlib
import io
import json
import os
import platform
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._core.exceptions import (
    ModelFileError,
    ModelVersionWarning,
    PayloadError,
    raised_as,
    reason,
)
from .._core.optional import require
from .._core.whole_files import replacing
from .payload_limits import SCHEMA, check_payload, refuse_expansion
from .stored_trees import with_stored_trees

PACKAGE = __name__.partition(".")[0]
FORMAT, FORMAT_VERSION = "gemmed-model", 2
HEADER, PAYLOAD = "header.json", "model.skops"
HEADER_LIMIT = 1_000_000
"""Bytes; ten thousand column names need about a tenth of it."""
MODEL_PACKAGES = {"estimators", "evidence", "io", "model", "paper", "sensors"}
"""Packages whose classes hold numbers and options only; estimators are trusted anywhere."""

VALUE_TYPES = {
    "numpy.dtype",
    "sklearn.compose._column_transformer._RemainderColsList",
    "sklearn.utils._metadata_requests.MetadataRequest",
    "sklearn.utils._metadata_requests.MethodMetadataRequest",
}
"""Types of other packages that only hold a value; imputers keep the type of their input, and column
transformers of scikit-learn 1.6 a list of columns."""
TREE = "sklearn.tree._tree.Tree"
BOOSTED_TREE = "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"
"""Built by ``stored_trees`` only: crafted ones can crash the process."""

RENAMED = {
    "gemmed.estimators.kept_samples": "gemmed.estimators.whole_fit",
    "gemmed.estimators.boosting_files": "gemmed.io.stored_trees",
    "gemmed.estimators.tree_files": "gemmed.io.stored_trees",
    "_told": "_prior_log_odds",
    "_calibrated_together": "_has_joint_calibration",
}
"""Modules and attributes: names in files of earlier versions, and what they are called now."""


class ModelHeader(NamedTuple):
    """What a model file says about itself.

    ``classes`` and ``feature_names`` are None where the model has none; ``created_with`` maps
    packages to versions.
    """

    format: str
    format_version: int
    gemmed_version: str
    class_name: str
    classes: list[Any] | None
    feature_names: list[str] | None
    n_features: int | None
    sha256: str
    created_with: dict[str, str]


def save_model(model: Any, path: str | os.PathLike[str], *, trusted: Sequence[str] = ()) -> None:
    """Write a fitted estimator to one file, as a whole or not at all.

    Parameters
    ----------
    model : fitted estimator of gemmed, or a scikit-learn estimator (Pipeline) that contains them
    path : name of the file
    trusted : full names of further types that the model may contain; :func:`load_model` has to be
        given the same

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed import MEDClassifier, load_model, save_model
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> model = MEDClassifier().fit(X, X[:, 0] > 0)
    >>> save_model(model, "model.gemmed")
    >>> same = load_model("model.gemmed")
    >>> bool((same.decision_function(X) == model.decision_function(X)).all())
    True
    """
    payload = _payload_of(model, with_stored_trees)
    _refuse_foreign_types(payload, trusted, f"{type(model).__name__} cannot be saved")
    header = json.dumps(_describe(model, payload)._asdict(), indent=1)
    if len(header) > HEADER_LIMIT:
        raise ModelFileError(
            f"the column names and classes of the model take {len(header)} characters, at most "
            f"{HEADER_LIMIT} fit: shorten the names."
        )
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        archive.writestr(HEADER, header)
        archive.writestr(PAYLOAD, payload)


def load_model(path: str | os.PathLike[str], *, trusted: Sequence[str] = ()) -> Any:
    """Read an estimator written by :func:`save_model`.

    Parameters
    ----------
    path : name of the file
    trusted : full names of types to build in addition to those of the closed list. Name only what
        you know: a type can do anything while it is built.

    Returns
    -------
    estimator
        It predicts to the bit what the saved one did, with the same versions of the packages.

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed import MEDClassifier, load_model, save_model
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> save_model(MEDClassifier().fit(X, X[:, 0] > 0), "model.gemmed")
    >>> load_model("model.gemmed").predict([[2.0, 0.0], [-2.0, 0.0]])
    array([ True, False])
    """
    require("skops", "loading models needs", "cli")
    from skops import io as skops_io

    from .. import __version__

    header, payload = _read(path)
    allowed = _refuse_foreign_types(payload, trusted, f"{str(path)!r} cannot be loaded")
    try:
        model = skops_io.loads(payload, trusted=allowed)
    except Exception as error:  # a crafted payload can make any constructor fail in any way
        raise ModelFileError(
            f"{str(path)!r} cannot be loaded: its model is not valid ({type(error).__name__}: "
            f"{reason(error)})"
        ) from error
    if _full_name(type(model)) != header.class_name:
        raise ModelFileError(
            f"{str(path)!r} is said to hold {header.class_name} but holds "
            f"{_full_name(type(model))}: it was changed after it was saved."
        )
    if header.gemmed_version.split(".")[0] != __version__.split(".")[0]:
        warnings.warn(
            f"{str(path)!r} was saved by gemmed {header.gemmed_version}, this is {__version__}: "
            "check its predictions before you rely on them.",
            ModelVersionWarning,
            stacklevel=2,
        )
    return model


def trusted_types(model: Any, *, trusted: Sequence[str] = ()) -> list[str]:
    """Full names of the types in a fitted model that skops must be allowed to build.

    For other programs that keep models in the format of skops, such as MLflow. All of them are of
    gemmed's closed list or of ``trusted``; a model with others is refused, as by
    :func:`save_model`. The trees of forests are among them. skops does not check their nodes, as
    :func:`load_model` does: load such files only if you know where they are from.

    Parameters
    ----------
    model : fitted estimator of gemmed, or a scikit-learn estimator (Pipeline) that contains them
    trusted : full names of further types that the model may contain

    Examples
    --------
    >>> from gemmed import MEDClassifier, trusted_types
    >>> trusted_types(MEDClassifier().fit([[0.0], [1.0]], [0, 1]))  # doctest: +NORMALIZE_WHITESPACE
    ['gemmed.estimators.kernel_classifier.StoredFunction',
     'gemmed.estimators.med.MEDClassifier',
     'gemmed.model.kernels.kernel.Kernel']
    """
    what = f"{type(model).__name__} cannot be saved"
    return sorted(_refuse_foreign_types(_payload_of(model), [*trusted, TREE, BOOSTED_TREE], what))


def _payload_of(model: Any, prepare: Callable[[Any], Any] = lambda model: model) -> bytes:
    """A fitted estimator as skops writes it, checked against what a file may hold."""
    require("skops", "saving models needs", "cli")
    from skops import io as skops_io

    _check_is_fitted(model)
    try:
        payload: bytes = skops_io.dumps(prepare(model))
    except Exception as error:  # whatever an attribute of the model raises while it is read
        raise ModelFileError(f"{type(model).__name__} cannot be saved: {error}") from error
    with _refusing(f"{type(model).__name__} cannot be saved"):
        check_payload(payload)
    return payload


@contextmanager
def _refusing(what: str) -> Iterator[None]:
    """An error about the content of a file as one that says what cannot be done."""
    try:
        yield
    except PayloadError as error:
        raise ModelFileError(f"{what}: {error}.") from error


def read_header(path: str | os.PathLike[str]) -> ModelHeader:
    """What a model file says about itself; the model is checked for damage but not built."""
    return _read(path)[0]


def _read(path: str | os.PathLike[str]) -> tuple[ModelHeader, bytes]:
    """Header and payload of a file whose form and check sum are right."""
    content, what = _bytes_of_archive(Path(path)), f"{str(path)!r} cannot be loaded"
    damaged = f"{str(path)!r} is not a model file of gemmed, or it is damaged: save the model again"
    with (
        raised_as(ModelFileError, damaged),  # errors of zipfile, for bytes that are no archive
        _refusing(what),
        zipfile.ZipFile(io.BytesIO(content)) as archive,
    ):
        foreign = archive.namelist() != [HEADER, PAYLOAD]
        if foreign or archive.getinfo(HEADER).file_size > HEADER_LIMIT:
            raise ModelFileError(f"{str(path)!r} is not a model file of gemmed.")
        refuse_expansion(archive, len(content))
        header = _parse_header(archive.read(HEADER), path)
        payload = archive.read(PAYLOAD)
    if hashlib.sha256(payload).hexdigest() != header.sha256:
        raise ModelFileError(
            f"{str(path)!r} is damaged or was changed: the check sum of its model is not the one "
            "written when it was saved. Copy or save it again."
        )
    with _refusing(f"{what}: its model is not valid"):
        check_payload(payload)
    return header, _with_new_names(payload)


def _with_new_names(payload: bytes) -> bytes:
    """The payload with the present names of modules and attributes."""
    with zipfile.ZipFile(io.BytesIO(payload)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    schema = members[SCHEMA]
    for before, now in RENAMED.items():
        members[SCHEMA] = members[SCHEMA].replace(f'"{before}"'.encode(), f'"{now}"'.encode())
    if members[SCHEMA] == schema:
        return payload
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def _bytes_of_archive(path: Path) -> bytes:
    if path.exists() and not path.is_file():
        raise ModelFileError(f"{str(path)!r} is not a file: name a model file.")
    with path.open("rb") as stream:
        start = stream.read(4)
        if start != b"PK\x03\x04":  # so that a huge foreign file is not read at all
            raise ModelFileError(
                f"{str(path)!r} is not a model file of gemmed: make one with save_model or "
                "gemmed fit."
            )
        return start + stream.read()


def _parse_header(text: bytes, path: str | os.PathLike[str]) -> ModelHeader:
    wrong = f"{str(path)!r} is not a model file of gemmed: its header is not valid"
    with raised_as(ModelFileError, wrong):
        content = json.loads(text)
        if content["format"] != FORMAT:
            raise ValueError(f"format {content['format']!r}")
        version = content["format_version"]
        if not isinstance(version, int) or version < 1:
            raise ValueError(f"format version {version!r}")
        if version != FORMAT_VERSION:
            remedy = "or a newer one" if version > FORMAT_VERSION else "or fit the model again"
            raise ModelFileError(
                f"{str(path)!r} has format version {version}, this gemmed reads version "
                f"{FORMAT_VERSION}: it was saved by gemmed {content.get('gemmed_version')}; "
                f"install that version, {remedy}."
            )
        header = ModelHeader(**{name: content[name] for name in ModelHeader._fields})
        for name in ("gemmed_version", "class_name", "sha256"):
            if not isinstance(content[name], str):
                raise ValueError(f"{name} {content[name]!r}")
        return header


def _refuse_foreign_types(payload: bytes, trusted: Sequence[str], what: str) -> list[str]:
    """The types of a payload that skops does not trust by itself, if all of them may be built."""
    from skops import io as skops_io

    if isinstance(trusted, str):
        raise TypeError(f"trusted={trusted!r} must be a list of names of types.")
    with raised_as(ModelFileError, f"{what}: its content is not valid"):  # see load_model
        found = skops_io.get_untrusted_types(data=payload)
    known = VALUE_TYPES | set(trusted)
    foreign = [name for name in found if name not in known and not _is_own_class(name)]
    if foreign:
        raise ModelFileError(
            f"{what}: it contains {', '.join(foreign)}, which gemmed does not build from files. "
            "If you know these types and where the model is from, name them: trusted=[...]."
        )
    return list(found)


def _is_own_class(name: str) -> bool:
    """Whether a full name is that of an estimator of gemmed, or of a class in MODEL_PACKAGES."""
    from sklearn.base import BaseEstimator

    module_name, _, class_name = name.rpartition(".")
    package, _, rest = module_name.partition(".")
    if package != PACKAGE or not rest or "__main__" in rest:
        return False
    try:
        found = getattr(importlib.import_module(module_name), class_name, None)
    except ImportError:
        return False
    # A name that a module merely imports (a function, the class of another package) is not its own.
    if not isinstance(found, type) or _full_name(found) != name:
        return False
    return rest.split(".")[0] in MODEL_PACKAGES or issubclass(found, BaseEstimator)


def _check_is_fitted(model: Any) -> None:
    from sklearn.base import BaseEstimator
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    if isinstance(model, type) or not isinstance(model, BaseEstimator):
        raise ModelFileError(f"model={model!r} is not an estimator: only those can be saved.")
    try:
        check_is_fitted(model)
    except NotFittedError as error:
        raise ModelFileError(
            f"{type(model).__name__} is not fitted yet: call fit first."
        ) from error


def _describe(model: Any, payload: bytes) -> ModelHeader:
    import scipy
    import sklearn
    import skops

    from .. import __version__

    names = getattr(model, "feature_names_in_", None)
    classes = getattr(model, "classes_", None)
    return ModelHeader(
        format=FORMAT,
        format_version=FORMAT_VERSION,
        gemmed_version=__version__,
        class_name=_full_name(type(model)),
        classes=None if classes is None else np.asarray(classes).tolist(),
        feature_names=None if names is None else [str(name) for name in names],
        n_features=getattr(model, "n_features_in_", None),
        sha256=hashlib.sha256(payload).hexdigest(),
        created_with={
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "scikit-learn": sklearn.__version__,
            "skops": skops.__version__,
        },
    )


def _full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
