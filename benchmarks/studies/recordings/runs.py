"""GEM-MED on real recordings: spoken digits with injected faults, heart sounds of poor quality."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedGroupKFold, cross_val_score
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from gemmed._core.exceptions import ExperimentDataError
from gemmed._core.types import BoolArray, FloatArray
from gemmed.acoustics import mfcc, read_audio, window_features
from gemmed.datasets import FAULT_KINDS, inject_fault
from gemmed.estimators.detector import GEMDetector
from gemmed.estimators.gemmed import GEMMEDClassifier
from gemmed.estimators.med import MEDClassifier
from gemmed.experiments.runner import Result, Task
from gemmed.model.settings import Solver
from gemmed.paper import TwoStageClassifier

DIGITS_FOLDER, HEARTS_FOLDER = "fsdd", "cinc2016_heart_sounds"
DIGITS = ("3", "8")
SPEAKERS_TESTED = 2
SEED = 7
"""Of speakers, faults and splits; nothing was chosen on it."""
RATES = (0.2, 0.4)
CLIP_SECONDS = 0.6
CLIP_FEATURES = {"window": CLIP_SECONDS, "n_windows": 60}
N_COMPONENTS = 50
MIN_FAULT_SHARE = 0.5
"""Share of a clip that a fault lasts at least."""
N_NEIGHBORS = 10
FALSE_ALARM_RATE = 0.05
FOLDS = 5
C = 10.0
"""Cost of a margin error of SVM and MED: the SVM underfits healthy data at 1."""
MARGIN_RATE = 1.5
"""C of GEM-MED: no label is wrong here."""
GAMMA_STEPS = (0.5, 1.0, 2.0, 4.0)
"""Candidates for gamma in units of 1 / (n_features * variance of the training set)."""
BASELINE, REFERENCE = "SVM", "GEM-MED"


def gem_med(gamma: float, seed: int) -> GEMMEDClassifier:
    """GEM-MED as smooth as the others, with the exact kernel."""
    # What counts for the classifier is the product of C and variance: 10, as in the others.
    variance = C / MARGIN_RATE
    return GEMMEDClassifier(
        "rbf",
        gamma=gamma,
        kernel_params={"function_variance": variance, "bias_variance": variance},
        solver=Solver(n_components=None),
        C=MARGIN_RATE,
        n_neighbors=N_NEIGHBORS,
        random_state=seed,
    )


CLASSIFIERS: dict[str, Callable[[float, int], Any]] = {
    BASELINE: lambda gamma, seed: SVC(gamma=gamma, C=C),
    "MED": lambda gamma, seed: MEDClassifier("rbf", gamma=gamma, C=C),
    "GEM+SVM": lambda gamma, seed: TwoStageClassifier(
        GEMDetector(n_neighbors=N_NEIGHBORS, random_state=seed),
        SVC(gamma=gamma, C=C),
        FALSE_ALARM_RATE,
    ),
    REFERENCE: gem_med,
}


class Clips(NamedTuple):
    """Spoken digits, cut or filled to one length."""

    signals: FloatArray
    """Shape (n_clips, n_samples)."""
    y: np.ndarray
    speakers: np.ndarray
    numbers: np.ndarray
    """Of the clip, among those of a digit and speaker."""
    rate: int


class ClipSplit(NamedTuple):
    """Training and test clips as components."""

    X: FloatArray
    y: np.ndarray
    speakers: np.ndarray
    X_test: FloatArray
    y_test: np.ndarray


@lru_cache(maxsize=1)
def spoken_digits(folder: str) -> Clips:
    """The clips of two digits; file names are DIGIT_SPEAKER_NUMBER.wav."""
    files = sorted((Path(folder) / DIGITS_FOLDER / "recordings").glob("*.wav"))
    chosen = [file for file in files if file.stem.split("_")[0] in DIGITS]
    if not chosen:
        raise ExperimentDataError(
            f"{str(Path(folder) / DIGITS_FOLDER / 'recordings')!r} has no recordings of the digits "
            f"{' and '.join(DIGITS)}: give the folder that holds {DIGITS_FOLDER} with --data"
        )
    audio = [read_audio(file) for file in chosen]
    rate = int(audio[0].sample_rate)
    length = round(CLIP_SECONDS * rate)
    signals = np.zeros((len(chosen), length))
    for row, clip in zip(signals, audio, strict=True):
        row[: len(clip.signal)] = clip.signal[:length]
    parts = [file.stem.split("_") for file in chosen]
    labels = np.array([DIGITS.index(part[0]) for part in parts])
    speakers, numbers = (np.array([part[i] for part in parts]) for i in (1, 2))
    return Clips(signals, labels, speakers, numbers.astype(int), rate)


def evaluate_digits(folder: str, rate: float, split: int) -> Result:
    """Error on the clean clips of speakers not trained on; faults in a share of the training clips.

    ``excess_error`` is the difference to the SVM trained on the same clips without faults,
    ``own_excess_error`` that to the same method trained without faults.
    """
    clips = spoken_digits(folder)
    rng = np.random.default_rng([SEED, split, round(100 * rate)])
    test = _tested(clips, split)
    train = np.flatnonzero(~test)
    broken = np.zeros(len(train), dtype=bool)
    broken[rng.permutation(len(train))[: round(rate * len(train))]] = True
    signals = clips.signals.copy()
    for row in train[broken]:
        signals[row] = _with_a_fault(signals[row], clips.rate, rng)
    contaminated = _split(clips, signals, test)
    clean_errors = _clean_errors(folder, split)
    measures: dict[str, Any] = {}
    for name in CLASSIFIERS:
        model, error = _trained(name, contaminated, split)
        measures[name] = {
            "clean_error": clean_errors[name],
            "error": error,
            "excess_error": error - clean_errors[BASELINE],
            "own_excess_error": error - clean_errors[name],
        }
        if name == REFERENCE:
            measures[name]["auc"] = 100.0 * float(roc_auc_score(broken, model.anomaly_scores_))
    return measures


@lru_cache(maxsize=32)
def _clean_errors(folder: str, split: int) -> dict[str, float]:
    """Errors of the methods trained without faults; the same for all rates."""
    clips = spoken_digits(folder)
    test = _tested(clips, split)
    data = _split(clips, clips.signals, test)
    return {name: _trained(name, data, split)[1] for name in CLASSIFIERS}


def _tested(clips: Clips, split: int) -> BoolArray:
    """The clips of the speakers that are tested on, shape (n_clips,)."""
    speakers = np.random.default_rng([SEED, split]).permutation(np.unique(clips.speakers))
    return np.isin(clips.speakers, speakers[:SPEAKERS_TESTED])


def _trained(name: str, data: ClipSplit, split: int) -> tuple[Any, float]:
    """A method with gamma by cross-validation, and its test error in percent."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = CLASSIFIERS[name](choose_gamma(name, data, split), split).fit(data.X, data.y)
    return model, 100.0 * float(np.mean(model.predict(data.X_test) != data.y_test))


def choose_gamma(name: str, data: ClipSplit, seed: int) -> float:
    """The gamma with the best accuracy in cross-validation; speakers stay in one fold."""
    X, y = data.X, data.y
    n_folds = min(FOLDS, len(np.unique(data.speakers)))
    folds = StratifiedGroupKFold(n_folds, shuffle=True, random_state=seed)
    unit = 1.0 / (X.shape[1] * float(X.var()))
    scores = {step * unit: 0.0 for step in GAMMA_STEPS}
    for gamma in scores:
        model = CLASSIFIERS[name](gamma, seed)
        found = cross_val_score(model, X, y, groups=data.speakers, cv=folds, error_score="raise")
        scores[gamma] = float(found.mean())
    return max(scores, key=lambda gamma: scores[gamma])


@lru_cache(maxsize=1)
def heart_sounds(folder: str) -> tuple[FloatArray, np.ndarray, BoolArray]:
    """Mean and deviation of 13 MFCCs, normal or abnormal, and whether the quality is poor."""
    place = Path(folder) / HEARTS_FOLDER / "training-b"
    try:
        with (place / "REFERENCE-SQI.csv").open(newline="", encoding="utf-8") as file:
            entries = [row for row in csv.reader(file) if row]
    except OSError as error:
        raise ExperimentDataError(
            f"cannot read {str(place / 'REFERENCE-SQI.csv')!r} ({error.strerror}): give the folder "
            f"that holds {HEARTS_FOLDER} with --data"
        ) from error
    rows = []
    for name, *_ in entries:
        audio = read_audio(place / f"{name}.wav")
        rate = audio.sample_rate
        level = max(float(np.std(audio.signal)), 1e-9)
        coefficients = mfcc(
            audio.signal / level, rate, frame=round(0.05 * rate), hop=round(0.02 * rate), n_mels=26
        )
        rows.append(np.concatenate([coefficients.mean(axis=1), coefficients.std(axis=1)]))
    labels = np.array([int(entry[1]) for entry in entries])
    return np.array(rows), labels, np.array([entry[2].strip() == "0" for entry in entries])


def evaluate_hearts(folder: str, split: int) -> Result:
    """AUC (percent) of anomaly scores against documented poor quality, which no method sees."""
    rows, labels, poor = heart_sounds(folder)
    X = StandardScaler().fit_transform(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        detector = GEMDetector(n_neighbors=N_NEIGHBORS, random_state=split)
        scores = {
            REFERENCE: GEMMEDClassifier(random_state=split).fit(X, labels).anomaly_scores_,
            "GEM": -detector.fit(X).training_scores_,
            "GEM, class by class": -detector.fit(X, labels).training_scores_,
            "isolation forest": -IsolationForest(random_state=split).fit(X).score_samples(X),
        }
    return {
        name: {"auc": 100.0 * float(roc_auc_score(poor, values))} for name, values in scores.items()
    }


def digits_task(folder: str, rate: float, split: int) -> Task:
    """One split of the spoken digits."""
    return Task(
        f"recordings/digits-{rate:g}/split-{split:03d}",
        evaluate_digits,
        {"folder": folder, "rate": rate, "split": split},
    )


def hearts_task(folder: str, split: int) -> Task:
    """The heart sounds with one seed."""
    return Task(
        f"recordings/hearts/seed-{split:03d}", evaluate_hearts, {"folder": folder, "split": split}
    )


def _with_a_fault(signal: FloatArray, rate: int, rng: np.random.Generator) -> FloatArray:
    """A random fault during at least half of a clip."""
    length = round(len(signal) * rng.uniform(MIN_FAULT_SHARE, 1.0))
    start = int(rng.integers(0, len(signal) - length + 1))
    kind = str(rng.choice(list(FAULT_KINDS)))
    level = 4.0 * float(np.sqrt(np.mean(signal**2)))
    broken = signal.copy()
    part = slice(start, start + length)
    broken[part] = inject_fault(signal[part], kind, rate, rng, level=level)
    return broken


def _split(clips: Clips, signals: FloatArray, test: BoolArray) -> ClipSplit:
    rows = window_features(signals, clips.rate, **CLIP_FEATURES)
    reduction = PCA(N_COMPONENTS, random_state=0).fit(rows[~test])
    return ClipSplit(
        reduction.transform(rows[~test]),
        clips.y[~test],
        clips.speakers[~test],
        reduction.transform(rows[test]),
        clips.y[test],
    )
