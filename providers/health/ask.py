"""Asking nodes for their health: one command on each, all at the same time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import cast

from pydantic import ValidationError

from providers.health.facts import Facts
from providers.health.rules import judge
from providers.health.values import Expected, Health
from providers.machines.base import Machine
from providers.machines.remote_modules import call
from schemas.problems.errors import BaiError, MachineRefused

AT_ONCE = 32
SECONDS = 90.0
"""For one node; a driver that hangs takes 30 of them."""
_HERE = "providers.health.node"
_MODULES = tuple(
    f"{_HERE}.{name}" for name in ("files", "nvml", "smi", "kernel_log", "driver", "system", "main")
)


def facts_of(machine: Machine, root: str = "") -> Facts:
    """The machine's facts, or those of the copy of one below `root` there. Raises ProviderError."""
    answer = call(machine, _MODULES, {"root": root}, timeout=SECONDS)
    missing = Facts.model_fields.keys() - answer.keys() if isinstance(answer, dict) else {"everything"}
    if missing:
        why = f"what it says of its health lacks {', '.join(sorted(missing))}"
        raise MachineRefused(node=machine.name, what="to tell its health", why=why)
    try:
        return Facts.model_validate(answer)
    except ValidationError as error:
        why = f"what it says of its health cannot be understood: {error.errors()[0]['msg']}"
        raise MachineRefused(node=machine.name, what="to tell its health", why=why) from None


def health_of(
    machines: Mapping[str, Callable[[], Machine]], expected: Mapping[str, Expected], root: str = ""
) -> dict[str, Health]:
    """Node → its health; where it could not be asked, `problem` says why. Never raises."""
    if not machines:
        return {}
    with ThreadPoolExecutor(min(AT_ONCE, len(machines)), "health") as pool:
        found = pool.map(
            lambda node: _one(node, machines[node], expected.get(node, Expected()), root), machines
        )
        return dict(zip(machines, found, strict=True))


def _one(node: str, machine: Callable[[], Machine], expected: Expected, root: str) -> Health:
    try:
        facts = facts_of(machine(), root)
    except BaiError as error:
        return Health(node, expected=expected, problem=error.message)
    return Health(node, judge(facts, expected), facts, expected)


def settle(machine: Machine, root: str = "") -> None:
    """Mark the machine's log: Xid errors up to now count no more. Raises ProviderError, MachineRefused."""
    answer = cast(Mapping[str, str], call(machine, _MODULES, {"do": "settle", "root": root}))
    if answer["problem"]:
        raise MachineRefused(node=machine.name, what="a mark in its log", why=answer["problem"])
