"""The fake provider's faults happen exactly where they are asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from providers.base import KernelSpec, Labels
from providers.fake import FakeProvider, Fault, ScheduledExit, World
from schemas.problems.errors.kernel import KernelRefused
from schemas.problems.errors.provider import ProviderUnavailable

LABELS = Labels("repo", "here", "Session/p/s", 1, "digest", "main1", "node")
SPEC = KernelSpec("s-main1-00000000-g1", LABELS, ("sleep", "1"), {"A": "1"}, secret_env={"TOKEN": "hush"})


def test_no_secret_is_kept() -> None:
    provider = FakeProvider()
    provider.create(SPEC)
    assert "hush" not in repr(provider.world.kernels)


def test_a_fault_before_has_no_effect_and_a_fault_after_has() -> None:
    world = World()
    provider = FakeProvider(world)
    world.inject(Fault("create", times=2))
    world.inject(Fault("create", moment="after", failure="refused"))
    for _ in range(2):
        with pytest.raises(ProviderUnavailable):
            provider.create(SPEC)
        assert provider.observe().kernels == ()
    with pytest.raises(KernelRefused):
        provider.create(SPEC)
    assert [seen.id for seen in provider.observe().kernels] == [SPEC.id]


def test_slow_transitions_follow_the_clock() -> None:
    world = World()
    provider = FakeProvider(world)
    world.slow_create, world.slow_stop = 5.0, 3.0
    assert provider.create(SPEC).state == "starting"
    world.clock.sleep(5)
    assert provider.observe().kernels[0].state == "running"
    assert provider.stop(SPEC.id, grace=10).state == "stopping"
    world.clock.sleep(3)
    stopped = provider.observe().kernels[0]
    assert (stopped.state, stopped.exit_code, stopped.reason) == ("exited", 143, "stopped")


def test_kernels_end_die_and_get_lost() -> None:
    world = World()
    provider = FakeProvider(world)
    world.ends_after[SPEC.id] = ScheduledExit(30, 7)
    provider.create(SPEC)
    world.clock.sleep(31)
    seen = provider.observe().kernels[0]
    assert (seen.state, seen.exit_code) == ("exited", 7)
    assert seen.started and seen.finished and (seen.finished - seen.started).total_seconds() == 30
    other = replace(SPEC, id="other")
    provider.create(other)
    world.lose("other")
    assert provider.create(other).state == "lost"


def test_what_is_hidden_makes_the_observation_incomplete() -> None:
    world = World()
    provider = FakeProvider(world)
    provider.create(SPEC)
    world.hidden.add(SPEC.id)
    seen = provider.observe()
    assert not seen.complete and seen.kernels == () and SPEC.id in seen.errors[0]


def test_update_changes_in_place_fields_and_labels_only() -> None:
    provider = FakeProvider()
    provider.create(SPEC)
    changed = replace(SPEC, cpus=(1,), command=("other",), labels=replace(LABELS, digest="new"))
    assert provider.update(SPEC.id, changed).labels.digest == "new"
    kept = provider.world.kernels[SPEC.id].spec
    assert kept.cpus == (1,) and kept.command == SPEC.command
