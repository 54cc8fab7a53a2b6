"""Asking nodes for their condition: one command each, all at the same time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

from providers.condition.values import Deviation, NodeCondition, ProvisionStamp
from providers.machines.base import Endpoint, Machine
from providers.machines.connections import connect
from providers.machines.remote_modules import call_remote
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.provider import ProviderError

AT_ONCE = 32
SECONDS = 60.0
MODULES = tuple(f"providers.condition.node.{name}" for name in ("system", "state", "main"))


def observe_conditions(endpoints: Iterable[Endpoint]) -> tuple[dict[str, NodeCondition], dict[str, str]]:
    """Node → its condition, and node → why it could not be looked at. Never raises for a node."""
    wanted = tuple(endpoints)
    if not wanted:
        return {}, {}
    with ThreadPoolExecutor(min(AT_ONCE, len(wanted)), "condition") as pool:
        answers = list(zip(wanted, pool.map(_observe_or_reason, wanted), strict=True))
    found = {one.name: each for one, each in answers if isinstance(each, NodeCondition)}
    return found, {one.name: each for one, each in answers if isinstance(each, str)}


def _observe_or_reason(endpoint: Endpoint) -> NodeCondition | str:
    try:
        return observe_condition(connect(endpoint))
    except BaiError as error:
        return error.message + (f" ({error.hint})" if error.hint else "")


def observe_condition(machine: Machine) -> NodeCondition:
    """How one node stands. Raises ProviderError, ProviderUnavailable."""
    return _request(machine, {"do": "look"})


def invalidate_stamp(machine: Machine) -> NodeCondition:
    """The stamp counts no more, until a new one is written. Raises as `observe_condition` does."""
    return _request(machine, {"do": "begin"})


def write_stamp(machine: Machine, stamp: ProvisionStamp, watch: Mapping[str, Any]) -> NodeCondition:
    """Stamp the node, with the watched things as they are now. Raises as `observe_condition` does."""
    content = {
        "profile": stamp.profile, "fingerprint": stamp.fingerprint, "at": stamp.at,
        "document": dict(stamp.document),
    }  # fmt: skip
    return _request(machine, {"do": "seal", "seal": content, "watch": dict(watch)})


def _request(machine: Machine, request: Mapping[str, object]) -> NodeCondition:
    answer = call_remote(machine, MODULES, request, timeout=SECONDS)
    try:
        return _parse_condition(machine.name, cast(Mapping[str, Any], answer))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ProviderError(provider=machine.name, why="its seal cannot be understood") from error


def _parse_condition(node: str, answer: Mapping[str, Any]) -> NodeCondition:
    return NodeCondition(
        node=node,
        stamp=None if answer["seal"] is None else _parse_stamp(answer["seal"]),
        deviations=tuple(Deviation(str(w), str(e), str(f)) for w, e, f in answer["deviations"]),
        os=str(answer["os"]),
        kernel=str(answer["kernel"]),
        boot_id=str(answer["bootId"]),
        reboot_pending=str(answer["rebootPending"]),
        stamp_problem=str(answer["problem"]),
    )


def _parse_stamp(said: Mapping[str, Any]) -> ProvisionStamp:
    return ProvisionStamp(
        profile=str(said["profile"]),
        fingerprint=str(said["fingerprint"]),
        document=dict(said.get("document", {})),
        at=float(said.get("at", 0)),
        boot_id=str(said.get("bootId", "")),
        unfinished=bool(said.get("unfinished", False)),
    )
