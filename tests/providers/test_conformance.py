"""The suite of conformance: the fake provider keeps its promises, and a provider that breaks one is told."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from providers.base import Fence, KernelSpec, Observation, Observed, unfenced
from providers.conformance.harness import ProviderHarness
from providers.conformance.suite import ProviderConformance
from providers.fake import FakeProvider, FaultMoment, Operation, World
from schemas.problems.errors.kernel import KernelNotFound


class Killed(BaseException):
    """Of who creates."""


class FakeHarness(ProviderHarness):
    nodes = ("n1", "n2")
    runs_programs = False

    def __init__(self, provider: type[FakeProvider] = FakeProvider) -> None:
        self.world = World()
        self.open = lambda: provider(self.world)

    def left(self, kernel_id: str) -> Sequence[str]:
        return [kernel_id] if kernel_id in self.world.kernels else []

    @contextlib.contextmanager
    def cut(self, node: str) -> Iterator[None]:
        self.world.down[node] = "no route"
        yield
        del self.world.down[node]

    def killed_creates(self, specs: Sequence[KernelSpec]) -> Iterator[KernelSpec]:
        def kill(operation: Operation, kernel_id: str, moment: FaultMoment) -> None:
            if operation == "create" and moment in moments:
                raise Killed

        for number, spec in enumerate(specs):
            moments = ("before", "after")[number // 2 % 2]
            self.world.at = kill
            with contextlib.suppress(Killed):
                self.open().create(spec)
            self.world.at = lambda operation, kernel_id, moment: None
            yield spec


@pytest.fixture(scope="class")
def harness() -> ProviderHarness:
    return FakeHarness()


class TestConformance(ProviderConformance):
    """A simulation: it claims to run no programs."""


class Doubles(FakeProvider):
    def create(self, spec: KernelSpec, fence: Fence = unfenced) -> Observed:
        self.world.vanish(spec.id)
        self.world.clock.sleep(1)
        return super().create(spec, fence)


class StartsWithoutAsking(FakeProvider):
    def create(self, spec: KernelSpec, fence: Fence = unfenced) -> Observed:
        return super().create(spec)


class CutsLabels(FakeProvider):
    def observe(self) -> Observation:
        found = super().observe()
        cut = (replace(one, labels=replace(one.labels, document="")) for one in found.kernels)
        return replace(found, kernels=tuple(cut))


class TakesSilenceForAbsence(FakeProvider):
    def observe(self) -> Observation:
        return replace(super().observe(), unreachable={})


class KeepsWhatIsRemoved(FakeProvider):
    def remove(self, kernel_id: str) -> None:
        with contextlib.suppress(KernelNotFound):
            self.stop(kernel_id, grace=0.0)


class StopsNobody(FakeProvider):
    def stop(self, kernel_id: str, *, grace: float, signal: str = "") -> Observed:
        if kernel_id in self.world.kernels:
            return super().stop(kernel_id, grace=grace, signal=signal)
        return next(iter(super().observe().kernels))


class LeavesHalves(FakeProvider):
    def observe(self) -> Observation:
        made = self.world.kernels.keys() - self.world.created
        return replace(super().observe(), unlabelled=("half",) if self.world.calls and not made else ())


TWICE = "test_creating_twice_finds_the_first"
FENCE = "test_who_lost_the_lease_starts_nothing"
LABELS = "test_labels_are_what_was_given"
CUT = "test_what_cannot_be_seen_is_not_said_to_be_gone"
REMOVED = "test_what_is_removed_leaves_no_trace"
NAMED = "test_what_is_not_there_is_named"
KILLED = "test_whoever_is_killed_while_he_creates_leaves_what_the_next_one_finishes"


@pytest.mark.parametrize(
    ("broken", "promise"),
    [
        (Doubles, TWICE),
        (StartsWithoutAsking, FENCE),
        (CutsLabels, LABELS),
        (TakesSilenceForAbsence, CUT),
        (KeepsWhatIsRemoved, REMOVED),
        (StopsNobody, NAMED),
        (LeavesHalves, KILLED),
    ],
)
def test_a_broken_promise_is_told(
    broken: type[FakeProvider], promise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for provider, breaks in ((FakeProvider, False), (broken, True)):
        harness = FakeHarness(provider)
        harness.open().create(harness.spec("other", ""))
        test = getattr(ProviderConformance(), promise)
        if not breaks:
            test(harness, harness.open())
            continue
        monkeypatch.setattr("providers.conformance.waiting.PATIENCE", 0.1)
        with pytest.raises((AssertionError, pytest.fail.Exception, StopIteration)):
            test(harness, harness.open())
