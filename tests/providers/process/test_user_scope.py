"""Supervisors in delegated scopes, as a user's systemd hands them out.

The scopes are real version 2 groups, made by a stand-in for `systemd-run` that does what it does with them:
a new group, itself into it, then the command.
"""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from providers.process.host_capabilities import GroupAccess, HostCapabilities
from providers.process.linux import cgroup, cgroup_mounts
from providers.process.provider import ProcessProvider
from tests.providers.process.kernels import ended, running_of, said, script, seen, spec, state
from tests.waiting import until

STAND_IN = """#!/bin/sh
set -e
while [ "$1" != -- ]; do
  case "$1" in --unit=*) unit="${1#--unit=}" ;; esac
  shift
done
shift
mkdir "SLICE/$unit.scope"
echo $$ > "SLICE/$unit.scope/cgroup.procs"
exec "$@"
"""


@pytest.fixture
def scoped(
    make: Callable[..., ProcessProvider], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[ProcessProvider]:
    tops = [
        top["path"]
        for top in cgroup_mounts.mounted()
        if top["version"] == 2 and os.access(top["path"], os.W_OK)
    ]
    if not tops or os.geteuid() != 0:
        pytest.skip("needs root and a mounted control group version 2")
    folder = Path(tempfile.mkdtemp(prefix="bai-scopes-", dir=tops[0]))
    offered = cgroup.read(f"{tops[0]}/cgroup.subtree_control").split()
    cgroup.enable(str(folder), [name for name in cgroup.CONTROLLERS if name in offered])
    program = tmp_path / "systemd-run"
    program.write_text(STAND_IN.replace("SLICE", str(folder)))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    provider = make("groups")
    provider.__dict__["_group_access"] = GroupAccess((), scope=True, lacking={})
    provider.__dict__["host"] = HostCapabilities((), scope=True, sandbox=False, missing={})
    yield provider
    for kernel_id in provider.root.ids():
        provider.remove(kernel_id)
    until(lambda: _collected(folder), "the scopes are empty")


def _collected(folder: Path) -> bool:
    """What systemd does with scopes that nobody is in any more."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir():
            cgroup.destroy([{"path": str(path), "version": 2, "controllers": []}], seconds=0.0)
    return cgroup.destroy([{"path": str(folder), "version": 2, "controllers": []}], seconds=0.0)


def test_a_scoped_kernel_lives_in_a_leaf_beside_its_supervisor(scoped: ProcessProvider) -> None:
    scoped.create(script("(setsid sleep 300 &) ; echo up; sleep 300", memory=64 << 20, pids=20))
    said(scoped, spec().id, b"up")
    kernel, found = seen(scoped, spec().id), state(scoped, spec().id)
    group = found["groups"][0]
    assert kernel.pid in cgroup.members([group]) and found["supervisor"] not in cgroup.members([group])
    assert group["path"].endswith(f"{scoped.base}-{spec().id}.scope/kernel")
    if "memory" in group["controllers"]:
        assert (kernel.memory, kernel.pids) == (64 << 20, 20)
    assert scoped.execute(spec().id, ("true",)) == 0
    assert scoped.stop(spec().id, grace=0).exit_code == 137
    assert running_of(scoped) == []


def test_a_scoped_kernel_whose_supervisor_died_is_cleaned_up(scoped: ProcessProvider) -> None:
    scoped.create(script("(setsid sleep 300 &) ; echo up; sleep 300"))
    said(scoped, spec().id, b"up")
    os.kill(state(scoped, spec().id)["supervisor"], signal.SIGKILL)
    assert ended(scoped, spec().id).state == "lost"
    assert running_of(scoped) == []
