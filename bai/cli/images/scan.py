"""Asking registries about images, and remembering what they say."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from bai.cli.images.list import find_image
from bai.cli.output import print_line
from bai.render.humanize import clean, plural, size

if TYPE_CHECKING:
    from reconciler.workspace.workspace import Workspace


def scan_images(workspace: Workspace, names: tuple[str, ...]) -> bool:
    """True when all of them are known now."""
    from bai.queries.facts.images import images_of_cluster
    from bai.render.plan.images import short_digest
    from reconciler.observe.images import recorded_images, scan_registries
    from schemas.problems.errors.base import BaiError

    desired = workspace.desired()
    wanted = tuple(find_image(desired, name) for name in names) or images_of_cluster(desired)
    before = recorded_images(workspace.store)
    failed = 0
    for known, found in scan_registries(workspace.repository, wanted, workspace.secrets.for_infrastructure):
        if isinstance(found, BaiError):
            failed += 1
            print(f"{clean(known.name)}: {clean(str(found))}", file=sys.stderr)
            continue
        workspace.store.save_images([found], workspace.clock.now())
        old = before.get(found.reference)
        moved = ", was " + short_digest(old.digest) if old and old.digest not in ("", found.digest) else ""
        runs_on = ", ".join(sorted(found.platforms)) or "no architecture"
        description = f"{short_digest(found.digest)}{moved}, {size(found.size())}, {clean(runs_on)}"
        print_line(f"{clean(known.name)}: {description}")
    print_line(
        f"Scanned {plural(len(wanted), 'image')}" + (f", {failed} could not be read." if failed else ".")
    )
    return not failed
