"""Host keys: which ones are known, and what is done about one that is not."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import paramiko
from paramiko.hostkeys import HostKeyEntry, InvalidHostKey

from schemas.files.regular_files import LARGEST_PEM, read_regular_file
from schemas.problems.errors.node import HostKeyRefused

if TYPE_CHECKING:
    from providers.machines.ssh.route import Hop, Route

_SIGNED_WITH = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}
"""Kinds of keys whose signatures have names of their own (RFC 8332)."""
_UNREADABLE = (OSError, ValueError, InvalidHostKey)
"""What reading known hosts raises where there are none."""


@dataclass(frozen=True, slots=True)
class _KnownHosts:
    """Lines of known hosts."""

    entries: tuple[HostKeyEntry, ...] = ()
    revoked: frozenset[str] = frozenset()
    """Words of the lines that OpenSSH marks so, the keys among them."""

    def keys_of(self, host: str) -> list[paramiko.PKey]:
        """All of them: a file may name several keys of one kind for a host."""
        return [entry.key for entry in self.entries if any(_is_name(host, name) for name in entry.hostnames)]


class HostKeys:
    """The keys known for one hop. Raises HostKeyRefused for a file that cannot be read."""

    def __init__(self, node: str, hop: Hop, route: Route) -> None:
        self._node = node
        self._hop = hop
        self._files = route.known_hosts
        self._record_new = route.record_new
        self._known: list[tuple[str, paramiko.PKey]] = []
        self._revoked: set[str] = set()
        if route.own_hosts:
            self._read_secret(route)
        for path in self._files:
            self._read_file(path)

    def prefer(self, offered: Sequence[str]) -> list[str]:
        """Signatures of the kinds of keys that are known for the host come first: it has several keys, and is
        to show one of these."""
        kinds = {key.get_name() for _, key in self._known}
        names = {name for kind in kinds for name in (kind, *_SIGNED_WITH.get(kind, ()))}
        return sorted(offered, key=lambda name: name not in names)

    def check(self, key: paramiko.PKey) -> None:
        """Raises HostKeyRefused; records a new one where that is wanted."""
        if key.get_base64() in self._revoked:
            raise self._refusal(f"{describe_key(key)} is marked as revoked", "")
        if any(known == key for _, known in self._known):
            return
        if self._known:
            raise self._refuse_changed(key)
        if not self._record_new:
            raise self._refuse_unknown(key)
        record_key(Path(self._files[0]), self._hop.entry, key)

    def _read_file(self, path: str) -> None:
        try:
            self._add(path, _load_cached(path))
        except _UNREADABLE as error:
            why = f"line {error.line!r}" if isinstance(error, InvalidHostKey) else str(error)
            raise self._refusal(f"{path} cannot be read: {why}", "mend the file") from error

    def _read_secret(self, route: Route) -> None:
        try:
            self._add(route.own_hosts_name, _parse(route.own_hosts))
        except _UNREADABLE:
            why = f"{route.own_hosts_name} holds no lines of known_hosts"
            raise self._refusal(why, "write host, kind and key") from None

    def _add(self, name: str, known: _KnownHosts) -> None:
        self._known += [(name, key) for key in known.keys_of(self._hop.entry)]
        self._revoked |= known.revoked

    def _refuse_unknown(self, key: paramiko.PKey) -> HostKeyRefused:
        port = "" if self._hop.port == 22 else f"-p {self._hop.port} "
        add = f"compare it with the host's own, then: ssh-keyscan {port}{self._hop.host} >> {self._files[0]}"
        why = f"it is not among the known hosts, and showed {describe_key(key)}"
        return self._refusal(why, f"{add}; or set ssh.hostKeys: accept-new")

    def _refuse_changed(self, key: paramiko.PKey) -> HostKeyRefused:
        files = sorted({path for path, _ in self._known})
        known = ", ".join(sorted({describe_key(known) for _, known in self._known}))
        why = f"it showed {describe_key(key)}, but {', '.join(files)} says {known}"
        repair = "; ".join(self._removal_command(path) for path in files)
        return self._refusal(
            why, f"somebody may be in between; only if the host was set up anew, forget the old key: {repair}"
        )

    def _removal_command(self, known: str) -> str:
        if known not in self._files:
            return f"correct the secret {known}"
        return f"ssh-keygen -R '{self._hop.entry}' -f {known}"

    def _refusal(self, why: str, hint: str) -> HostKeyRefused:
        return HostKeyRefused(node=self._node, host=self._hop.entry, why=why, hint=hint)


def describe_key(key: paramiko.PKey) -> str:
    """As ssh-keygen prints it: `ssh-ed25519 SHA256:...`."""
    digest = base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("=")
    return f"{key.get_name()} SHA256:{digest}"


def record_key(path: Path, entry: str, key: paramiko.PKey) -> None:
    """Add one line, whoever else writes at the same time."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), "r+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        line = f"{entry} {key.get_name()} {key.get_base64()}"
        text = file.read()
        if line not in text.splitlines():
            file.write(("\n" if text and not text.endswith("\n") else "") + line + "\n")


def _load_cached(path: str) -> _KnownHosts:
    """A file of known hosts; nothing where there is none. The same as before while it stays as it is."""
    try:
        found = os.stat(path)
        return _load(path, found.st_ino, found.st_mtime_ns, found.st_size)
    except FileNotFoundError:
        return _KnownHosts()


@lru_cache(maxsize=16)
def _load(path: str, *_version: int) -> _KnownHosts:
    return _parse(read_regular_file(path, LARGEST_PEM).decode())


def _parse(text: str) -> _KnownHosts:
    """Raises InvalidHostKey, ValueError. Kinds of keys that paramiko does not know are passed over."""
    entries: list[HostKeyEntry] = []
    revoked: set[str] = set()
    for line in map(str.strip, text.splitlines()):
        if line.startswith("@revoked"):
            revoked.update(line.split())
        elif line and not line.startswith("#"):
            with contextlib.suppress(paramiko.SSHException):
                if (entry := HostKeyEntry.from_line(line)) is not None:
                    entries.append(entry)
    return _KnownHosts(tuple(entries), frozenset(revoked))


def _is_name(host: str, name: str) -> bool:
    """Whether a line names the host, in clear or hashed. Raises ValueError."""
    if not name.startswith("|1|"):
        return name == host
    try:
        return paramiko.HostKeys.hash_host(host, name) == name
    except AssertionError:  # so paramiko judges a salt of another length
        raise ValueError(f"{name!r} is no hashed name") from None
