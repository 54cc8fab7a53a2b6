"""Safety copies, on every kind of store and from one kind to the other; and moves between them."""

from __future__ import annotations

import sqlite3
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.store.database.address import StoreAddress
from reconciler.store.maintenance import move
from reconciler.store.maintenance.move import move_store
from reconciler.store.store import Store
from reconciler.values.records import (
    Account,
    Audit,
    Charge,
    Contact,
    EnforcementRecord,
    Event,
    FieldChange,
    ForgetRecord,
    ProvisionRecord,
    PutRecord,
    Sample,
    SampleChange,
)
from reconciler.values.services.state import RolloutOrder
from schemas.images.facts import ImageFacts
from schemas.problems.errors.store import LeaseHeld, LeaseLost, StoreError, StoreMoved
from tests.reconciler.store.conftest import MakeAddress, maker
from tests.reconciler.store.samples import CLUSTER, NAME, entry, full_record, record

ODD = "ü \N{SNOWMAN} 'quoted' %s {x}"


@pytest.fixture(params=["sqlite", "postgresql"])
def other_address(request: pytest.FixtureRequest, tmp_path: Path) -> MakeAddress:
    """Of another store, of the same kind or not."""
    return maker(request.param, request, tmp_path / "other")


def fill(store: Store) -> None:
    """Something in every table, and nobody who holds a lease."""
    lease = store.acquire(CLUSTER, "me", 60, 0)
    audit = Audit("create", NAME, 1.5, ODD, commit="c" * 40, changes=(FieldChange("a.b", None, ODD),))
    store.write(
        lease,
        [
            PutRecord(full_record()), PutRecord(record("Node/n1")), Contact("n1", 1.0),
            SampleChange("k", (), (Sample(1.0),)), Charge(Account("ada", 0.5, 100.0), 0.0, 100.0),
            entry("intent"), entry("done", "create:other"),
            Event(NAME, "", "PENDING", ODD, 1 / 3), ProvisionRecord("n1", "ready"), audit,
        ],
    )  # fmt: skip
    store.write(lease, [Event(NAME, "PENDING", "RUNNING", "placed", 2.0)])
    store.release(lease)
    store.save_hardware(CLUSTER, "n1", "{}", 1.0)
    store.save_enforcement(CLUSTER, [EnforcementRecord("n1", "hami", ODD, "failed", ODD, 1.0)])
    store.save_plan(CLUSTER, "digest", "text", 1.0)
    store.save_images([ImageFacts(reference="a/b:1", digest="sha256:" + "0" * 64, platforms={})], 3.0)
    store.set_meta("repo", "5eed")
    order = RolloutOrder("Service/p/web", "0badcafe", "5eedf00d", ODD, 1 / 3)
    store.put_rollout_order(CLUSTER, order, Audit("undo-rollout", order.service, 1.0))
    other = store.acquire("another", "me", 60, 0)
    store.write(other, [PutRecord(record("Node/n2", cluster="another"))])
    store.release(other)


def everything(store: Store) -> dict[str, object]:
    return {
        "recorded": {cluster: store.recorded(cluster) for cluster in store.clusters()},
        "accounts": store.accounts(CLUSTER), "samples": store.samples(CLUSTER),
        "intents": store.open_intents(CLUSTER), "journal": store.journal(CLUSTER),
        "events": store.events(CLUSTER), "hardware": store.hardware(CLUSTER), "images": store.images(),
        "enforcement": store.enforcement(CLUSTER),
        "plan": store.saved_plans(CLUSTER), "standings": store.provision_records(CLUSTER),
        "orders": store.rollout_orders(CLUSTER),
        "audit": [replace(each, seq=0) for each in store.audit(CLUSTER) if each.verb == "create"],
    }  # fmt: skip


def test_backup_while_in_use_and_restore(store: Store, tmp_path: Path) -> None:
    lease = store.acquire(CLUSTER, "me", 60, 0)
    store.write(lease, [PutRecord(full_record())])
    folder = tmp_path / "copies"
    folder.mkdir()
    copy = folder / "copy.db"
    store.backup(copy)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    store.write(lease, [ForgetRecord(NAME)])
    with Store.open(store.address) as theirs:
        other = theirs.acquire("another", "me", 1e9, 0)
        with pytest.raises(LeaseHeld, match="me"):
            Store.restore(store.address, copy, now=1)
        theirs.release(other)
    store.release(lease)
    Store.restore(store.address, copy, now=1, actor="ada")
    assert store.recorded(CLUSTER) == {NAME: full_record()}
    assert store.lease(CLUSTER) is None
    with pytest.raises(LeaseLost):
        store.write(lease, [ForgetRecord(NAME)])
    assert store.acquire(CLUSTER, "me", 60, 1).token > lease.token
    assert [(each.verb, each.actor) for each in store.audit(CLUSTER)] == [("restore", "ada")]
    assert sorted(path.name for path in folder.iterdir()) == ["copy.db"]


def test_copies_go_from_one_kind_to_the_other(
    store: Store, other_address: MakeAddress, tmp_path: Path
) -> None:
    fill(store)
    store.backup(tmp_path / "copy.db")
    target = other_address()
    Store.restore(target, tmp_path / "copy.db", now=0, actor="ada")
    with Store.open(target, server_time=False) as restored:
        assert everything(restored) == everything(store)
        assert restored.contacts(CLUSTER) == {} and restored.meta("repo") == "5eed"
        before = restored.events(CLUSTER)[-1].seq
        restored.write(restored.acquire(CLUSTER, "me", 60, 0), [Event(NAME, "RUNNING", "ERROR", "", 3.0)])
        assert restored.events(CLUSTER)[-1].seq > before


def test_what_the_audit_had_outlives_a_restore(store: Store, tmp_path: Path) -> None:
    lease = store.acquire(CLUSTER, "me", 60, 0)
    store.write(lease, [Audit("create", NAME, 1.0)])
    store.backup(tmp_path / "copy.db")
    store.write(lease, [Audit("delete", NAME, 2.0), Audit("delete", NAME, 2.0)])
    store.release(lease)
    gone = store.acquire("later", "me", 60, 0)
    store.write(gone, [Audit("create", "Node/n9", 3.0)])
    store.release(gone)
    for _ in range(2):
        Store.restore(store.address, tmp_path / "copy.db", now=1)
    verbs = [each.verb for each in store.audit(CLUSTER)]
    assert verbs == ["create", "delete", "delete", "restore", "restore"]
    assert [each.verb for each in store.audit("later")] == ["create", "restore", "restore"]
    assert store.acquire("later", "me", 60, 0).token > gone.token


def test_a_move_loses_nothing_and_the_old_store_says_where_it_went(
    store: Store, other_address: MakeAddress
) -> None:
    fill(store)
    before, contacts, target = everything(store), store.contacts(CLUSTER), other_address()
    with Store.open(target):
        pass
    assert move_store(store.address, target, now=5.0, actor="ada") == 3
    with Store.open(target, server_time=False) as moved:
        assert everything(moved) == before and moved.contacts(CLUSTER) == contacts
        assert moved.meta(f"repo/{CLUSTER}") == "5eed"
        last = moved.audit(CLUSTER)[-1]
        assert (last.verb, last.actor, last.at) == ("move", "ada", 5.0) and str(target) in last.cause
        with pytest.raises(StoreMoved, match="moved to"):
            store.acquire(CLUSTER, "me", 60, 100)
        with pytest.raises(StoreMoved, match="moved to"):
            Store.open(store.address)
        lease = moved.acquire(CLUSTER, "me", 60, 100)
        moved.write(lease, [ForgetRecord("Node/n1"), Audit("delete", "Node/n1", 6.0)])
        moved.release(lease)
        after = everything(moved)
    move_store(target, store.address, now=7.0, actor="ada")
    with Store.open(store.address, server_time=False) as back:
        assert everything(back) == after
        verbs = ["create", "undo-rollout", "move", "delete", "move"]
        assert [each.verb for each in back.audit(CLUSTER)] == verbs
        assert back.acquire(CLUSTER, "me", 60, 200).token > lease.token


def test_the_key_of_sessions_comes_along(tmp_path: Path, other_address: MakeAddress) -> None:
    source, target = StoreAddress(path=tmp_path / "team.db"), other_address()
    with Store.open(source) as store:
        fill(store)
    (tmp_path / "team.key").write_text("5eed")
    (tmp_path / "team.key").chmod(0o600)
    move_store(source, target, now=1.0, actor="ada")
    assert target.key_file.read_text() == "5eed"
    assert stat.S_IMODE(target.key_file.stat().st_mode) == 0o600
    target.key_file.write_text("another")
    move_store(target, source, now=2.0, actor="ada")
    assert (tmp_path / "team.key").read_text() == "5eed"


def test_nothing_moves_over_records_of_others_or_under_a_lease(
    store: Store, other_address: MakeAddress
) -> None:
    fill(store)
    target = other_address()
    with Store.open(target, server_time=False) as other:
        other.write(other.acquire(CLUSTER, "me", 0, 0), [PutRecord(record("Node/theirs"))])
    with pytest.raises(StoreError, match="records of its own"):
        move_store(store.address, target, now=1.0, actor="ada")
    with pytest.raises(StoreError, match="the same store"):
        move_store(store.address, store.address, now=1.0, actor="ada")
    with Store.open(store.address) as ours:
        ours.acquire(CLUSTER, "me", 1e9, 0)
    with pytest.raises(LeaseHeld):
        move_store(store.address, other_address(), now=1.0, actor="ada")
    assert store.recorded(CLUSTER).keys() == {NAME, "Node/n1"}


def test_a_move_that_was_killed_before_its_end_is_done_again(
    store: Store, other_address: MakeAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store)
    target = other_address()

    class Killed(BaseException):
        pass

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(move, "_mark_moved", die)
        with pytest.raises(Killed):
            move_store(store.address, target, now=1.0, actor="ada")
    lease = store.acquire(CLUSTER, "me", 60, 0)
    store.write(lease, [PutRecord(record("Node/late"))])
    store.release(lease)
    assert move_store(store.address, target, now=2.0, actor="ada") == 4
    with Store.open(target) as moved:
        assert "Node/late" in moved.recorded(CLUSTER)


def test_a_bad_backup_replaces_nothing(store: Store, tmp_path: Path) -> None:
    store.write(store.acquire(CLUSTER, "me", 0, 0), [PutRecord(record())])
    bad = tmp_path / "bad.db"
    for content in (b"", b"no database at all" * 100):
        bad.write_bytes(content)
        with pytest.raises(StoreError):
            Store.restore(store.address, bad, now=1)
    bad.unlink()
    with sqlite3.connect(bad) as connection:
        connection.execute("CREATE TABLE people (name TEXT)")
    with pytest.raises(StoreError, match="some other program"):
        Store.restore(store.address, bad, now=1)
    with pytest.raises(StoreError, match="no such file"):
        Store.restore(store.address, tmp_path / "missing.db", now=1)
    assert store.recorded(CLUSTER) == {NAME: record()}
