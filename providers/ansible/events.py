"""What a run tells, made into `ProvisionEvent`s while it goes on, and into one result per node at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from providers.ansible.diffs import hides_output, short_diff
from providers.provisioning import HostResult, OnProvisionEvent, ProvisionEvent, TaskChange

REPORT = "bai_report"
"""The fact in which the site play says what is watched, and what asks for a reboot."""
_REBOOT = ("reboot", "ansible.builtin.reboot")
_CHANGED = "changed: ["
"""What Ansible prints of a task whose log is hidden, and whose event the runner leaves empty."""
_LONGEST_MESSAGE = 2000

Event = Mapping[str, Any]


@dataclass
class _Node:
    """What is known of one node so far."""

    changed: list[TaskChange] = field(default_factory=list)
    failed: str = ""
    unreachable: str = ""
    rebooted: bool = False
    report: Mapping[str, Any] | None = None
    last: float = 0.0
    """When something was last heard, by the collector's clock."""


class EventCollector:
    """Takes the runner's events as they come. `clock`: seconds that only grow."""

    def __init__(
        self, nodes: Iterable[str], tell: OnProvisionEvent, clock: Callable[[], float], *, check: bool = False
    ) -> None:
        self._check = check
        self._nodes = {node: _Node() for node in nodes}
        self._tell = tell
        self._clock = clock
        self._began = clock()
        self._finished: dict[str, bool] | None = None
        """Node → whether all its tasks went well; None until the play has come to its end."""
        self._handlers: set[str] = set()
        """Tasks that take up what changed; they run after a failure, too."""

    @property
    def has_events(self) -> bool:
        """Whether any node was spoken of."""
        return any(each.last for each in self._nodes.values())

    def report(self, node: str) -> Mapping[str, Any] | None:
        """`{"watch": ..., "reboot": ...}`; None where the play did not get so far."""
        return self._nodes[node].report

    def handle(self, event: Event) -> None:
        what, data = str(event.get("event", "")), event.get("event_data") or {}
        if what == "playbook_on_task_start":
            if data.get("is_conditional"):  # the runner's word for a handler
                self._handlers.add(str(data.get("task_uuid")))
            self._tell(ProvisionEvent("", "task", _role(data), _task(data)))
        elif what == "playbook_on_stats":
            bad = {**data.get("failures", {}), **data.get("dark", {})}
            self._finished = {node: not bad.get(node) for node in data.get("processed", {})}
        elif what in _HANDLERS and data.get("host") in self._nodes:
            node = self._nodes[data["host"]]
            node.last = self._clock()
            _HANDLERS[what](self, node, {**data, "stdout": event.get("stdout")})

    def result(self, node: str, *, stopped: str, artefacts: Path) -> HostResult:
        """What came of a node; `stopped`: why the run was ended before its end, or what Ansible said last."""
        seen = self._nodes[node]
        fine = self._finished is not None and self._finished.get(node, False)
        failed = "" if fine else seen.unreachable or seen.failed or stopped or "Ansible ended before its end"
        return HostResult(
            node=node,
            ok=fine,
            changed=tuple(seen.changed),
            failed=failed,
            unreachable=bool(seen.unreachable) and not fine,
            rebooted=seen.rebooted,
            seconds=(seen.last or self._clock()) - self._began,
            artefacts=artefacts,
            reboot_needed=_reboot_reasons(seen.report),
        )

    def _ok(self, node: _Node, data: Event) -> None:
        res = data.get("res") or {}
        facts = res.get("ansible_facts")
        if isinstance(facts, Mapping) and isinstance(facts.get(REPORT), Mapping):
            node.report = facts[REPORT]
        changed = bool(res.get("changed")) or (hides_output(res) and _CHANGED in str(data.get("stdout")))
        if changed:
            node.changed.append(TaskChange(_role(data), _task(data), short_diff(res)))
        if res.get("rebooted") and data.get("task_action") in _REBOOT and not self._check:
            node.rebooted = True
            self._emit("reboot", data)
        else:
            self._emit("changed" if changed else "ok", data)

    def _failed(self, node: _Node, data: Event) -> None:
        message = _message(data.get("res") or {})
        if data.get("ignore_errors"):
            self._emit("ok", data, f"failed, which does not matter: {message}")
            return
        failed = f"{_task_name(data)}: {message}"
        after = node.failed and str(data.get("task_uuid")) in self._handlers
        node.failed = f"{node.failed}; then {failed}" if after else failed
        self._emit("failed", data, message)

    def _unreachable(self, node: _Node, data: Event) -> None:
        message = _message(data.get("res") or {})
        node.unreachable = f"{_task_name(data)}: {message}"
        self._emit("unreachable", data, message)

    def _skipped(self, _node: _Node, data: Event) -> None:
        self._emit("skipped", data)

    def _emit(self, what: Any, data: Event, message: str = "") -> None:
        seconds = float(data.get("duration") or 0.0)
        self._tell(ProvisionEvent(data["host"], what, _role(data), _task(data), message, seconds))


_HANDLERS: Mapping[str, Callable[[EventCollector, _Node, Event], None]] = {
    "runner_on_ok": EventCollector._ok,
    "runner_on_failed": EventCollector._failed,
    "runner_on_unreachable": EventCollector._unreachable,
    "runner_on_skipped": EventCollector._skipped,
}


def _role(data: Event) -> str:
    return str(data.get("role") or "")


def _task(data: Event) -> str:
    return str(data.get("task") or data.get("name") or "")


def _task_name(data: Event) -> str:
    return f"{_role(data)}: {_task(data)}" if _role(data) else _task(data)


def _reboot_reasons(report: Mapping[str, Any] | None) -> tuple[str, ...]:
    needed = (report or {}).get("reboot") or {}
    return tuple(f"{role}: {why}" for role, why in needed.items())


def _message(res: Event) -> str:
    """The heart of what a module says of its failure, those of a loop's items included."""
    if hides_output(res):
        return "what it says is hidden, as it deals with secrets"
    results = [each for each in res.get("results") or () if isinstance(each, Mapping)]
    items = [each for each in results if each.get("failed") or each.get("unreachable")]
    if items:
        return "; ".join(dict.fromkeys(_message(each) for each in items))[:_LONGEST_MESSAGE]
    said = str(res.get("msg") or "").strip()
    for name in ("stderr", "module_stderr", "stdout", "module_stdout"):
        lines = str(res.get(name) or "").strip().splitlines()
        if lines and (not said or said.startswith(("non-zero return code", "MODULE FAILURE"))):
            said = f"{said}: {lines[-1]}" if said else lines[-1]
    return said[:_LONGEST_MESSAGE] or "it says nothing"
