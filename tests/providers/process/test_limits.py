"""Limits are the kernel's own: read back from the world, and felt by the processes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from providers.base import Limit
from providers.process.linux import cgroup, cgroup_mounts
from providers.process.provider import ProcessProvider
from schemas.problems.errors.kernel import KernelRefused
from schemas.problems.errors.provider import ProviderError
from tests.providers.process.kernels import LABELS, ended, groups_of, output, said, script, seen, spec, state
from tests.waiting import until

MIB = 1 << 20
EATER = "kept = [bytes([1]) * (8 << 20) for _ in range(20)]; print(len(kept))"
PYTHON = "/usr/bin/python3"


def own_cpu() -> int:
    return min(os.sched_getaffinity(0))


def test_cpus_bind_the_whole_tree(provider: ProcessProvider) -> None:
    cpu = own_cpu()
    kernel = provider.create(script("grep Cpus_allowed_list /proc/self/status; sleep 300", cpus=(cpu,)))
    assert kernel.cpus == (cpu,)
    until(lambda: b"\n" in output(provider, kernel.id))
    assert output(provider, kernel.id).split() == [b"Cpus_allowed_list:", str(cpu).encode()]


def test_all_limits_are_read_back(grouped: ProcessProvider) -> None:
    asked = spec(cpus=(own_cpu(),), memory_nodes=(0,), memory=64 * MIB + 1, pids=17)
    grouped.create(asked)
    kernel = seen(grouped, asked.id)
    assert (kernel.cpus, kernel.memory_nodes) == (asked.cpus, (0,))
    assert (kernel.memory, kernel.pids) == (64 * MIB + 1, 17)


def test_without_limits_none_are_reported(grouped: ProcessProvider) -> None:
    kernel = grouped.create(spec())
    assert (kernel.memory, kernel.pids) == (0, 0)
    assert set(kernel.cpus) >= os.sched_getaffinity(0)


def test_a_child_killed_for_memory_explains_the_failure(grouped: ProcessProvider) -> None:
    grouped.create(script(f'{PYTHON} -c "{EATER}"; exit 5', memory=64 * MIB))
    end = ended(grouped, spec().id)
    assert (end.exit_code, end.reason) == (5, "out-of-memory")


def test_nobody_ends_by_himself_for_being_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell that cannot fork any more ends with 2, and one whose child was killed goes on."""
    done: list[object] = []
    groups: list[cgroup.Group] = [
        {"path": str(tmp_path / "pids"), "version": 1, "controllers": ["pids"]},
        {"path": str(tmp_path / "unified"), "version": 2, "controllers": []},
    ]
    for group in groups:
        Path(group["path"]).mkdir()
    (tmp_path / "unified/cgroup.procs").touch()

    def write(path: str, text: str) -> None:
        done.append(f"{Path(path).relative_to(tmp_path)} {text}")

    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(subprocess.Popen(["sleep", "1000"])) for _ in range(3)]
        for process in processes:
            stack.callback(process.kill)
        first, second, last = pids = sorted(process.pid for process in processes)
        (tmp_path / "pids/cgroup.procs").write_text(f"{second}\n{first}\n{last}\n")

        def send(handle: int, number: int) -> None:
            lines = Path(f"/proc/self/fdinfo/{handle}").read_text().splitlines()
            done.append(int(dict(line.split(":\t") for line in lines)["Pid"]))
            if done[-1] == last:
                (tmp_path / "pids/cgroup.procs").write_text("")

        monkeypatch.setattr(cgroup, "write", write)
        monkeypatch.setattr(signal, "pidfd_send_signal", send)
        assert cgroup.kill(groups)
    assert done == ["unified/cgroup.kill 1", *pids, "pids/pids.max 0"]


def test_without_groups_each_process_is_limited(make: Callable[..., ProcessProvider]) -> None:
    provider = make("bare")
    provider.create(spec(PYTHON, "-c", EATER, memory=64 * MIB))
    assert ended(provider, spec().id).exit_code == 1
    assert b"MemoryError" in output(provider, spec().id)


def test_a_fork_bomb_is_stopped(grouped: ProcessProvider) -> None:
    bomb = "import os\nprint('up', flush=True)\nwhile True:\n try: os.fork()\n except OSError: pass"
    grouped.create(spec(PYTHON, "-c", bomb, pids=40))
    until(lambda: b"up" in output(grouped, spec().id))
    assert grouped.stop(spec().id, grace=0).state == "exited"


def test_shared_cpu_is_a_quota(grouped: ProcessProvider) -> None:
    grouped.create(spec(cpu_milli=500))
    groups = state(grouped, spec().id)["groups"]
    cpu = next(group for group in groups if "cpu" in group["controllers"])
    if cpu["version"] == 2:
        assert cgroup.read(f"{cpu['path']}/cpu.max") == "50000 100000"
    else:
        assert cgroup.read(f"{cpu['path']}/cpu.shares") == "512"
        quota = f"{cpu['path']}/cpu.cfs_quota_us"
        assert not os.path.exists(quota) or cgroup.read(quota) == "50000"


def test_update_changes_limits_and_labels_of_what_runs(grouped: ProcessProvider) -> None:
    before = grouped.create(spec(memory=64 * MIB, pids=10))
    wanted = spec(
        cpus=(own_cpu(),),
        memory=128 * MIB,
        pids=0,
        env={"IGNORED": "1"},
    )
    wanted = replace(wanted, labels=replace(LABELS, digest="fedcba9876543210", protected=True))
    after = grouped.update(wanted.id, wanted)
    assert (after.cpus, after.memory, after.pids) == (wanted.cpus, 128 * MIB, 0)
    assert after.labels == wanted.labels and seen(grouped, wanted.id) == after
    assert (after.pid, after.started, after.env_digest) == (before.pid, before.started, before.env_digest)


def test_update_without_groups_moves_every_process(make: Callable[..., ProcessProvider]) -> None:
    provider = make("bare")
    provider.create(script("sleep 300 & echo up; wait"))
    until(lambda: b"up" in output(provider, spec().id))
    cpu = own_cpu()
    assert provider.update(spec().id, spec(cpus=(cpu,))).cpus == (cpu,)


def test_an_update_that_cannot_be_changes_nothing(grouped: ProcessProvider) -> None:
    before = grouped.create(spec(cpus=(own_cpu(),)))
    with pytest.raises(KernelRefused, match="4096"):
        grouped.update(spec().id, spec(cpus=(4096,)))
    assert seen(grouped, spec().id) == before


def test_a_limit_that_the_system_refuses_is_an_error_and_leaves_nothing(grouped: ProcessProvider) -> None:
    with pytest.raises(ProviderError):
        grouped.create(spec(memory_nodes=(63,)))
    assert grouped.observe().kernels == () and groups_of(grouped) == []


def test_a_limit_on_scratch_counts_for_a_kernel_that_runs(grouped: ProcessProvider) -> None:
    asked = script("head -c 8388608 /dev/zero > big; echo up; sleep 300")
    grouped.create(asked)
    said(grouped, asked.id, b"up")
    allowed = grouped.update(asked.id, replace(asked, scratch=512 << 20))
    assert (allowed.state, allowed.scratch) == ("running", 512 << 20)
    grouped.update(asked.id, replace(asked, scratch=4 << 20))
    assert ended(grouped, asked.id).reason == "scratch-full: 9MiB used, 4MiB allowed"


def test_capabilities_say_what_is_missing_and_why(make: Callable[..., ProcessProvider]) -> None:
    bare = make("bare").capabilities()
    assert {
        Limit.CPUSET,
        Limit.MEMSET,
        Limit.MEMORY,
        Limit.PIDS,
        Limit.FILESYSTEM,
    } <= bare.limits_missing.keys()
    assert "cgroups: false" in bare.limits_missing[Limit.MEMORY]
    assert "affinity" in bare.limits_missing[Limit.CPUSET]
    grouped = make("groups").capabilities()
    assert grouped.limits | grouped.limits_missing.keys() == frozenset(Limit)
    assert not grouped.limits & grouped.limits_missing.keys()
    assert grouped.in_place == {"cpus", "memory_nodes", "memory", "pids", "scratch", "labels"}


def test_mountinfo_of_both_versions_is_understood(tmp_path: object) -> None:
    text = (
        "30 24 0:26 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        "31 24 0:27 / /sys/fs/cgroup/freezer rw shared:9 - cgroup cgroup rw,freezer\n"
        "32 24 0:28 / /sys/fs/cgroup/unified rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"
    )
    path = os.path.join(str(tmp_path), "mountinfo")
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)
    assert cgroup_mounts.mounted(path) == [
        {"path": "/sys/fs/cgroup/cpu,cpuacct", "version": 1, "controllers": ["cpu"]},
        {"path": "/sys/fs/cgroup/unified", "version": 2, "controllers": []},
    ]
