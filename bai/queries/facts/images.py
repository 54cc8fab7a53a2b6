"""The images that documents name, with what the store remembers of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bai.render.plan.images import ImageView
    from reconciler.observe.images import KnownImage
    from reconciler.store.reader import StoreReader
    from reconciler.values.state import Desired


def images_of_cluster(desired: Desired) -> tuple[KnownImage, ...]:
    """Every image that is described or used in the cluster."""
    from reconciler.observe.images import known_images

    return known_images(desired.repository, desired.sessions())


def image_views(desired: Desired, store: StoreReader | None) -> tuple[ImageView, ...]:
    """The same with what is known of each; nobody is asked."""
    from bai.render.plan.images import ImageView

    facts = store.images() if store is not None else {}
    nothing = (None, None)
    return tuple(
        ImageView(each, *facts.get(str(each.reference), nothing)) for each in images_of_cluster(desired)
    )
