"""Images brought to nodes while a plan is carried out: who logs in is read here, and forgotten again."""

from __future__ import annotations

from collections.abc import Callable

from providers.base import Provider
from providers.images import OnPullProgress, PullRequest, PullsImages
from reconciler.values.sides import Pull
from schemas.problems.errors.node import ImageMissing
from schemas.problems.errors.provider import ProviderError


def create_with_image(
    wanted: Pull | None,
    create: Callable[[], None],
    provider: Provider,
    resolve: Callable[[str], str],
    on_progress: OnPullProgress,
) -> None:
    """Create a kernel, with its image on its node. That the image is there is not asked beforehand: most
    often it is, and who creates without it is told so."""
    if wanted is not None and wanted.policy == "always":
        pull_image(wanted, provider, resolve, on_progress)
    try:
        create()
    except ImageMissing:
        if wanted is None or wanted.policy == "always":
            raise
        pull_image(wanted, provider, resolve, on_progress)
        create()


def pull_image(
    wanted: Pull, provider: Provider, resolve: Callable[[str], str], on_progress: OnPullProgress
) -> None:
    """Raises ProviderError, RegistryError, SecretMissing."""
    if not isinstance(provider, PullsImages):
        raise ProviderError(provider=provider.capabilities().name, why="it does not pull images")
    provider.pull(
        PullRequest(wanted.node, wanted.image, wanted.policy, _registry_auth(wanted, resolve)), on_progress
    )


def _registry_auth(wanted: Pull, resolve: Callable[[str], str]) -> str:
    if not wanted.password_from:
        return ""
    from providers.registry_client.access import RegistryAccess

    username = resolve(wanted.username_from) if wanted.username_from else wanted.username
    password = resolve(wanted.password_from)
    return RegistryAccess(wanted.registry, username=username, password=password).engine_auth()
