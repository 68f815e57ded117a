"""What the model in a file may ask for, checked before anything of it is built.

skops follows the schema of a payload without limits. It reads a member of the archive for every
node that names it, visits a shared node once for every path to it, and inflates the archives of
sparse matrices. A small file could thus take any amount of memory or time. skops itself writes no
such files. The rules:

- the payload is an archive of members that are not compressed, each there once;
- a node that stands in several places (``__id__``) is written out in each of them, so that no more
  nodes are walked than are in the file; none contains itself;
- a member belongs to one node, and an array is as large as its member;
- the archive of a sparse matrix, which scipy compresses, holds at most ``INFLATED_TIMES`` the bytes
  of the payload (and ``INFLATED_FREE``).
"""

import io
import json
import math
import zipfile
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

from .._core.exceptions import PayloadError, raised_as

SCHEMA = "schema.json"
MAX_NODES = 5_000_000
"""A column of categories takes two nodes a category."""
MAX_DEPTH = 200
"""Levels of lists and dictionaries; a pipeline of pipelines has some forty."""
INFLATED_TIMES, INFLATED_FREE = 20, 16_000_000
MAX_POOL_WORDS = 1024
"""Words of numpy's SeedSequence, which is seeded in the square of their number; usual are 4."""
TEXT_OF_LENGTH = {"bytes_": "S", "void": "V"}
"""Scalars that numpy makes as long as the number they are given, and the only type they may have
in a file."""


def check_payload(payload: bytes) -> None:
    """Raise :class:`PayloadError` for a payload that skops could not have written."""
    # Errors of zipfile, zlib, json and numpy, for bytes that are not theirs.
    damaged = raised_as(PayloadError, "its content is not as skops writes it")
    with damaged, zipfile.ZipFile(io.BytesIO(payload)) as archive:
        refuse_expansion(archive, len(payload))
        schema = json.loads(archive.read(SCHEMA))
        _check_members(archive, _Walk(schema).arrays, len(payload))


def refuse_expansion(archive: zipfile.ZipFile, size: int) -> None:
    """Refuse an archive of ``size`` bytes that holds more than that, or a name twice."""
    members = archive.infolist()
    if any(member.compress_type != zipfile.ZIP_STORED for member in members):
        raise PayloadError("it is compressed, which model files of gemmed never are")
    if sum(member.file_size for member in members) > size:
        raise PayloadError("it overlaps itself, which model files of gemmed never do")
    _refuse_twice(archive)


def _refuse_twice(archive: zipfile.ZipFile) -> None:
    if len(set(archive.namelist())) < len(archive.namelist()):
        raise PayloadError("it holds a member twice, which model files of gemmed never do")


class _Walk:
    """The nodes of a schema in the order in which skops meets them."""

    def __init__(self, schema: Any) -> None:
        self._written, self._walked = _count_nodes(schema), 0
        self._first: dict[int, Any] = {}
        """The node with an id that skops takes wherever the id comes again."""
        self._size: dict[int, int] = {}
        """Nodes below it and itself; missing as long as it is being walked."""
        self.arrays: dict[str, Any] = {}
        """Members and the node that each belongs to."""
        self._visit(schema, 0)

    def _visit(self, value: Any, depth: int) -> int:
        """Number of nodes that skops walks at and below a value."""
        if depth > MAX_DEPTH:
            raise PayloadError(f"its schema has more than {MAX_DEPTH} levels")
        parts: Any = value if isinstance(value, list) else ()
        if isinstance(value, dict):
            parts = value.values()
        if not isinstance(value, dict) or not _is_node(value):
            return sum(self._visit(item, depth + 1) for item in parts)
        identity = value.get("__id__")
        if identity is not None and (type(identity) is not int or identity <= 0):
            raise PayloadError(f"a node has the id {identity!r:.40}")
        if identity in self._first:
            if identity not in self._size:
                raise PayloadError("a node contains itself")
            self._count(self._size[identity])
            return self._size[identity]
        if identity is not None:
            self._first[identity] = value
        name = value.get("file")
        if isinstance(name, str):
            if identity is None or name in self.arrays:
                raise PayloadError(f"more than one node may read its member {name!r:.80}")
            self.arrays[name] = value
        size = 1 + sum(self._visit(item, depth + 1) for item in parts)
        self._check_seed(value)
        if identity is not None:
            self._size[identity] = size
        self._count(1)
        return size

    def _count(self, nodes: int) -> None:
        self._walked += nodes
        if self._walked > self._written:
            raise PayloadError("its nodes share others without writing them out")

    def _check_seed(self, node: dict[str, Any]) -> None:
        """A seed sequence fills a pool of any size; the nodes of its state have been walked."""
        if node.get("__loader__") != "RandomGeneratorNode":
            return
        seed = self._resolved(node["content"]["seed_seq"])
        pool = self._resolved(seed["content"]["pool_size"])
        if not 0 < int(json.loads(pool["content"])) <= MAX_POOL_WORDS:
            raise PayloadError(f"a seed sequence has a pool of {pool['content']!r:.40}")

    def _resolved(self, node: dict[str, Any]) -> Any:
        return self._first.get(node.get("__id__", 0), node)


def _is_node(value: dict[str, Any]) -> bool:
    """Whether skops would take a dictionary for a node; attributes may have any names."""
    return isinstance(value.get("__loader__"), str) or not isinstance(
        value.get("__id__", {}), dict | list
    )


def _count_nodes(schema: Any) -> int:
    """Nodes that are written out, and a limit on them."""
    count, open_values = 0, [schema]
    while open_values:
        value = open_values.pop()
        if isinstance(value, dict):
            count += _is_node(value)
            open_values.extend(value.values())
        elif isinstance(value, list):
            open_values.extend(value)
    if count > MAX_NODES:
        raise PayloadError(f"it has {count} nodes, at most {MAX_NODES} are read")
    return count


def _check_members(archive: zipfile.ZipFile, arrays: dict[str, Any], size: int) -> None:
    """Arrays as large as their members, and sparse matrices within the limits."""
    left = INFLATED_TIMES * size + INFLATED_FREE
    for name, node in arrays.items():
        with archive.open(name) as member:
            loader = node.get("__loader__")
            if loader == "NdArrayNode":
                dtype = _check_array(member, archive.getinfo(name).file_size, name)
                kind = TEXT_OF_LENGTH.get(str(node.get("__class__")))
                if kind is not None and dtype.kind != kind:
                    raise PayloadError(f"its scalar {name!r:.80} is said to be text, not {dtype}")
            elif loader == "SparseMatrixNode":
                left -= _check_sparse(member, left, name)


def _check_array(member: Any, size: int, name: str) -> np.dtype:
    """Refuse an array that is not exactly as long as what follows its header."""
    shape, dtype, start = _array_header(member)
    promised = math.prod(shape) * dtype.itemsize
    empty_items = dtype.itemsize == 0 and math.prod(shape) > 0
    if dtype.hasobject or empty_items or promised != size - start:
        raise PayloadError(f"its array {name!r:.80} is not as long as it says")
    return dtype


def _array_header(member: BinaryIO) -> tuple[tuple[int, ...], np.dtype, int]:
    """Shape and type of a .npy file, and where its numbers begin."""
    version = npy.read_magic(member)
    if version == (1, 0):
        shape, _, dtype = npy.read_array_header_1_0(member)
    elif version in ((2, 0), (3, 0)):
        shape, _, dtype = npy.read_array_header_2_0(member)
    else:
        raise PayloadError(f"an array has version {version} of numpy's format")
    if any(length < 0 for length in shape):
        raise PayloadError(f"an array has the shape {shape}")
    return shape, dtype, member.tell()


def _check_sparse(member: Any, left: int, name: str) -> int:
    """Bytes that the arrays of a sparse matrix inflate to."""
    with zipfile.ZipFile(io.BytesIO(member.read())) as inner:
        total = 0
        _refuse_twice(inner)
        for part in inner.infolist():
            # Other methods than these two allocate what the file asks for before they begin.
            if part.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise PayloadError(f"its sparse matrix {name!r:.80} is not one of scipy")
            total += part.file_size
            if total > left:
                raise PayloadError(f"its sparse matrix {name!r:.80} inflates to more than {left}")
            with inner.open(part) as stream:
                _check_array(stream, part.file_size, f"{name}/{part.filename}")
    return total
