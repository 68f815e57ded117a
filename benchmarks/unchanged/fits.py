"""Fits of every kind, and the numbers by which they are recognised.

Each function fits one model from fixed seeds and returns arrays by name. Only public names that
are meant to stay are imported, so that the same file runs with an older version.
"""

import tempfile
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_classification
from sklearn.metrics.pairwise import laplacian_kernel
from sklearn.preprocessing import StandardScaler

from gemmed import (
    GEMDetector,
    GEMMEDClassifier,
    MEDClassifier,
    MEDDetector,
    RampSVC,
    RODClassifier,
    TrimmedSVC,
    TwoStageClassifier,
)
from gemmed.datasets import make_ring
from gemmed.engines import Gibbs, MeanField, PaperAlgorithm

PAPER = {
    "gamma": "scale",
    "function_variance": 1.0,
    "bias_variance": 1.0,
    "entropy_slack": 0.3,
    "n_components": None,
}
"""The paper's constraint with a fixed kernel, as version 0.1 had it."""
if "model" in GEMMEDClassifier().get_params():  # a number as slack said it until version 0.5
    PAPER["model"] = "paper"


def joint(model, X_new):
    """What a fitted GEMMEDClassifier says of its training samples and of new ones."""
    found = {
        "nominal_proba": model.nominal_proba_,
        "decision": model.decision_function(X_new),
        "proba": model.predict_proba(X_new),
        "contamination": model.contamination_,
        "interval": np.array(model.contamination_interval_),
        "knn_distances": model.knn_distances_,
        "gap": model.duality_gap_,
    }
    if model.kernel != "precomputed":
        found["p_values"] = model.p_values(X_new)
    return found


def scaled(X):
    return StandardScaler().fit_transform(X)


def table():
    X, y = load_breast_cancer(return_X_y=True)
    rng = np.random.default_rng(0)
    wrong = rng.choice(len(y), 40, replace=False)
    y[wrong] = 1 - y[wrong]
    X[:30, :10] = 0.0
    X = scaled(X)
    return X[:400], y[:400], X[400:]


def ring_data():
    data = make_ring(100, radius=55, corruption=0.3, random_state=3)
    return data.X, data.y, data.X_test[:200]


def classification(n, n_classes=2, n_features=20):
    X, y = make_classification(
        n + 300,
        n_features,
        n_informative=8,
        n_classes=n_classes,
        flip_y=0.08,
        random_state=5,
    )
    return X[:n], y[:n], X[n:]


def fit(model, data, **options):
    X, y, X_new = data
    return joint(model.fit(X, y, **options), X_new)


def ring_linear():
    return fit(GEMMEDClassifier("linear", random_state=0), ring_data())


def ring_rbf():
    return fit(GEMMEDClassifier(random_state=0), ring_data())


def two_classes():
    return fit(GEMMEDClassifier(random_state=0), table())


def polynomial():
    X, y, X_new = table()
    data = (X[:200, :8], y[:200], X_new[:, :8])
    return fit(GEMMEDClassifier("poly", degree=2, random_state=0), data)


def callable_kernel():
    X, y, X_new = table()
    return fit(GEMMEDClassifier(laplacian_kernel, random_state=0), (X[:200], y[:200], X_new))


def three_classes():
    X, y = load_wine(return_X_y=True)
    y = y.copy()
    y[::17] = (y[::17] + 1) % 3
    X = scaled(X)
    return fit(GEMMEDClassifier(random_state=0), (X[::2], y[::2], X[1::2]))


def ten_classes():
    X, y = load_digits(return_X_y=True)
    y = y.copy()
    y[::19] = (y[::19] + 3) % 10
    return fit(GEMMEDClassifier(random_state=0), (X[:500] / 4.0, y[:500], X[500:700] / 4.0))


def groups():
    X, y, X_new = table()
    X, y, X_new = X[:300], y[:300], X_new
    return fit(GEMMEDClassifier(random_state=0), (X, y, X_new), groups=np.arange(300) // 10)


def remote_groups():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(240, 6)), np.arange(240) % 2
    X[:, 0] += 2.0 * y
    X[::5] *= 0.2
    X[::5] += 6.0
    return fit(GEMMEDClassifier(random_state=0), (X, y, X[:50] + 0.1), groups=np.arange(240) // 10)


def weights():
    X, y, X_new = table()
    weight = np.random.default_rng(1).uniform(0.2, 3.0, size=len(y))
    return fit(GEMMEDClassifier(random_state=0), (X, y, X_new), sample_weight=weight)


def judged():
    X, y, X_new = table()
    prior = np.full(len(y), 0.9)
    prior[:5], prior[5:10] = 0.0, 1.0
    return fit(GEMMEDClassifier(random_state=0), (X, y, X_new), prior_nominal=prior)


def warm_start():
    X, y, X_new = table()
    model = GEMMEDClassifier(random_state=0, warm_start=True).fit(X, y)
    prior = np.full(len(y), 0.95)
    prior[:10] = 0.0
    return fit(model, (X, y, X_new), prior_nominal=prior)


def precomputed():
    X, y, X_new = table()
    X, y = X[:200], y[:200]
    return fit(
        GEMMEDClassifier("precomputed", random_state=0),
        (laplacian_kernel(X), y, laplacian_kernel(X_new, X)),
    )


def leave_one_out():
    return fit(GEMMEDClassifier(neighbor_graph="leave_one_out", random_state=0), table())


def products():
    """Exact kernel, solved by products with its matrix."""
    return fit(GEMMEDClassifier(random_state=0), classification(1800))


def large():
    return fit(GEMMEDClassifier(random_state=0), classification(4000))


def large_linear():
    return fit(GEMMEDClassifier("linear", random_state=0), classification(4000))


def large_classes():
    return fit(GEMMEDClassifier(random_state=0, n_components=200), classification(2500, 4))


def blocks():
    X, y, X_new = classification(5000)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "X.npy"
        np.save(path, X.astype(np.float32))
        model = GEMMEDClassifier(random_state=0).fit_blocks(path, y)
        return joint(model, X_new)


def dask():
    from distributed import Client, LocalCluster

    try:
        from gemmed.rows import dask_blocks
    except ImportError:  # until version 0.5
        from gemmed.distributed import dask_blocks
    X, y, X_new = classification(5000)
    with (
        LocalCluster(
            2, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster) as client,
    ):
        import dask.array

        blocks = dask_blocks(dask.array.from_array(X.astype(np.float32), chunks=(1250, -1)), client)
        return joint(GEMMEDClassifier(random_state=0).fit_blocks(blocks, y), X_new)


def paper_held_out():
    return fit(GEMMEDClassifier(**PAPER, random_state=0), table())


def paper_collapsed():
    return fit(GEMMEDClassifier(**PAPER, engine=MeanField("collapsed"), random_state=0), table())


def paper_factorised():
    return fit(GEMMEDClassifier(**PAPER, engine=MeanField("factorised"), random_state=0), table())


def paper_without_entropy():
    options = {**PAPER, "entropy_slack": np.inf}
    return fit(GEMMEDClassifier(**options, engine=MeanField("collapsed"), random_state=0), table())


def enumeration():
    X, y, X_new = ring_data()
    some = np.r_[:7, 100:107]
    options = {**PAPER, "n_neighbors": 2}
    return fit(
        GEMMEDClassifier("linear", **options, engine="exact", random_state=0),
        (X[some], y[some], X_new),
    )


def quadrature():
    return fit(GEMMEDClassifier("linear", **PAPER, engine="exact", random_state=0), ring_data())


def gibbs():
    engine = Gibbs(n_chains=4, n_draws=100, n_final_draws=400)
    return fit(GEMMEDClassifier("linear", **PAPER, engine=engine, random_state=0), ring_data())


def paper_algorithm():
    engine = PaperAlgorithm(n_sweeps=5, n_certificate_draws=100)
    model = GEMMEDClassifier("linear", **PAPER, engine=engine, max_iter=40, random_state=0)
    return fit(model, ring_data())


def med():
    X, y, X_new = table()
    model = MEDClassifier().fit(X, y)
    return {"decision": model.decision_function(X_new), "proba": model.predict_proba(X_new)}


def med_classes():
    X, y, X_new = classification(300, 4)
    model = MEDClassifier("linear").fit(X, y)
    return {"decision": model.decision_function(X_new), "proba": model.predict_proba(X_new)}


def detectors():
    X, _, X_new = table()
    found = {}
    for method in ("bipartite", "leave_one_out", "average", "spanning_tree", "density"):
        model = GEMDetector(method, n_neighbors=5, random_state=0).fit(X[:150, :6])
        found[method] = model.score_samples(X_new[:, :6])
        found[f"{method} p"] = model.p_values(X_new[:, :6])
    detector = MEDDetector().fit(X[:150, :4])
    found["med"] = detector.score_samples(X_new[:, :4])
    return found


def baselines():
    X, y, X_new = table()
    X, y = X[:120, :10], y[:120]
    models = {
        "ramp": RampSVC(random_state=0),
        "trimmed": TrimmedSVC(random_state=0),
        "two stage": TwoStageClassifier(GEMDetector(random_state=0)),
        "rod": RODClassifier(outlier_fraction=0.1, random_state=0),
    }
    found = {}
    for name, model in models.items():
        model.fit(X, y)
        found[name] = model.predict(X_new[:, :10]).astype(float)
        if hasattr(model, "decision_function"):
            found[f"{name} decision"] = model.decision_function(X_new[:, :10])
    return found


def explained():
    X, y, _ = table()
    rows = GEMMEDClassifier(random_state=0).fit(X, y).explain()
    verdicts = ["ok", "suspicious label", "suspicious measurement", "both"]
    terms = {name: rows[name].to_numpy() for name in ("prior", "margin", "entropy", "coverage")}
    # Where in the log-odds the evidence stands is not a number of the model.
    terms["before the margin"] = terms.pop("prior") + terms.pop("entropy") + terms.pop("coverage")
    return {
        **terms,
        "p_value": rows["p_value"].to_numpy(),
        "verdict": np.array([verdicts.index(name) for name in rows["verdict"]], dtype=float),
        "suggested": rows["suggested_label"].to_numpy().astype(float),
    }


FITS = [
    ring_linear, ring_rbf, two_classes, polynomial, callable_kernel, three_classes, ten_classes,
    groups, remote_groups, weights, judged, warm_start, precomputed, leave_one_out, products,
    large, large_linear, large_classes, blocks, dask, paper_held_out, paper_collapsed,
    paper_factorised, paper_without_entropy, enumeration, quadrature, gibbs, paper_algorithm, med,
    med_classes, detectors, baselines, explained,
]  # fmt: skip


KEPT = 200
"""Numbers kept of each array, evenly spread."""


def all_numbers():
    """Arrays of all fits, by "fit/name"."""
    found = {}
    for make in FITS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            numbers = make()
        for name, value in numbers.items():
            flat = np.ravel(value).astype(np.float64)
            found[f"{make.__name__}/{name}"] = flat[:: max(1, len(flat) // KEPT)]
    return found
