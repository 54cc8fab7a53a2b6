"""Plans as JSON, `bai.plan/v1`: same plan, same bytes. A loaded plan is checked against its own digest
before anybody acts on it."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from typing import Any

from pydantic import TypeAdapter, ValidationError

from providers.base import KernelSpec, Labels
from reconciler.values.encoding.placement_json import without_unset
from reconciler.values.plan import Plan
from schemas.problems.errors.plan import PlanError

VERSION = "bai.plan/v1"
_OPTIONAL = frozenset(
    {
        *("files", "nics", "tty", "share", "uid", "groups", "user", "others", "read_only_root", "ulimits"),
        *("capabilities", "network", "login", "scratch"),
    }
)
"""Parts of a kernel's spec that are left out where they say nothing."""


@functools.cache
def _adapter() -> TypeAdapter[Plan]:
    return TypeAdapter(Plan)


@functools.cache
def _default_spec() -> dict[str, Any]:
    blank = KernelSpec("", Labels("", "", "", 0, "", "", ""), (), {})
    value: dict[str, Any] = TypeAdapter(KernelSpec).dump_python(blank, mode="json")
    return value


def plan_values(plan: Plan) -> dict[str, Any]:
    """The plan as JSON values, with the verbs of its actions."""
    value: dict[str, Any] = _adapter().dump_python(plan, mode="json")
    _drop_empty(value, "unreached", "rollout", "violations", "overridden")
    for wait in value["waits"]:
        _drop_empty(wait, "cut_short")
    for action, dumped in zip(plan.actions, value["actions"], strict=True):
        dumped["verb"] = action.verb
        _drop_empty(dumped, "notice", "in_turn", "ghosts")
        for side in (dumped["before"], dumped["after"]):
            if side is not None:
                _drop_empty_of_side(side)
    return value


def _drop_empty_of_side(side: dict[str, Any]) -> None:
    """One side of an action, without what says nothing."""
    _drop_empty(side, "ghosts", "account", "folder", "pulls", "provision")
    if "folder" in side:
        _drop_empty(side["folder"], "new_owner", "projects")
    for pull in side.get("pulls", ()):
        _drop_empty(pull, "size", "registry", "username", "username_from", "password_from")
    for spec in side["specs"]:
        del spec["secret_env"]
        for name in _OPTIONAL & spec.keys():
            if spec[name] == _default_spec()[name]:
                del spec[name]
        for mount in spec["mounts"]:
            _drop_empty(mount, "file_systems", "sub_path")
        if "login" in spec:
            del spec["login"]["seed"]
    for part in (side["placement"] or {}).get("kernels", ()):
        without_unset(part)


def _drop_empty(value: dict[str, Any], *names: str) -> None:
    for name in names:
        if not value[name]:
            del value[name]


def plan_digest(plan: Plan) -> str:
    """Digest (64 hex digits) of everything that an apply depends on: all but `made_at` and the digest
    itself."""
    value = plan_values(plan)
    del value["made_at"], value["digest"]
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def with_digest(plan: Plan) -> Plan:
    """The same plan with its digest."""
    return dataclasses.replace(plan, digest=plan_digest(plan))


def dump_plan(plan: Plan) -> str:
    """The plan as JSON text, keys sorted, ending in a newline. `verb` is written for readers, and ignored
    when loading."""
    value = {"version": VERSION, "plan": plan_values(plan)}
    return json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False) + "\n"


def load_plan(text: str) -> Plan:
    """The plan that `dump_plan` wrote.

    Raises PlanError for anything else: not JSON, another version, missing or unknown parts, or a digest that
    does not fit the contents.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        hint = "`bai plan --out FILE` saves one"
        raise PlanError(why=f"this is no saved plan, not even JSON: {error}", hint=hint) from error
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
