"""Throughput of the acoustic features against a plain loop over librosa, all in one run.

Both read the same files, resample, cut the same windows and compute MFCCs on one core. Times are
processor times, best of several repeats taken in turns; x real time is seconds of audio a second.

OMP_NUM_THREADS=1 python benchmarks/acoustic_features.py
"""

import argparse
import tempfile
import time
from pathlib import Path

import librosa
import numpy as np

from gemmed.acoustics import FeatureSettings, recording_features, write_audio


def footsteps(seconds, rate, rng):
    """Noise with a loud burst twice a second."""
    t = np.arange(int(seconds * rate)) / rate
    bursts = np.exp(-30 * ((t + rng.uniform()) % rng.uniform(0.45, 0.6)))
    return 0.1 * rng.standard_normal(len(t)) * (0.05 + bursts)


def librosa_loop(path, rate, settings):
    """What a user of librosa would write: load, cut each segment, find the window, mfcc."""
    signal, rate = librosa.load(path, sr=rate)
    signal = signal - signal.mean()
    window, hop, frame = settings.samples(rate)
    n = settings.n_segments
    length = int(len(signal) / (1 + (n - 1) * (1 - settings.overlap)))
    rows = []
    for start in np.linspace(0, len(signal) - length, n).round().astype(int):
        segment = signal[start : start + length]
        if len(segment) < window:
            segment = np.pad(segment, (0, window - len(segment)))
        energy = np.concatenate([[0.0], np.cumsum(segment.astype(float) ** 2)])
        begin = np.argmax(energy[window:] - energy[:-window])
        coefficients = librosa.feature.mfcc(
            y=segment[begin : begin + window],
            sr=rate,
            n_mfcc=settings.n_mfcc,
            n_fft=frame,
            hop_length=hop,
            n_mels=settings.n_mels,
        )
        rows.append(coefficients[:, : settings.n_windows].ravel())
    return np.array(rows)


def compare(name, paths, seconds, rate, settings, repeats):
    plain = settings.as_dict()
    ways = {
        "gemmed": lambda path: recording_features(path, rate=rate, **plain).features.mfcc,
        "librosa": lambda path: librosa_loop(path, rate, settings),
    }
    ours, theirs = (way(paths[0]) for way in ways.values())
    best = dict.fromkeys(ways, np.inf)
    for _ in range(repeats):
        for way, features in ways.items():
            start = time.process_time()
            for path in paths:
                features(path)
            best[way] = min(best[way], time.process_time() - start)
    # librosa.load reads single precision and so do its transforms.
    typical = float(np.median(np.abs(ours - theirs)))
    print(
        f"{name:34s} gemmed {seconds / best['gemmed']:6.0f} x real time   "
        f"librosa {seconds / best['librosa']:6.0f} x   "
        f"ratio {best['librosa'] / best['gemmed']:5.2f}   median difference {typical:.0e}"
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--clips", type=int, default=4, help="long recordings of each kind")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    paper = FeatureSettings()
    short = FeatureSettings(n_segments=1, window=0.5, n_windows=50)
    kinds = [
        ("paper, 20 s, 8 kHz", 20.0, 8000, 8000, "wav", 1, paper),
        ("paper, 20 s, 16 kHz flac", 20.0, 16000, 16000, "flac", 1, paper),
        ("paper, 20 s, 44.1 kHz", 20.0, 44100, 44100, "wav", 1, paper),
        ("paper, 20 s, 44.1 stereo to 16 kHz", 20.0, 44100, 16000, "wav", 2, paper),
        ("paper, 10.2 s, 10 kHz", 10.2, 10000, 10000, "wav", 1, paper),
        ("one segment, 0.4 s, 8 kHz", 0.4, 8000, 8000, "wav", 1, short),
    ]
    with tempfile.TemporaryDirectory() as folder:
        for name, seconds, file_rate, rate, suffix, channels, settings in kinds:
            count = options.clips if seconds > 1 else 50 * options.clips
            paths = []
            for i in range(count):
                paths.append(
                    Path(folder) / f"{name.replace(',', '').replace(' ', '_')}_{i}.{suffix}"
                )
                signal = footsteps(seconds, file_rate, rng)
                write_audio(paths[-1], np.repeat(signal[:, None], channels, axis=1), file_rate)
            compare(name, paths, seconds * count, rate, settings, options.repeats)


if __name__ == "__main__":
    main()
