"""The images that documents name, with what is known of them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bai.cli.output import print_json, print_line, print_table
from bai.render.humanize import clean
from bai.settings import Settings

if TYPE_CHECKING:
    from bai.render.plan.images import ImageView
    from reconciler.observe.images import KnownImage
    from reconciler.store.store import Store
    from reconciler.values.state import Desired
    from reconciler.workspace.workspace import Workspace


def find_image(desired: Desired, name: str) -> KnownImage:
    """The image that a person means. Raises NoSuchResource."""
    from bai.queries.facts.images import images_of_cluster
    from bai.queries.names.resource_names import suggest_names
    from reconciler.observe.images import find_known
    from schemas.problems.errors.command import NoSuchResource

    known = images_of_cluster(desired)
    found = find_known(desired.repository, known, name.removeprefix("Image/"))
    if found is None:
        raise NoSuchResource(
            what="image", name=clean(name), hint=suggest_names(name, [k.name for k in known])
        )
    return found


def image_view(known: KnownImage, store: Store | None) -> ImageView:
    """What the store remembers of it."""
    from bai.render.plan.images import ImageView

    facts = store.images() if store is not None else {}
    return ImageView(known, *facts.get(str(known.reference), (None, None)))


def list_images(settings: Settings, desired: Desired, store: Store | None, *, as_json: bool) -> None:
    """Print them; nobody is asked."""
    from bai.queries.facts.images import image_views
    from bai.render.plan.images import COLUMNS, image_json, image_row

    views = image_views(desired, store)
    if as_json:
        print_json("bai.images/v1", items=[image_json(view) for view in views])
        return
    rows = [image_row(view, time.time()) for view in views]
    print_table(settings, COLUMNS, rows, empty="No image is named by any document.")


def show_image(workspace: Workspace, name: str, *, as_json: bool, offline: bool) -> None:
    """Print one, with the nodes that have it unless `offline`."""
    from dataclasses import replace

    from bai.render.plan.images import image_json, image_lines, nodes_having_image
    from providers.images import PullsImages

    view = image_view(find_image(workspace.desired(), name), workspace.existing_store)
    if not offline and isinstance(workspace.provider, PullsImages):
        nodes = frozenset(node.name for node in workspace.desired().nodes)
        held, unreachable = workspace.provider.images(nodes)
        view = replace(view, nodes=nodes_having_image(held, view.known, view.facts))
        for node, why in sorted(unreachable.items()):
            print_line(f"warning: {clean(node)} could not be asked: {clean(why)}")
    if as_json:
        print_json("bai.image/v1", **image_json(view))
        return
    for line in image_lines(view):
        print_line(line)
