"""A tree of small text files, wherever it comes from: a running machine's `/`, a copied folder, a tarball in
memory.
"""

from __future__ import annotations

import posixpath
import re
from typing import Protocol

from schemas.hardware.cpulist import parse_cpus, parse_mask

_MAX_LINKS = 40
_LARGEST = 1 << 53


class Tree(Protocol):
    """Paths are absolute within the tree, with `/` between parts. Nothing raises: what cannot be read is not
    there.
    """

    def read(self, path: str) -> str | None:
        """The text of a file, None when there is none or it cannot be read."""

    def names(self, path: str) -> list[str]:
        """Names in a folder, sorted; empty when there is none."""

    def real(self, path: str) -> str:
        """The path with every symbolic link followed."""


class MemoryTree:
    """A tree held in memory: `files` path → text, `links` path → target as stored (relative or absolute)."""

    def __init__(self, files: dict[str, str], links: dict[str, str]) -> None:
        self._files = files
        self._links = links
        self._folders: dict[str, set[str]] = {}
        for path in sorted({*files, *links}):
            self._add_to_parents(path)

    def _add_to_parents(self, path: str) -> None:
        while path not in ("", "/"):
            parent, name = posixpath.split(path)
            known = self._folders.setdefault(parent, set())
            if name in known:
                return
            known.add(name)
            path = parent

    def real(self, path: str) -> str:
        done, rest, followed = "/", [part for part in path.split("/") if part], 0
        while rest:
            step = posixpath.normpath(posixpath.join(done, rest.pop(0)))
            target = self._links.get(step)
            if target is None or followed >= _MAX_LINKS:
                done = step
                continue
            followed += 1
            rest = [part for part in target.split("/") if part] + rest
            done = "/" if target.startswith("/") else posixpath.dirname(step)
        return done

    def read(self, path: str) -> str | None:
        return self._files.get(self.real(path))

    def names(self, path: str) -> list[str]:
        return sorted(self._folders.get(self.real(path), ()))


def read_text(tree: Tree, path: str) -> str | None:
    """A file's text without surrounding white space and zero bytes; None when absent or empty."""
    found = tree.read(path)
    return found.strip().strip("\0") or None if found else None


def read_integer(tree: Tree, path: str, base: int = 10) -> int | None:
    """A file's number; None when absent or not a number of the kernel's (64 bits)."""
    try:
        number = int(read_text(tree, path) or "", base)
    except ValueError:
        return None
    return number if abs(number) < _LARGEST else None


def read_natural(tree: Tree, path: str, base: int = 10) -> int | None:
    """A file's number when it is not negative."""
    number = read_integer(tree, path, base)
    return None if number is None or number < 0 else number


def read_cpus(tree: Tree, *paths: str) -> tuple[int, ...] | None:
    """The CPU set of the first of these files that is there; a name ending in `map` or `siblings` holds a
    mask.
    """
    for path in paths:
        found = tree.read(path)
        if found is None:
            continue
        as_mask = path.endswith(("map", "siblings", "core_cpus"))
        try:
            return parse_mask(found) if as_mask else parse_cpus(found.strip().strip("\0"))
        except ValueError:
            continue
    return None


def numbered_entries(tree: Tree, folder: str, prefix: str) -> list[int]:
    """The numbers N of the entries `<prefix>N` of a folder, ascending."""
    names = (name[len(prefix) :] for name in tree.names(folder) if name.startswith(prefix))
    return sorted(int(rest) for rest in names if re.fullmatch("[0-9]{1,9}", rest))
