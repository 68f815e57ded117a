"""Damaged and forged versions of files: bytes changed, cut, moved, repeated, and put in."""

import json

import numpy as np

WORDS = [
    b"\0", b"\xff" * 4, b"\xff\xff\xff\x7f", b"\x80", b"\xef\xbb\xbf", b"\xff\xfe", b'"', b'""',
    b"'", b",", b";", b"\t", b"\n", b"\r", b"\r\n", b"\n\n", b"nan", b"1e999", b"-inf", b"1,5",
    b"\xe2\x80\xa8", b"PAR1", b"PK\x03\x04", b"RIFF", b"OggS", b"fLaC", b"{", b"[", b"null",
    b"=cmd|x", b"\x1b[31m", b"9" * 40, b"-1", b"0", b"../", b"/dev/zero",
]  # fmt: skip


def mutant(seeds, rng):
    """One of the seeds after one to five changes."""
    content = bytearray(seeds[rng.integers(len(seeds))])
    for _ in range(rng.integers(1, 6)):
        change = CHANGES[rng.integers(len(CHANGES))]
        content = bytearray(change(content, rng, seeds))
    return bytes(content)


def place(content, rng):
    """Somewhere; the beginning of a file, where formats are decided, as often as the rest."""
    end = len(content) if rng.random() < 0.5 else min(len(content), 200)
    return int(rng.integers(end + 1))


def flip_bits(content, rng, _):
    for _ in range(int(rng.integers(1, 9))):
        if content:
            content[place(content, rng) % len(content)] ^= 1 << int(rng.integers(8))
    return content


def cut_off(content, rng, _):
    return content[: place(content, rng)]


def leave_out(content, rng, _):
    start = place(content, rng)
    return content[:start] + content[start + int(rng.integers(1, 100)) :]


def repeat(content, rng, _):
    start = place(content, rng)
    piece = content[start : start + int(rng.integers(1, 60))]
    return content[:start] + piece * int(rng.integers(1, 30)) + content[start:]


def put_in(content, rng, _):
    start = place(content, rng)
    return content[:start] + WORDS[rng.integers(len(WORDS))] + content[start:]


def overwrite(content, rng, _):
    start = place(content, rng)
    word = WORDS[rng.integers(len(WORDS))]
    return content[:start] + word + content[start + len(word) :]


def large_number(content, rng, _):
    """Lengths are numbers of 2, 4 or 8 bytes."""
    start, width = place(content, rng), int(rng.choice([2, 4, 8]))
    values = [0, 1, 2 ** (8 * width - 1) - 1, 2 ** (8 * width) - 1, 10**4]
    value = values[rng.integers(len(values))]
    return content[:start] + value.to_bytes(width, "little") + content[start + width :]


def splice(content, rng, seeds):
    other = seeds[rng.integers(len(seeds))]
    return content[: place(content, rng)] + other[place(other, rng) :]


CHANGES = [flip_bits, cut_off, leave_out, repeat, put_in, overwrite, large_number, splice]


# -- trees of JSON -----------------------------------------------------------------------------

VALUES = [
    None, True, 0, -1, 10**30, 1.5, float("nan"), "", "x", "builtins", "os", "system", "list",
    "numpy", "ndarray", [], {}, [[]], {"__id__": 1}, {"__loader__": "ListNode"}, "0.npy",
    "DictNode", "ListNode", "TupleNode", "SetNode", "NdArrayNode", "ObjectNode", "TypeNode",
    "FunctionNode", "MethodNode", "PartialNode", "OperatorFuncNode", "JsonNode", "CachedNode",
    "SparseMatrixNode", "BytesNode", "RandomGeneratorNode", "SliceNode", "ReduceNode", "TreeNode",
    "ConstructorFromReduceNode", "MaskedArrayNode", "DTypeNode", "DefaultDictNode", "LossNode",
]  # fmt: skip


def nodes_of(tree):
    """All places of a tree: (container, key)."""
    found, open_values = [], [tree]
    while open_values:
        value = open_values.pop()
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, child in list(items):
            found.append((value, key))
            if isinstance(child, dict | list):
                open_values.append(child)
    return found


def mutant_tree(tree, rng):
    """The tree with one to four places changed."""
    tree = json.loads(json.dumps(tree))
    for _ in range(rng.integers(1, 5)):
        places = nodes_of(tree)
        if not places:
            break
        container, key = places[rng.integers(len(places))]
        way = rng.integers(4)
        if way == 0:
            container[key] = VALUES[rng.integers(len(VALUES))]
        elif way == 1:
            other, name = places[rng.integers(len(places))]
            container[key] = json.loads(json.dumps(other[name]))
        elif way == 2:
            del container[key]
        elif isinstance(container, dict):
            container[str(rng.choice(["__id__", "__loader__", "__class__", "file", "content"]))] = (
                VALUES[rng.integers(len(VALUES))]
            )
    return tree


def generator(*seed):
    return np.random.default_rng(list(seed))
