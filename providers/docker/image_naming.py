"""What a node means by the name of an image that a container was made from: somebody can remove the image, or
give its name to another one, and the container runs on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from providers.base import ImageState
from providers.docker.engine.engine import Engine
from providers.docker.engine.http import EngineRefusal, quote_segment

_GONE = 404


def image_now(engine: Engine, listed: Mapping[str, Any], name: str) -> ImageState:
    """`listed`: the container in the engine's list, which shows an image by its id as soon as its name means
    it no longer. Only then is the engine asked. Raises EngineRefusal, OSError."""
    if not name or listed.get("Image") == name or listed.get("Image") != listed.get("ImageID"):
        return "same"
    try:
        found = engine.call("GET", f"/images/{quote_segment(name)}/json")
    except EngineRefusal as refusal:
        if refusal.status == _GONE:
            return "gone"
        raise
    return "same" if found.get("Id") == listed["ImageID"] else "another"
