"""Kinds as people type them: `session`, `sessions`, `resource-groups`, `rg`."""

from __future__ import annotations

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
    "vol": "Volume",
}


def kind_of(word: str) -> str | None:
    """The kind that a word means, in any case, plural or dashed; None when it means none."""
    from schemas.kinds.kind_registry import KINDS

    plain = word.lower().replace("-", "").replace("_", "")
    if plain in ABBREVIATIONS:
        return ABBREVIATIONS[plain]
    for kind in KINDS:
        lower = kind.lower()
        if plain in (lower, f"{lower}s", f"{lower[:-1]}ies"):
            return kind
    return None
