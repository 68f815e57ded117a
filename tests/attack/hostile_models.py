"""Model files that a stranger could write: small, of the right form, and asking for everything.

Every builder gives the payload of a model file (an archive as skops writes it) from that of an
honest one. The check sum is made to fit: it is no signature.
"""

import hashlib
import io
import json
import lzma
import zipfile
from pathlib import Path

import numpy as np

HEADER, PAYLOAD, SCHEMA = "header.json", "model.skops", "schema.json"


def node(loader, name="list", module="builtins", **fields):
    return {"__class__": name, "__module__": module, "__loader__": loader, **fields}


def array_node(file, identity=None, name="ndarray"):
    made = node("NdArrayNode", name, "numpy", type="numpy", file=file)
    return made if identity is None else {**made, "__id__": identity}


def listed(content, identity):
    return node("ListNode", content=content, __id__=identity)


def with_attribute(payload, value, members=()):
    """The payload with one more attribute of its estimator, and more members."""
    result = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(payload)) as old, zipfile.ZipFile(result, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == SCHEMA:
                schema = json.loads(content)
                schema["content"]["content"]["kernel"] = value
                content = json.dumps(schema).encode()
            new.writestr(name, content)
        for name, content in dict(members).items():
            new.writestr(name, content)
    return result.getvalue()


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npy_header(shape, descr="<f8"):
    """The header of an array without the array."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"shape": shape, "fortran_order": False, "descr": descr}
    )
    return file.getvalue()


def one_member_for_many(payload):
    """2,500 arrays, each its own copy of one member of 1 MB: 2.5 GB."""
    nodes = [array_node("big.npy", 10**9 + i) for i in range(2500)]
    return with_attribute(payload, listed(nodes, 9), {"big.npy": npy(np.zeros(131072))})


def one_member_without_ids(payload):
    nodes = [array_node("big.npy") for _ in range(2500)]
    return with_attribute(payload, listed(nodes, 9), {"big.npy": npy(np.zeros(131072))})


def sparse_bomb(payload, method=zipfile.ZIP_DEFLATED):
    """Zeros that deflate to a thousandth: 400 MB in 0.4 MB."""
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", method) as archive:
        archive.writestr("format.npy", npy(np.array(b"csr")))
        archive.writestr("shape.npy", npy(np.array([1, 50_000_000])))
        with archive.open("data.npy", "w", force_zip64=True) as stream:
            stream.write(npy_header((50_000_000,)))
            block = bytes(8_000_000)
            for _ in range(50):
                stream.write(block)
    made = node("SparseMatrixNode", "csr_matrix", "scipy.sparse", type="scipy", file="s.npz")
    return with_attribute(payload, {**made, "__id__": 7}, {"s.npz": inner.getvalue()})


def sparse_with_a_dictionary_of_gigabytes(payload):
    """LZMA allocates the dictionary that its first bytes name."""
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("format.npy", npy(np.array(b"csr")))
    made = node("SparseMatrixNode", "csr_matrix", "scipy.sparse", type="scipy", file="s.npz")
    packed = inner.getvalue()
    dictionary = lzma._encode_filter_properties({"id": lzma.FILTER_LZMA1})[1:]
    packed = packed.replace(dictionary, b"\xff\xff\xff\xff", 1)
    return with_attribute(payload, {**made, "__id__": 7}, {"s.npz": packed})


def doubling_lists(payload, levels=60, loader=True):
    """Every level holds the one below twice, the second time by its id: 2^60 ways to the ground."""
    value = listed([], 1000)
    for level in range(levels):
        again = {"__id__": 1000 + level}
        if loader:
            again = listed([], 1000 + level)
        value = listed([value, again], 1001 + level)
    return with_attribute(payload, value)


def doubling_lists_by_bare_ids(payload):
    return doubling_lists(payload, loader=False)


def a_node_in_itself(payload):
    return with_attribute(payload, listed([listed([{"__id__": 50}], 51), {"__id__": 51}], 50))


def deep_lists(payload):
    value = listed([], 1)
    for level in range(450):
        value = listed([value], 2 + level)
    return with_attribute(payload, value)


def deeper_than_the_parser(payload):
    result = io.BytesIO()
    with zipfile.ZipFile(result, "w") as archive:
        archive.writestr(SCHEMA, "[" * 300_000)
    return result.getvalue()


def an_array_of_terabytes(payload):
    return with_attribute(payload, array_node("x.npy", 5), {"x.npy": npy_header((10**12,))})


def an_array_of_nothing(payload):
    """10^15 items of no bytes."""
    return with_attribute(payload, array_node("x.npy", 5), {"x.npy": npy_header((10**15,), "|V0")})


def bytes_of_a_length(payload):
    """numpy.bytes_(n) has n bytes."""
    many = [array_node(f"{i}.npy", 100 + i, "bytes_") for i in range(40)]
    members = {f"{i}.npy": npy(np.array(100_000_000)) for i in range(40)}
    return with_attribute(payload, listed(many, 9), members)


def a_seed_of_gigabytes(payload):
    def text(value, identity):
        return node("JsonNode", "str", content=json.dumps(value), is_json=True, __id__=identity)

    def mapping(content, identity):
        kinds = [node("TypeNode", "str", __id__=77) for _ in content]
        return node(
            "DictNode", "dict", content=content, key_types=listed(kinds, identity + 1),
            __id__=identity,
        )  # fmt: skip

    seed = {"entropy": text(1, 21), "pool_size": text(200_000_000, 22)}
    bits = {"bit_generator": text("PCG64", 23)}
    content = {"bit_generator": mapping(bits, 30), "seed_seq": mapping(seed, 40)}
    made = node("RandomGeneratorNode", "Generator", "numpy.random._generator", content=content)
    return with_attribute(payload, {**made, "__id__": 20})


def a_member_twice(payload):
    result = io.BytesIO(payload)
    with zipfile.ZipFile(result, "a") as archive:
        archive.fp.seek(0, 2)
        info = archive.infolist()[0]
        archive.filelist.append(info)  # the same bytes under the same name, once more
        archive._didModify = True
    return result.getvalue()


def many_small_nodes(payload):
    """No bomb, only long: must be read or refused in time that grows with its length."""
    nodes = [node("JsonNode", "str", content="1", __id__=10**6 + i) for i in range(20_000)]
    return with_attribute(payload, listed(nodes, 9))


HOSTILE = [
    one_member_for_many,
    one_member_without_ids,
    sparse_bomb,
    sparse_with_a_dictionary_of_gigabytes,
    doubling_lists,
    doubling_lists_by_bare_ids,
    a_node_in_itself,
    deep_lists,
    deeper_than_the_parser,
    an_array_of_terabytes,
    an_array_of_nothing,
    bytes_of_a_length,
    a_seed_of_gigabytes,
    a_member_twice,
]


def write_model(path, header, payload):
    """A model file whose check sum fits."""
    header = {**header, "sha256": hashlib.sha256(payload).hexdigest()}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(HEADER, json.dumps(header))
        archive.writestr(PAYLOAD, payload)


def parts_of(path):
    """Header and payload of an honest model file."""
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read(HEADER)), archive.read(PAYLOAD)


def write_hostile(honest, folder):
    """All hostile files made from an honest one; their paths."""
    header, payload = parts_of(honest)
    paths = []
    for make in HOSTILE:
        paths.append(Path(folder) / f"{make.__name__}.gemmed")
        write_model(paths[-1], header, make(payload))
    return paths
