"""Documents of some kinds alone, for commands that rest on no others: what else a repository holds is neither
parsed nor judged."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pydantic import ValidationError

from schemas.files.sources import Source
from schemas.files.yaml_reader import MOST_VALUES, read_documents
from schemas.rules.document_rules import check_document
from schemas.values.envelope import Resource

_FOLDED = re.compile(rb"\\\r?\n[ \t]*")
"""Where a text in double quotes goes on in the next line."""
_ESCAPED = re.compile(rb"\\[xuU]")
"""A letter that is written by its number."""


def load_kinds(source: Source, kinds: Mapping[str, type[Resource]]) -> tuple[Resource, ...] | None:
    """Every document of these kinds, by their names, in the order of files.

    None where only all documents together can say what counts: something is wrong with a file that may hold
    one, or with one of them. Raises CannotRead when the whole cannot be read.
    """
    found: dict[str, Resource] = {}
    words = tuple(kind.encode() for kind in kinds)
    for file in source.files():
        if file.problem is not None:
            return None
        if not _may_name(file.data, words):
            continue
        documents, problems = read_documents(file.data, file.path)
        if problems:
            return None
        for raw in documents:
            model = kinds.get(_kind_of(raw.value))
            if model is None:
                continue
            resource = _sound_resource(raw.value, model) if raw.size <= MOST_VALUES else None
            if resource is None or resource.identity in found:
                return None
            found[resource.identity] = resource
    return tuple(found.values())


def _may_name(data: bytes, words: tuple[bytes, ...]) -> bool:
    """Whether one of the words can stand in a file, however it is written there."""
    if b"\\" in data:
        if _ESCAPED.search(data):
            return True
        data = _FOLDED.sub(b"", data)
    return any(word in data for word in words)


def _kind_of(value: object) -> str:
    kind = value.get("kind") if isinstance(value, dict) else None
    return kind if isinstance(kind, str) else ""


def _sound_resource(value: object, model: type[Resource]) -> Resource | None:
    try:
        resource = model.model_validate(value, by_alias=True, by_name=False)
    except ValidationError:
        return None
    return None if any(check_document(resource)) else resource
