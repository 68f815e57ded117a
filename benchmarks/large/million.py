"""A million rows of 50 columns: time and memory by the number of landmarks, as a picture.

python benchmarks/large/million.py [--quick] [--landmarks 1000 2000 4000 8000]

Kernel given, 10 % of the labels flipped, rows in a file; a process for each number. Writes
docs/benchmarks/million.json and million.png.
"""

import tempfile

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from record import FOLDER, QUICK_FOLDER, Record, parser
from scaling import in_own_process, write_rows

METHOD = "gemmed, kernel given"


def draw(rows, path):
    """Seconds and gigabytes over landmarks; accuracy beside the points."""
    rows = sorted(rows, key=lambda row: row["landmarks"])
    m = [row["landmarks"] for row in rows]
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    left.loglog(m, [row["seconds"] for row in rows], "o-", label="by the clock")
    left.loglog(m, [row["cpu"] for row in rows], "s--", label="processor")
    for row in rows:
        text = f"{100 * row['accuracy']:.1f} %"
        place = (row["landmarks"], row["seconds"])
        left.annotate(text, place, (8, -4), textcoords="offset points", fontsize=8)
    largest = max(row["cpu"] for row in rows)
    left.set(ylabel="seconds of a fit (accuracy beside)", ylim=(30, 1.5 * largest))
    ticks = [number for number in (50, 100, 200, 500, 1000, 2000) if number < 1.5 * largest]
    left.set_yticks(ticks, [f"{number:,}" for number in ticks])
    left.legend(fontsize=8)
    right.plot(m, [row["memory_gb"] for row in rows], "o-")
    most = max(row["memory_gb"] for row in rows)
    right.set(ylabel="peak memory, GB", xscale="log", ylim=(0, 1.1 * most))
    for axes in (left, right):
        axes.set(xlabel="landmarks", xlim=(0.8 * m[0], 1.5 * m[-1]))
        axes.set_xticks(m, [f"{number:,}" for number in m])
        axes.minorticks_off()
    figure.suptitle(f"{rows[0]['n']:,} rows, 50 columns, two cores", fontsize=10)
    figure.savefig(path, dpi=120)


def main():
    made = parser(__doc__)
    made.add_argument("--landmarks", type=int, nargs="+", default=[1000, 2000, 4000, 8000])
    options = made.parse_args()
    n = 20_000 if options.quick else 1_000_000
    record = Record("million", options, ("n", "landmarks"))
    with tempfile.TemporaryDirectory() as folder:
        write_rows(n, folder)
        for m in options.landmarks:
            if not record.find(n=n, landmarks=m):
                record.add(n=n, landmarks=m, **in_own_process(METHOD, folder, m))
    draw(record.rows, (QUICK_FOLDER if options.quick else FOLDER) / "million.png")


if __name__ == "__main__":
    main()
