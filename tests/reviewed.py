"""Tables and recordings to review, and ``gemmed review`` as a process."""

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest


def write_patients(path, n=120):
    """Two classes, a semicolon, latin-1, quotes: what has to be there again after an export."""
    rng = np.random.default_rng(0)
    label = np.where(np.arange(n) % 2 == 0, "kränk", "gesund")
    age = rng.normal(50, 4, n) + np.where(label == "kränk", 12, 0)
    dose = 0.4 * age + rng.normal(0, 1, n)
    given = label.copy()
    given[:8] = np.where(label[:8] == "kränk", "gesund", "kränk")
    dose[20:24] += 60
    lines = ["patient;age;dose;ward;diagnosis\r\n"]
    for i in range(n):
        ward = '"north; old"' if i % 3 else "south"
        lines.append(f"P{i:03d};{age[i]:.2f};{dose[i]:.2f};{ward};{given[i]}\r\n".replace(".", ","))
    Path(path).write_bytes("".join(lines).encode("latin-1"))
    return Path(path)


def write_tickets(path, n_classes=12, n_each=12):
    """Many classes, an identifier and a text that nothing is learned from; six wrong labels."""
    rng = np.random.default_rng(1)
    topic = np.repeat(np.arange(n_classes), n_each)
    x = 6.0 * (topic // 4) + rng.normal(0, 0.5, len(topic))
    y = 6.0 * (topic % 4) + rng.normal(0, 0.5, len(topic))
    given = topic.copy()
    given[::25] = (given[::25] + 5) % n_classes
    lines = ["ticket,x,y,text,topic"]
    for i, label in enumerate(given):
        words = (
            f"Customer {i} writes about item {rng.integers(10**6)} and case {rng.integers(10**6)}"
        )
        lines.append(f"T{i:03d},{x[i]:.3f},{y[i]:.3f},{words},topic {label:02d}")
    Path(path).write_text("\n".join(lines) + "\n")
    return Path(path)


def write_clips(folder, n=36):
    """Tones of two heights as recordings; three of them with a gap of noise."""
    soundfile = pytest.importorskip("soundfile")
    rng = np.random.default_rng(0)
    (folder / "clips").mkdir()
    rows = ["path,word,speaker"]
    for i in range(n):
        t = np.arange(2400) / 8000
        high = i % 2 == 0
        signal = 0.3 * np.sin(2 * np.pi * (700 if high else 300) * t * (1 + 0.02 * rng.normal()))
        signal *= np.hanning(len(t)) ** 0.5
        signal += 0.005 * rng.normal(size=len(t))
        if i in (4, 9, 14):
            signal[1000:1500] = rng.uniform(-0.9, 0.9, 500)
        soundfile.write(folder / "clips" / f"c{i:02d}.wav", signal, 8000)
        rows.append(f"clips/c{i:02d}.wav,{'high' if high else 'low'},s{i % 4}")
    path = folder / "clips.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


class Running:
    """``gemmed review`` as a process of its own."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gemmed", "review", *map(str, arguments), "--no-browser"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        timer = threading.Timer(120, self.process.kill)
        timer.start()
        self.address = None
        for line in self.process.stdout:
            if found := re.search(r"http://\S+", line):
                self.address = found[0]
                break
        timer.cancel()
        assert self.address, self.process.stderr.read()

    def kill(self):
        """As ``kill -9`` does."""
        self.process.send_signal(signal.SIGKILL)
        self.close()

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()
