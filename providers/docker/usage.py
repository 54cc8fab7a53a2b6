"""What kernels use, as their engines measure it, and how busy their GPUs are."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from providers.abilities import GpuUsage, Usage
from providers.docker.engine.engine import Engine
from providers.docker.engine.errors import engine_errors
from providers.docker.engine.http import EngineRefusal, quote_segment
from providers.docker.fleet import Fleet
from providers.docker.observe import kernel_id, parse_number, parse_time
from schemas.problems.errors.provider import ProviderError
from schemas.values.naturals import parse_natural

NVIDIA = (
    "nvidia-smi", "--query-gpu=uuid,utilization.gpu,memory.used", "--format=csv,noheader,nounits",
)  # fmt: skip
MIB = 2**20
AT_ONCE = 8
"""Kernels of one node that are asked for at the same time: version 20.10 takes a second for each answer."""


def measure_all(fleet: Fleet) -> Iterator[Usage]:
    """Every live kernel's use now; nodes that cannot be asked are left out."""
    found, _ = fleet.ask_all(lambda engine: list(_measure_node(engine)), patient=True)
    for node, kernels in found.items():
        yield from (each for each in kernels if fleet.may_have(each.kernel, node))


def _measure_node(engine: Engine) -> Iterator[Usage]:
    listed = engine.call(
        "GET", "/containers/json", query={"filters": {"label": ["bai.id"], "status": ["running"]}}
    )
    devices: dict[str, tuple[str, ...]] = {kernel_id(each): _placed_gpus(each) for each in listed}
    gpus = _query_gpus(engine) if any(devices.values()) else {}
    with ThreadPoolExecutor(AT_ONCE, "docker-stats") as pool:
        answers = pool.map(lambda each: _query_stats(engine, each["Id"]), listed)
        for each, stats in zip(listed, answers, strict=True):
            kernel = kernel_id(each)
            if stats is not None:
                yield parse_stats(
                    kernel, stats, {name: gpus[name] for name in devices[kernel] if name in gpus}
                )


def _query_stats(engine: Engine, container: str) -> Mapping[str, Any] | None:
    """None where it has ended meanwhile."""
    query = {"stream": False, "one-shot": True}
    try:
        found: Mapping[str, Any] = engine.call(
            "GET", f"/containers/{quote_segment(container)}/stats", query=query
        )
        return found
    except EngineRefusal:
        return None


def parse_stats(kernel: str, stats: Mapping[str, Any], gpus: Mapping[str, GpuUsage]) -> Usage:
    """From what the engine says. Pure."""
    memory = stats.get("memory_stats") or {}
    nanoseconds = ((stats.get("cpu_stats") or {}).get("cpu_usage") or {}).get("total_usage")
    networks = (stats.get("networks") or {}).values()
    return Usage(
        kernel=kernel,
        at=parse_time(str(stats.get("read", ""))) or datetime.now(UTC),
        cpu_seconds=None if nanoseconds is None else parse_number(nanoseconds) / 1e9,
        memory=_used_memory(memory),
        memory_limit=_as_count(memory.get("limit")),
        network_in=_sum_networks(networks, "rx_bytes"),
        network_out=_sum_networks(networks, "tx_bytes"),
        pids=_as_count((stats.get("pids_stats") or {}).get("current")),
        gpus=gpus,
    )


def _used_memory(memory: Mapping[str, Any]) -> int | None:
    """Without page cache that can be given back, as `docker stats` counts."""
    if "usage" not in memory:
        return None
    stats = memory.get("stats") or {}
    cache = stats.get("total_inactive_file", stats.get("inactive_file", 0))
    return max(0, parse_number(memory["usage"]) - parse_number(cache))


def _as_count(said: Any) -> int | None:
    return None if said is None else parse_number(said)


def _sum_networks(networks: Iterable[Mapping[str, Any]], name: str) -> int | None:
    """None where the kernel has its node's network."""
    values = [parse_number(each[name]) for each in networks if name in each]
    return sum(values) if values else None


def _placed_gpus(listed: Mapping[str, Any]) -> tuple[str, ...]:
    """The NVIDIA GPUs that a kernel's placement names."""
    try:
        said = json.loads((listed.get("Labels") or {}).get("bai.placement") or "{}")
        names = [str(device["id"]) for device in said.get("devices", ())]
    except (ValueError, TypeError, KeyError, AttributeError):
        return ()
    return tuple(name for name in names if name.startswith("GPU-"))


def _query_gpus(engine: Engine) -> Mapping[str, GpuUsage]:
    """By UUID; none where the node has no `nvidia-smi` or cannot be reached beside its engine."""
    try:
        with engine_errors(engine.node):
            done = engine.machine.run(NVIDIA, timeout=20)
    except ProviderError:
        return {}
    return parse_gpu_usage(done.out.decode(errors="replace")) if done.code == 0 else {}


def parse_gpu_usage(text: str) -> dict[str, GpuUsage]:
    """Lines of `NVIDIA`; what the driver does not support reads `[N/A]`. Pure."""
    found = {}
    for line in text.splitlines():
        parts = [part.strip() for part in line.split(",")]
        if len(parts) == 3:
            busy, memory = map(parse_natural, parts[1:])
            found[parts[0]] = GpuUsage(busy, None if memory is None else memory * MIB)
    return found
