"""What registries and engines said of images, by full reference; the same for all clusters."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection

from reconciler.store.database.tables import images
from reconciler.store.database.upsert import replace_row
from schemas.images.facts import ImageFacts


def write_images(connection: Connection, found: Iterable[ImageFacts], now: float) -> None:
    """Remember these, each replacing what was known of it."""
    # In one order, so that two writers do not wait for each other.
    for facts in sorted(found, key=lambda each: each.reference):
        values = {"reference": facts.reference, "document": facts.model_dump_json(), "at": now}
        replace_row(connection, images, values)
