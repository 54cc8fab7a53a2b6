"""Documents as they would be: the files of a source, with some of them changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from reconciler.gitops.submit import FileChange
from schemas.files.sources import Source, SourceFile
from schemas.problems.errors.repository import CannotRead
from schemas.problems.text import printable


class ChangedSource:
    """A `Source`. `files`: those of `source`, where they were read already."""

    def __init__(
        self, source: Source, changes: Iterable[FileChange], files: Iterable[SourceFile] | None = None
    ) -> None:
        self.where, self.commit = source.where, source.commit
        self._source, self._files = source, files
        self._after = {change.name: change.after for change in changes}

    def files(self) -> Iterator[SourceFile]:
        # A file that cannot be read is named as people see it, and stays one.
        kept = {
            each.path: each
            for each in (self._source.files() if self._files is None else self._files)
            if each.path not in self._after
        }
        made = {name: SourceFile(name, data) for name, data in self._after.items() if data is not None}
        yield from (file for _, file in sorted((kept | made).items()))

    def data(self, path: str) -> bytes:
        if path in self._after:
            found = self._after[path]
            if found is None:
                raise CannotRead(what=printable(path), why="there is no such file")
            return found
        return self._source.data(path)


def read_files(source: Source) -> dict[str, bytes]:
    """The files that can be read, by path. Raises CannotRead."""
    return {each.path: each.data for each in source.files() if each.problem is None}
