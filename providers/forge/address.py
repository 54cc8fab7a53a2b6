"""Which forge, and which repository there, a git remote belongs to."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from providers.forge.base import Forge
from providers.forge.ci import TOKEN
from providers.forge.github import GitHub
from providers.forge.gitlab import GitLab
from schemas.problems.errors.forge import ForgeUnknown

_KNOWN = {"github.com": "https://api.github.com", "gitlab.com": "https://gitlab.com/api/v4"}
_SCP = re.compile(r"(?:[^@/]+@)?([^:/]+):(?!//)(.+)")
"""`git@forge.example:owner/name.git`."""


def forge_of_remote(remote: str, token: str, api: str = "") -> Forge:
    """`api`: the address of the forge's API, `https://forge.example/api/v1` (Gitea, Forgejo),
    `https://gitlab.example/api/v4` or GitHub's; may be left out for github.com and gitlab.com. Raises
    ForgeUnknown."""
    host, repository = _split_remote(remote)
    url = (api or _KNOWN.get(host, "")).rstrip("/")
    if not url:
        hint = "--forge https://forge.example/api/v1 (Gitea, Forgejo), /api/v4 (GitLab), /api/v3 (GitHub)"
        raise ForgeUnknown(why=f"{host or 'the remote'} is no forge that is known by its name", hint=hint)
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).netloc:
        raise ForgeUnknown(why="--forge is no address of an API", hint="https://forge.example/api/v1")
    if not repository:
        raise ForgeUnknown(why="the remote's address names no repository of a forge")
    if not token:
        raise ForgeUnknown(why="there is no token", hint=f"put one into {TOKEN}")
    return GitLab(url, repository, token) if url.endswith("/api/v4") else GitHub(url, repository, token)


def _split_remote(remote: str) -> tuple[str, str]:
    """Host, and `owner/name`; empty where it is no address of another machine."""
    scp = _SCP.fullmatch(remote) if "://" not in remote else None
    if scp is not None:
        host, path = scp[1], scp[2]
    else:
        parts = urlsplit(remote)
        host, path = (
            (parts.hostname or "", parts.path) if parts.scheme in ("http", "https", "ssh") else ("", "")
        )
    return host.lower(), path.strip("/").removesuffix(".git")
