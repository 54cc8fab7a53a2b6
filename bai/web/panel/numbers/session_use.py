"""What a session's containers use now, for pages that draw it while somebody looks.

However many look, nodes are asked as `SharedUsage` has it, and an answer is made once for each measurement.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from bai.render.humanize import clean
from providers.required_abilities import require_usage
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.provider import NotAble

if TYPE_CHECKING:
    from bai.web.cluster_loops import ServedCluster
    from providers.abilities import Usage
    from providers.base import Observed
    from reconciler.values.state import Existing

MOST_KERNELS = 64
"""That an answer has."""


def measured_use(cluster: ServedCluster) -> Mapping[str, Usage] | str:
    """Kernel → what it has used by now; in words, why that is not known."""
    workspace = cluster.loop.workspace
    try:
        return cluster.usage.measure(require_usage(workspace.provider, workspace.cluster))
    except NotAble as error:
        return str(error)
    except BaiError:
        return "nodes cannot be asked just now"


def session_use(item: Existing, measured: Mapping[str, Usage] | str) -> dict[str, Any]:
    """As scripts read it: counters and amounts of each container, or why there are none."""
    if isinstance(measured, str):
        return {"why": clean(measured), "kernels": [], "total": 0}
    found = [kernel for kernel in item.kernels if kernel.id in measured]
    return {
        "why": "" if found else "nothing was measured yet",
        "kernels": list(_kernels(item, found[:MOST_KERNELS], measured)),
        "total": len(found),
    }


def _kernels(
    item: Existing, found: list[Observed], measured: Mapping[str, Usage]
) -> Iterator[dict[str, Any]]:
    placement = item.recorded.placement
    parts = {part.kernel: part for part in placement.kernels} if placement else {}
    for kernel in found:
        use, part = measured[kernel.id], parts.get(kernel.labels.kernel)
        yield {
            "name": clean(kernel.labels.kernel),
            "node": clean(kernel.labels.node),
            "at": use.at.timestamp(),
            "cpu": use.cpu_seconds,
            "cores": part.cpu_milli / 1000 if part else None,
            "memory": use.memory,
            "limit": use.memory_limit,
            "gpus": [
                {"name": clean(name), "busy": gpu.busy, "memory": gpu.memory}
                for name, gpu in sorted(use.gpus.items())
            ],
        }
