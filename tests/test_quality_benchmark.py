"""The quality benchmark: damage is what it says, flags and comparisons are computed right."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks" / "quality"


@pytest.fixture(scope="module", autouse=True)
def _on_path():
    sys.path.insert(0, str(FOLDER))
    yield
    sys.path.remove(str(FOLDER))


def table(n=300, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % n_classes)
    return rng.normal(size=(n, 4)) + y[:, None], y


@pytest.mark.parametrize(
    ("cell", "n_wrong", "n_bad"),
    [("clean", 0, 0), ("mixed", 30, 18), ("one-sided", 45, 0), ("flips 20", 60, 0),
     ("flips 40", 120, 0), ("pairs", 30, 0), ("instance", 45, 0)],
)  # fmt: skip
def test_damage_marks_the_rows_it_changed(cell, n_wrong, n_bad):
    from cells import damage

    X, truth = table()
    Z, y, wrong, bad, _ = damage(X, truth, cell, np.random.default_rng(1))
    assert np.array_equal(y != truth, wrong) and wrong.sum() == n_wrong
    assert bad.sum() == n_bad and not np.any(wrong & bad)
    assert np.all((Z == X).all(axis=1)[~bad])
    if cell == "pairs":
        assert len(np.unique(truth[wrong])) == 2


def test_instance_errors_lie_nearer_the_boundary():
    from cells import damage

    rng = np.random.default_rng(0)
    truth = rng.permutation(np.arange(400) % 2)
    X = rng.uniform(0.0, 1.0, size=(400, 1)) * np.where(truth, 1.0, -1.0)[:, None] + rng.normal(
        scale=0.1, size=(400, 1)
    )
    _, _, wrong, _, _ = damage(X, truth, "instance", np.random.default_rng(1))
    assert np.median(np.abs(X[wrong])) < 0.8 * np.median(np.abs(X[~wrong]))


def test_precise_flags_are_the_largest_set_that_keeps_the_promise():
    from methods import precise_flags

    nominal = np.array([0.4, 0.01, 0.02, 0.05, 0.45, 0.9])
    # Means of the faults: .99, .985, .973, then .88 with the row of .4.
    assert precise_flags(nominal).tolist() == [False, True, True, True, False, False]


def test_differences_are_paired_and_seeds_are_averaged_first():
    from summary import difference

    keys = {"table": ["a", "a", "b"], "cell": "mixed", "seed": [0, 1, 0]}
    first = pd.DataFrame({**keys, "AP wrong": [0.1, 0.3, 0.5]})
    second = pd.DataFrame({**keys, "AP wrong": [0.2, 0.6, 0.5]}).iloc[::-1]
    change, error = difference(first, second, "AP wrong")
    assert change == pytest.approx(0.1) and error == pytest.approx(0.1)


def test_a_method_of_a_file_is_run_and_resumed(tmp_path, monkeypatch):
    import run

    X, y = table(90)
    data = pd.DataFrame(X).assign(target=y)
    data.to_csv(tmp_path / "made.tsv.gz", sep="\t", index=False)
    (tmp_path / "method.py").write_text(
        "import numpy as np\nfrom methods import scores\n"
        "def judge(Z, y, seed, pred_probs=None):\n"
        "    if seed == 1: raise ValueError('a failure')\n"
        "    return scores(np.abs(Z).max(axis=1))\n"
    )
    out = tmp_path / "out.csv"
    command = ["run.py", f"{tmp_path / 'method.py'}:judge", "--data", str(tmp_path), "--cells",
               "mixed", "--out", str(out), "--seeds"]  # fmt: skip
    for seeds in ("1", "2"):
        monkeypatch.setattr(sys, "argv", [*command, seeds])
        run.main()
    runs = pd.read_csv(out)
    assert runs["seed"].tolist() == [0, 1]
    assert np.isfinite(runs["AP wrong"][0]) and runs["error"][1] == "ValueError: a failure"
