"""Which resource is meant. Records, plans and labels hold its identity, `Kind/name` or `Kind/project/name`;
here alone it is put together and taken apart."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple


class ResourceRef(NamedTuple):
    """A resource by what makes it unique in a repository."""

    kind: str
    project: str
    """Empty for a kind or resource outside of projects."""
    name: str

    def __str__(self) -> str:
        """The identity."""
        return "/".join(part for part in self if part)

    @property
    def qualified_name(self) -> str:
        """`project/name`, or the name where there is no project."""
        return f"{self.project}/{self.name}" if self.project else self.name


@lru_cache(maxsize=1 << 16)
def ref_of(identity: str) -> ResourceRef:
    """An identity taken apart. Any text can be: what records and labels say is not to be relied on, and
    who asks for a kind then finds that it is none of bai's."""
    kind, _, rest = identity.partition("/")
    project, _, name = rest.rpartition("/")
    return ResourceRef(kind, project, name)


def identity_of(kind: str, name: str, project: str | None = None) -> str:
    """`Kind/name`, or `Kind/project/name`."""
    return f"{kind}/{project}/{name}" if project else f"{kind}/{name}"
