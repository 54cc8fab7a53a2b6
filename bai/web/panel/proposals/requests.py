"""What somebody asks to be changed, and who may. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast, get_args

from bai.web.auth.roles import Role
from reconciler.gitops.submit import FileChange
from reconciler.proposals.edits import Documents, NodeState
from schemas.problems.errors.command import CommandError
from schemas.values.naturals import parse_natural
from schemas.values.resource_ref import ref_of

Action = Literal["add", "end", "priority", "node", "edit"]
ACTIONS: tuple[Action, ...] = get_args(Action)
_STATES: dict[str, str] = {"active": "Uncordon", "cordoned": "Cordon", "drained": "Drain"}
_MOST_PRIORITY = 1000
_OPERATORS = frozenset({"Quota"})
"""Kinds outside of projects whose documents an operator of all projects may write."""


@dataclass(frozen=True, slots=True)
class ChangeRequest:
    """`target`: an identity, empty for what is new; `value`: a priority or a node's state; `text`: a
    document."""

    action: Action
    target: str = ""
    value: str = ""
    text: str = ""

    @property
    def needs_text(self) -> bool:
        """Whether a document is to be written before there is anything to look at."""
        return self.action in ("add", "edit") and not self.text

    @property
    def needs_value(self) -> bool:
        """Whether a number is to be typed first."""
        return self.action == "priority" and not self.value


@dataclass(frozen=True, slots=True)
class PreparedChange:
    """`identity`: of what changes; `title`: begins the commit's message."""

    identity: str
    title: str
    change: FileChange


def read_request(action: str, target: str, value: str, text: str) -> ChangeRequest:
    """Raises CommandError for what is no change."""
    if action not in ACTIONS:
        raise CommandError(why="there is no such change")
    wanted = {"end": "Session", "priority": "Session", "node": "Node"}.get(action)
    ref = ref_of(target)
    fits = bool(ref.name) and wanted in (None, ref.kind) and (ref.kind != "Node" or not ref.project)
    if action != "add" and not fits:
        raise CommandError(why=f"{action}: this is not what can be changed so")
    return ChangeRequest(action, target, value.strip(), text.replace("\r\n", "\n"))


def prepare(documents: Documents, asked: ChangeRequest) -> PreparedChange:
    """The file that it makes. Raises CommandError, InvalidRepository."""
    target = asked.target
    match asked.action:
        case "add":
            identity, change = documents.add_session(asked.text)
            return PreparedChange(identity, f"Run {identity}", change)
        case "end":
            return PreparedChange(target, f"End {target}", documents.end_session(target))
        case "priority":
            number = parse_natural(asked.value, _MOST_PRIORITY)
            if number is None:
                raise CommandError(why=f"a priority is a number from 0 to {_MOST_PRIORITY}")
            change = documents.set_priority(target, number)
            return PreparedChange(target, f"Set the priority of {target} to {number}", change)
        case "node":
            if asked.value not in _STATES:
                raise CommandError(why=f"a node is {', '.join(_STATES)}")
            change = documents.set_node_state(ref_of(target).name, cast(NodeState, asked.value))
            return PreparedChange(target, f"{_STATES[asked.value]} {target}", change)
        case "edit":
            return PreparedChange(target, f"Change {target}", documents.replace_document(target, asked.text))


def required_role(asked: ChangeRequest, identity: str) -> tuple[Role, str]:
    """The role, and for which project; empty for all of them."""
    ref = ref_of(identity)
    if ref.kind == "Session" and ref.project:
        return Role.operator, ref.project
    if asked.action == "node" or ref.kind in _OPERATORS:
        return Role.operator, ""
    return Role.admin, ""
