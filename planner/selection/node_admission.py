"""Whether a node may take a session at all, before anybody looks at its room."""

from __future__ import annotations

from collections.abc import Iterator

from planner.model.types import NodeInfo, Reason
from planner.selection.base import NodeFilter


def refusals(node: NodeInfo, wanted: NodeFilter) -> Iterator[Reason]:
    """Why the node is not considered; nothing when it is. Codes: `state`, `name`, `architecture`, `model`,
    `label`."""
    if node.state != "active":
        yield Reason("state", f"is {node.state}" + (f" ({node.note})" if node.note else ""))
    if wanted.designated and node.name not in wanted.designated:
        yield Reason("name", f"is not {' or '.join(sorted(wanted.designated))}")
    if wanted.architectures and node.hardware.architecture not in wanted.architectures:
        names = " or ".join(sorted(wanted.architectures))
        yield Reason("architecture", f"is {node.hardware.architecture}, and its image runs on {names}")
    if wanted.gpu_models:
        models = {gpu.model for gpu in node.hardware.gpus}
        if wanted.gpu_models.isdisjoint(models):
            has = ", ".join(sorted(model or "GPUs of unknown model" for model in models)) or "no GPU"
            yield Reason("model", f"has {has}, not {' or '.join(sorted(wanted.gpu_models))}")
    for key, value in wanted.selector:
        if node.labels.get(key) != value:
            has = f"{key}={node.labels[key]}" if key in node.labels else f"no label {key}"
            yield Reason("label", f"has {has}, not {key}={value}")
