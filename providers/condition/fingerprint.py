"""What a seal stands for: one hash of all that decides what provisioning makes of a node."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

PLAY = "site.yml"
_ASIDE = {"README.md", "molecule", "tests", "__pycache__"}
"""Parts of a role that do not act on nodes."""


def fingerprint(
    roles: Iterable[str], variables: Mapping[str, Any], secrets: Mapping[str, str], os: str, digest: str
) -> str:
    """SHA-256 in hexadecimal. `secrets` are references, never values; `digest` is `roles_digest`'s."""
    whole = {
        "roles": sorted(roles), "variables": dict(variables), "secrets": dict(secrets), "os": os,
        "digest": digest,
    }  # fmt: skip
    text = json.dumps(whole, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


@lru_cache(maxsize=64)
def roles_digest(path: Path, roles: frozenset[str]) -> str:
    """SHA-256 over the files, by name and content, of the site play, of these roles, and of the roles that
    are no section of a profile, as those serve the others. What only explains or tests does not count. The
    same for the whole life of the process."""
    total = hashlib.sha256()
    for file in _files(path, roles):
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        total.update(f"{file.relative_to(path).as_posix()}\0{content}\n".encode())
    return total.hexdigest()


def _files(path: Path, roles: Iterable[str]) -> Iterator[Path]:
    from schemas.profile import ROLES  # Whoever reads a plan computes none.

    if (path / PLAY).is_file():
        yield path / PLAY
    served = {each.name for each in path.iterdir() if each.is_dir()} - set(ROLES)
    for role in sorted({*roles, *served}):
        for file in sorted((path / role).rglob("*")):
            if file.is_file() and not _ASIDE & set(file.relative_to(path / role).parts):
                yield file
