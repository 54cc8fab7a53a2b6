"""Range patterns: `gpu-[001-128]` → gpu-001 … gpu-128, and a NodePool → its nodes."""

from __future__ import annotations

import itertools
import re
from math import prod
from typing import Any

from schemas.kinds.node import Node, NodePool, NodeSpec
from schemas.values.envelope import NodeMetadata
from schemas.values.names import NODE_PATTERN

MAX_NODES = 16_384
_PIECE = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?\Z", re.ASCII)
_NODE = re.compile(NODE_PATTERN.removesuffix("$") + r"\Z")


def expand_ranges(pattern: str) -> tuple[str, ...]:
    """Every text that a pattern stands for, in order; the last range runs fastest.

    `[001-128]` counts with as many digits as its first number has, `[1,3,7-9]` lists. Raises ValueError for a
    pattern that is none, or that stands for more than 16,384 texts.
    """
    texts, ranges = _split_pattern(pattern)
    sizes = [sum(last - first + 1 for first, last, _ in parts) for parts in ranges]
    if prod(sizes) > MAX_NODES:
        raise ValueError(f"'{pattern}' stands for {prod(sizes)} names; at most {MAX_NODES} are possible")
    choices = [
        [str(n).zfill(width) for first, last, width in parts for n in range(first, last + 1)]
        for parts in ranges
    ]
    return tuple("".join(_interleave(texts, chosen)) for chosen in itertools.product(*choices))


def _interleave(texts: list[str], chosen: tuple[str, ...]) -> list[str]:
    return [piece for pair in itertools.zip_longest(texts, chosen, fillvalue="") for piece in pair]


def _split_pattern(pattern: str) -> tuple[list[str], list[list[tuple[int, int, int]]]]:
    """The fixed texts around the brackets, and the (first, last, digits) lists inside."""
    pieces = _PIECE.split(pattern)
    texts, lists = pieces[::2], pieces[1::2]
    if any("[" in text or "]" in text for text in texts):
        raise ValueError(f"'{pattern}' has a bracket without its partner")
    return texts, [[_parse_range(part.strip(), pattern) for part in inside.split(",")] for inside in lists]


def _parse_range(part: str, pattern: str) -> tuple[int, int, int]:
    found = _RANGE.match(part)
    if not found:
        raise ValueError(f"'[{part}]' in '{pattern}' is not a range such as [001-128]")
    first, last = int(found[1]), int(found[2] or found[1])
    if last < first:
        raise ValueError(f"'[{part}]' in '{pattern}' runs backwards")
    return first, last, len(found[1])


def pool_nodes(pool: NodePool) -> tuple[Node, ...]:
    """The nodes of a pool in its pattern's order. Raises ValueError when its patterns do not fit together."""
    spec = pool.spec
    names = expand_ranges(spec.name_pattern)
    addresses = expand_ranges(spec.address_pattern) if spec.address_pattern else names
    data = expand_ranges(spec.data_address_pattern) if spec.data_address_pattern else (None,) * len(names)
    for found in (addresses, data):
        if len(found) != len(names):
            raise ValueError(f"{len(names)} names and {len(found)} addresses")
    if len(set(names)) != len(names):
        raise ValueError(f"'{spec.name_pattern}' gives a name twice")
    unsafe = next((name for name in names if not _NODE.match(name)), None)
    if unsafe is not None:
        raise ValueError(f"'{unsafe}' is not a safe hostname")
    left_out = set(spec.exclude)
    return tuple(
        _pool_node(pool, name, address, reached)
        for name, address, reached in zip(names, addresses, data, strict=True)
        if name not in left_out
    )


def _pool_node(pool: NodePool, name: str, address: str, reached: str | None) -> Node:
    own: dict[str, Any] = {"address": address, "data_address": reached}
    shared = {field: getattr(pool.spec, field) for field in NodeSpec.model_fields if field not in own}
    made = NodeMetadata.model_construct(
        name=name, labels=pool.metadata.labels, annotations=pool.metadata.annotations
    )
    spec = NodeSpec.model_construct(**shared, **own)
    return Node.model_construct(api_version=pool.api_version, kind="Node", metadata=made, spec=spec)
