"""Model files that ask for everything: refused at once, in the memory that their size justifies."""

import json

import numpy as np
import pytest
from scipy import sparse
from sklearn.neighbors import KNeighborsClassifier

from attack.hostile_models import (
    HOSTILE,
    array_node,
    listed,
    many_small_nodes,
    npy,
    parts_of,
    with_attribute,
    write_hostile,
    write_model,
)
from attack.limited import GIGABYTE, python
from gemmed import MEDClassifier, load_model, save_model
from gemmed.io.model_files import ModelFileError

X = np.random.default_rng(0).normal(size=(40, 2))
Y = (X[:, 0] > 0).astype(int)

LOADER = """
import json, resource, sys, time
from gemmed import load_model
from gemmed.io.model_files import ModelFileError

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

load_model(sys.argv[1])
for path in sys.argv[2:]:
    before, start = peak(), time.process_time()
    try:
        load_model(path)
        outcome = "loaded"
    except ModelFileError as error:
        outcome = "refused" if "\\n" not in str(error) else "refused in several lines"
    except BaseException as error:
        outcome = repr(error)
    print(json.dumps([path, outcome, peak() - before, time.process_time() - start]), flush=True)
"""


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    path = tmp_path_factory.mktemp("honest") / "model.gemmed"
    save_model(MEDClassifier().fit(X, Y), path)
    return path


def test_every_hostile_file_is_refused_within_its_means(honest, tmp_path):
    paths = write_hostile(honest, tmp_path)
    result = python(LOADER, honest, *paths, memory=4 * GIGABYTE, seconds=60)
    seen = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(seen) == len(HOSTILE), result.stderr
    for path, outcome, memory, seconds in seen:
        assert outcome == "refused", path
        assert memory < 60_000_000, path
        assert seconds < 2.0, path


def test_a_long_file_takes_time_that_grows_with_its_length(honest, tmp_path):
    header, payload = parts_of(honest)
    write_model(tmp_path / "long", header, many_small_nodes(payload))
    assert load_model(tmp_path / "long").kernel == [1] * 20_000


def test_a_sparse_matrix_that_scipy_compressed_is_no_bomb(tmp_path):
    trusted = ["scipy.sparse._csr.csr_array"]
    model = KNeighborsClassifier().fit(sparse.csr_array(np.eye(200)), np.arange(200) % 2)
    save_model(model, tmp_path / "m", trusted=trusted)
    again = load_model(tmp_path / "m", trusted=trusted)
    assert np.array_equal(again.predict(np.eye(200)), model.predict(np.eye(200)))


def test_a_shared_object_may_stand_in_several_places(tmp_path):
    """skops writes it out in each of them; that is not what is refused."""
    model = MEDClassifier().fit(X, Y)
    shared = {"numbers": np.arange(5.0), "names": ["a", "b"]}
    model.kernel = [shared, {"again": shared}, [shared, shared["numbers"]]]
    save_model(model, tmp_path / "m")
    again = load_model(tmp_path / "m").kernel
    assert again[0]["names"] == again[1]["again"]["names"] == ["a", "b"]
    assert np.array_equal(again[2][1], shared["numbers"])


@pytest.mark.parametrize("identity", ["1", 1.5, True, -3, 0, [1], {}])
def test_ids_that_skops_does_not_give(identity, honest, tmp_path):
    header, payload = parts_of(honest)
    bad = [array_node("x.npy", 5), {**listed([], 3), "__id__": identity}, {"__id__": identity}]
    write_model(tmp_path / "m", header, with_attribute(payload, listed(bad, 9), {"x.npy": npy(X)}))
    with pytest.raises(ModelFileError):
        load_model(tmp_path / "m")
