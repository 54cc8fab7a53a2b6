"""Who a kernel belongs to, as labels of its container. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from providers.base import Labels

PREFIX = "bai."
ID = "bai.id"
"""The label that marks a container as a kernel, with the kernel's id."""
_TEXTS = ("repo", "cluster", "resource", "digest", "kernel", "node", "commit", "document", "placement")


def written(kernel_id: str, labels: Labels) -> dict[str, str]:
    """Labels for the engine."""
    texts = {PREFIX + name: str(getattr(labels, name)) for name in _TEXTS}
    numbers = {
        "bai.generation": str(labels.generation),
        "bai.protected": "true" if labels.protected else "false",
    }
    return {ID: kernel_id, **texts, **numbers}


def read(found: Mapping[str, str]) -> Labels | None:
    """What an engine's labels say; None when they are not of a kernel."""
    try:
        return Labels(
            repo=found["bai.repo"],
            cluster=found["bai.cluster"],
            resource=found["bai.resource"],
            generation=int(found["bai.generation"]),
            digest=found["bai.digest"],
            kernel=found["bai.kernel"],
            node=found["bai.node"],
            protected=found.get("bai.protected") == "true",
            commit=found.get("bai.commit", ""),
            document=found.get("bai.document", ""),
            placement=found.get("bai.placement", ""),
        )
    except (KeyError, ValueError):
        return None
