"""The forge that a git remote lies on, from the remote's address and what the environment says of it."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from providers.forge.base import Forge
from providers.forge.ci import TOKEN
from providers.forge.github import GitHub
from providers.forge.gitlab import GitLab
from schemas.problems.errors.forge import ForgeUnknown

KIND, API = "BAI_FORGE", "BAI_FORGE_URL"
_KNOWN_HOSTS = {"github.com": "github", "gitlab.com": "gitlab", "codeberg.org": "gitea"}
_APIS = {"github": "https://{}/api/v3", "gitea": "https://{}/api/v1", "gitlab": "https://{}/api/v4"}


def forge_of_remote(url: str, environment: Mapping[str, str]) -> Forge | None:
    """None where no token is given. Raises ForgeUnknown where it does not follow which forge it is."""
    token = environment.get(TOKEN, "")
    if not token:
        return None
    host, repository = _host_and_repository(url)
    kind = environment.get(KIND) or _KNOWN_HOSTS.get(host, "")
    api = environment.get(API) or ("https://api.github.com" if host == "github.com" else "")
    if kind not in _APIS or not repository or not (api or host):
        hint = f"{KIND} is {', '.join(_APIS)}; {API} the address of its API"
        raise ForgeUnknown(why="it does not follow from the remote's address which forge it is on", hint=hint)
    api = api or _APIS[kind].format(host)
    return GitLab(api, repository, token) if kind == "gitlab" else GitHub(api, repository, token)


def _host_and_repository(url: str) -> tuple[str, str]:
    """`git.example` and `team/cluster` of an address as git takes it, also of `git@git.example:team/cluster`.
    A port is git's, and not the API's."""
    if "://" in url:
        parts = urlsplit(url)
        host, path = parts.hostname or "", parts.path
    else:
        before, mark, path = url.partition(":")
        host, path = (before.rpartition("@")[2], path) if mark else ("", url)
    return host.lower(), path.strip("/").removesuffix(".git")
