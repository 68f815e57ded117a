"""SVC of scikit-learn-intelex, run by peers.py in an environment that has it.

python benchmarks/large/intelex.py N KIND SHARE   (prints one line of JSON)
"""

import json
import sys
import time

from samples import data, rbf_width
from sklearnex.svm import SVC


def main():
    n, kind, share = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    sample = data(n, 20_000, flipped=share, kind="flips" if kind == "clean" else kind)
    # Twice: the first call loads the library.
    SVC().fit(sample.X[:100], sample.y[:100])
    model = SVC(gamma=rbf_width(sample.X), cache_size=1000)
    wall, cpu = time.perf_counter(), time.process_time()
    model.fit(sample.X, sample.y)
    middle, cpu_middle = time.perf_counter(), time.process_time()
    score = float((model.predict(sample.X_test) == sample.y_test).mean())
    row = {
        "seconds": middle - wall,
        "cpu": cpu_middle - cpu,
        "predict_seconds": time.perf_counter() - middle,
        "predict_cpu": time.process_time() - cpu_middle,
        "accuracy": score,
    }
    print(json.dumps(row))


if __name__ == "__main__":
    main()
