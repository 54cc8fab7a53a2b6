"""A node is held by one at a time: on this machine, with the same program that runs on nodes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from providers.ansible import node_lock, node_lock_holder
from providers.ansible.node_lock import NodeLock, lock_token
from providers.machines.base import Process
from providers.machines.local import LocalMachine
from schemas.problems.errors.provider import ProviderUnavailable
from schemas.problems.errors.provisioning import NodeBusy
from tests.waiting import until


def hold(folder: Path, grace: float = 600.0) -> NodeLock:
    return NodeLock(LocalMachine("here"), grace=grace, folder=str(folder))


def note(folder: Path) -> str:
    return (folder / "provisioning").read_text()


def test_a_node_is_held_once(tmp_path: Path) -> None:
    with hold(tmp_path), pytest.raises(NodeBusy) as refused, hold(tmp_path):
        pass
    assert "(process " in str(refused.value)
    assert note(tmp_path) == ""
    with hold(tmp_path):
        assert "(process " in note(tmp_path)


def test_who_is_killed_lets_go(tmp_path: Path) -> None:
    first = LocalMachine("here").start(
        ["python3", "-c", node_lock._SOURCE, str(tmp_path), "token", "somebody", "600"]
    )
    assert next(first.read()) == b"+\n"
    first.close()  # as a connection that breaks: it has no time to clear its note
    with hold(tmp_path):
        pass


def test_silence_lets_go(tmp_path: Path) -> None:
    source = node_lock._SOURCE.replace("SILENCE = 120.0", "SILENCE = 0.1")
    first = LocalMachine("here").start(["python3", "-c", source, str(tmp_path), "token", "who", "600"])
    assert next(first.read()) == b"+\n"
    assert first.wait() == 0
    first.close()
    with hold(tmp_path):
        pass


def noted(folder: Path, **more: str) -> None:
    text = json.dumps({"token": "t", "who": "somebody", "boot": "another", **more})
    (folder / "provisioning").write_text(text)


def test_after_a_boot_it_stays_theirs_for_a_while(tmp_path: Path) -> None:
    noted(tmp_path)
    with pytest.raises(NodeBusy) as refused, hold(tmp_path, grace=node_lock_holder.uptime() + 1000):
        pass
    assert "somebody, whose reboot it was" in refused.value.message
    with hold(tmp_path, grace=0):
        pass


def test_after_a_boot_whoever_provisions_from_the_same_store_goes_on(tmp_path: Path) -> None:
    """As when a node died in the middle, and bai ended: the next apply need not wait."""
    mine, other = (lock_token(tmp_path / name) for name in ("mine", "other"))
    assert mine == lock_token(tmp_path / "mine") != other
    noted(tmp_path, token=mine)
    grace = node_lock_holder.uptime() + 1000
    here = LocalMachine("here")
    with pytest.raises(NodeBusy), NodeLock(here, grace=grace, token=other, folder=str(tmp_path)):
        pass
    with NodeLock(here, grace=grace, token=mine, folder=str(tmp_path)) as held:
        assert held.lost == ""
        with pytest.raises(NodeBusy), NodeLock(here, grace=grace, token=mine, folder=str(tmp_path)):
            pass


def test_of_this_boot_only_the_lock_counts(tmp_path: Path) -> None:
    noted(tmp_path, boot=node_lock_holder.boot_id())
    with hold(tmp_path, grace=node_lock_holder.uptime() + 1000):
        pass


def test_a_note_that_is_not_whole_keeps_nobody_away(tmp_path: Path) -> None:
    (tmp_path / "provisioning").write_text('{"tok')
    with hold(tmp_path):
        pass


def break_off(held: NodeLock) -> None:
    """As a connection that breaks."""
    process: Any = held._process
    process._child.kill()
    process._child.wait()


def test_who_lost_it_takes_it_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_lock, "HEARTBEAT", 0.05)
    monkeypatch.setattr(node_lock, "RETRY_PAUSE", 0.05)
    with hold(tmp_path) as held:
        first = held._process
        break_off(held)
        until(lambda: held._process not in (None, first))
        assert held.lost == ""
        with pytest.raises(NodeBusy), hold(tmp_path):
            pass


def test_who_lost_it_to_another_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_lock, "HEARTBEAT", 0.05)
    monkeypatch.setattr(node_lock, "RETRY_PAUSE", 0.05)

    def taken() -> Process:
        raise NodeBusy(node="here", why="another")

    with hold(tmp_path) as held:
        monkeypatch.setattr(held, "_take_lock", taken)
        break_off(held)
        until(lambda: held.lost)
        assert "another" in held.lost


class Hung(LocalMachine):
    """A node that lets us in and then says nothing more: its disk hangs, its memory is used up."""

    def __init__(self, program: str) -> None:
        super().__init__("hung")
        self._program = program
        self.children: list[Any] = []

    def start(self, argv: Sequence[str], *, tty: bool = False) -> Process:
        process = super().start(["sh", "-c", self._program])
        self.children.append(process)
        return process


def test_a_node_that_says_nothing_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_lock, "ANSWER_TIMEOUT", 0.5)
    node = Hung("sleep 1000")
    with pytest.raises(ProviderUnavailable, match="does not answer"), NodeLock(node, grace=0):
        pass
    assert all(child._child.poll() is not None for child in node.children)


def test_half_an_answer_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_lock, "ANSWER_TIMEOUT", 0.5)
    with pytest.raises(ProviderUnavailable), NodeLock(Hung("printf +; sleep 1000"), grace=0):
        pass


def test_a_node_that_hangs_at_the_end_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Hung("echo +; trap '' HUP; sleep 1000")
    with NodeLock(node, grace=0) as held:
        assert held.lost == ""
        monkeypatch.setattr(node_lock, "ANSWER_TIMEOUT", 0.5)
    assert all(child._child.poll() is not None for child in node.children)
