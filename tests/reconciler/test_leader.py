"""One of several leads, somebody always does, and who was silent for too long knows that he does not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.controller.leader import Leader, leader_lease_name
from reconciler.controller.replica import Replica
from reconciler.store.database.address import StoreAddress
from reconciler.store.store import Store
from reconciler.values.clock import VirtualClock
from reconciler.values.records import Lease, PutRecord, Recorded
from schemas.problems.errors.store import LeaseLost
from tests.lab.postgres import Server
from tests.waiting import until

CLUSTER = "here"


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    where = StoreAddress(path=tmp_path / "store.db")
    if request.param == "postgresql":
        server: Server = request.getfixturevalue("postgres")
        where = StoreAddress.parse(server.database())
    with Store.open(where, server_time=False) as opened:
        yield opened


class SteppedLeader:
    """A leader whose steps the test makes."""

    def __init__(self, store: Store, name: str, clock: VirtualClock) -> None:
        self.said: list[str] = []
        self.gained = 0
        self.leader = Leader(
            Replica(store, CLUSTER, name, clock), log=self.said.append, gained=self._gain, ttl=15.0,
            awake=clock.now,
        )  # fmt: skip

    def _gain(self) -> None:
        self.gained += 1

    @property
    def leads(self) -> bool:
        return self.leader.leads()

    def step(self) -> bool:
        self.leader.step()
        return self.leads


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(1000.0)


@pytest.fixture
def pair(store: Store, clock: VirtualClock) -> tuple[SteppedLeader, SteppedLeader]:
    return SteppedLeader(store, "a", clock), SteppedLeader(store, "b", clock)


def test_the_first_leads_and_goes_on(pair: tuple[SteppedLeader, SteppedLeader], clock: VirtualClock) -> None:
    a, b = pair
    assert a.step() and not b.step()
    for _ in range(10):
        clock.advance(5)
        assert a.step() and not b.step()
    assert (a.said, b.said) == (["leads"], ["a leads; waiting"])
    assert (a.gained, b.gained) == (1, 0)
    assert (a.leader.leader(), b.leader.leader()) == ("a", "a")


def test_who_is_silent_stops_leading_before_another_begins(
    pair: tuple[SteppedLeader, SteppedLeader], clock: VirtualClock
) -> None:
    a, b = pair
    assert a.step()
    for _ in range(14):
        clock.advance(1)
        assert a.leads and not b.step()
    clock.advance(1)
    assert not a.leads
    assert b.step()
    assert not a.step() and a.said[-1] == "lost the lead: somebody else took it over"
    assert (a.leader.leader(), b.leader.leader()) == ("", "b")
    assert not a.step() and a.said[-1] == "b leads; waiting"
    assert b.gained == 1


def test_who_lost_the_lead_and_has_it_again_says_so(
    store: Store, pair: tuple[SteppedLeader, SteppedLeader]
) -> None:
    """Also where the time of the first lead would not be over yet."""
    a, _ = pair
    assert a.step()
    store.unlock(leader_lease_name(CLUSTER))
    assert not a.step()
    assert a.step()
    assert a.said == ["leads", "lost the lead: somebody else took it over", "leads"] and a.gained == 2


def test_stopping_hands_over_at_once(pair: tuple[SteppedLeader, SteppedLeader]) -> None:
    a, b = pair
    assert a.step() and not b.step()
    a.leader.stop()
    assert not a.leads
    assert b.step()


def test_what_the_old_one_was_applying_is_not_waited_for(
    store: Store, pair: tuple[SteppedLeader, SteppedLeader], clock: VirtualClock
) -> None:
    a, b = pair
    assert a.step()
    applying = store.acquire(CLUSTER, "a", 60, clock.now())
    clock.advance(15)
    assert b.step()
    with pytest.raises(LeaseLost):
        store.write(applying, [PutRecord(Recorded("Node/n", CLUSTER, 1, "d"))])
    store.acquire(CLUSTER, "b", 60, clock.now())
    assert [(each.verb, each.actor) for each in store.audit(CLUSTER)] == [("unlock", "b")]


def test_the_apply_of_somebody_else_is_left_alone(
    store: Store,
    pair: tuple[SteppedLeader, SteppedLeader],
    clock: VirtualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a, b = pair
    assert a.step()
    monkeypatch.setattr("reconciler.store.leases.current_process_identity", lambda: "boot/ns/1/1")
    applying = store.acquire(CLUSTER, "a person", 60, clock.now())
    clock.advance(15)
    assert b.step()
    store.write(applying, [PutRecord(Recorded("Node/n", CLUSTER, 1, "d"))])


def test_so_is_one_that_begins_as_the_lead_changes(
    store: Store,
    pair: tuple[SteppedLeader, SteppedLeader],
    clock: VirtualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a, b = pair
    assert a.step()
    ending = store.acquire(CLUSTER, "a", 60, clock.now())
    clock.advance(15)
    look, begun = store.lease, []

    def lease(name: str) -> Lease | None:
        found = look(name)
        if name == CLUSTER:
            store.release(ending)
            begun.append(store.acquire(CLUSTER, "a person", 60, clock.now()))
        return found

    monkeypatch.setattr(store, "lease", lease)
    assert b.step()
    store.write(begun[0], [PutRecord(Recorded("Node/n", CLUSTER, 1, "d"))])


def test_leaders_lead_by_themselves(store: Store, clock: VirtualClock) -> None:
    """In threads of their own, as `bai serve` and the loop have them."""
    a, b = SteppedLeader(store, "a", clock), SteppedLeader(store, "b", clock)
    a.leader.start()
    until(lambda: a.leads, "the first leads")
    b.leader.start()
    until(lambda: b.leader.leader() == "a", "the second sees who leads")
    held = a.leader.lease()
    assert held is not None and held.holder == "a" and b.leader.lease() is None
    a.leader.stop()
    until(lambda: b.gained, "the second leads")
    assert b.leads
    assert a.leader.lease() is None and (a.gained, b.gained) == (1, 1)
    b.leader.stop()
    assert not b.leads and b.said[-1] == "leads"


def test_a_lead_that_is_over_names_no_lease(
    pair: tuple[SteppedLeader, SteppedLeader], clock: VirtualClock
) -> None:
    a, _ = pair
    assert a.step() and a.leader.lease() is not None
    clock.advance(15)
    assert a.leader.lease() is None


def test_a_lead_that_cannot_be_handed_over_is_said(tmp_path: Path, clock: VirtualClock) -> None:
    with Store.open(StoreAddress(path=tmp_path / "store.db")) as store:
        a = SteppedLeader(store, "a", clock)
        assert a.step()
        (tmp_path / "store.db").unlink()
        (tmp_path / "store.db").mkdir()
    a.leader.stop()
    assert a.said[-1].startswith("the lead could not be handed over: ") and not a.leads


def test_clusters_have_leaders_of_their_own(store: Store, clock: VirtualClock) -> None:
    a = SteppedLeader(store, "a", clock)
    other = Leader(Replica(store, "there", "b", clock), log=lambda _: None, awake=clock.now)
    other.step()
    assert a.step() and other.leads()
    assert store.clusters() == () and store.lease(leader_lease_name(CLUSTER)) is not None


def test_while_the_server_is_away_the_lead_ends_in_time(postgres: Server, clock: VirtualClock) -> None:
    with Store.open(StoreAddress.parse(postgres.database()), server_time=False) as store:
        a = SteppedLeader(store, "a", clock)
        assert a.step()
        postgres.stop()
        try:
            clock.advance(5)
            assert a.step() and "not certain" in a.said[-1]
            clock.advance(10)
            assert not a.step()
        finally:
            postgres.start()
        assert a.step() and a.said[-1] == "leads" and a.gained == 2
