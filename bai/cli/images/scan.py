"""Asking registries about images, and remembering what they say."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from bai.cli.images.list import find, known_of
from bai.cli.output import emit
from bai.render.humanize import clean, plural, size

if TYPE_CHECKING:
    from reconciler.workspace.workspace import Workspace


def scan_images(workspace: Workspace, names: tuple[str, ...]) -> bool:
    """True when all of them are known now."""
    from bai.render.plan.images import short_digest
    from reconciler.observe.images import remembered, scan
    from schemas.problems.errors import BaiError

    wanted = tuple(find(workspace, name) for name in names) or known_of(workspace)
    before = remembered(workspace.store)
    failed = 0
    for known, found in scan(workspace.repository, wanted, workspace.secrets.infrastructure):
        if isinstance(found, BaiError):
            failed += 1
            print(f"{clean(known.name)}: {clean(str(found))}", file=sys.stderr)
            continue
        workspace.store.save_images([found], workspace.clock.now())
        old = before.get(found.reference)
        moved = ", was " + short_digest(old.digest) if old and old.digest not in ("", found.digest) else ""
        runs_on = ", ".join(sorted(found.platforms)) or "no architecture"
        told = f"{short_digest(found.digest)}{moved}, {size(found.size())}, {clean(runs_on)}"
        emit(f"{clean(known.name)}: {told}")
    emit(f"Scanned {plural(len(wanted), 'image')}" + (f", {failed} could not be read." if failed else "."))
    return not failed
