"""Plans as JSON, `bai.plan/v1`: same plan, same bytes. A loaded plan is checked against its own digest
before anybody acts on it.

Two things are flatter than their values: a cause is the code `cause` and its text `why`, and the sides of all
kinds have the fields of a session's, which say nothing where there is none.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from typing import Any

from pydantic import TypeAdapter, ValidationError

from planner.model.types import Wait
from providers.base import KernelSpec, Labels
from reconciler.values.changes.change import ChangeKind
from reconciler.values.encoding.placement_json import without_unset
from reconciler.values.plan import Action, Plan
from reconciler.values.sides import AnySide, SessionSide, side_type
from schemas.problems.errors.plan import PlanError
from schemas.values.once_per_value import once_per_value
from schemas.values.resource_ref import ref_of

VERSION = "bai.plan/v1"
_NOT_COUNTED = frozenset({"made_at", "digest"})
"""What the digest of a plan leaves out."""
_OPTIONAL = frozenset(
    {
        *("files", "nics", "tty", "share", "uid", "groups", "user", "others", "read_only_root", "ulimits"),
        *("capabilities", "network", "login", "scratch", "hugepages", "parts"),
    }
)
"""Parts of a kernel's spec that are left out where they say nothing."""


@functools.cache
def _adapter() -> TypeAdapter[Plan]:
    return TypeAdapter(Plan)


@functools.cache
def _action_adapter() -> TypeAdapter[Action]:
    return TypeAdapter(Action)


@functools.cache
def _wait_adapter() -> TypeAdapter[Wait]:
    return TypeAdapter(Wait)


@functools.cache
def _default_spec() -> dict[str, Any]:
    blank = KernelSpec("", Labels("", "", "", 0, "", "", ""), (), {})
    value: dict[str, Any] = TypeAdapter(KernelSpec).dump_python(blank, mode="json")
    return value


@functools.cache
def _blank_session() -> str:
    """The side of a session that says nothing, as JSON, so that each reader has its own copy."""
    return _side_adapter("Session").dump_json(SessionSide(0, "")).decode()


@functools.cache
def _side_adapter(kind: str) -> TypeAdapter[AnySide]:
    return TypeAdapter(side_type(kind))


def plan_values(plan: Plan) -> dict[str, Any]:
    """The plan as JSON values, with the verbs of its actions."""
    value = _values_around_actions(plan)
    value["actions"] = [_action_values(action) for action in plan.actions]
    value["waits"] = [_wait_values(wait) for wait in plan.waits]
    return value


def _values_around_actions(plan: Plan) -> dict[str, Any]:
    """The same without an action, and nobody waits."""
    bare = dataclasses.replace(plan, actions=(), waits=())
    value: dict[str, Any] = _adapter().dump_python(bare, mode="json")
    _drop_empty(value, "unreached", "rollout", "violations", "overridden", "node_requests", "services")
    for service in value.get("services", ()):
        for held in service["held"]:
            _drop_empty_of_placement(held["placement"])
        _drop_empty(service, "headroom", "held", "unheld")
    return value


@once_per_value
def _wait_text(wait: Wait) -> str:
    return _compact_json(_wait_values(wait))


def _wait_values(wait: Wait) -> dict[str, Any]:
    dumped: dict[str, Any] = _wait_adapter().dump_python(wait, mode="json")
    _drop_empty(dumped, "cut_short")
    for reason in dumped["reasons"]:
        _drop_empty(reason, "lacks")
    return dumped


@once_per_value
def _action_text(action: Action) -> str:
    return _compact_json(_action_values(action))


def _action_values(action: Action) -> dict[str, Any]:
    dumped: dict[str, Any] = _action_adapter().dump_python(action, mode="json")
    dumped["verb"], dumped["why"] = action.verb, action.why
    dumped["cause"] = action.cause and action.cause.code.value
    _drop_empty(dumped, "cause", "notice", "in_turn", "ghosts")
    for change in dumped["changes"]:
        _drop_empty(change, "subject")
        if change["kind"] == ChangeKind.FIELD:
            del change["kind"]
    for name, side in (("before", action.before), ("after", action.after)):
        if side is not None:
            if not isinstance(side, SessionSide):
                dumped[name] = json.loads(_blank_session()) | dumped[name]
            _drop_empty_of_side(dumped[name])
    return dumped


def _drop_empty_of_side(side: dict[str, Any]) -> None:
    """One side of an action, without what says nothing."""
    _drop_empty(side, "ghosts", "account", "folder", "pulls", "provision", "app_ports")
    if not any(side.get("state", {}).values()):
        side.pop("state", None)
    for held in side.get("state", {}).get("held", ()):
        _drop_empty_of_placement(held["placement"])
    _drop_empty(side.get("state", {}), "held", "last_held")
    if "folder" in side:
        _drop_empty(side["folder"], "new_owner", "projects", "claim", "server")
    for pull in side.get("pulls", ()):
        _drop_empty(pull, "size", "registry", "username", "username_from", "password_from")
    for spec in side["specs"]:
        del spec["secret_env"]
        for name in _OPTIONAL & spec.keys():
            if spec[name] == _default_spec()[name]:
                del spec[name]
        for mount in spec["mounts"]:
            _drop_empty(mount, "file_systems", "sub_path", "server", "claim")
        if "login" in spec:
            del spec["login"]["seed"]
    _drop_empty_of_placement(side["placement"])


def _drop_empty_of_placement(placement: dict[str, Any] | None) -> None:
    if placement is None:
        return
    _drop_empty(placement, "lent")
    _drop_empty(placement["choice"] or {}, "connection")
    for part in placement["kernels"]:
        without_unset(part)


def _drop_empty(value: dict[str, Any], *names: str) -> None:
    for name in names:
        if name in value and not value[name]:
            del value[name]


def plan_digest(plan: Plan) -> str:
    """Digest (64 hex digits) of everything that an apply depends on: all but `made_at` and the digest
    itself."""
    return _digest(_plan_text(plan, without=_NOT_COUNTED))


def _values_digest(values: dict[str, Any]) -> str:
    """The same of a plan's values."""
    return _digest(_compact_json({name: part for name, part in values.items() if name not in _NOT_COUNTED}))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _plan_text(plan: Plan, *, without: frozenset[str] = frozenset()) -> str:
    """The plan's values as JSON in one line. The text of an action, or of a wait,
    that was in a plan before is known."""
    texts = {name: _compact_json(part) for name, part in _values_around_actions(plan).items()}
    texts["actions"] = f"[{','.join(map(_action_text, plan.actions))}]"
    texts["waits"] = f"[{','.join(map(_wait_text, plan.waits))}]"
    parts = (f"{_compact_json(name)}:{text}" for name, text in sorted(texts.items()) if name not in without)
    return f"{{{','.join(parts)}}}"


def _compact_json(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def with_digest(plan: Plan) -> Plan:
    """The same plan with its digest."""
    return dataclasses.replace(plan, digest=plan_digest(plan))


def dump_plan(plan: Plan) -> str:
    """The plan as JSON text, keys sorted, ending in a newline. `verb` is written for readers."""
    value = {"version": VERSION, "plan": plan_values(plan)}
    return json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False) + "\n"


def dump_plan_compactly(plan: Plan) -> str:
    """The same for stores, in one line: Python's fast encoder does not indent."""
    return f'{{"plan":{_plan_text(plan)},"version":{_compact_json(VERSION)}}}'


def idle_plan_values(plan: Plan) -> dict[str, Any]:
    """Of a plan in which nothing is to be done: all but its actions, as JSON values."""
    values: dict[str, Any] = _adapter().dump_python(dataclasses.replace(plan, actions=()), mode="json")
    return values


def idle_plan_from_values(values: object) -> Plan:
    """Raises ValidationError."""
    return _adapter().validate_python(values)


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
        plan = _adapter().validate_python(_nested_plan(value.get("plan")))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise PlanError(
            why=f"the saved plan is damaged at {where}: {first['msg']}", hint="make the plan again"
        ) from error
    # Of what was read, too: what no plan has would otherwise be left out, and nobody told.
    if not plan.digest == plan_digest(plan) == _values_digest(value["plan"]):
        raise PlanError(
            why="the saved plan was changed: its digest does not fit its contents", hint="make the plan again"
        )
    return plan


def _nested_plan(plan: object) -> object:
    """The plan with its actions' causes and sides as values. What has another form is left as it is, for the
    validation that follows."""
    if isinstance(plan, dict) and isinstance(plan.get("actions"), list):
        actions = [_nested_action(each) if isinstance(each, dict) else each for each in plan["actions"]]
        return plan | {"actions": actions}
    return plan


def _nested_action(action: dict[str, Any]) -> dict[str, Any]:
    """Without the verb, which is derived."""
    found = {name: part for name, part in action.items() if name not in ("verb", "why", "cause")}
    if "cause" in action:
        found["cause"] = {"code": action["cause"], "text": action.get("why")}
    kind = ref_of(action["id"]).kind if isinstance(action.get("id"), str) else ""
    for name in ("before", "after"):
        if isinstance(action.get(name), dict):
            found[name] = _nested_side(kind, action[name])
    return found


def _nested_side(kind: str, side: dict[str, Any]) -> AnySide:
    """Raises ValidationError."""
    names = {each.name for each in dataclasses.fields(side_type(kind))}
    return _side_adapter(kind).validate_python({k: v for k, v in side.items() if k in names})
