"""Plans as JSON, `bai.plan/v1`: same plan, same bytes. A loaded plan is checked against its own digest
before anybody acts on it."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from typing import Any

from pydantic import TypeAdapter, ValidationError

from reconciler.plan import Plan
from schemas.errors import PlanError

VERSION = "bai.plan/v1"


@functools.cache
def _adapter() -> TypeAdapter[Plan]:
    return TypeAdapter(Plan)


def _plain(plan: Plan) -> dict[str, Any]:
    value: dict[str, Any] = _adapter().dump_python(plan, mode="json")
    for action, dumped in zip(plan.actions, value["actions"], strict=True):
        dumped["verb"] = action.verb
        if action.notice is None:
            del dumped["notice"]
        if not action.in_turn:
            del dumped["in_turn"]
        for side in ("before", "after"):
            for spec in (dumped[side] or {}).get("specs", ()):
                del spec["secret_env"]
                if not spec["files"]:
                    del spec["files"]
    return value


def plan_digest(plan: Plan) -> str:
    """Digest (64 hex digits) of everything that an apply depends on: all but `made_at` and the digest
    itself."""
    value = _plain(plan)
    del value["made_at"], value["digest"]
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def sealed(plan: Plan) -> Plan:
    """The same plan with its digest."""
    return dataclasses.replace(plan, digest=plan_digest(plan))


def dump(plan: Plan) -> str:
    """The plan as JSON text, keys sorted, ending in a newline. `verb` is written for readers, and ignored
    when loading."""
    value = {"version": VERSION, "plan": _plain(plan)}
    return json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False) + "\n"


def load(text: str) -> Plan:
    """The plan that `dump` wrote.

    Raises PlanError for anything else: not JSON, another version, missing or unknown parts, or a digest that
    does not fit the contents.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PlanError(why="the saved plan is not JSON", hint=str(error)) from error
    if not isinstance(value, dict) or value.get("version") != VERSION:
        found = value.get("version") if isinstance(value, dict) else None
        raise PlanError(
            why=f"the saved plan has version {found!r}, not {VERSION}", hint="make the plan again"
        )
    try:
        plan = _adapter().validate_python(_without_verbs(value.get("plan")))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise PlanError(
            why=f"the saved plan is damaged at {where}: {first['msg']}", hint="make the plan again"
        ) from error
    if plan.digest != plan_digest(plan):
        raise PlanError(
            why="the saved plan was changed: its digest does not fit its contents", hint="make the plan again"
        )
    return plan


def _without_verbs(plan: object) -> object:
    """Without the words that are derived."""
    if isinstance(plan, dict) and isinstance(plan.get("actions"), list):
        actions = [
            {k: v for k, v in a.items() if k != "verb"} if isinstance(a, dict) else a for a in plan["actions"]
        ]
        return plan | {"actions": actions}
    return plan
