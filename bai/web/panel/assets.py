"""Style sheets, scripts and pictures. Each has its content's hash in its address, and is kept for ever."""

from __future__ import annotations

import functools
import gzip
import hashlib
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files

_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


@dataclass(frozen=True)
class Asset:
    """One file. `name` as templates say it, `vendor/htmx.min.js`."""

    name: str
    data: bytes
    address: str

    @property
    def media_type(self) -> str:
        return _TYPES[self.name.rpartition(".")[2]]

    @cached_property
    def compressed(self) -> bytes:
        return gzip.compress(self.data, mtime=0)


class Assets:
    """All files of `static` that a browser may ask for."""

    def __init__(self) -> None:
        folder = files("bai.web.panel") / "static"
        found = [(each.name, each) for each in folder.iterdir()]
        found += [(f"vendor/{each.name}", each) for each in (folder / "vendor").iterdir()]
        self._by_name = {
            name: _asset(name, each.read_bytes())
            for name, each in found
            if each.is_file() and name.rpartition(".")[2] in _TYPES
        }
        self._by_address = {asset.address: asset for asset in self._by_name.values()}

    def address(self, name: str) -> str:
        """Raises KeyError."""
        return self._by_name[name].address

    def find(self, address: str) -> Asset | None:
        return self._by_address.get(address)


@functools.cache
def shared_assets() -> Assets:
    """Of this process: they are read and compressed once."""
    return Assets()


def _asset(name: str, data: bytes) -> Asset:
    stem, _, ending = name.rpartition(".")
    digest = hashlib.sha256(data).hexdigest()[:16]
    return Asset(name, data, f"/assets/{stem.replace('/', '-')}-{digest}.{ending}")
