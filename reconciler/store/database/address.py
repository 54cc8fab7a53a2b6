"""Where a store is: a file, or a database of a PostgreSQL server. Passwords are referred to, and never
shown."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from schemas.problems.errors.store import StoreError

SCHEMES = ("postgresql", "postgres")
ENVIRONMENT = "BAI_STATE"
_FOLDER, _FILE, _KEY_FILE = ".bai", "store.db", "store.key"
_KEY, _PASSWORD, _SCHEMA = "keyFile", "passwordFrom", "schema"
_OWN_PARAMETERS = (_KEY, _PASSWORD, _SCHEMA)
_SECRET_PARAMETERS = frozenset({"password", "sslpassword"})


@dataclass(frozen=True, slots=True)
class StoreAddress:
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
            return cls(url=_validate_url(text), folder=folder)
        path = Path(text)
        return cls(path=path / _FILE if path.is_dir() else path, folder=folder)

    @classmethod
    def choose(
        cls,
        directory: Path,
        given: str | Path | StoreAddress | None,
        *,
        named: str | None = None,
        default: Path | None = None,
    ) -> Self:
        """What the command line says, else `$BAI_STATE`, else `default`, by default `.bai/store.db` in the
        directory. An address that was chosen before stays with its folder. `named`: what the cluster's
        document says. It is only a reminder: whoever commits would get bai's password, or say what bai
        remembers. Raises StoreError where nobody else names a store, and for what a repository has put in the
        place of the default one."""
        folder = directory / _FOLDER
        chosen = given or os.environ.get(ENVIRONMENT)
        if not chosen and named:
            shown = str(cls.parse(named))
            why = "the Cluster's document names it, and documents do not choose the store"
            hint = f"if it is yours: --state, or export {ENVIRONMENT}='{shown}'"
            raise StoreError(store=shown, why=why, hint=hint)
        if not chosen:
            return cls(path=default or _default_file(folder), folder=folder)
        if isinstance(chosen, StoreAddress):
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
        return Path(named) if named else self.folder / _KEY_FILE

    @property
    def plain_url(self) -> str:
        """The URL without our own parameters, as libpq reads it."""
        parts = urlsplit(self.url)
        rest = [(key, value) for key, value in _query(parts) if key not in _OWN_PARAMETERS]
        return _join_url(parts, parts.netloc, rest)

    def __str__(self) -> str:
        if self.path is not None:
            return str(self.path)
        parts = urlsplit(self.url)
        user, at, host = parts.netloc.rpartition("@")
        name, colon, _ = user.partition(":")
        shown = [(key, "***" if key in _SECRET_PARAMETERS else value) for key, value in _query(parts)]
        return _join_url(parts, f"{name}{':***' if colon else ''}{at}{host}", shown)

    def __repr__(self) -> str:
        return f"Address({str(self)!r})"

    def _parameter(self, name: str) -> str:
        return dict(_query(urlsplit(self.url))).get(name, "")


def _default_file(folder: Path) -> Path:
    """The store in this folder. Git makes links where a commit has some. Raises StoreError."""
    for path in (folder, folder / _FILE, folder / _KEY_FILE):
        if path.is_symlink():
            hint = f"remove the link, or name the store with --state or {ENVIRONMENT}"
            raise StoreError(store=str(folder / _FILE), why=f"{path} is a link", hint=hint)
    return folder / _FILE


def _validate_url(url: str) -> str:
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
    return _join_url(parts._replace(scheme="postgresql"), parts.netloc, _query(parts))


def _query(parts: SplitResult) -> list[tuple[str, str]]:
    return parse_qsl(parts.query, keep_blank_values=True)


def _join_url(parts: SplitResult, place: str, query: list[tuple[str, str]]) -> str:
    words = urlencode(query, safe="/:,*", quote_via=quote)
    return f"{parts.scheme}://{place}{quote(unquote(parts.path))}{'?' + words if words else ''}"
