"""What is remembered of services, and what people want in place of their documents."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sqlalchemy import text

from reconciler.store.database.address import StoreAddress
from reconciler.store.database.engine import open_engine, write_transaction
from reconciler.store.reader import open_file_reader
from reconciler.store.store import Store
from reconciler.values.records import Audit, PutRecord
from reconciler.values.services.state import RolloutOrder, ServiceGeneration, ServiceState
from tests.reconciler.store.samples import CLUSTER, full_record, record

CHAT = "Service/team/chat"
STATE = ServiceState(
    (
        ServiceGeneration("3f9c2a1b", {"spec": {"image": "ü", "cpu": 2}}, "a" * 40, 1.25),
        ServiceGeneration("9d01aa42", {"spec": {}}, "", 2.5),
    ),
    stable="3f9c2a1b",
    failed={"9d01aa42": "no replica got ready in 10m\x00"},
)
ORDER = RolloutOrder(CHAT, "3f9c2a1b", "9d01aa42", "ada", 3.5)
TOLD = Audit("undo-rollout", CHAT, 3.5, actor="ada")


def test_a_services_state_comes_back_and_others_have_none(store: Store) -> None:
    lease = store.acquire(CLUSTER, "me", 60, 0)
    chat = record(CHAT, service=STATE)
    store.write(lease, [PutRecord(chat), PutRecord(full_record())])
    assert store.recorded(CLUSTER, "Service") == {CHAT: chat}
    first = store.cluster_records(CLUSTER).recorded
    assert first[CHAT] == chat and first[full_record().resource].service == ServiceState()
    changed = replace(chat, service=replace(STATE, stable="9d01aa42", failed={}))
    store.write(lease, [PutRecord(changed)])
    again = store.cluster_records(CLUSTER).recorded
    assert again[CHAT] == changed and again[full_record().resource] is first[full_record().resource]


def test_an_order_stands_until_another_one_or_none(store: Store) -> None:
    before = store.revision(CLUSTER)
    store.put_rollout_order(CLUSTER, ORDER, TOLD)
    store.put_rollout_order("elsewhere", replace(ORDER, generation="0" * 8), TOLD)
    assert store.rollout_orders(CLUSTER) == {CHAT: ORDER} == store.cluster_records(CLUSTER).rollout_orders
    then = store.revision(CLUSTER)
    assert then > before
    other = replace(ORDER, generation="9d01aa42", actor="eve")
    store.put_rollout_order(CLUSTER, other, replace(TOLD, actor="eve"))
    assert store.rollout_orders(CLUSTER) == {CHAT: other}
    back = Audit("resume-rollout", CHAT, 4.0, actor="ada")
    assert store.remove_rollout_order(CLUSTER, CHAT, back)
    assert store.rollout_orders(CLUSTER) == {} and store.rollout_orders("elsewhere") != {}
    assert store.revision(CLUSTER) > then
    assert not store.remove_rollout_order(CLUSTER, CHAT, back)
    entries = [(each.verb, each.resource, each.actor) for each in store.audit(CLUSTER)]
    told = [("undo-rollout", "ada"), ("undo-rollout", "eve"), ("resume-rollout", "ada")]
    assert entries == [(verb, CHAT, actor) for verb, actor in told]


def test_a_file_that_is_only_asked_tells_the_same(tmp_path: Path) -> None:
    address = StoreAddress(path=tmp_path / "store.db")
    with Store.open(address) as store:
        lease = store.acquire(CLUSTER, "me", 60, 0)
        store.write(lease, [PutRecord(record(CHAT, service=STATE)), PutRecord(full_record())])
        store.put_rollout_order(CLUSTER, ORDER, TOLD)
        reader = open_file_reader(address)
        assert reader is not None
        try:
            assert reader.cluster_records(CLUSTER) == store.cluster_records(CLUSTER)
            assert reader.rollout_orders(CLUSTER) == {CHAT: ORDER}
        finally:
            reader.close()


def test_a_store_of_the_version_before_keeps_its_records(store: Store, address: StoreAddress) -> None:
    lease = store.acquire(CLUSTER, "me", 60, 0)
    store.write(lease, [PutRecord(full_record())])
    store.release(lease)
    engine = open_engine(address)
    with write_transaction(engine, address) as connection:
        connection.execute(text("ALTER TABLE resources DROP COLUMN service"))
        connection.execute(text("ALTER TABLE resources DROP COLUMN app_ports"))
        connection.execute(text("DROP TABLE rollout_orders"))
        connection.execute(text("DROP TABLE server_reports"))
        connection.execute(text("UPDATE alembic_version SET version_num = '0012'"))
    engine.dispose()
    store.close()
    with Store.open(address) as later:
        assert later.recorded(CLUSTER) == {full_record().resource: full_record()}
        later.put_rollout_order(CLUSTER, ORDER, TOLD)
        assert later.rollout_orders(CLUSTER) == {CHAT: ORDER}
