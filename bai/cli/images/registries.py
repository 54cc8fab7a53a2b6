"""The registries of a repository: whether they answer, and what they hold."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from bai.cli.output import print_line, print_table
from bai.queries.names.resource_names import resolve_name
from bai.render.humanize import clean, join_limited, size
from bai.settings import Settings

if TYPE_CHECKING:
    from providers.registry_client.access import RegistryAccess
    from reconciler.observe.images import ResolveSecret
    from schemas.kinds.image import Registry
    from schemas.repository.repository import Repository

_MOST_IMAGES = 1000
"""Images of one registry that are listed."""


def check_registries(settings: Settings, repository: Repository, secret: ResolveSecret) -> bool:
    """Print one line for each; True when all let us in."""
    from reconciler.observe.images import access_of
    from schemas.kinds.image import Registry
    from schemas.problems.errors.base import BaiError

    rows, sound = [], True
    for registry in repository.of(Registry):
        spec = registry.spec
        try:
            state = _check_registry(registry, access_of(registry, secret))
        except BaiError as error:
            state, sound = str(error), False
        who = spec.credentials.username or "(secret)" if spec.credentials else "nobody"
        rows.append([registry.name, spec.type, spec.address, who, state])
    print_table(settings, ("registry", "type", "address", "as", "state"), rows, empty="There is no Registry.")
    return sound


def _check_registry(registry: Registry, access: RegistryAccess) -> str:
    from providers.registry_client.client import RegistryClient

    with RegistryClient(access) as client:
        client.check()
    if registry.spec.type != "harbor":
        return "ok"
    return f"ok{_robot_accounts(registry, access)}"


def _robot_accounts(registry: Registry, access: RegistryAccess) -> str:
    """The robot accounts that end or are switched off, where the account may see them."""
    from providers.registry_client.harbor import Harbor
    from schemas.problems.errors.registry import RegistryRefused

    with Harbor(access) as harbor:
        names = registry.spec.projects or tuple(project.name for project in harbor.projects())
        try:
            robots = [robot for name in names for robot in harbor.robots(name)]
        except RegistryRefused:
            return f", {len(names)} projects"
    accounts = [
        f"{clean(r.name)} {'is switched off' if r.disabled else f'until {r.expires:%Y-%m-%d}'}"
        for r in robots
        if r.disabled or r.expires
    ]
    return f", {len(names)} projects" + (f"; robot accounts: {join_limited(accounts)}" if accounts else "")


def list_registry(settings: Settings, repository: Repository, secret: ResolveSecret, name: str) -> None:
    """Print what a registry holds. Raises NoSuchResource, RegistryError, SecretMissing."""
    from reconciler.observe.images import access_of
    from schemas.kinds.image import Registry

    registries = {each.identity: each for each in repository.of(Registry)}
    registry = registries[resolve_name(name, registries, "Registry")]
    access = access_of(registry, secret)
    found = _harbor_rows(registry, access) if registry.spec.type == "harbor" else _repository_rows(access)
    rows = list(islice(found, _MOST_IMAGES))
    print_table(settings, ("repository", "tags", "runs on", "size"), rows, empty="It holds no image.")
    if len(rows) == _MOST_IMAGES:
        print_line(f"Only the first {_MOST_IMAGES} are shown.")


def _repository_rows(access: RegistryAccess) -> Iterator[list[str]]:
    from providers.registry_client.client import RegistryClient

    with RegistryClient(access) as client:
        for path in client.repositories():
            yield [path, join_limited(sorted(client.tags(path)), 12), "", ""]


def _harbor_rows(registry: Registry, access: RegistryAccess) -> Iterator[list[str]]:
    from providers.registry_client.harbor import Harbor

    with Harbor(access) as harbor:
        for project in registry.spec.projects or tuple(each.name for each in harbor.projects()):
            for path in harbor.repositories(project):
                for each in harbor.artifacts(path):
                    runs_on = ", ".join(each.architectures)
                    yield [path, join_limited(each.tags, 12), runs_on, size(each.size)]
