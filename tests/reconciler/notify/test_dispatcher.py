"""Beside a loop: who is told what, once, whatever is killed in between."""

from __future__ import annotations

import itertools
import subprocess
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from providers.fake import FakeProvider, World
from reconciler.controller.loop import Loop
from reconciler.controller.loop_options import LoopOptions
from reconciler.controller.replica import Replica
from reconciler.gitops.directives import Directive, issue_directive
from reconciler.notify.conditions import ObservedConditions
from reconciler.notify.delivery import deliver
from reconciler.notify.dispatcher import Dispatcher
from reconciler.notify.message import Message
from reconciler.notify.state import state_key
from reconciler.store.store import Store
from reconciler.values.clock import VirtualClock
from reconciler.values.records import Event
from reconciler.workspace.workspace import Workspace
from schemas.kinds.notification import CLASSES, EventClass, Notification
from schemas.problems.errors.notification import NotSentNow
from tests.lab.stores import environment, reader
from tests.reconciler.lab import BASE, NODE, session
from tests.reconciler.notify.servers import hook
from tests.reconciler.notify.support import notification

BATCH = "type: batch, resources: {cpu: 1, memory: 1GiB}"
OPS = """
apiVersion: bai/v1
kind: Notification
metadata: {name: ops}
spec: {to: {slack: {urlFrom: env/BAI_TEST_HOOK}}, events: [all], waiting: 5m, throttle: {every: 1s}}
"""


class House:
    """A repository in a folder, a world, a loop over both, and who tells of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "repo"
        self.folder.mkdir()
        self.world = World()
        self.told: list[tuple[str, str]] = []
        self.lines: list[str] = []
        self.fails = False
        self.write("base", BASE)
        self.write("nodes", "---".join(NODE.format(name=name) for name in ("n1", "n2")))
        self.write("ops", OPS)
        self.workspace = self.open()
        self.herald = self.make_herald()
        self.loop = Loop(self.workspace, LoopOptions("loop", 30), log=lambda _: None)
        self.loop.add_listener(lambda done: self.herald.enqueue_cycle(done))  # noqa: PLW0108 (it changes)

    def open(self, revision: str | None = None) -> Workspace:
        state, clock = self.folder.parent / "store.db", self.world.clock
        made = Workspace.open(self.folder, revision=revision, state=state, clock=clock)
        made.provider = FakeProvider(self.world)
        return made

    def commit(self) -> None:
        who = ["-c", "user.name=jo", "-c", "user.email=jo@example.org"]
        for words in (["init", "-q"], ["add", "-A"], [*who, "commit", "-q", "-m", "more"]):
            subprocess.run(["git", "-C", str(self.folder), *words], check=True)

    def make_herald(self, send: Callable[[Notification, Message], str] | None = None) -> Dispatcher:
        return Dispatcher(
            Replica(self.workspace.store, "here", "loop", self.world.clock), tell=self.lines.append,
            send=send or self.send,
        )  # fmt: skip

    def send(self, to: Notification, message: Message) -> str:
        if self.fails:
            raise NotSentNow(why="HTTP 503")
        self.told.append((message.title, message.text))
        return "HTTP 200"

    def write(self, name: str, text: str) -> None:
        (self.folder / f"{name}.yaml").write_text(text)

    def once(self, seconds: float = 30) -> list[str]:
        """One pass after some time; the titles of what is told."""
        self.world.clock.sleep(seconds)
        before = len(self.told)
        self.loop.once()
        self.herald.run_round()
        return [title for title, _ in self.told[before:]]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    yield made
    made.loop.halt()
    made.herald.close()
    made.loop.workspace.close()


def test_every_class_is_explained_and_can_be_named() -> None:
    assert {"all", *CLASSES} == set(EventClass.__args__)  # type: ignore[attr-defined]


def test_sessions(house: House) -> None:
    house.write("a", session("a", BATCH))
    house.write("b", session("b", BATCH))
    # They start side by side.
    assert sorted(house.once()) == ["Session/p/a: session started", "Session/p/b: session started"]
    kernels = {kernel.spec.labels.resource: name for name, kernel in house.world.kernels.items()}
    house.world.die(kernels["Session/p/a"], exit_code=0)
    house.world.die(kernels["Session/p/b"], exit_code=3)
    assert house.once() == ["Session/p/a: session finished", "error: Session/p/b: session failed"]
    assert house.told[-1][1].endswith("main1 exited with 3")
    assert house.once() == []


def test_one_that_waits_for_long_and_then_does_not(house: House) -> None:
    house.write("big", session("big", "resources: {cpu: 1, memory: 1GiB, cuda.device: 2}"))
    house.write("late", session("late", "placement: {nodes: [n1]}, resources: {cuda.device: 2, cpu: 1}"))
    house.write("more", session("more", "placement: {nodes: [n2]}, resources: {cuda.device: 2, cpu: 1}"))
    house.once()
    waiting = house.once(400)
    assert len(waiting) == 1 and waiting[0].endswith("session waiting")
    assert "waits for 5m or longer in default" in house.told[-1][1]
    assert house.once() == []
    (house.folder / "big.yaml").unlink()
    over = [title for title in house.once() + house.once() if title.endswith("session waiting is over")]
    assert len(over) == 1


def test_a_node_that_is_lost_and_back(house: House) -> None:
    house.once()
    house.world.down["n1"] = "no route"
    assert house.once() == ["error: Node/n1: node lost"]
    assert "no contact: " in house.told[-1][1] and "no route" in house.told[-1][1]
    assert house.once() == []
    house.world.down.clear()
    assert house.once() == ["Node/n1: node lost is over"]


def test_documents_that_cannot_be_used(house: House) -> None:
    house.once()
    house.write("a", "kind: [")
    assert house.once() == ["error: cluster here: documents refused"]
    assert "a.yaml" in house.told[-1][1]
    assert house.once() == []
    house.write("a", session("a"))
    assert house.once() == ["cluster here: documents refused is over", "Session/p/a: session started"] or set(
        title for title, _ in house.told[-2:]
    ) == {"cluster here: documents refused is over", "Session/p/a: session started"}


def test_orders_are_told(house: House) -> None:
    house.once()
    issue_directive(
        house.workspace.store, "here", "suspend", Directive("jo", house.world.clock.now(), "maintenance")
    )
    assert house.once() == ["cluster here: order given"]
    assert "jo suspended the loop: maintenance" in house.told[-1][1]


def test_another_commit(house: House) -> None:
    house.commit()
    house.loop.workspace = house.workspace = house.open("HEAD")
    assert house.once() == []
    house.write("p", "apiVersion: bai/v1\nkind: Project\nmetadata: {name: q}\n")
    house.commit()
    assert house.once() == ["cluster here: commit applied"]
    assert house.once() == []


def test_only_what_is_wished(house: House) -> None:
    house.write("ops", OPS.replace("[all]", "[session-failed]").replace("spec: {", "spec: {projects: [p], "))
    house.write("a", session("a", BATCH))
    assert house.once() == []
    house.world.down["n2"] = "no route"
    assert house.once() == []
    for kernel in list(house.world.kernels):
        house.world.die(kernel, exit_code=1)
    assert house.once() == ["error: Session/p/a: session failed"]


def test_a_new_start_repeats_nothing_and_forgets_nothing(house: House) -> None:
    house.write("a", session("a", BATCH))
    house.once()
    house.world.down["n2"] = "no route"
    assert house.once() == ["error: Node/n2: node lost"]
    house.herald = house.make_herald()
    house.herald.run_round()
    assert house.once() == [], "what is old is not told again"
    assert house.herald.delivery_counts["ops"].sent == 2, "and what was known is known still"
    for kernel in list(house.world.kernels):
        house.world.die(kernel, exit_code=1)
    house.loop.once()
    house.herald = house.make_herald()
    assert house.once() == ["error: Session/p/a: session failed"], "killed before it could tell"


def test_what_cannot_be_sent_is_sent_later_by_whoever_runs_then(house: House) -> None:
    house.once()
    house.fails = True
    house.write("a", session("a", BATCH))
    house.once()
    assert house.lines == ["notification ops: The message was not sent this time: HTTP 503"]
    assert house.herald.delivery_counts["ops"].waiting == 1
    house.fails = False
    house.herald = house.make_herald()
    assert house.once() == ["Session/p/a: session started"]
    assert house.herald.delivery_counts["ops"].waiting == 0


def test_nobody_is_told_and_nothing_is_kept_without_a_notification(house: House) -> None:
    house.once()
    store = house.workspace.store
    assert store.meta(state_key("here"))
    (house.folder / "ops.yaml").unlink()
    house.once()
    assert store.meta(state_key("here")) is None and store.lease(state_key("here")) is None


def test_of_two_only_one_tells(house: House) -> None:
    other = Dispatcher(
        Replica(house.workspace.store, "here", "other", house.world.clock), tell=house.lines.append,
        send=house.send,
    )  # fmt: skip
    first = house.herald
    house.loop.add_listener(other.enqueue_cycle)
    house.once()
    house.write("a", session("a", BATCH))
    house.loop.once()
    first.run_round()
    other.run_round()
    assert [title for title, _ in house.told] == ["Session/p/a: session started"]
    first.close()
    house.world.down["n2"] = "no route"
    house.loop.once()
    other.run_round()
    assert [title for title, _ in house.told[1:]] == ["error: Node/n2: node lost"]


def test_who_lost_the_lease_says_nothing_any_more(house: House) -> None:
    house.once()
    store, clock = house.workspace.store, house.world.clock
    lease = store.steal(state_key("here"), "other", 3600, clock.now())
    house.world.down["n1"] = "no route"
    assert house.once() == []
    store.release(lease)
    house.world.clock.sleep(60)
    assert house.once() == ["error: Node/n1: node lost"]


def test_the_loop_never_waits_for_who_tells(house: House) -> None:
    for _ in range(100):
        house.loop.once()
    assert house.herald.dropped_cycles == 36
    house.herald.enqueue_cycle(None)  # type: ignore[arg-type]
    assert "cannot be told of" in house.lines[-1]


def test_secrets_are_in_no_store_and_no_line(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    with hook() as server:
        monkeypatch.setenv("BAI_TEST_HOOK", server.url)
        server.answers += [(500, {}), (404, {})]
        secret = reader(environment("BAI_TEST_HOOK")).for_infrastructure
        house.herald = house.make_herald(partial(deliver, secret=secret))
        house.once()
        house.write("a", session("a", BATCH))
        house.once()
        house.once()
        house.world.down["n1"] = "no route"
        house.once()
        assert len(server.got) >= 3
    house.write("c", session("c", BATCH))
    house.once()
    assert house.herald.delivery_counts["ops"].failed == 3 and house.herald.delivery_counts["ops"].sent >= 1
    house.workspace.store.backup(house.folder.parent / "copy.db")
    kept = (house.folder.parent / "copy.db").read_bytes()
    assert b"hidden" not in kept and "hidden" not in str(house.lines) and b"notify/here" in kept


def test_the_thread_sends_and_ends(house: House) -> None:
    arrived, before = threading.Event(), set(threading.enumerate())

    def send(to: Notification, message: Message) -> str:
        arrived.set()
        return "ok"

    house.herald = house.make_herald(send)
    house.herald.start()
    house.write("a", session("a", BATCH))
    house.loop.once()
    assert arrived.wait(60)
    house.herald.close(60)
    assert house.workspace.store.lease(state_key("here")) is None
    left = set(threading.enumerate()) - before
    assert not any(thread.name == "bai-notify-here" for thread in left)


class Killed(BaseException):
    """As if the process were no more."""


class Fragile(Store):
    """Kills who notes, when asked to."""

    broken = False

    def set_meta_with_lease(self, *args: Any) -> None:
        if self.broken:
            raise Killed
        super().set_meta_with_lease(*args)


@pytest.fixture(scope="module")
def fragile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fragile]:
    with Fragile.open(tmp_path_factory.mktemp("killed") / "store.db") as store:
        yield store


class Life:
    """One cluster's heralds, one after the other, over a list of what happens to them."""

    numbers = itertools.count()

    def __init__(self, store: Fragile) -> None:
        self.store, self.cluster = store, f"lab{next(self.numbers)}"
        self.clock, self.mode = VirtualClock(1_800_000_000.0), "fine"
        self.arrived: list[tuple[str, bytes]] = []
        self.ops = notification(throttle={"every": "1s", "burst": 100})
        self.herald = self.begin()
        self.round("fine", None)

    def begin(self) -> Dispatcher:
        return Dispatcher(
            Replica(self.store, self.cluster, "h", self.clock), tell=lambda _: None, send=self.send
        )  # fmt: skip

    def send(self, to: Notification, message: Message) -> str:
        if self.mode == "before":
            raise Killed
        if self.mode == "503":
            raise NotSentNow(why="HTTP 503")
        self.arrived.append((message.id, message.body))
        if self.mode == "after":
            raise Killed
        return "ok"

    def round(self, mode: str, number: int | None) -> None:
        self.mode, self.store.broken = mode, mode == "noted"
        self.clock.advance(700)
        now = self.clock.now()
        if number is not None:
            lease = self.store.acquire(self.cluster, "loop", 60, now)
            self.store.write(lease, [Event(f"Session/p/s{number}", "CREATING", "RUNNING", "new", now)])
        self.herald._queue.put(ObservedConditions(self.cluster, now, now, "", (self.ops,), {}))
        try:
            self.herald.run_round()
        except Killed:
            self.herald = self.begin()


@settings(deadline=None, derandomize=True, database=None, max_examples=25)
@given(script=st.lists(st.sampled_from(["fine", "before", "after", "noted", "503"]), max_size=8))
def test_killed_anywhere_nothing_is_lost_and_only_what_was_on_its_way_comes_twice(
    fragile: Fragile, script: list[str]
) -> None:
    """`before`: killed as it was about to be sent; `after`: when it was sent and not noted; `noted`: while
    the store was written."""
    life = Life(fragile)
    for number, mode in enumerate(script):
        life.round(mode, number)
    for _ in range(3):
        life.round("fine", None)
    bodies = dict(life.arrived)
    assert sum(b"session started" in body for body in bodies.values()) == len(script), "nothing is lost"
    assert all(bodies[id] == body for id, body in life.arrived), "what comes twice is the same"
    assert len(life.arrived) - len(bodies) <= script.count("after")
