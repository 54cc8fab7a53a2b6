"""What the YAML of files said in which nothing was wrong, by their bytes: for whoever reads the same files in
one process after another. What the values mean, and whether they go together with the other documents, is
judged each time as if they had just been read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from schemas.files.sources import SourceFile
from schemas.files.yaml_reader import RawDocument
from schemas.loading.parsed_file import ParsedFile, file_of_documents, parse_file
from schemas.problems.problem import SourceLocation
from schemas.problems.text import printable

MOST_BYTES = 32 << 20
"""Of the files whose values are written down, all together."""


class KnownValues:
    """For one thread, and one reading of all files. `known`: what `values` gave after a reading in which all
    was right, by the digest of a file's bytes."""

    def __init__(self, known: Mapping[str, Any]) -> None:
        self._known = known
        self._asked: dict[str, ParsedFile] = {}
        self.parsed = 0
        """How many files were not known."""

    def parse(self, file: SourceFile) -> ParsedFile:
        """What `parse_file` gives."""
        digest = hashlib.sha256(file.data).hexdigest()
        found = _restored(file, self._known.get(digest))
        if found is None:
            self.parsed += 1
            found = parse_file(file)
        self._asked[digest] = found
        return found

    @property
    def asked(self) -> int:
        """How many files were read."""
        return len(self._asked)

    def values(self) -> dict[str, Any]:
        """Of the files that were asked for, as JSON has them. To be remembered only where all was right; of
        too much nothing. A file with an anchor is left out: JSON would write out each of its aliases, and
        could be larger than memory."""
        if sum(len(file.data) for file in self._asked.values()) > MOST_BYTES:
            return {}
        return {
            digest: self._known.get(digest) or _written(file)
            for digest, file in self._asked.items()
            if not file.problems and b"&" not in file.data and all(one.raw.sound for one in file.documents)
        }


def _written(file: ParsedFile) -> list[list[Any]]:
    """Each document's value, number, line, column and size."""
    raws = (one.raw for one in file.documents)
    return [[raw.value, raw.number, raw.place.line, raw.place.column, raw.size] for raw in raws]


def _restored(file: SourceFile, known: Any) -> ParsedFile | None:
    """None for what `_written` does not give."""
    path = printable(file.path)
    try:
        raws = [
            RawDocument(value, number, SourceLocation(path, line, column), True, size)
            for value, number, line, column, size in known
        ]
    except (TypeError, ValueError):
        return None
    return file_of_documents(file, raws, [], were_right=True)
