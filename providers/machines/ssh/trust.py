"""Host keys: which ones are known, and what is done about one that is not."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import paramiko
from paramiko.hostkeys import InvalidHostKey

from providers.machines.ssh.route import Hop, Route
from providers.machines.tls import text_as_file
from schemas.files.regular_files import LARGEST_PEM, check_regular_file, read_regular_file
from schemas.problems.errors.node import HostKeyRefused

_SIGNED_WITH = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}
"""Kinds of keys whose signatures have names of their own (RFC 8332)."""


class HostKeys:
    """The keys known for one hop. Raises HostKeyRefused for a file that cannot be read."""

    def __init__(self, node: str, hop: Hop, route: Route) -> None:
        self._node = node
        self._hop = hop
        self._files = route.known_hosts
        self._record_new = route.record_new
        self._own = route.own_hosts
        named = [(route.own_hosts_name, key) for key in self._keys_of_secret(route)] if self._own else []
        self._known = named + [(path, key) for path in self._files for key in self._keys_of_file(path)]

    def prefer(self, offered: Sequence[str]) -> list[str]:
        """Signatures of the kinds of keys that are known for the host come first: it has several keys, and is
        to show one of these."""
        kinds = {key.get_name() for _, key in self._known}
        names = {name for kind in kinds for name in (kind, *_SIGNED_WITH.get(kind, ()))}
        return sorted(offered, key=lambda name: name not in names)

    def check(self, key: paramiko.PKey) -> None:
        """Raises HostKeyRefused; records a new one where that is wanted."""
        if _is_marked_revoked(self._own, key) or any(_is_revoked(path, key) for path in self._files):
            raise self._refusal(f"{describe_key(key)} is marked as revoked", "")
        if any(known == key for _, known in self._known):
            return
        if self._known:
            raise self._refuse_changed(key)
        if not self._record_new:
            raise self._refuse_unknown(key)
        record_key(Path(self._files[0]), self._hop.entry, key)

    def _keys_of_file(self, path: str) -> list[paramiko.PKey]:
        try:
            known = _load_cached(path)
            return self._keys_for_host(known) if known is not None else []
        except (OSError, ValueError, paramiko.SSHException, InvalidHostKey) as error:
            why = f"line {error.line!r}" if isinstance(error, InvalidHostKey) else str(error)
            raise self._refusal(f"{path} cannot be read: {why}", "mend the file") from error

    def _keys_of_secret(self, route: Route) -> list[paramiko.PKey]:
        with text_as_file(self._own + "\n") as path:
            try:
                return self._keys_for_host(paramiko.HostKeys(path))
            except (OSError, ValueError, paramiko.SSHException, InvalidHostKey):
                why = f"{route.own_hosts_name} holds no lines of known_hosts"
                raise self._refusal(why, "write host, kind and key") from None

    def _keys_for_host(self, known: paramiko.HostKeys) -> list[paramiko.PKey]:
        # Hosts are compared here, as a file may name several keys of one kind for a host.
        entries = known._entries  # type: ignore[attr-defined]
        return [each.key for each in entries if known._hostname_matches(self._hop.entry, each)]  # type: ignore[attr-defined]

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


def _load_cached(path: str) -> paramiko.HostKeys | None:
    """A file of known hosts; None where there is none. The same as before while it stays as it is."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    check_regular_file(path)
    return _load(path, found.st_ino, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=16)
def _load(path: str, *_version: int) -> paramiko.HostKeys:
    return paramiko.HostKeys(path)


def _is_revoked(path: str, key: paramiko.PKey) -> bool:
    """paramiko passes over the lines that OpenSSH marks."""
    try:
        text = read_regular_file(path, LARGEST_PEM).decode(errors="replace")
    except FileNotFoundError:
        return False
    return _is_marked_revoked(text, key)


def _is_marked_revoked(text: str, key: paramiko.PKey) -> bool:
    lines = text.splitlines()
    return any(key.get_base64() in line.split() for line in lines if line.startswith("@revoked"))
