"""How kernels end: by themselves, asked to, or because they may not go on."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest

from providers.base import Limit, Provider
from providers.conformance.harness import ProviderHarness
from providers.conformance.kernels import (
    StartedKernels,
    claims,
    ending,
    once,
    output,
    require_limit,
    require_programs,
    seen,
)
from providers.conformance.waiting import until


class Ends:
    def test_its_exit_code_and_times_are_told(
        self, harness: ProviderHarness, provider: Provider, started: StartedKernels
    ) -> None:
        require_programs(harness)
        end = started.ended("ends")
        assert (end.state, end.exit_code, end.reason, end.restarts) == ("exited", 3, "exit", 0)
        assert end.created and end.started and end.finished
        assert end.created <= end.started <= end.finished
        with closing(harness.open()) as other:
            assert ending(seen(other, end.id)) == ending(end)

    def test_what_has_ended_is_not_started_again(
        self, harness: ProviderHarness, provider: Provider, started: StartedKernels
    ) -> None:
        require_programs(harness)
        end = started.ended("ends")
        for again in (
            provider.create(started.get("ends")),
            provider.stop(end.id, grace=60.0),
            provider.stop(end.id, grace=60.0, signal="SIGUSR1"),
            seen(provider, end.id),
        ):
            assert ending(again) == ending(end)

    def test_failures_are_restarted_as_often_as_was_said(
        self, harness: ProviderHarness, provider: Provider, started: StartedKernels
    ) -> None:
        require_programs(harness)
        end = started.ended("fails")
        assert (end.state, end.exit_code, end.restarts) == ("exited", 7, 1)
        well = started.ended("succeeds")
        assert (well.state, well.exit_code, well.restarts) == ("exited", 0, 0)

    def test_who_listens_saves_and_ends_by_itself(
        self, harness: ProviderHarness, provider: Provider, started: StartedKernels
    ) -> None:
        """Exit code and output stay, and who stops it again finds it so."""
        require_programs(harness)
        spec = started.ready("graceful")
        end = provider.stop(spec.id, grace=60.0)
        assert (end.state, end.exit_code, end.reason) == ("exited", 4, "stopped")
        assert output(provider, spec.id).endswith(b"saved\n")
        assert ending(provider.stop(spec.id, grace=60.0)) == ending(end)
        with closing(harness.open()) as other:
            assert ending(seen(other, spec.id)) == ending(end)

    def test_the_signal_is_its_own(
        self, harness: ProviderHarness, provider: Provider, started: StartedKernels
    ) -> None:
        require_programs(harness)
        end = provider.stop(started.ready("interrupt").id, grace=60.0)
        assert (end.exit_code, end.reason) == (9, "stopped")

    def test_a_notice_is_enough_for_who_ends_by_itself(
        self, harness: ProviderHarness, provider: Provider, started: StartedKernels
    ) -> None:
        require_programs(harness)
        spec = started.ready("notice")
        end = provider.stop(spec.id, grace=60.0, signal="SIGUSR1")
        assert (end.exit_code, end.reason) == (7, "stopped")
        assert output(provider, spec.id).endswith(b"saved\n")

    def test_who_goes_on_after_a_notice_is_stopped_as_usual(
        self, harness: ProviderHarness, provider: Provider, started: StartedKernels
    ) -> None:
        require_programs(harness)
        spec = started.ready("patient")
        end = provider.stop(spec.id, grace=1.0, signal="SIGUSR1")
        assert (end.exit_code, end.reason) == (5, "stopped")
        words = (b"saved", b"bye")
        assert [word for word in output(provider, spec.id).split() if word in words] == list(words)

    def test_who_does_not_listen_is_killed(
        self, harness: ProviderHarness, provider: Provider, started: StartedKernels
    ) -> None:
        require_programs(harness)
        end = provider.stop(started.ready("deaf").id, grace=1.0)
        assert (end.state, end.exit_code, end.reason) == ("exited", 137, "stopped")

    def test_who_runs_too_long_is_ended(
        self, harness: ProviderHarness, provider: Provider, started: StartedKernels
    ) -> None:
        require_programs(harness)
        if not provider.capabilities().timeouts:
            pytest.skip("timeouts are not claimed")
        end = started.ended("late")
        assert (end.state, end.reason) == ("exited", "timeout")

    def test_more_memory_than_allowed_is_named_as_the_reason(
        self, harness: ProviderHarness, provider: Provider, started: StartedKernels
    ) -> None:
        require_programs(harness)
        require_limit(provider, Limit.MEMORY, harness.nodes[0])
        end = started.ended("hungry")
        assert (end.state, end.exit_code) == ("exited", 137)

        def reason() -> str:
            return getattr(seen(provider, end.id), "reason", "it is not there")

        # An engine hears of the end from one, and of its cause from another.
        until(lambda: reason() == "out-of-memory", lambda: f"its cause is told: {reason()}")

    def test_no_more_processes_run_than_allowed(
        self, harness: ProviderHarness, provider: Provider, started: StartedKernels
    ) -> None:
        require_programs(harness)
        require_limit(provider, Limit.PIDS, harness.nodes[0])
        end = started.ended("many")
        assert end.exit_code != 0 and b"fork" in output(provider, end.id)

    def test_a_core_is_the_only_one_that_is_seen_from_inside(
        self, harness: ProviderHarness, provider: Provider, started: StartedKernels
    ) -> None:
        require_programs(harness)
        require_limit(provider, Limit.CPUSET, harness.nodes[0])
        spec = started.ready("pinned")
        wanted = [b"Cpus_allowed_list:", str(harness.cpu).encode(), b"ready"]
        assert output(provider, spec.id).split() == wanted
        assert once(provider, spec.id, "running").cpus == spec.cpus

    def test_limits_of_what_runs_change_in_place(self, harness: ProviderHarness, provider: Provider) -> None:
        able = provider.capabilities().in_place & {"memory", "pids"}
        if not able:
            pytest.skip("no limits are claimed to change in place")
        spec = harness.spec("limited", "sleep 1000", memory=64 << 20, pids=50)
        wanted = replace(spec, memory=96 << 20, pids=60)
        provider.create(spec)
        before = once(provider, spec.id, "running")
        after = provider.update(spec.id, wanted)
        for name in able:
            if claims(provider, Limit(name), harness.nodes[0]):
                assert getattr(before, name) == getattr(spec, name), name
                assert getattr(after, name) == getattr(wanted, name), name
        assert (after.state, after.started) == ("running", before.started)
        found = seen(provider, spec.id)
        assert found is not None
        # Which process it is becomes known in steps, while a sandbox is set up.
        assert replace(found, pid=None) == replace(after, pid=None)
