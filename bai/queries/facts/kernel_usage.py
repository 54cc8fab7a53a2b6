"""What kernels have used by a moment, as a server tells it: counters, of which whoever asks makes rates."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from providers.abilities import Usage
    from providers.base import Labels

Counter = Annotated[int, Field(ge=0)]


class _Fact(BaseModel):
    model_config = ConfigDict(frozen=True)


class GpuUsageFact(_Fact):
    """`busy` in percent of the last sample period; `memory` in bytes."""

    busy: Counter | None
    memory: Counter | None


class KernelUsageFact(_Fact):
    """One container's. `cpuSeconds` and bytes of the network grow until it restarts; null: not known."""

    id: str
    session: str
    kernel: str
    node: str
    at: datetime
    cpuSeconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None
    memory: Counter | None
    memoryLimit: Counter | None
    networkIn: Counter | None
    networkOut: Counter | None
    pids: Counter | None
    gpus: dict[str, GpuUsageFact]


class UsageFacts(_Fact):
    """Of the containers that may be seen and were measured."""

    kernels: list[KernelUsageFact]


def usage_fact(use: Usage, labels: Labels) -> KernelUsageFact:
    """As it is sent."""
    gpus = {name: GpuUsageFact(busy=gpu.busy, memory=gpu.memory) for name, gpu in use.gpus.items()}
    return KernelUsageFact(
        id=use.kernel, session=labels.resource, kernel=labels.kernel, node=labels.node, at=use.at,
        cpuSeconds=use.cpu_seconds, memory=use.memory, memoryLimit=use.memory_limit,
        networkIn=use.network_in, networkOut=use.network_out, pids=use.pids, gpus=gpus,
    )  # fmt: skip


def usage_of(fact: KernelUsageFact) -> Usage:
    """As it was measured."""
    from providers.abilities import GpuUsage, Usage

    return Usage(
        fact.id, fact.at, fact.cpuSeconds, fact.memory, fact.memoryLimit, fact.networkIn, fact.networkOut,
        fact.pids, {name: GpuUsage(gpu.busy, gpu.memory) for name, gpu in fact.gpus.items()},
    )  # fmt: skip


def labels_of(fact: KernelUsageFact) -> Labels:
    """Whose kernel it is; what a server does not tell is empty."""
    from providers.base import Labels

    return Labels("", "", fact.session, 0, "", fact.kernel, fact.node)
