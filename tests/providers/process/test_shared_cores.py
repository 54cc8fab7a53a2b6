"""Whole cores are one kernel's alone: whoever shares the rest is kept off them, now and after a restart."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from dataclasses import replace

import pytest

from providers.base import KernelSpec, RestartRule
from providers.process.linux import files
from providers.process.provider import ProcessProvider
from providers.process.supervision import binding, supervisor_setup
from tests.providers.process.kernels import ended, output, script, seen, spec
from tests.waiting import until

CPUS = set(os.sched_getaffinity(0))
ALONE = min(CPUS)
pytestmark = pytest.mark.skipif(len(CPUS) < 2, reason="two CPUs are needed to keep somebody off one")


def sharing(name: str, text: str = "exec sleep 300", restart: RestartRule | None = None) -> KernelSpec:
    return script(text, name=name, cpu_milli=500, restart=restart or RestartRule())


def cpus(provider: ProcessProvider, name: str) -> set[int]:
    return set(seen(provider, name).cpus)


def test_who_shares_is_kept_off_whole_cores(provider: ProcessProvider) -> None:
    provider.create(sharing("s-before"))
    assert cpus(provider, "s-before") >= CPUS
    provider.create(spec(name="s-alone", cpus=(ALONE,)))
    assert cpus(provider, "s-alone") == {ALONE}
    assert cpus(provider, "s-before") >= CPUS - {ALONE}
    assert ALONE not in cpus(provider, "s-before")
    provider.create(sharing("s-after"))
    assert ALONE not in cpus(provider, "s-after")
    provider.remove("s-alone")
    assert cpus(provider, "s-before") >= CPUS
    assert cpus(provider, "s-after") >= CPUS


def test_one_that_begins_just_before_cores_are_taken_is_kept_off_them(
    provider: ProcessProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = files.write_atomically

    def late(path: str, text: str) -> None:
        if path.endswith("shared.json") and not provider.root.folder("s-shared").exists():
            provider.create(sharing("s-shared"))
            assert cpus(provider, "s-shared") >= CPUS
        write(path, text)

    monkeypatch.setattr(files, "write_atomically", late)
    provider.create(spec(name="s-alone", cpus=(ALONE,)))
    assert ALONE not in cpus(provider, "s-shared")


def test_a_supervisor_sees_cores_that_are_taken_until_its_kernel_has_begun(provider: ProcessProvider) -> None:
    provider.create(sharing("s-shared"))
    record = provider.root.read("s-shared")
    assert record is not None and record.begun
    before = supervisor_setup.current_limits(str(record.folder))
    # As if it had begun after those who share were looked for, with what was read before.
    files.write_atomically(
        str(provider.root.path / "shared.json"), json.dumps({"cpus": sorted(CPUS - {ALONE})})
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "getpid", lambda: record.state["supervisor"])
        supervisor_setup.bind_if_changed(str(record.folder), record.groups, before)
    assert ALONE not in cpus(provider, "s-shared")


def test_who_was_forked_by_one_that_was_not_bound_yet_is_bound_too() -> None:
    other = {max(CPUS)}
    with subprocess.Popen(["sleep", "300"]) as first, subprocess.Popen(["sleep", "300"]) as second:
        try:
            lists = iter([{first.pid}, {first.pid, second.pid}, {first.pid, second.pid}])
            binding.bind_all(lambda: next(lists), sorted(other))
            assert os.sched_getaffinity(first.pid) == os.sched_getaffinity(second.pid) == other
        finally:
            first.kill()
            second.kill()


def test_who_forks_for_ever_holds_nobody_up() -> None:
    numbers = itertools.count(1 << 30)
    binding.bind_all(lambda: {next(numbers)}, sorted(CPUS))
    assert next(numbers) == (1 << 30) + binding.LISTINGS


def test_a_stopped_kernel_gives_its_cores_back(provider: ProcessProvider) -> None:
    provider.create(sharing("s-shared"))
    provider.create(spec(name="s-alone", cpus=(ALONE,)))
    provider.stop("s-alone", grace=5)
    assert cpus(provider, "s-shared") >= CPUS


def test_moving_to_another_core_moves_the_others_away(provider: ProcessProvider) -> None:
    other = max(CPUS)
    alone = spec(name="s-alone", cpus=(ALONE,))
    provider.create(alone)
    provider.create(sharing("s-shared"))
    provider.update("s-alone", replace(alone, cpus=(other,)))
    assert cpus(provider, "s-alone") == {other}
    assert cpus(provider, "s-shared") >= CPUS - {other}
    assert other not in cpus(provider, "s-shared")


def test_a_restart_stays_off(provider: ProcessProvider) -> None:
    """The first run waits until the other has its core, the second says where it may run."""
    text = "if [ -e there ]; then grep Cpus_allowed_list /proc/self/status; exec sleep 300; fi; "
    text += "touch there; until [ -e go ]; do sleep 0.05; done; exit 1"
    provider.create(sharing("s-shared", text, RestartRule("on-failure", 1)))
    provider.create(spec(name="s-alone", cpus=(ALONE,)))
    (provider.root.folder("s-shared") / "scratch" / "go").touch()
    until(lambda: b"Cpus_allowed_list" in output(provider, "s-shared"), "the second run speaks")
    assert ALONE not in cpus(provider, "s-shared")


def test_one_that_ended_by_itself_holds_nothing(provider: ProcessProvider) -> None:
    provider.create(spec("true", name="s-alone", cpus=(ALONE,)))
    ended(provider, "s-alone")
    provider.create(sharing("s-shared"))
    provider.create(spec(name="s-other", cpus=(max(CPUS),)))
    assert ALONE in cpus(provider, "s-shared")
    assert max(CPUS) not in cpus(provider, "s-shared")


def test_one_that_ended_holds_nothing_while_its_supervisor_lives_on(provider: ProcessProvider) -> None:
    provider.create(spec("true", name="s-alone", cpus=(ALONE,)))
    ended(provider, "s-alone")
    record = provider.root.read("s-alone")
    assert record is not None
    until(lambda: not record.alive, "its supervisor is gone")
    late = files.open_lock(str(record.folder / "alive"))
    try:
        assert files.try_lock(late)
        provider.create(sharing("s-shared"))
        provider.create(spec(name="s-other", cpus=(max(CPUS),)))
        assert ALONE in cpus(provider, "s-shared")
    finally:
        os.close(late)


def test_with_the_last_kernel_the_file_goes(provider: ProcessProvider) -> None:
    provider.create(spec(name="s-alone", cpus=(ALONE,)))
    provider.create(sharing("s-shared"))
    assert (provider.root.path / "shared.json").exists()
    provider.remove("s-alone")
    provider.remove("s-shared")
    assert not (provider.root.path / "shared.json").exists()
