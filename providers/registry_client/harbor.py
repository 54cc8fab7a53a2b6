"""Harbor's own API, version 2.0: what a registry holds, told by projects, and who may pull.

Images are pulled from Harbor, and looked at, as from any registry (`client.py`); this is what the
distribution API does not tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from providers.registry_client.api import RegistryApi
from providers.registry_client.auth import error_message
from providers.registry_client.transport import RegistryResponse
from schemas.problems.errors.registry import NoSuchImage, RegistryError, RegistryRefused

_API = "/api/v2.0"
_PAGE = 100
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Project:
    name: str
    number: int
    public: bool
    repositories: int


@dataclass(frozen=True, slots=True)
class Artifact:
    """One image of a repository."""

    digest: str
    tags: tuple[str, ...]
    size: int
    architectures: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Robot:
    """An account that programs pull with."""

    name: str
    disabled: bool
    expires: datetime | None
    """None: never."""


class Harbor(RegistryApi):
    """Harbor 2."""

    def projects(self) -> Iterator[Project]:
        """Those that the account may see."""
        return self._paged("/projects", _project)

    def repositories(self, project: str) -> Iterator[str]:
        """Full names, `project/name`."""
        return self._paged(
            f"/projects/{quote(project, safe='')}/repositories", lambda item: str(item["name"])
        )

    def artifacts(self, repository: str) -> Iterator[Artifact]:
        """The images of `project/name`, without what only accompanies them (signatures, SBOMs)."""
        project, _, name = repository.partition("/")
        # Harbor decodes the path twice: a slash within a repository's name is escaped twice.
        path = f"/projects/{quote(project, safe='')}/repositories/{quote(quote(name, safe=''), safe='')}"
        found = self._paged(f"{path}/artifacts", _artifact, with_tag="true")
        return (artifact for artifact in found if artifact is not None)

    def robots(self, project: str) -> Iterator[Robot]:
        """The robot accounts of a project. Raises RegistryRefused where the account may not see them."""
        answer = self._get(f"{_API}/projects/{quote(project, safe='')}")
        number = _parse_item(self.access.address, _project, self._read(answer, dict)).number
        return self._paged("/robots", _robot, q=f"Level=project,ProjectID={number}")

    def _paged(self, path: str, make: Callable[[dict[str, Any]], T], **query: str) -> Iterator[T]:
        """Every item of a list, page by page."""
        target = f"{_API}{path}?{urlencode({**query, 'page': 1, 'page_size': _PAGE})}"
        while target:
            answer = self._get(target)
            items = self._read(answer, list)
            yield from (_parse_item(self.access.address, make, item) for item in items)
            target = answer.following if items else ""

    def _get(self, target: str) -> RegistryResponse:
        login = (self.access.username, self.access.password) if self.access.username else None
        answer = self._transport.get(target, basic=login, headers={"Accept": "application/json"})
        if answer.status in (401, 403):
            who = self.access.username or "nobody in particular"
            why = error_message(answer) or "not allowed"
            hint = "the account needs to read the project"
            raise RegistryRefused(registry=self.access.address, why=f"{who}: {why}", hint=hint)
        if answer.status == 404:
            told = error_message(answer) or target.partition("?")[0]
            raise NoSuchImage(registry=self.access.address, image=f"what was asked for: {told}")
        if answer.status != 200:
            raise self._error(f"status {answer.status}: {error_message(answer) or 'no reason given'}")
        return answer

    def _read(self, answer: RegistryResponse, kind: type) -> Any:
        try:
            value = answer.json()
        except ValueError:
            value = None
        if not isinstance(value, kind):
            raise self._error("it does not answer as Harbor does; is its type docker?")
        return value


def _parse_item(address: str, make: Callable[[dict[str, Any]], T], item: Any) -> T:
    try:
        return make(item)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RegistryError(registry=address, why=f"an answer of Harbor is unusable: {error!r}") from None


def _project(item: dict[str, Any]) -> Project:
    public = (item.get("metadata") or {}).get("public") == "true"
    return Project(str(item["name"]), int(item["project_id"]), public, int(item.get("repo_count") or 0))


def _artifact(item: dict[str, Any]) -> Artifact | None:
    if item.get("type") not in (None, "IMAGE"):
        return None
    tags = sorted(str(tag["name"]) for tag in item.get("tags") or ())
    architectures = tuple(sorted(set(_architectures(item))))
    return Artifact(str(item["digest"]), tuple(tags), int(item.get("size") or 0), architectures)


def _robot(item: dict[str, Any]) -> Robot:
    until = int(item.get("expires_at") or -1)
    expires = datetime.fromtimestamp(until, UTC) if until > 0 else None
    return Robot(str(item["name"]), bool(item.get("disable")), expires)


def _architectures(item: dict[str, Any]) -> Iterator[str]:
    own = (item.get("extra_attrs") or {}).get("architecture")
    if own:
        yield str(own)
    for reference in item.get("references") or ():
        name = (reference.get("platform") or {}).get("architecture")
        if name and name != "unknown":
            yield str(name)
