"""The session and kernel that a command line names."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from providers.base import Observed
    from reconciler.actual import Actual, Existing


def find_kernel(actual: Actual, name: str) -> tuple[Existing, Observed]:
    """The session and its kernel as it was seen.

    Raises NoSuchResource, AmbiguousName, and CommandError where nothing of the session is running or left.
    """
    from bai.cli.names import split_kernel
    from bai.render.words import clean, listed
    from schemas.errors import CommandError, NoSuchResource

    identity, wanted = split_kernel(name, actual.existing)
    session = actual.existing[identity]
    kernels = {kernel.labels.kernel: kernel for kernel in (*session.strays, *session.kernels)}
    if wanted in kernels:
        return session, kernels[wanted]
    if kernels:
        hint = f"there is {listed(sorted(map(clean, kernels)))}"
        raise NoSuchResource(what=f"kernel in {clean(identity)}", name=clean(wanted), hint=hint)
    why = clean(session.reason or session.recorded.reason)
    raise CommandError(
        why=f"{clean(identity)} has no kernel: it is {session.phase or 'not running'}"
        + (f" ({why})" if why else "")
    )
