"""Folders beneath roots held in place on a node, for engines that would follow links: see `node.pins`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from providers.base import Mount
from providers.machines.base import Machine
from providers.machines.remote_modules import call_remote
from providers.storage.node import pins
from providers.storage.node_modules import MODULES

PLACE = "/run/bai/mounts"
"""Only root gets there; gone with the node's power."""
_MODULES = (*MODULES[:2], "providers.storage.node.pins")


def pin_mounts(machine: Machine | None, kernel: str, mounts: Sequence[Mount]) -> tuple[list[str], str]:
    """Where each is held on the node (None: this machine), and why that cannot be; one of the two is empty.
    Raises ProviderError."""
    folders = [dict(zip(("root", "path"), mount.beneath, strict=True)) for mount in mounts]
    answer = _ask(machine, {"do": "pin", "kernel": kernel, "folders": folders})
    return answer.get("sources", []), answer.get("refused", "")


def unpin_mounts(machine: Machine | None, kernel: str) -> str:
    """Let go of all that is held for a kernel; gives why that cannot be. Raises ProviderError."""
    return str(_ask(machine, {"do": "unpin", "kernel": kernel}).get("refused", ""))


def _ask(machine: Machine | None, request: dict[str, Any]) -> dict[str, Any]:
    asked = {**request, "place": PLACE}
    answer = pins.serve(asked) if machine is None else call_remote(machine, _MODULES, asked)
    return cast(dict[str, Any], answer)
