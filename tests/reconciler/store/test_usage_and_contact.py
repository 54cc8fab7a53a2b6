"""What the store keeps of nodes, use and accounts; and what it does not keep for ever."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import text

from reconciler.store import usage_and_contact
from reconciler.store.database.engine import write_transaction
from reconciler.store.database.sqlite import sqlite_engine
from reconciler.store.maintenance import migrate
from reconciler.store.store import Store
from reconciler.values.records import (
    Account,
    Charge,
    Contact,
    EnforcementRecord,
    Event,
    ForgetRecord,
    Ghost,
    JournalEntry,
    Lease,
    NodeObservation,
    ProvisionRecord,
    PutRecord,
    Recorded,
    Sample,
    SampleChange,
)
from schemas.problems.errors.store import LeaseLost

CLUSTER = "here"


def lease_of(store: Store) -> Lease:
    return store.acquire(CLUSTER, "me", 0, 0)


def test_contacts_samples_and_accounts_are_given_back(store: Store) -> None:
    lease = lease_of(store)
    samples = (Sample(1.0, 2.0, 3, 4.0), Sample(2.0))
    charge = Charge(Account("ada", 0.5, 100.0), 0.0, 100.0)
    store.write(
        lease, [Contact("n1", 1.0), Contact("n2", None, 5.0, "no"), SampleChange("k", (), samples), charge]
    )
    assert store.contacts(CLUSTER) == {"n1": Contact("n1", 1.0), "n2": Contact("n2", None, 5.0, "no")}
    assert store.samples(CLUSTER) == {"k": samples}
    first = store.accounts(CLUSTER)["ada"]
    assert first.value == pytest.approx(0.5 * 0.5 * 100 / 0.6931471805599453) and first.at == 100.0
    store.write(lease, [Contact("n1", 1.0, 9.0, "gone"), SampleChange("k", (1.0,), (Sample(3.0),)), charge])
    assert store.contacts(CLUSTER)["n1"].lost == 9.0
    assert [sample.at for sample in store.samples(CLUSTER)["k"]] == [2.0, 3.0]
    assert store.accounts(CLUSTER)["ada"].value == pytest.approx(2 * first.value)
    store.write(lease, [SampleChange("k", None)])
    assert store.samples(CLUSTER) == {} and store.samples("elsewhere") == {}


def test_what_is_known_of_a_node_goes_with_its_record(store: Store) -> None:
    lease = lease_of(store)
    for name in ("n1", "n2"):
        node = Recorded(f"Node/{name}", CLUSTER, 1, "d")
        seen = NodeObservation(name, CLUSTER, "{}", 1.0)
        store.write(lease, [PutRecord(node), Contact(name, 1.0), ProvisionRecord(name, "ready"), seen])
    seen_to = [EnforcementRecord(name, "mps", "driver 1", "held", "", 1.0) for name in ("n1", "n2")]
    store.save_enforcement(CLUSTER, seen_to)
    store.write(lease, [ForgetRecord("Node/n1"), ForgetRecord("Session/n2")])
    assert set(store.enforcement(CLUSTER)) == {("n2", "mps")}
    for known in (store.contacts(CLUSTER), store.provision_records(CLUSTER), store.hardware(CLUSTER)):
        assert set(known) == {"n2"}
    store.write(lease, [ForgetRecord("Node/n2"), PutRecord(Recorded("Node/n2", CLUSTER, 2, "e"))])
    assert store.provision_records(CLUSTER).keys() == {"n2"}, "it was written anew, and is still that machine"


def test_ghosts_and_account_are_part_of_a_record(store: Store) -> None:
    record = Recorded(
        "Session/p/a", CLUSTER, 2, "d", ghosts=(Ghost("k", "n1", 1),), account=Account("ada", 0.25, 60.0)
    )
    store.write(lease_of(store), [PutRecord(record)])
    assert store.recorded(CLUSTER) == {"Session/p/a": record}


def test_a_restored_store_has_reached_no_node(store: Store, tmp_path: Path) -> None:
    lease = lease_of(store)
    store.write(lease, [Contact("n1", 1.0)])
    store.backup(tmp_path / "copy.db")
    store.release(lease)
    Store.restore(store.address, tmp_path / "copy.db", now=1)
    assert store.contacts(CLUSTER) == {}


def test_the_journal_is_bounded_and_loses_no_open_intent(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage_and_contact, "MAX_JOURNAL_ROWS", 10)
    lease = lease_of(store)
    entries = [JournalEntry("1", "a", f"step {n}", "create", "k", "intent", float(n)) for n in range(30)]
    store.write(lease, entries)
    store.prune(lease)
    assert [entry.step for entry in store.journal(CLUSTER)] == [f"step {n}" for n in range(20, 30)]
    assert len(store.open_intents(CLUSTER)) == 30
    store.steal(CLUSTER, "other", 60, 0)
    with pytest.raises(LeaseLost):
        store.prune(lease)


def test_only_the_newest_plans_and_events_are_kept(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_and_contact, "MAX_PLANS", 3)
    monkeypatch.setattr(usage_and_contact, "MAX_EVENTS", 10)
    lease = lease_of(store)
    store.save_plan("elsewhere", "theirs", "", 0.0)
    kept = []
    for at in range(5):
        store.save_plan(CLUSTER, f"p{at}", "", float(at))
        store.prune(lease)
        kept.append(list(store.saved_plans(CLUSTER)))
    assert kept[2:] == [["p2", "p1", "p0"], ["p3", "p2", "p1"], ["p4", "p3", "p2"]]
    assert list(store.saved_plans("elsewhere")) == ["theirs"]
    store.write(lease, [Event("Node/n", "", "ready", "", float(at)) for at in range(11)])
    store.prune(lease)
    assert [each.at for each in store.events(CLUSTER)] == list(range(11)), "a few more are not worth a cut"
    store.write(lease, [Event("Node/n", "", "ready", "", 11.0)])
    store.prune(lease)
    assert [each.at for each in store.events(CLUSTER)] == list(range(2, 12))


def test_an_older_store_is_brought_up_to_date_with_its_records(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    engine = sqlite_engine(path)
    with write_transaction(engine, path) as connection:
        from alembic import command
        from alembic.config import Config

        config = Config()
        config.set_main_option("script_location", str(migrate.MIGRATIONS))
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        values = ", ".join(
            ["'here'", "'Session/p/a'", "1", "'d'", "'{}'", "'RUNNING'", "NULL", "'[\"k\"]'", "0"]
        )
        rest = ", ".join(["''", "NULL", "1.0", "NULL", "''", "'{}'", "0", "''"])
        connection.execute(text(f"INSERT INTO resources VALUES ({values}, {rest})".replace(":", "\\:")))
    engine.dispose()
    with Store.open(path) as store:
        record = store.recorded(CLUSTER)["Session/p/a"]
        assert (record.kernels, record.ghosts, record.account) == (("k",), (), None)
        store.write(lease_of(store), [PutRecord(record)])
    with sqlite3.connect(path) as connection_:
        assert connection_.execute("SELECT count(*) FROM contacts").fetchone() == (0,)
