"""Asking nodes for their health: one command on each, all at the same time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import cast

from pydantic import ValidationError

from providers.health.facts import MachineFacts
from providers.health.rules import judge
from providers.health.values import ExpectedNode, NodeHealth
from providers.machines.base import Machine
from providers.machines.remote_modules import call_remote
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.node import MachineRefused

AT_ONCE = 32
SECONDS = 90.0
"""For one node; a driver that hangs takes 30 of them."""
_PACKAGE = "providers.health.node"
_MODULES = tuple(
    f"{_PACKAGE}.{name}" for name in ("files", "nvml", "smi", "kernel_log", "driver", "system", "main")
)


def query_facts(machine: Machine, root: str = "") -> MachineFacts:
    """The machine's facts, or those of the copy of one below `root` there. Raises ProviderError."""
    answer = call_remote(machine, _MODULES, {"root": root}, timeout=SECONDS)
    missing = MachineFacts.model_fields.keys() - answer.keys() if isinstance(answer, dict) else {"everything"}
    if missing:
        why = f"what it says of its health lacks {', '.join(sorted(missing))}"
        raise MachineRefused(node=machine.name, what="to tell its health", why=why)
    try:
        return MachineFacts.model_validate(answer)
    except ValidationError as error:
        why = f"what it says of its health cannot be understood: {error.errors()[0]['msg']}"
        raise MachineRefused(node=machine.name, what="to tell its health", why=why) from None


def query_health(
    machines: Mapping[str, Callable[[], Machine]], expected: Mapping[str, ExpectedNode], root: str = ""
) -> dict[str, NodeHealth]:
    """Node → its health; where it could not be asked, `problem` says why. Never raises."""
    if not machines:
        return {}
    with ThreadPoolExecutor(min(AT_ONCE, len(machines)), "health") as pool:
        found = pool.map(
            lambda node: _query_node(node, machines[node], expected.get(node, ExpectedNode()), root), machines
        )
        return dict(zip(machines, found, strict=True))


def _query_node(node: str, machine: Callable[[], Machine], expected: ExpectedNode, root: str) -> NodeHealth:
    try:
        facts = query_facts(machine(), root)
    except BaiError as error:
        return NodeHealth(node, expected=expected, problem=error.message)
    return NodeHealth(node, judge(facts, expected), facts, expected)


def settle_log(machine: Machine, root: str = "") -> None:
    """Mark the machine's log: Xid errors up to now count no more. Raises ProviderError, MachineRefused."""
    answer = cast(Mapping[str, str], call_remote(machine, _MODULES, {"do": "settle", "root": root}))
    if answer["problem"]:
        raise MachineRefused(node=machine.name, what="a mark in its log", why=answer["problem"])
