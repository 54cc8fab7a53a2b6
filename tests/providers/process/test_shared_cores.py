"""Whole cores are one kernel's alone: whoever shares the rest is kept off them, now and after a restart."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from providers.base import KernelSpec, RestartRule
from providers.process.provider import ProcessProvider
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


def test_with_the_last_kernel_the_file_goes(provider: ProcessProvider) -> None:
    provider.create(spec(name="s-alone", cpus=(ALONE,)))
    provider.create(sharing("s-shared"))
    assert (provider.root.path / "shared.json").exists()
    provider.remove("s-alone")
    provider.remove("s-shared")
    assert not (provider.root.path / "shared.json").exists()
