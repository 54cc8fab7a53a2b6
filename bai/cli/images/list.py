"""The images that documents name, with what is known of them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bai.cli.output import emit, print_json, table
from bai.render.humanize import clean
from bai.settings import Settings

if TYPE_CHECKING:
    from bai.render.plan.images import ImageView
    from reconciler.observe.images import Known
    from reconciler.workspace.workspace import Workspace


def known_of(workspace: Workspace) -> tuple[Known, ...]:
    """Every image that is described or used in the cluster."""
    from reconciler.observe.images import known_images

    desired = workspace.desired()
    return known_images(desired.repository, desired.sessions())


def find(workspace: Workspace, name: str) -> Known:
    """The image that a person means. Raises NoSuchResource."""
    from bai.cli.resource_names import suggestion
    from reconciler.observe.images import find_known
    from schemas.problems.errors import NoSuchResource

    known = known_of(workspace)
    found = find_known(workspace.repository, known, name.removeprefix("Image/"))
    if found is None:
        raise NoSuchResource(what="image", name=clean(name), hint=suggestion(name, [k.name for k in known]))
    return found


def view_of(workspace: Workspace, known: Known) -> ImageView:
    """What the store remembers of it."""
    from bai.render.plan.images import ImageView

    facts = workspace.store.images() if workspace.has_store else {}
    return ImageView(known, *facts.get(str(known.reference), (None, None)))


def list_images(settings: Settings, workspace: Workspace, *, as_json: bool) -> None:
    """Print them; nobody is asked."""
    from bai.render.plan.images import COLUMNS, ImageView, image_json, row

    facts = workspace.store.images() if workspace.has_store else {}
    nothing = (None, None)
    views = [ImageView(each, *facts.get(str(each.reference), nothing)) for each in known_of(workspace)]
    if as_json:
        print_json("bai.images/v1", items=[image_json(view) for view in views])
        return
    rows = [row(view, time.time()) for view in views]
    table(settings, COLUMNS, rows, empty="No image is named by any document.")


def show_image(workspace: Workspace, name: str, *, as_json: bool, offline: bool) -> None:
    """Print one, with the nodes that have it unless `offline`."""
    from dataclasses import replace

    from bai.render.plan.images import having, image_json, lines
    from providers.images import Pulls

    view = view_of(workspace, find(workspace, name))
    if not offline and isinstance(workspace.provider, Pulls):
        nodes = frozenset(node.name for node in workspace.desired().nodes)
        held, unreachable = workspace.provider.images(nodes)
        view = replace(view, nodes=having(held, view.known, view.facts))
        for node, why in sorted(unreachable.items()):
            emit(f"warning: {clean(node)} could not be asked: {clean(why)}")
    if as_json:
        print_json("bai.image/v1", **image_json(view))
        return
    for line in lines(view):
        emit(line)
