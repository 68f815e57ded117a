"""Memory and time that hostile files take until they are refused.

    python tests/attack/measure.py

Each in a process of its own: seconds of processor time and memory beyond what an honest file of the
kind took before it.
"""

import sys
import tempfile
from pathlib import Path

if __package__ is None:
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "src")]

from attack.bombs import BOMBS, write_bomb
from attack.hostile_models import write_hostile
from attack.limited import GIGABYTE, python

BOMB_MEGABYTES = 1000
READ = """
import resource, sys, time, warnings
from gemmed import load_model
from gemmed.rows.tables import read_table

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

warnings.simplefilter("ignore")
kind, honest, hostile = sys.argv[1:]
read = load_model if kind == "model" else read_table
read(honest)
before, start = peak(), time.process_time()
try:
    read(hostile)
    said = "read"
except Exception as error:
    said = str(error)
print(time.process_time() - start, peak() - before, " ".join(said.split())[:90])
"""


def write_tables(folder):
    """An honest table, and the hostile ones."""
    honest = folder / "honest.csv"
    honest.write_text("a,b\n" + "1,2\n" * 1000)
    line, quoted = folder / "line_of_200_MB.csv", folder / "quoted_line_of_200_MB.csv"
    line.write_bytes(b"a,b\n1," + b"x" * 200_000_000)
    quoted.write_bytes(b'a,b\n1,"' + b"x\n" * 100_000_000)
    return honest, [line, quoted, Path("/dev/zero")]


def honest_model(folder):
    import numpy as np

    from gemmed import GEMMEDClassifier, save_model

    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    path = folder / "honest.gemmed"
    save_model(GEMMEDClassifier(gamma=0.3).fit(X, X[:, 0] > 0), path)
    return path


def main():
    print(f"{'file':38} {'bytes':>11} {'seconds':>8} {'memory':>8}  what is said")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        model = honest_model(folder)
        table, tables = write_tables(folder)
        cases = [("model", model, path) for path in write_hostile(model, folder)]
        for name in BOMBS:
            write_bomb(name, folder / name, BOMB_MEGABYTES)
        tables += [folder / name for name in BOMBS]
        cases += [("table", table, path) for path in tables]
        for kind, honest, path in cases:
            done = python(READ, kind, honest, path, memory=4 * GIGABYTE, seconds=60)
            size = path.stat().st_size
            if done.returncode:
                print(f"{path.name:38} {size:11,}  ended with {done.returncode}")
                continue
            seconds, memory, said = done.stdout.strip().split(" ", 2)
            taken = f"{float(seconds):8.2f} {float(memory) / 1e6:5.0f} MB"
            print(f"{path.name:38} {size:11,} {taken}  {said.replace(temporary, '')}", flush=True)


if __name__ == "__main__":
    main()
