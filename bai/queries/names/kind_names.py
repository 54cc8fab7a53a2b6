"""Kinds as people type them: `session`, `sessions`, `resource-groups`, `rg`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schemas.values.kind_names import KIND_NAMES

if TYPE_CHECKING:
    from schemas.problems.errors.command import NoSuchResource

ABBREVIATIONS = {
    "s": "Session",
    "ses": "Session",
    "no": "Node",
    "pool": "NodePool",
    "template": "SessionTemplate",
    "templates": "SessionTemplate",
    "profile": "NodeProfile",
    "profiles": "NodeProfile",
    "rg": "ResourceGroup",
    "svc": "Service",
    "vol": "Volume",
}


def kind_of(word: str) -> str | None:
    """The kind that a word means, in any case, plural or dashed; None when it means none."""
    plain = word.lower().replace("-", "").replace("_", "")
    if plain in ABBREVIATIONS:
        return ABBREVIATIONS[plain]
    for kind in KIND_NAMES:
        lower = kind.lower()
        if plain in (lower, f"{lower}s", f"{lower[:-1]}ies"):
            return kind
    return None


def no_such_kind(word: str) -> NoSuchResource:
    """The error for a word that means none."""
    from bai.render.humanize import clean
    from schemas.problems.errors.command import NoSuchResource
    from schemas.problems.text import did_you_mean

    return NoSuchResource(what="kind", name=clean(word), hint=did_you_mean(word, KIND_NAMES))
