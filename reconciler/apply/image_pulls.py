"""Images brought to nodes while a plan is carried out: who logs in is read here, and forgotten again."""

from __future__ import annotations

from collections.abc import Callable

from providers.base import Provider
from providers.images import PullRequest, Pulls, Tell
from reconciler.values.plan import Pull
from schemas.problems.errors import ImageMissing, ProviderError


def with_image(
    wanted: Pull | None,
    create: Callable[[], None],
    provider: Provider,
    resolve: Callable[[str], str],
    tell: Tell,
) -> None:
    """Create a kernel, with its image on its node. That the image is there is not asked beforehand: most
    often it is, and who creates without it is told so."""
    if wanted is not None and wanted.policy == "always":
        pull(wanted, provider, resolve, tell)
    try:
        create()
    except ImageMissing:
        if wanted is None or wanted.policy == "always":
            raise
        pull(wanted, provider, resolve, tell)
        create()


def pull(wanted: Pull, provider: Provider, resolve: Callable[[str], str], tell: Tell) -> None:
    """Raises ProviderError, RegistryError, SecretMissing."""
    if not isinstance(provider, Pulls):
        raise ProviderError(provider=provider.capabilities().name, why="it does not pull images")
    provider.pull(PullRequest(wanted.node, wanted.image, wanted.policy, _auth(wanted, resolve)), tell)


def _auth(wanted: Pull, resolve: Callable[[str], str]) -> str:
    if not wanted.password_from:
        return ""
    from providers.registry_client.access import Access

    username = resolve(wanted.username_from) if wanted.username_from else wanted.username
    password = resolve(wanted.password_from)
    return Access(wanted.registry, username=username, password=password).engine_auth()
