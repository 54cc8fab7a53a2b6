"""The probe over SSH, on real servers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from providers.machines.base import Machine
from providers.machines.connections import connect
from providers.machines.local import LocalMachine
from providers.machines.reachability import check_nodes
from providers.machines.ssh.machine import SshMachine
from providers.probe import probe_local
from providers.probe.remote import probe, probe_all
from schemas.problems.errors.node import MachineRefused
from tests.lab.sshd import SshdNodes

pytestmark = pytest.mark.xdist_group("sshd")


def test_it_says_what_the_machine_says_itself_and_leaves_no_file(
    sshd_nodes: SshdNodes, tmp_path: Path
) -> None:
    # A home and a folder for temporary files that nobody else writes to.
    machine = SshMachine(sshd_nodes.private(f"SetEnv HOME={tmp_path} TMPDIR={tmp_path}").endpoint())
    assert machine.run(["sh", "-c", "echo $HOME $TMPDIR"]).out.split() == [bytes(tmp_path)] * 2
    found = probe(machine)
    here = probe_local()
    assert found.numa_nodes == here.numa_nodes
    assert found.architecture == here.architecture
    assert list(tmp_path.iterdir()) == []
    machine.close()


def test_nodes_are_probed_together_and_who_fails_is_named(sshd_nodes: SshdNodes) -> None:
    one, two = sshd_nodes(2)
    away = sshd_nodes.private()
    away.kill()
    machines: dict[str, Callable[[], Machine]] = {
        node.name: partial(connect, node.endpoint()) for node in (one, two, away)
    }
    found, failed = probe_all(machines)
    assert list(found) == [one.name, two.name]
    assert found[one.name].numa_nodes == probe_local().numa_nodes
    assert list(failed) == [away.name]
    assert "connection refused" in failed[away.name]


def test_no_python_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MachineRefused, match="python3 is not installed there") as caught:
        probe(LocalMachine("bare"))
    assert "hardwareFrom" in caught.value.hint


@pytest.mark.parametrize(
    ("script", "words"),
    [("echo broken >&2; exit 1", "broken"), ("exit 3", "exit code 3")],
)
def test_a_collector_that_fails_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, words: str
) -> None:
    (tmp_path / "python3").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "python3").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(MachineRefused, match=words):
        probe(LocalMachine("odd"))


def test_nodes_are_checked(sshd_nodes: SshdNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    node = sshd_nodes(1)[0]
    fine, stranger = check_nodes([node.endpoint(), node.endpoint(knownHostsFrom=None)])
    assert (fine.user, fine.problem) == ("root", "")
    assert fine.seconds > 0
    assert "not among the known hosts" in stranger.problem
    assert "ssh-keyscan" in stranger.hint
