"""From broken clips to predictions with three commands, on the Free Spoken Digit Dataset.

python benchmarks/recordings_end_to_end.py FOLDER [--digits 3 8] [--broken 0.2] [--seed 0]

FOLDER has the files DIGIT_SPEAKER_NUMBER.wav. Clips 0 to 19 of every digit and speaker are trained
on, clips 30 to 44 are new. A share of the training clips gets a fault: a sensor fault during at
least half of the clip, a file cut off, or silence. Reported: how far ``gemmed audit`` ranks broken
clips above whole ones, and how often ``gemmed predict`` is right on new clips. The latter is
measured twice: with the basis in the model, and with components that ``gemmed features`` computes
from the new clips alone.
"""

import argparse
import contextlib
import io
import json
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from gemmed.acoustics import read_audio, write_audio
from gemmed.cli import main as gemmed
from gemmed.datasets import FAULT_KINDS, inject_fault

FACTS = ["subject", "sensor", "segment", "start", "end", "window_start"]
FACTS += ["silent", "clipped", "padded", "offset", "truncated"]


def break_clip(path, rng):
    """Write a fault into a file; its kind."""
    kind = str(rng.choice([*FAULT_KINDS, "cut off", "silence"]))
    audio = read_audio(path)
    signal, rate = audio.signal.copy(), int(audio.sample_rate)
    if kind == "cut off":
        content = path.read_bytes()
        path.write_bytes(content[: 44 + (len(content) - 44) // 3])
        return kind
    length = round(len(signal) * rng.uniform(0.5, 1.0))
    start = int(rng.integers(0, len(signal) - length + 1))
    part = slice(start, start + length)
    level = 4.0 * float(np.sqrt(np.mean(signal**2)))
    signal[part] = (
        0.0 if kind == "silence" else inject_fault(signal[part], kind, rate, rng, level=level)
    )
    write_audio(path, signal, rate)
    return kind


def manifests(folder, target, digits, share, seed):
    """Copies of the clips, their manifests, and which training clips are broken."""
    rng = np.random.default_rng(seed)
    rows = {"train": [], "new": []}
    for file in sorted(Path(folder).glob("*.wav")):
        digit, speaker, number = file.stem.split("_")
        part = "train" if int(number) < 20 else "new" if 30 <= int(number) < 45 else None
        if digit in digits and part:
            shutil.copy(file, target / file.name)
            rows[part].append((file.name, digit, speaker))
    for part, entries in rows.items():
        frame = pd.DataFrame(entries, columns=["path", "label", "speaker"])
        frame[["path", "label"]].to_csv(target / f"{part}.csv", index=False)
    broken = rng.random(len(rows["train"])) < share
    for (name, *_), bad in zip(rows["train"], broken, strict=True):
        if bad:
            break_clip(target / name, rng)
    return broken


def run(*arguments):
    """Standard output of a command, its exit code and CPU seconds."""
    out, begin = io.StringIO(), time.process_time()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        code = gemmed([str(argument) for argument in arguments])
    assert code in (0, 3), (code, arguments)
    return out.getvalue(), code, time.process_time() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--digits", nargs="+", default=["3", "8"])
    parser.add_argument("--broken", type=float, default=0.2)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        broken = manifests(options.folder, place, options.digits, options.broken, options.seed)
        text, _, seconds = run("audit", place / "train.csv", "--threshold", 0, "--json")
        scores = np.zeros(len(broken))
        flagged = np.zeros(len(broken), dtype=bool)
        for entry in json.loads(text)["suspicious"]:
            scores[entry["row"] - 1] = entry["anomaly_score"]
            flagged[entry["row"] - 1] = bool(entry["flags"])
        print(f"{len(broken)} clips, {broken.sum()} broken, digits {' '.join(options.digits)}")
        print(f"audit: AUC {roc_auc_score(broken, scores):.3f}, {seconds:.1f} s CPU")
        print(
            f"flags: {(flagged & broken).sum()} of the broken, {(flagged & ~broken).sum()} others"
        )
        _, _, seconds = run("fit", place / "train.csv", "--out", place / "m.gemmed")
        print(f"fit: {seconds:.1f} s CPU")
        new = sorted(place / n for n in pd.read_csv(place / "new.csv")["path"])
        _, _, seconds = run("predict", place / "m.gemmed", *new, "--out", place / "p.csv")
        found = pd.read_csv(place / "p.csv", dtype=str)
        right = [Path(p).name.split("_")[0] == d for p, d in found[["path", "prediction"]].values]
        print(
            f"predict with the stored basis: {np.mean(right):.3f} of {len(right)} new clips, "
            f"{seconds:.1f} s CPU"
        )
        window = ["--segments", 1, "--window", 0.6, "--frames", 60, "--components", 50]
        for part in ("train", "new"):
            run("features", place / f"{part}.csv", "--out", place / f"{part}.c.csv", *window)
        columns = ["--target", "label", "--drop", "path", *FACTS]
        run("fit", place / "train.c.csv", *columns, "--out", place / "c.gemmed")
        table = pd.read_csv(place / "new.c.csv", dtype={"label": str}).rename(
            columns={"label": "true"}
        )
        table.to_csv(place / "new.d.csv", index=False)
        run("predict", place / "c.gemmed", place / "new.d.csv", "--out", place / "q.csv")
        found = pd.read_csv(place / "q.csv", dtype=str)
        print(f"with a basis of the new clips: {np.mean(found['true'] == found['prediction']):.3f}")


if __name__ == "__main__":
    main()
