"""What tells recordings of poor quality from others: ranks and flags, without labels of quality.

python benchmarks/recording_quality.py --data DIR

DIR holds ``cinc2016_heart_sounds`` (PhysioNet/CinC 2016, training-b) and ``fsdd`` (spoken digits).
Poor heart sounds are documented; no digit should be called poor. Printed are the AUC of what
``gemmed audit`` says, of three measures of whole recordings and of their sum in robust deviations.
The signs of the three were chosen among 23 measures on these recordings.
"""

import argparse
import csv
from pathlib import Path

import numpy as np
from scipy.signal import welch
from scipy.stats import kurtosis
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gemmed import GEMMEDClassifier
from gemmed.acoustics import RecordingMFCC, SegmentPCA, read_audio

ENVELOPE_STEP = 0.01
PERIODS = (0.3, 2.5)
"""Seconds after which events may repeat."""
MEASURES = ("repeats", "peaks stand out", "frequency of the first quarter of the power")
CUTS = (2.0, 3.0)


def measures(signal, rate):
    """Repeatability of the envelope, log kurtosis, log of the lowest quartile of the spectrum."""
    signal = signal - signal.mean()
    frequencies, power = welch(signal, rate, nperseg=min(256, len(signal)))
    quarter = np.interp(0.25, np.cumsum(power) / power.sum(), frequencies)
    return _repeats(signal, rate), np.log(kurtosis(signal, fisher=False) + 0.1), np.log(quarter + 1)


def _repeats(signal, rate):
    """Largest maximum of the envelope's autocorrelation between the PERIODS; 0 without one."""
    step = max(1, round(ENVELOPE_STEP * rate))
    n = len(signal) // step
    envelope = np.sqrt((signal[: n * step].reshape(n, step) ** 2).mean(axis=1))
    envelope -= envelope.mean()
    products = np.fft.irfft(np.abs(np.fft.rfft(envelope, 2 * n)) ** 2)[:n] / np.arange(n, 0, -1)
    first, last = (round(seconds / ENVELOPE_STEP) for seconds in PERIODS)
    found = products[first : min(last, n // 2)] / max(products[0], 1e-12)
    inner = found[1:-1]
    return max(inner[(inner >= found[:-2]) & (inner >= found[2:])], default=0.0)


def deviations(column):
    """Robust deviations from the median of the corpus."""
    middle = np.median(column)
    return (column - middle) / (1.4826 * np.median(np.abs(column - middle)) + 1e-9)


def auc(poor, score):
    """AUC and its standard error (Hanley and McNeil)."""
    value = float(roc_auc_score(poor, score))
    n, m = int(poor.sum()), int((~poor).sum())
    one, two = value / (2 - value), 2 * value**2 / (1 + value)
    rest = (n - 1) * (one - value**2) + (m - 1) * (two - value**2)
    return f"{value:.3f} +- {np.sqrt((value * (1 - value) + rest) / (n * m)):.3f}"


def read(files):
    """Measures of files, shape (n_files, 3)."""
    sounds = [read_audio(file) for file in files]
    return np.array([measures(sound.signal, sound.sample_rate) for sound in sounds])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    data = parser.parse_args().data
    place = data / "cinc2016_heart_sounds" / "training-b"
    with (place / "REFERENCE-SQI.csv").open(newline="", encoding="utf-8") as file:
        entries = [row for row in csv.reader(file) if row]
    files = [place / f"{name}.wav" for name, *_ in entries]
    labels = np.array([int(entry[1]) for entry in entries])
    poor = np.array([entry[2].strip() == "0" for entry in entries])
    for segments in (1, 4):
        reader = RecordingMFCC(n_segments=segments, overlap=0.0).fit(files)
        found = reader.read(files)
        X = SegmentPCA(50).fit_transform(found.mfcc)
        groups = found.recording.astype(str) if segments > 1 else None
        model = GEMMEDClassifier(random_state=0).fit(X, labels[found.recording], groups=groups)
        score = np.bincount(found.recording, model.anomaly_scores_) / segments
        called = score > 0.5
        print(f"audit, {segments} segment(s): AUC {auc(poor, score)}")
        print(f"  called {called.sum()}, of them poor {poor[called].sum()} of {poor.sum()}")
    rows = read(files)
    for name, column in zip(MEASURES, rows.T, strict=True):
        print(f"little of {name}: AUC {auc(poor, -column)}")
    together = -sum(map(deviations, rows.T))
    print(f"all three: AUC {auc(poor, together)}")
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    model = make_pipeline(StandardScaler(), LogisticRegression())
    learned = cross_val_predict(model, rows, poor, cv=folds, method="decision_function")
    print(f"weights learned from the quality, held out: AUC {auc(poor, learned)}")
    digits = -sum(map(deviations, read(sorted((data / "fsdd").rglob("*.wav"))[::3])[:, 1:].T))
    for cut in CUTS:
        flagged = deviations(together) > cut
        others = f"{(deviations(digits) > cut).sum()} of {len(digits)} digits"
        print(f"beyond {cut:g} deviations: {flagged.sum()} heart sounds; {others}")


if __name__ == "__main__":
    main()
