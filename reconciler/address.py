"""Where a store is: a file, or a database of a PostgreSQL server. Passwords are referred to, and never
shown."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from schemas.errors import StoreError

SCHEMES = ("postgresql", "postgres")
ENVIRONMENT = "BAI_STATE"
_FOLDER, _FILE = ".bai", "store.db"
_KEY, _PASSWORD, _SCHEMA = "keyFile", "passwordFrom", "schema"
_OWN = (_KEY, _PASSWORD, _SCHEMA)
_SECRET = frozenset({"password", "sslpassword"})


@dataclass(frozen=True, slots=True)
class Address:
    """`path` of a file, or `url` of a database. As text it shows no password."""

    path: Path | None = None
    url: str = ""
    """`postgresql://[user[:password]@][host][:port]/[name][?...]`, with libpq's parameters and our own
    `passwordFrom` (`env:NAME`, `file:/path`), `schema` and `keyFile`."""
    folder: Path = Path()
    """Where the repository keeps what is its own; the key of its sessions, where a URL names no other."""

    @classmethod
    def parse(cls, text: str | Path, folder: Path = Path()) -> Self:
        """A URL, a file, or the folder of a file called `store.db`. Raises StoreError."""
        if isinstance(text, str) and "://" in text:
            return cls(url=_checked(text), folder=folder)
        path = Path(text)
        return cls(path=path / _FILE if path.is_dir() else path, folder=folder)

    @classmethod
    def choose(cls, directory: Path, given: str | Path | Address | None, document: str | None = None) -> Self:
        """What the command line says, else `$BAI_STATE`, else the cluster's document, else `.bai/store.db`
        in the directory. An address that was chosen before stays with its folder."""
        folder = directory / _FOLDER
        chosen = given or os.environ.get(ENVIRONMENT) or document
        if not chosen:
            return cls(path=folder / _FILE, folder=folder)
        if isinstance(chosen, Address):
            return cls(chosen.path, chosen.url, folder if chosen.folder == Path() else chosen.folder)
        return cls.parse(chosen, folder)

    @property
    def on_server(self) -> bool:
        return bool(self.url)

    @property
    def schema(self) -> str:
        """The database's schema that is ours alone; empty: the user's default one."""
        return self._parameter(_SCHEMA)

    @property
    def password_from(self) -> str:
        """Reference of the password; empty when the URL has one, or libpq finds one."""
        return self._parameter(_PASSWORD)

    @property
    def key_file(self) -> Path:
        """Where the random key is that the key pairs of sessions follow from."""
        if self.path is not None:
            return self.path.with_suffix(".key")
        named = self._parameter(_KEY)
        return Path(named) if named else self.folder / "store.key"

    @property
    def plain_url(self) -> str:
        """The URL without our own parameters, as libpq reads it."""
        parts = urlsplit(self.url)
        rest = [(key, value) for key, value in _query(parts) if key not in _OWN]
        return _joined(parts, parts.netloc, rest)

    def __str__(self) -> str:
        if self.path is not None:
            return str(self.path)
        parts = urlsplit(self.url)
        user, at, host = parts.netloc.rpartition("@")
        name, colon, _ = user.partition(":")
        shown = [(key, "***" if key in _SECRET else value) for key, value in _query(parts)]
        return _joined(parts, f"{name}{':***' if colon else ''}{at}{host}", shown)

    def __repr__(self) -> str:
        return f"Address({str(self)!r})"

    def _parameter(self, name: str) -> str:
        return dict(_query(urlsplit(self.url))).get(name, "")


def _checked(url: str) -> str:
    """The URL with a scheme that libpq knows. What is wrong is said without repeating what may be secret."""
    scheme = url.partition(":")[0]
    if scheme.partition("+")[0] not in SCHEMES:
        raise StoreError(store=f"{scheme}://...", why="a store is a file, or postgresql://...")
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  raises for what is no port
        dict(_query(parts))
    except ValueError:
        raise StoreError(store=f"{scheme}://...", why="the URL cannot be read") from None
    return _joined(parts._replace(scheme="postgresql"), parts.netloc, _query(parts))


def _query(parts: SplitResult) -> list[tuple[str, str]]:
    return parse_qsl(parts.query, keep_blank_values=True)


def _joined(parts: SplitResult, place: str, query: list[tuple[str, str]]) -> str:
    words = urlencode(query, safe="/:,*", quote_via=quote)
    return f"{parts.scheme}://{place}{quote(unquote(parts.path))}{'?' + words if words else ''}"
