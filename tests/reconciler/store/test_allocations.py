"""Allocations in the store: what was used goes with them, how many are kept, since when they are known."""

from __future__ import annotations

import dataclasses
import time

import pytest
from sqlalchemy import text

from reconciler.store import allocations
from reconciler.store.database.engine import open_engine
from reconciler.store.store import Store
from reconciler.values.records import (
    Allocation,
    Audit,
    Consumption,
    Event,
    PutRecord,
    Recorded,
    Sample,
    SampleChange,
)
from tests.reconciler.store.samples import CLUSTER


def held(at: float, **more: object) -> Allocation:
    made = Allocation("Session/p/x", 1, "jo", at, at, at + 1, 500, 9, {"cuda.device": 1000}, ("k1", "k2"))
    return dataclasses.replace(made, **more)  # type: ignore[arg-type]


def test_what_its_kernels_used_is_kept_when_their_samples_go(store: Store) -> None:
    lease = store.acquire(CLUSTER, "me", 60.0, 0.0)
    total = Consumption(3.0, 70, 1.5, 2.5, 9.0)
    samples = [SampleChange(kernel, (), (Sample(1.0), Sample(9.0, total=total))) for kernel in ("k1", "k2")]
    store.write(lease, samples)
    gone = [SampleChange(kernel, drop=None) for kernel in ("k1", "k2")]
    store.write(lease, [*gone, held(5.0)])
    [found] = store.holdings(CLUSTER, 0.0, 100.0).ended
    assert found == held(5.0, kernels=(), used=Consumption(6.0, 140, 3.0, 5.0, 9.0))
    assert store.samples(CLUSTER) == {}


def test_only_what_lies_in_the_time_is_read(store: Store) -> None:
    lease = store.acquire(CLUSTER, "me", 60.0, 0.0)
    store.write(lease, [held(float(at)) for at in range(10)])
    found = store.holdings(CLUSTER, 3.0, 5.5).ended
    assert [each.started for each in found] == [3.0, 4.0, 5.0]
    assert store.holdings("elsewhere", 0.0, 99.0).ended == ()
    assert store.holdings(CLUSTER, 0.0, 99.0, "Session/p/y").ended == ()


def test_of_one_session_only_its_record_is_read(store: Store) -> None:
    lease = store.acquire(CLUSTER, "me", 60.0, 0.0)
    names = ("Session/p/x", "Session/p/y")
    store.write(lease, [PutRecord(Recorded(name, CLUSTER, 1, "d", phase="RUNNING")) for name in names])
    assert set(store.holdings(CLUSTER, 0.0, 99.0).recorded) == set(names)
    assert set(store.holdings(CLUSTER, 0.0, 99.0, "Session/p/y").recorded) == {"Session/p/y"}
    assert store.holdings("elsewhere", 0.0, 99.0, "Session/p/y").recorded == {}


def test_a_bounded_number_is_kept_and_the_loss_is_told(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocations, "MAX_ALLOCATIONS", 10)
    lease = store.acquire(CLUSTER, "me", 60.0, 0.0)
    store.write(lease, [held(float(at)) for at in range(11)])
    store.prune(lease)
    assert store.holdings(CLUSTER, 0.0, 99.0).complete_since is None
    store.write(lease, [held(float(at)) for at in range(11, 20)])
    store.prune(lease)
    found = store.holdings(CLUSTER, 0.0, 99.0)
    assert [each.started for each in found.ended] == [float(at) for at in range(10, 20)]
    assert found.complete_since == 10.0


@pytest.mark.parametrize("verb", ["rebuild", "restore"])
def test_a_store_that_took_anothers_place_knows_less(store: Store, verb: str) -> None:
    lease = store.acquire(CLUSTER, "me", 60.0, 0.0)
    store.write(lease, [Audit(verb, "", 50.0), Audit("apply", "", 60.0)])
    assert store.holdings(CLUSTER, 0.0, 99.0).complete_since == 50.0


def test_a_store_of_before_says_since_when_it_knows(store: Store) -> None:
    """Of sessions that ended before the update nobody has written down what they held."""
    lease = store.acquire(CLUSTER, "me", 60.0, 0.0)
    store.write(lease, [Event("Session/p/x", "", "RUNNING", "it was placed", 1.0)])
    engine = open_engine(store.address)
    with engine.begin() as connection:
        for statement in (
            "DROP TABLE rollout_orders",
            "DROP TABLE server_reports",
            "ALTER TABLE resources DROP COLUMN service",
            "ALTER TABLE resources DROP COLUMN app_ports",
            "DROP INDEX audit_apply",
            "DROP TABLE figures",
            "DROP TABLE enforcement",
            "DROP TABLE allocations",
            "ALTER TABLE samples DROP COLUMN total",
            "ALTER TABLE resources DROP COLUMN version",
            "UPDATE alembic_version SET version_num = '0006'",
        ):
            connection.execute(text(statement))
    engine.dispose()
    before = time.time()
    with Store.open(store.address) as again:
        found = again.holdings(CLUSTER, 0.0, 99.0)
        assert found.complete_since is not None and before <= found.complete_since <= time.time()
        assert again.holdings("elsewhere", 0.0, 99.0).complete_since is None
        again.write(again.acquire(CLUSTER, "other", 60.0, 99.0), [held(5.0)])
        assert len(again.holdings(CLUSTER, 0.0, 99.0).ended) == 1
