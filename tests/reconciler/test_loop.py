"""The loop: again and again, quietly; what fails is left alone for a while, and holds up nobody."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from providers.abilities import KernelEvent
from providers.base import Observation
from providers.fake import FakeProvider, VirtualClock, World
from reconciler.controller.backoff import Backoff
from reconciler.controller.loop import Loop
from reconciler.controller.loop_options import LoopOptions
from reconciler.controller.stages import NoStageListener, Stage
from reconciler.gitops.directives import Directive, issue_directive
from reconciler.workspace.workspace import Workspace
from schemas.problems.errors.kernel import KernelRefused
from tests.lab.spaces import PATIENCE
from tests.reconciler.lab import BASE, NODE, session
from tests.reconciler.looped import Looped
from tests.waiting import until

BATCH = "type: batch, resources: {cpu: 1, memory: 1GiB}"


class House(Looped):
    """A repository in a folder, a world, and a loop over both."""

    def __init__(self, folder: Path, provider: Callable[[World], FakeProvider] = FakeProvider) -> None:
        self.folder = folder / "repo"
        self.folder.mkdir()
        self.write("base", BASE)
        self.write("nodes", "---".join(NODE.format(name=name) for name in ("n1", "n2")))
        world = World(VirtualClock(1_800_000_000.0))
        self.provider = provider(world)
        workspace = Workspace.open(self.folder, state=folder / "store.db", clock=world.clock)
        workspace.provider = self.provider
        super().__init__(workspace, world)

    def write(self, name: str, text: str) -> None:
        (self.folder / f"{name}.yaml").write_text(text)

    def running(self) -> set[str]:
        world = self.world
        return {
            kernel.spec.labels.resource.rpartition("/")[2]
            for key, kernel in world.kernels.items()
            if world.settle(key).ended is None
        }


def refuse(world: World, beginning: str, times: int) -> None:
    """The next so many creations of kernels with such ids are refused."""
    left = iter(range(times))

    def at(operation: str, kernel: str, moment: str) -> None:
        ours = (operation, moment) == ("create", "before") and kernel.startswith(beginning)
        if ours and next(left, None) is not None:
            raise KernelRefused(provider="fake", kernel=kernel, why="not today")

    world.at = at


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    yield made
    made.close()


def test_what_is_written_comes_about_and_then_it_is_quiet(house: House) -> None:
    house.write("a", session("a"))
    assert "created Session/p/a: new" in house.once() and house.good
    assert house.once() == [] and house.good
    house.write("b", session("b"))
    (house.folder / "a.yaml").unlink()
    said = house.once()
    assert "created Session/p/b: new" in said
    assert "deleted Session/p/a: no longer in the repository" in said
    assert house.running() == {"b"}


def test_what_happens_by_itself_is_said_once(house: House) -> None:
    house.write("a", session("a", BATCH))
    house.once()
    house.world.die(next(iter(house.world.kernels)), exit_code=0)
    assert house.once() == ["Session/p/a RUNNING -> TERMINATED: main1 exited with 0"]
    assert house.once() == []


def test_what_fails_is_left_alone_for_longer_and_longer_and_holds_up_nobody(house: House) -> None:
    refuse(house.world, "a-", times=3)
    house.write("a", session("a"))
    said = house.once()
    assert not house.good and any(line.startswith("failed Session/p/a") for line in said)
    house.write("b", session("b"))
    assert "created Session/p/b: new" in house.once(1) and "a" not in house.running()
    assert house.once(1) == [] and not house.good
    assert any("tried again in 1m" in line for line in house.once(40))
    assert house.once(40) == []
    house.write("a", session("a", "env: {NEW: '1'}"))
    assert any("tried again in 30s" in line for line in house.once(1)), "a changed document is tried at once"
    assert any(line.startswith("created Session/p/a") for line in house.once(40))
    assert house.once() == [] and house.good


def test_documents_that_cannot_be_read_change_nothing(house: House) -> None:
    house.write("a", session("a"))
    house.once()
    house.write("a", "apiVersion: [")
    assert "the documents cannot be used" in house.once()[0] and not house.good
    assert house.once() == [] and house.running() == {"a"}
    house.write("a", session("a"))
    assert house.once() == [] and house.good


def test_a_refused_deletion_holds_up_nobody(house: House) -> None:
    house.write("a", session("a", meta="annotations: {bai/protect: 'true'}"))
    house.once()
    (house.folder / "a.yaml").unlink()
    house.write("b", session("b"))
    said = house.once()
    assert any("refused: Session/p/a would be deleted, and is protected" in line for line in said)
    assert house.running() == {"a", "b"}
    assert house.once() == []


def test_only_to_observe_changes_nothing(house: House) -> None:
    house.loop = house.make(observe_only=True)
    house.write("a", session("a"))
    assert "would create Session/p/a: new" in house.once()
    assert house.world.kernels == {} and house.once() == []


class Meanwhile(NoStageListener):
    """Somebody suspends the loop while it plans."""

    def __init__(self, house: House) -> None:
        self.house = house

    def stage(self, stage: Stage, cluster: str) -> AbstractContextManager[None]:
        if stage == "plan":
            issue_directive(self.house.workspace.store, cluster, "suspend", Directive("ada", 1.0))
        return super().stage(stage, cluster)


def test_who_is_told_to_stop_while_it_looks_changes_nothing_any_more(house: House) -> None:
    house.loop.stages = Meanwhile(house)
    house.write("a", session("a"))
    said = house.once()
    assert {"would create Session/p/a: new", "suspended by ada: `bai resume` goes on"} <= set(said)
    assert house.world.kernels == {}


def test_a_lost_node_is_said_and_given_up_in_time(house: House) -> None:
    house.write("a", session("a", "nodeLoss: {after: 1m, then: reschedule}"))
    house.once()
    first = next(iter(house.world.kernels))
    home = house.world.kernels[first].spec.labels.node
    house.world.down[home] = "no route"
    said = house.once()
    assert f"no contact with {home}: no route" in said
    assert house.once(20) == []
    moved = house.once(60)
    assert len(moved) == 1 and moved[0].startswith(f"replaced Session/p/a: no contact with {home} since")
    assert len(house.world.kernels) == 2
    del house.world.down[home]
    back = house.once()
    assert f"{home} is back" in back
    assert first not in house.world.kernels and house.running() == {"a"}
    house.once()
    assert house.once() == [] and house.good


def test_somebody_elses_apply_is_waited_for(house: House) -> None:
    house.write("a", session("a"))
    store = house.workspace.store
    lease = store.acquire("here", "somebody", 3600, house.world.clock.now())
    assert any("somebody holds the lease" in line for line in house.once()) and not house.good
    store.release(lease)
    house.once()
    assert house.good and house.running() == {"a"}


class Telling(FakeProvider):
    """Tells at once when its kernels change, by a test's hand."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.happened = threading.Semaphore(0)
        self.listening = threading.Event()

    def events(self, stop: Callable[[], bool]) -> Iterator[KernelEvent]:
        from datetime import UTC, datetime

        self.listening.set()
        while not stop():
            if self.happened.acquire(timeout=0.05):
                yield KernelEvent(datetime.now(UTC), "k", "n1", "ended")


def test_it_wakes_when_something_happens_and_stops_when_told(tmp_path: Path) -> None:
    house = House(tmp_path, Telling)
    provider = house.provider
    assert isinstance(provider, Telling)
    house.write("a", session("a", BATCH))
    ended = threading.Event()
    house.loop = Loop(house.workspace, LoopOptions("loop", 3600), log=lambda line: _note(line, ended))
    thread = threading.Thread(target=house.loop.run)
    thread.start()
    try:
        assert provider.listening.wait(PATIENCE)
        with house.world.lock:
            house.world.die(next(iter(house.world.kernels)), exit_code=0)
        provider.happened.release()
        assert ended.wait(PATIENCE), "the event woke the loop, long before its interval"
    finally:
        house.loop.halt()
        thread.join(PATIENCE)
    assert not thread.is_alive()
    house.loop.workspace.close()


def _note(line: str, ended: threading.Event) -> None:
    if "RUNNING -> TERMINATED" in line:
        ended.set()


def test_waiting_grows_and_a_changed_document_ends_it() -> None:
    backoff = Backoff(first=10, most=60)
    assert [backoff.record_failure("a", "d", 0) for _ in range(5)] == [10, 20, 40, 60, 60]
    assert backoff.held_back({"a": "d"}, 59) == {"a"} and backoff.held_back({"a": "d"}, 60) == frozenset()
    assert backoff.held_back({"a": "other"}, 1) == frozenset()
    assert backoff.record_failure("a", "other", 100) == 10
    backoff.record_success("a")
    assert backoff.held_back({"a": "other"}, 100) == frozenset()


class Unsure(FakeProvider):
    """The machine under it has no descriptors left, once."""

    def observe(self) -> Observation:
        if not getattr(self, "recovered", False):
            self.recovered = True
            raise OSError(24, "Too many open files")
        return super().observe()


def test_what_the_machine_refuses_for_a_while_does_not_end_the_loop(tmp_path: Path) -> None:
    house = House(tmp_path, Unsure)
    house.write("a", session("a"))
    assert any("too many open files" in line.lower() for line in house.once())
    assert not house.good
    house.once()
    assert house.good and house.running() == {"a"}


def test_an_order_that_is_given_while_the_loop_begins_to_listen_is_heard(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = house.workspace.store
    real = store.watch_changes

    def late(*arguments: Any, **named: Any) -> Iterator[dict[str, int]]:
        issue_directive(store, "here", "suspend", Directive("Ada", 1.0))
        return real(*arguments, **named)

    monkeypatch.setattr(store, "watch_changes", late)
    loop = Loop(house.workspace, LoopOptions("loop", 600), log=house.lines.append)
    loop._start_listeners()
    try:
        assert loop._wake.wait(PATIENCE)
    finally:
        loop.halt()


def test_orders_are_heard_though_the_store_was_away_at_first(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    from reconciler.controller import loop as module
    from schemas.problems.errors.store import StoreUnavailable

    real: Any = getattr(module, "read_directives")  # noqa: B009
    calls: list[str] = []

    def flaky(store: Any, cluster: str) -> Any:
        first = "bai-orders" not in calls
        try:
            if threading.current_thread().name == "bai-orders" and first:
                raise StoreUnavailable(store="it", why="for a moment")
            return real(store, cluster)
        finally:
            calls.append(threading.current_thread().name)

    monkeypatch.setattr(module, "read_directives", flaky)
    loop = Loop(house.workspace, LoopOptions("loop", 0.05), log=house.lines.append)
    loop._start_listeners()
    try:
        until(lambda: calls.count("bai-orders") >= 2, "the store is asked again")
        issue_directive(house.workspace.store, "here", "suspend", Directive("Ada", 1.0))
        assert loop._wake.wait(PATIENCE)
    finally:
        loop.halt()
