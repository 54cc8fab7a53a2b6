"""Events into results; diffs; secrets; what is kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.ansible import artefacts
from providers.ansible.diffs import LINES, short_diff
from providers.ansible.events import EventCollector
from providers.ansible.provisioner import merge_watches
from providers.ansible.secrets import HIDDEN, Mask
from providers.provisioning import HostResult, ProvisionEvent, TaskChange


class Heard:
    """A story over two nodes, with a clock that ticks at every look."""

    def __init__(self, *, check: bool = False) -> None:
        self.told: list[ProvisionEvent] = []
        self.ticks = 0.0
        self.story = EventCollector(["a", "b"], self.told.append, self.tick, check=check)

    def tick(self) -> float:
        self.ticks += 1
        return self.ticks

    def on(self, what: str, host: str = "a", res: Any = None, stdout: str = "", **data: Any) -> None:
        told = {"host": host, "task": "Do it", "role": "base", "res": res or {}, **data}
        self.story.handle({"event": f"runner_on_{what}", "event_data": told, "stdout": stdout})

    def end(self, **failures: int) -> None:
        data = {"processed": {"a": 1, "b": 1}, "failures": failures, "dark": {}}
        self.story.handle({"event": "playbook_on_stats", "event_data": data})

    def result(self, node: str = "a", stopped: str = "") -> HostResult:
        return self.story.result(node, stopped=stopped, artefacts=Path("x"))


def test_each_node_has_its_own_result() -> None:
    heard = Heard()
    heard.on("ok", res={"changed": True, "diff": {"before": "1\n", "after": "2\n"}})
    heard.on("failed", "b", {"msg": "no room"})
    heard.end(b=1)
    assert heard.result().ok
    assert heard.result().changed == (TaskChange("base", "Do it", "-1\n+2"),)
    assert (heard.result("b").ok, heard.result("b").failed) == (False, "base: Do it: no room")
    assert [(event.node, event.what) for event in heard.told] == [("a", "changed"), ("b", "failed")]


def test_without_an_end_nothing_went_well() -> None:
    heard = Heard()
    heard.on("ok")
    assert heard.result(stopped="stopped").failed == "stopped"
    assert heard.result().failed == "Ansible ended before its end"
    assert not heard.result("b").ok


def test_a_node_that_is_gone_is_unreachable() -> None:
    heard = Heard()
    heard.on("unreachable", res={"msg": "no route to host"})
    heard.story.handle(
        {
            "event": "playbook_on_stats",
            "event_data": {"processed": {"a": 1}, "failures": {}, "dark": {"a": 1}},
        }
    )
    assert heard.result().unreachable
    assert "no route to host" in heard.result().failed


def test_failures_that_do_not_matter() -> None:
    heard = Heard()
    heard.on("failed", res={"msg": "well"}, ignore_errors=True)
    heard.on("failed", "b", {"msg": "rescued"})
    heard.end()
    assert heard.result().ok
    assert heard.result("b").ok
    assert heard.result("b").failed == ""


def test_a_handler_that_fails_afterwards_hides_no_failure() -> None:
    heard = Heard()
    start = {"task": "Restart", "role": "base", "is_conditional": True, "task_uuid": "h"}
    heard.on("failed", res={"msg": "no such version"}, task_uuid="t")
    heard.story.handle({"event": "playbook_on_task_start", "event_data": start})
    heard.on("failed", res={"msg": "no such unit"}, task="Restart", task_uuid="h")
    heard.end(a=2)
    assert heard.result().failed == "base: Do it: no such version; then base: Restart: no such unit"


def test_a_change_whose_log_is_hidden_is_a_change_without_a_text() -> None:
    heard = Heard()
    heard.on("ok", res={"censored": "hidden"}, stdout="\x1b[0;33mchanged: [a]\x1b[0m")
    heard.on("ok", "b", res={"censored": "hidden"}, stdout="ok: [b]")
    heard.on("failed", "b", {"censored": "hidden"})
    heard.end(b=1)
    assert heard.result().changed == (TaskChange("base", "Do it", ""),)
    assert heard.result("b").changed == ()
    assert "hidden" in heard.result("b").failed


@pytest.mark.parametrize(("check", "rebooted"), [(False, True), (True, False)])
def test_a_reboot_that_is_only_foreseen_is_none(check: bool, rebooted: bool) -> None:
    heard = Heard(check=check)
    heard.on("ok", res={"changed": True, "rebooted": True}, task_action="ansible.builtin.reboot")
    heard.on("ok", res={"ansible_facts": {"bai_report": {"watch": {}, "reboot": {"base": "a kernel"}}}})
    heard.end()
    assert heard.result().rebooted is rebooted
    assert heard.result().reboot_needed == ("base: a kernel",)


@pytest.mark.parametrize(
    ("res", "words"),
    [
        ({"msg": "non-zero return code", "stderr": "a\nE: no such package"}, "E: no such package"),
        (
            {"results": [{"failed": True, "msg": "one"}, {"msg": "fine"}, {"failed": True, "msg": "two"}]},
            "one; two",
        ),
        ({"msg": "MODULE FAILURE: see", "module_stdout": "Traceback\nKeyError: 1"}, "KeyError: 1"),
        ({}, "it says nothing"),
    ],
)
def test_failures_in_words(res: dict[str, Any], words: str) -> None:
    heard = Heard()
    heard.on("failed", res=res)
    heard.end(a=1)
    assert heard.result().failed.endswith(words)


def test_watch_lists_become_one() -> None:
    watches = {
        "a_watch": {"files": ["/b"], "packages": {"x": "1"}},
        "b_watch": {"files": ["/a", "/b"], "units": None},
        "c_watch": None,
    }
    assert merge_watches(watches) == {"files": ["/a", "/b"], "packages": ["x"], "units": []}


def test_diffs_are_short() -> None:
    long = {"before": "", "after": "\n".join(map(str, range(99)))}
    text = short_diff({"changed": True, "diff": long})
    assert len(text.splitlines()) == LINES
    assert text.endswith("more lines")
    items = [
        {"changed": True, "diff": {"before": {"mode": "1"}, "after": {"mode": "2"}}},
        {"changed": False, "diff": long},
    ]
    assert short_diff({"changed": True, "results": items}) == '-"mode": "1"\n+"mode": "2"'
    assert short_diff({"changed": True, "diff": [{"prepared": "new: x"}]}) == "new: x"
    assert short_diff({"changed": True, "diff": {"prepared": "secret"}, "_ansible_no_log": True}) == ""
    own = {"before": "", "after": "a\n", "after_header": "/tmp/ansible-local-1/x.j2"}
    assert short_diff({"changed": True, "diff": [own]}) == "+a"
    assert short_diff({"changed": True, "diff": [own], "dest": "/etc/x"}) == "/etc/x\n+a"
    headed = {"before": "", "after": "a\n", "after_header": "/etc/x (content)"}
    assert short_diff({"changed": True, "diff": [headed]}) == "/etc/x\n+a"


@given(st.text(min_size=4), st.text(), st.text())
def test_no_secret_is_left_in_any_form(secret: str, before: str, after: str) -> None:
    mask = Mask([secret])
    assert secret not in mask.text(before + secret + after) or secret in HIDDEN + before + HIDDEN + after
    data = mask.data({"a": [secret, {"b": f"x{secret}"}]})
    assert (
        secret not in json.dumps(data, ensure_ascii=False)
        or secret in '{"a": ["********", {"b": "x********"}]}'
    )


def test_lines_of_a_long_secret_are_hidden_one_by_one() -> None:
    mask = Mask(["-----BEGIN-----\nabcdefghijkl\n"])
    assert mask.text("+abcdefghijkl") == f"+{HIDDEN}"
    assert mask.text('{"x": "-----BEGIN-----\\nabcdefghijkl\\n"}') == f'{{"x": "{HIDDEN}"}}'
    assert not Mask(["abc"])


def test_old_runs_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artefacts, "KEPT", 3)
    for at in range(5):
        (tmp_path / "runs" / f"20000101-00000{at}-check-aaaa").mkdir(parents=True)
    made = artefacts.new_run_folder(tmp_path, "n1")
    left = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert left == ["20000101-000003-check-aaaa", "20000101-000004-check-aaaa", made.name]
    assert made.stat().st_mode & 0o777 == 0o700


def test_scratch_of_the_dead_is_cleared_and_of_the_living_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(artefacts, "LONGEST", 1000)
    for name, pid in (("dead", 2**22 + 1), ("living", 1)):
        (tmp_path / f"bai-run-{name}").mkdir()
        (tmp_path / f"bai-run-{name}" / "pid").write_text(str(pid))
    made = artefacts.new_scratch_folder()
    assert made.parent == tmp_path
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["bai-run-living", made.name])


def test_events_have_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artefacts, "EVENT_BYTES", 1000)
    kept = artefacts.EventFile(tmp_path / "e")
    for _ in range(100):
        kept.write({"event": "x", "event_data": {"task": "y" * 50}})
    kept.close()
    assert 0 < (tmp_path / "e").stat().st_size <= 1000
