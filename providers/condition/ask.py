"""Asking nodes for their condition: one command each, all at the same time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

from providers.condition.values import Condition, Deviation, Seal
from providers.machines.base import Endpoint, Machine
from providers.machines.connections import connect
from providers.machines.remote_modules import call
from schemas.problems.errors import BaiError, ProviderError

AT_ONCE = 32
SECONDS = 60.0
MODULES = tuple(f"providers.condition.node.{name}" for name in ("system", "state", "main"))


def observe(endpoints: Iterable[Endpoint]) -> tuple[dict[str, Condition], dict[str, str]]:
    """Node → its condition, and node → why it could not be looked at. Never raises for a node."""
    wanted = tuple(endpoints)
    if not wanted:
        return {}, {}
    with ThreadPoolExecutor(min(AT_ONCE, len(wanted)), "condition") as pool:
        answers = list(zip(wanted, pool.map(_observed, wanted), strict=True))
    found = {one.name: each for one, each in answers if isinstance(each, Condition)}
    return found, {one.name: each for one, each in answers if isinstance(each, str)}


def _observed(endpoint: Endpoint) -> Condition | str:
    try:
        return condition(connect(endpoint))
    except BaiError as error:
        return error.message + (f" ({error.hint})" if error.hint else "")


def condition(machine: Machine) -> Condition:
    """How one node stands. Raises ProviderError, ProviderUnavailable."""
    return _asked(machine, {"do": "look"})


def begin(machine: Machine) -> Condition:
    """What the node was sealed with counts no more, until it is sealed anew. Raises as `condition` does."""
    return _asked(machine, {"do": "begin"})


def write_seal(machine: Machine, seal: Seal, watch: Mapping[str, Any]) -> Condition:
    """Seal the node with the watched things as they are now. Raises as `condition` does."""
    content = {
        "profile": seal.profile, "fingerprint": seal.fingerprint, "at": seal.at,
        "document": dict(seal.document),
    }  # fmt: skip
    return _asked(machine, {"do": "seal", "seal": content, "watch": dict(watch)})


def _asked(machine: Machine, request: Mapping[str, object]) -> Condition:
    answer = call(machine, MODULES, request, timeout=SECONDS)
    try:
        return _condition(machine.name, cast(Mapping[str, Any], answer))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ProviderError(provider=machine.name, why="its seal cannot be understood") from error


def _condition(node: str, answer: Mapping[str, Any]) -> Condition:
    return Condition(
        node=node,
        sealed=None if answer["seal"] is None else _sealed(answer["seal"]),
        deviations=tuple(Deviation(str(w), str(e), str(f)) for w, e, f in answer["deviations"]),
        os=str(answer["os"]),
        kernel=str(answer["kernel"]),
        boot_id=str(answer["bootId"]),
        reboot_pending=str(answer["rebootPending"]),
        seal_problem=str(answer["problem"]),
    )


def _sealed(said: Mapping[str, Any]) -> Seal:
    return Seal(
        profile=str(said["profile"]),
        fingerprint=str(said["fingerprint"]),
        document=dict(said.get("document", {})),
        at=float(said.get("at", 0)),
        boot_id=str(said.get("bootId", "")),
        unfinished=bool(said.get("unfinished", False)),
    )
