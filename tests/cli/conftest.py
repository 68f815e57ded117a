"""What several tests of commands start from."""

import pytest


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """t.csv, the model m.gemmed fitted on it, and new.csv without labels."""
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    from gemmed.cli import main
    from patients import FIT, patients

    path = tmp_path_factory.mktemp("models")
    table = patients()
    table.to_csv(path / "t.csv", index=False)
    table.drop(columns="diagnosis").head(30).to_csv(path / "new.csv", index=False)
    assert main(["fit", str(path / "t.csv"), *FIT, "--out", str(path / "m.gemmed")]) == 0
    return path
