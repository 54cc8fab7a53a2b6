"""One file → its documents, and what follows from each of them alone: the part of loading that a file that
has not changed need not go through again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from schemas.files.sources import SourceFile
from schemas.files.yaml_reader import MOST_PROBLEMS, MOST_VALUES, RawDocument, read_documents
from schemas.loading.documents import kind_of, parse_expanded_session, parse_resource
from schemas.problems.issues import Issue
from schemas.problems.problem import Problem
from schemas.problems.text import printable
from schemas.rules.document_rules import check_document
from schemas.templates.expansion import ExpandedSession
from schemas.values.envelope import Resource


class ParsedDocument:
    """One document of a file. What is right stays so; what is wrong is judged anew each time, as it may be
    mended by what is installed here."""

    def __init__(self, path: str, raw: RawDocument, *, was_right: bool = False) -> None:
        """`was_right`: it broke no rule alone when the same code read it before; only of sessions, for what
        else is right may depend on what is installed here."""
        self.path, self.raw = path, raw
        self.kind = kind_of(raw.value)
        self._is_right = was_right and self.kind == "Session"

    @cached_property
    def typed(self) -> tuple[Resource | None, list[Issue]]:
        """The resource as it is written, or what is wrong with it; of no session from a template."""
        return parse_resource(self.raw.value)

    def judge(self) -> tuple[Resource | None, Sequence[Issue]]:
        """The same, with the rules that a resource breaks alone."""
        resource, issues = self.typed
        if resource is None or self._is_right:
            return resource, issues
        broken = list(check_document(resource))
        self._is_right = not broken
        return resource, broken

    def sound_resource(self) -> Resource | None:
        """It, where nothing at all is wrong with it."""
        resource, issues = self.judge() if self.raw.sound else (None, ())
        return None if issues else resource


def judge_expanded(written: Any, made: ExpandedSession) -> tuple[Resource | None, Sequence[Issue]]:
    """The session that was made of a document as `written`, and what is wrong with it."""
    resource, issues = parse_expanded_session(written, made)
    return resource, issues if resource is None else list(check_document(resource))


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """A file's documents up to the first hundred that are certainly none, and what is wrong with its YAML."""

    data: bytes
    documents: tuple[ParsedDocument, ...]
    problems: tuple[Problem, ...]


def parse_file(file: SourceFile) -> ParsedFile:
    """Of a file that could be read."""
    return file_of_documents(file, *read_documents(file.data, printable(file.path)))


def file_of_documents(
    file: SourceFile, found: list[RawDocument], problems: list[Problem], *, were_right: bool = False
) -> ParsedFile:
    """The same, of what was read of it; `problems` are added to."""
    raws = [raw for raw in found if raw.size <= MOST_VALUES]
    for raw in (raw for raw in found if raw.size > MOST_VALUES):
        message = f"{raw.size} values; a document is made of at most {MOST_VALUES}"
        problems.append(Problem(raw.place, "BAI-V017", "", message, "split it"))
    none = [at for at, raw in enumerate(raws) if raw.value is not None and not kind_of(raw.value)]
    if len(none) > MOST_PROBLEMS:
        raws = raws[: none[MOST_PROBLEMS] + 1]
    documents = tuple(ParsedDocument(file.path, raw, was_right=were_right) for raw in raws)
    return ParsedFile(file.data, documents, tuple(problems))
