"""Nodes that were not reached to the end get their roles again: how often, and what is then said of them. The
connections themselves are cut in test_nodes.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from providers.ansible import provisioner
from providers.ansible.events import EventCollector
from providers.ansible.files import Inventory
from providers.ansible.provisioner import RECONNECTS, AnsibleProvisioner
from providers.ansible.run import RunOutcome
from providers.machines.base import Endpoint
from providers.provisioning import HostResult, ProvisionTarget, ignore_event, never_stop

TARGETS = [
    ProvisionTarget(name, Endpoint(name, "localhost", local=True), "p", ("base",), {}) for name in "ab"
]


class Runs:
    """Stands in for Ansible: in the first `cut` runs, node `a` is lost after its first task."""

    def __init__(self, folder: Path, cut: int) -> None:
        self.folder = folder
        self.cut = cut
        self.over: list[list[str]] = []

    def __call__(self, _settings: Any, inventory: Inventory, *, check: bool, **__: Any) -> RunOutcome:
        names = list(inventory.nodes)
        self.over.append(names)
        story = EventCollector(names, ignore_event, lambda: 1.0, check=check)
        lost = [name for name in names if name == "a" and len(self.over) <= self.cut]
        for name in names:
            self._tell(story, name, "ok", "Set it", {"changed": True})
            if name in lost:
                self._tell(story, name, "unreachable", "Look", {"msg": "gone"})
        data = {"processed": dict.fromkeys(names, 1), "failures": {}, "dark": dict.fromkeys(lost, 1)}
        story.handle({"event": "playbook_on_stats", "event_data": data})
        return RunOutcome(story, self.folder, "")

    @staticmethod
    def _tell(story: EventCollector, host: str, what: str, task: str, res: dict[str, Any]) -> None:
        data = {"host": host, "task": task, "role": "base", "res": res}
        story.handle({"event": f"runner_on_{what}", "event_data": data})


def results(
    monkeypatch: pytest.MonkeyPatch, folder: Path, *, cut: int, check: bool
) -> tuple[dict[str, HostResult], list[list[str]]]:
    runs = Runs(folder, cut)
    monkeypatch.setattr(provisioner, "run_playbook", runs)
    monkeypatch.setattr(provisioner.time, "sleep", lambda _: None)
    made = AnsibleProvisioner(folder, str, roles=folder)
    found, _ = made._run_with_reconnects(
        Inventory(TARGETS, {}, {}), label="x", check=check, tell=ignore_event, stop=never_stop
    )
    return found, runs.over


def test_only_those_that_were_lost_run_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found, over = results(monkeypatch, tmp_path, cut=1, check=False)
    assert over == [["a", "b"], ["a"]]
    assert all(each.ok for each in found.values())
    assert (len(found["a"].changed), len(found["b"].changed)) == (2, 1)


def test_what_would_change_is_counted_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Check mode changed nothing before it was cut off."""
    found, _ = results(monkeypatch, tmp_path, cut=1, check=True)
    assert len(found["a"].changed) == 1


def test_who_stays_away_is_said_with_the_number_of_attempts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found, over = results(monkeypatch, tmp_path, cut=100, check=False)
    assert len(over) == len(RECONNECTS) + 1
    assert found["a"].unreachable and found["a"].failed == "base: Look: gone (tried 3 times)"
    assert found["b"].ok and "tried 3 times" in (tmp_path / "results.json").read_text()
