"""The session and kernel that a command line names."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from providers.base import Observed
    from reconciler.values.state import Actual, Existing
    from reconciler.workspace.kernel_access import KernelAccess


def observe_sessions(access: KernelAccess) -> Actual:
    """Sessions as recorded and as seen; nobody is asked for hardware, health, images, volumes or shares."""
    from reconciler.observe.observe import add_recorded, read_kernels

    seen = read_kernels(access.provider)
    return add_recorded(access.existing_reader, seen, access.cluster.name, repo=access.repo_id)


def find_kernels(actual: Actual, name: str) -> list[Observed]:
    """Every kernel of a session that was seen, in the session's order. Raises as `find_kernel`."""
    session, first = find_kernel(actual, name)
    order = {kernel: at for at, kernel in enumerate(session.recorded.kernels)}
    kernels = {kernel.id: kernel for kernel in (first, *session.kernels)}
    return sorted(kernels.values(), key=lambda kernel: (order.get(kernel.id, len(order)), kernel.id))


def find_kernel(actual: Actual, name: str) -> tuple[Existing, Observed]:
    """The session and its kernel as it was seen.

    Raises NoSuchResource, AmbiguousName, and CommandError where nothing of the session is running or left.
    """
    from bai.queries.names.resource_names import split_kernel
    from bai.render.humanize import clean, join_limited
    from schemas.problems.errors.command import CommandError, NoSuchResource

    _refuse_service(actual, name)
    identity, wanted = split_kernel(name, actual.existing)
    session = actual.existing[identity]
    kernels = {kernel.labels.kernel: kernel for kernel in (*session.strays, *session.kernels)}
    if wanted in kernels:
        return session, kernels[wanted]
    if kernels:
        hint = f"there is {join_limited(sorted(map(clean, kernels)))}"
        raise NoSuchResource(what=f"kernel in {clean(identity)}", name=clean(wanted), hint=hint)
    why = clean(session.reason or session.recorded.reason)
    raise CommandError(
        why=f"{clean(identity)} has no kernel: it is {session.phase or 'not running'}"
        + (f" ({why})" if why else "")
    )


def _refuse_service(actual: Actual, name: str) -> None:
    """Raises CommandError for a service, which is several sessions."""
    from bai.queries.names.service_names import find_service, service_part

    if not service_part(name):
        return
    from bai.queries.services.facts import known_services, replicas_of, short_names
    from bai.render.humanize import clean
    from schemas.problems.errors.command import CommandError

    service = find_service(name, known_services(actual))
    if service:
        names = short_names(each.id for each in replicas_of(actual, service))
        raise CommandError(
            why=f"{clean(service)} is a service, and this is for one of its replicas",
            hint=f"these are {names}" if names else "it has none",
        )
