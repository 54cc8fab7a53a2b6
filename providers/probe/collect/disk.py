"""A machine's own files, or a copy of them below another root."""

from __future__ import annotations

import os

_LARGEST = 1 << 20


class DiskTree:
    """The tree below `root`; links that point out of it are read as if `root` were `/`."""

    def __init__(self, root: str = "/") -> None:
        self._root = os.path.realpath(root).rstrip("/")

    def real(self, path: str) -> str:
        if not self._root:
            return os.path.realpath(path)
        done, rest, followed = "/", [part for part in path.split("/") if part], 0
        while rest:
            step = os.path.normpath(os.path.join(done, rest.pop(0)))
            outside = self._root + step
            if followed < 40 and os.path.islink(outside):
                followed += 1
                target = os.readlink(outside)
                rest = [part for part in target.split("/") if part] + rest
                done = "/" if target.startswith("/") else os.path.dirname(step)
            else:
                done = step
        return done

    def read(self, path: str) -> str | None:
        try:
            with open(self._root + self.real(path), "rb") as file:
                return file.read(_LARGEST).decode("utf-8", "replace")
        except OSError:
            return None

    def names(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(self._root + self.real(path)))
        except OSError:
            return []
