"""ONNX graphs against the models they were made of: differences, sizes, CPU time.

python benchmarks/onnx_predictions.py     (about half a minute; one thread)
"""

import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import onnxruntime
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gemmed import GEMMEDClassifier, Solver, export_onnx, save_model


def problems():
    """Name, model and rows: exact kernel, linear, many classes, landmarks."""
    X, y = load_breast_cancer(return_X_y=True)
    yield "breast cancer, RBF", GEMMEDClassifier(random_state=0), X, y
    yield "breast cancer, linear", GEMMEDClassifier("linear", random_state=0), X, y
    X, y = load_digits(return_X_y=True)
    yield (
        "digits, 10 classes",
        GEMMEDClassifier(solver=Solver(n_components=300), random_state=0),
        X,
        y,
    )
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12_000, 10))
    y = X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2]) + 0.3 * rng.normal(size=len(X)) > 0
    yield (
        "12,000 rows",
        GEMMEDClassifier(solver=Solver(n_components=1500), random_state=0),
        X,
        y.astype(int),
    )


def milliseconds(predict, repetitions):
    """CPU time of a call, the best of five."""
    best = np.inf
    for _ in range(5):
        start = time.process_time()
        for _ in range(repetitions):
            predict()
        best = min(best, (time.process_time() - start) / repetitions)
    return 1e3 * best


def main():
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    folder = Path(tempfile.mkdtemp())
    print("problem, dtype, samples kept, kB (gemmed file), |decision|, |proba|, labels,")
    print("    ms of 1 row (gemmed), ms of 1,000 rows (gemmed)")
    for name, classifier, X, y in problems():
        model = make_pipeline(StandardScaler(), classifier).fit(X, y)
        save_model(model, folder / "m.gemmed")
        size = (folder / "m.gemmed").stat().st_size
        kept = model[-1]._function.samples
        for dtype in ("float64", "float32"):
            done = export_onnx(model, folder / "m.onnx", dtype=dtype)
            session = onnxruntime.InferenceSession(done.path, options)
            rows = X.astype(dtype)
            label, decision, proba = session.run(None, {"X": rows})
            times = []
            for n, repetitions in ((1, 200), (1000, 5)):
                some = np.resize(X, (n, X.shape[1]))
                given = {"X": some.astype(dtype)}
                times.append(
                    f"{milliseconds(partial(session.run, None, given), repetitions):.3f} "
                    f"({milliseconds(partial(model.predict_proba, some), repetitions):.3f})"
                )
            print(
                f"{name}, {dtype}, {0 if kept is None else len(kept)}, "
                f"{done.n_bytes / 1e3:.0f} ({size / 1e3:.0f}), "
                f"{np.abs(decision - model.decision_function(X)).max():.1e}, "
                f"{np.abs(proba - model.predict_proba(X)).max():.1e}, "
                f"{np.sum(label != model.predict(X))}, {', '.join(times)}"
            )


if __name__ == "__main__":
    main()
