"""One run of the simulation."""

from gemmed.experiments.ring.runs import METHODS, evaluate_run


def test_one_run_holds_every_method():
    result = evaluate_run("separated", 55, 0.2, 0)
    assert set(result) == {*METHODS, "oracle"}
    assert result["oracle"]["excess_error"] == 0.0
    assert result["GEM-MED"]["auc"] > 0.99 > result["ROD-0.02"]["auc"]
    assert len(result["GEM-MED"]["precision_at_recall"]) == 101
    assert max(m.get("relative_gap", 0.0) for m in result.values()) <= 0.01
