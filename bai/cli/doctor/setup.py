"""Whether what runs the sessions elsewhere has what bai needs of it, as its provider finds out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from bai.cli.doctor.check import Finding

if TYPE_CHECKING:
    from bai.settings import Settings


def setup_checks(settings: Settings) -> Iterator[Finding]:
    """Nothing for providers that have no such checks."""
    from providers.abilities import ChecksSetup
    from schemas.problems.errors.base import BaiError

    try:
        with settings.reading_workspace() as workspace:
            provider = workspace.provider
            found = tuple(provider.check_setup()) if isinstance(provider, ChecksSetup) else ()
    except BaiError as error:
        yield Finding("provider", "failed", error.message, error.hint)
        return
    for one in found:
        yield Finding(one.name, "failed" if one.failed else "ok", one.text, one.hint)
