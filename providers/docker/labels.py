"""Who a kernel belongs to, as labels of its container. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from providers.base import Labels

PREFIX = "bai."
ID = "bai.id"
"""The label that marks a container as a kernel, with the kernel's id."""
NODE = "bai.node"
"""The node that it was made for."""
_TEXTS = ("repo", "cluster", "resource", "digest", "kernel", "node", "commit", "document", "placement")
_SHORT = frozenset(_TEXTS) - {"document", "placement"}
_NAME = re.compile(r"[!-~]{0,1024}")


def to_engine_labels(kernel_id: str, labels: Labels) -> dict[str, str]:
    """Labels for the engine."""
    texts = {PREFIX + name: str(getattr(labels, name)) for name in _TEXTS}
    numbers = {
        "bai.generation": str(labels.generation),
        "bai.protected": "true" if labels.protected else "false",
    }
    return {ID: kernel_id, **texts, **numbers}


def from_engine_labels(found: Mapping[str, str]) -> Labels | None:
    """What an engine's labels say; None when they are not of a kernel, or such as bai never writes."""
    try:
        if not all(_NAME.fullmatch(found.get(PREFIX + name, "")) for name in _SHORT):
            return None
        generation = int(found["bai.generation"])
        if not 0 <= generation < 2**53:
            return None
        return Labels(
            repo=found["bai.repo"],
            cluster=found["bai.cluster"],
            resource=found["bai.resource"],
            generation=generation,
            digest=found["bai.digest"],
            kernel=found["bai.kernel"],
            node=found[NODE],
            protected=found.get("bai.protected") == "true",
            commit=found.get("bai.commit", ""),
            document=str(found.get("bai.document", "")),
            placement=str(found.get("bai.placement", "")),
        )
    except (KeyError, ValueError, TypeError):
        return None
