"""What somebody may touch: the documents in the files that they change, before and after. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from reconciler.gitops.submit import FileChange
from schemas.files.yaml_reader import read_documents
from schemas.loading.documents import claimed_identity, kind_of
from schemas.problems.text import printable

OF_PROJECTS = frozenset({"Session", "Sweep", "Service"})
"""Kinds that belong to a project's operators."""


def foreign_documents(changes: Iterable[FileChange], projects: Collection[str]) -> tuple[str, ...]:
    """What stands in these files, before or after, and is nothing of these projects: whoever may change
    only theirs does not write a file that has others', either."""
    return tuple(dict.fromkeys(found for change in changes for found in _foreign(change, projects)))


def _foreign(change: FileChange, projects: Collection[str]) -> Iterator[str]:
    for data in (change.before, change.after):
        raws, problems = read_documents(data or b"", change.name)
        if problems:
            yield printable(change.name)
        for raw in raws:
            metadata = raw.value.get("metadata") if isinstance(raw.value, dict) else None
            # Not by its identity, which a name with a slash would make into another project's.
            project = metadata.get("project") if isinstance(metadata, dict) else None
            if kind_of(raw.value) not in OF_PROJECTS or project not in projects:
                yield printable(claimed_identity(raw.value) or change.name)
