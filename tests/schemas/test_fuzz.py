"""1,000 damaged documents, and 2,000 in campaigns: never a traceback, and a place for whatever is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from schemas.files.sources import SourceFile
from schemas.files.yaml_reader import read_documents
from schemas.kinds.kind_registry import KINDS
from schemas.loading.fmt import format_text
from schemas.loading.loader import load
from schemas.problems.errors.repository import CannotRead, InvalidRepository
from tests.harness.examples import seeds
from tests.schemas.examples import document
from tests.schemas.mutate import mutated

EXAMPLES = Path(__file__).parents[2] / "examples"
TEXTS = [
    *(yaml.safe_dump(document(kind), sort_keys=False).encode() for kind in KINDS),
    *(path.read_bytes() for path in sorted(EXAMPLES.rglob("*.yaml"))),
]
BATCH = 100
BREAKS = (b"\n", b"\r", b"\xc2\x85", b"\xe2\x80\xa8", b"\xe2\x80\xa9")


class Memory:
    """A source of files that are only in memory."""

    where, commit = "memory", ""

    def __init__(self, files: dict[str, bytes]) -> None:
        self._files = files

    def files(self) -> Iterator[SourceFile]:
        return (SourceFile(path, data) for path, data in self._files.items())

    def data(self, path: str) -> bytes:
        if path not in self._files:
            raise CannotRead(what=path, why="there is no such file")
        return self._files[path]


@pytest.mark.parametrize("batch", seeds(10, count=20, beyond=pytest.mark.campaign))
def test_damaged_documents_are_refused_with_a_place(batch: int) -> None:
    refused = 0
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        data = mutated(seed, TEXTS)
        try:
            load(Memory({"x.yaml": data}))
        except InvalidRepository as error:
            refused += 1
            assert error.problems, seed
            lines = (
                data.count(b"\n") + data.count(b"\r") + 2 + data.count(b"\xc2\x85") + data.count(b"\xe2\x80")
            )
            for problem in error.problems:
                assert problem.place.file == "x.yaml", seed
                assert 1 <= problem.place.line <= lines, seed
                assert problem.place.column >= 1, seed
                assert problem.message, seed
                assert str(problem).isprintable(), seed
    assert refused > BATCH // 2


@pytest.mark.parametrize("batch", seeds(5, count=10, beyond=pytest.mark.campaign))
def test_formatting_never_changes_the_meaning(batch: int) -> None:
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        data = mutated(seed, TEXTS)
        try:
            text = format_text(data, "x.yaml")
        except InvalidRepository as error:
            assert error.problems, seed
            continue
        assert [raw.value for raw in read_documents(text.encode(), "x")[0]] == [
            raw.value for raw in read_documents(data, "x")[0]
        ], seed
        assert format_text(text.encode(), "x.yaml") == text, seed


def test_the_same_seed_does_the_same_damage() -> None:
    assert [mutated(seed, TEXTS) for seed in range(50)] == [mutated(seed, TEXTS) for seed in range(50)]
