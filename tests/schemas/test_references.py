"""Circles, hints among many names, and reading that never runs out of stack."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.files.sources import SourceFile
from schemas.files.yaml_reader import MOST_PROBLEMS
from schemas.loading.loader import load
from schemas.problems.errors.repository import InvalidRepository
from schemas.problems.text import did_you_mean, printable
from schemas.repository.node_ranges import MAX_NODES, expand_ranges
from schemas.rules.references import dependency_cycles

STEADY = settings(deadline=None, derandomize=True, database=None)
HEAD = """\
apiVersion: bai/v1
kind: Cluster
metadata: {name: lab}
spec: {provider: docker}
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {name: main}
---
apiVersion: bai/v1
kind: Project
metadata: {name: p}
"""


class Texts:
    """A source of one text."""

    where, commit = "memory", ""

    def __init__(self, text: str) -> None:
        self._text = text

    def files(self) -> Iterator[SourceFile]:
        yield SourceFile("x.yaml", self._text.encode())

    def data(self, path: str) -> bytes:
        raise AssertionError(path)


def session(number: int, after: int | None) -> str:
    needs = f"dependsOn: [Session/p/s{after}]" if after is not None else ""
    head = f"---\napiVersion: bai/v1\nkind: Session\nmetadata: {{name: s{number}, project: p}}\n"
    return head + f"spec: {{{needs}}}\n"


def test_a_long_chain_is_no_circle() -> None:
    text = HEAD + "".join(session(n, n - 1 if n else None) for n in range(1500))
    assert len(load(Texts(text)).resources) == 1503, "more than the interpreter's stack holds"


def test_a_long_circle_is_found_once() -> None:
    text = HEAD + "".join(session(n, (n - 1) % 500) for n in range(1000))
    with pytest.raises(InvalidRepository) as caught:
        load(Texts(text))
    assert [problem.code for problem in caught.value.problems] == ["BAI-V041"]


def test_many_dangling_references_are_named_up_to_a_bound() -> None:
    text = HEAD + "".join(session(n, n + 10_000) for n in range(1000))
    with pytest.raises(InvalidRepository) as caught:
        load(Texts(text))
    codes = [problem.code for problem in caught.value.problems]
    assert codes == ["BAI-V040"] * MOST_PROBLEMS + ["BAI-V018"]


@STEADY
@given(st.dictionaries(st.integers(0, 8), st.lists(st.integers(0, 8), max_size=4), max_size=9))
def test_circles_are_found_exactly_where_there_are_any(graph: dict[int, list[int]]) -> None:
    named = {str(node): tuple(map(str, after)) for node, after in graph.items()}
    found = list(dependency_cycles(named))
    for circle in found:
        for here, there in zip(circle, circle[1:] + circle[:1], strict=True):
            assert there in named[here]
    assert bool(found) == _has_circle(named)


def _has_circle(graph: dict[str, tuple[str, ...]]) -> bool:
    """By taking away whatever waits for nothing."""
    left = {node: {after for after in afters if after in graph} for node, afters in graph.items()}
    while free := {node for node, afters in left.items() if not afters}:
        left = {node: afters - free for node, afters in left.items() if node not in free}
    return bool(left)


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("gpu-[001-003]", ("gpu-001", "gpu-002", "gpu-003")),
        ("a[8-11]b", ("a8b", "a9b", "a10b", "a11b")),
        ("[1,3,5-6]", ("1", "3", "5", "6")),
        ("r[1-2]n[1-2]", ("r1n1", "r1n2", "r2n1", "r2n2")),
        ("plain", ("plain",)),
        ("[07]", ("07",)),
    ],
)
def test_range_patterns(pattern: str, names: tuple[str, ...]) -> None:
    assert expand_ranges(pattern) == names


@pytest.mark.parametrize(
    "pattern", ["[", "]", "[]", "[a]", "[1-]", "[-1]", "[3-1]", "[[1]]", "[1-999999]", "[1234567]"]
)
def test_patterns_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"bracket|range|backwards|names"):
        expand_ranges(pattern)


@STEADY
@given(st.text(st.sampled_from("ab-[],0123456789"), max_size=20))
def test_patterns_never_grow_without_bound(pattern: str) -> None:
    try:
        assert len(expand_ranges(pattern)) <= MAX_NODES
    except ValueError as error:
        assert str(error)


def test_hints() -> None:
    assert did_you_mean("Sesion", ["Session", "Node"]) == "did you mean 'Session'?"
    assert did_you_mean("x", ["a", "b"]) == "known are a, b"
    assert did_you_mean("x", []) == ""
    many = [f"session-{number:05}" for number in range(10_000)]
    assert did_you_mean("sesion-09999", many) == "did you mean 'session-09999'?"
    assert did_you_mean("other", many) == ""


def test_control_characters_are_shown_and_not_sent() -> None:
    assert printable("a\x1b[31m\u202eb\ufeff") == "a\\u001b[31m\\u202eb\\ufeff"
