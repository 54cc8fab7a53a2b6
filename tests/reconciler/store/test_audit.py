"""The audit: all of it, found again, and never less."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from reconciler.store.database.engine import open_engine, write_transaction
from reconciler.store.store import Store
from reconciler.values.records import Audit, FieldChange
from schemas.problems.errors.store import LeaseLost, StoreError
from tests.reconciler.store.samples import CLUSTER


@pytest.mark.parametrize(
    "statement", ["UPDATE audit SET actor = 'nobody'", "DELETE FROM audit", "DELETE FROM audit WHERE seq = 1"]
)
def test_nobody_changes_what_was_written(store: Store, statement: str) -> None:
    lease = store.acquire(CLUSTER, "ada", 60, 0)
    store.write(lease, [Audit("create", "Session/p/a", 1.0)])
    before = store.audit(CLUSTER)
    engine = open_engine(store.address)
    with (
        pytest.raises(StoreError, match="append-only"),
        write_transaction(engine, store.address) as connection,
    ):
        connection.execute(text(statement))
    engine.dispose()
    assert store.audit(CLUSTER) == before and len(before) == 1


def test_it_cannot_be_emptied_on_a_server(store: Store) -> None:
    if not store.address.on_server:
        return
    store.write(store.acquire(CLUSTER, "ada", 60, 0), [Audit("create", "Session/p/a", 1.0)])
    engine = open_engine(store.address)
    with (
        pytest.raises(StoreError, match="append-only"),
        write_transaction(engine, store.address) as connection,
    ):
        connection.execute(text("TRUNCATE audit"))
    engine.dispose()
    assert len(store.audit(CLUSTER)) == 1


def test_entries_are_found_by_everything_they_say(store: Store) -> None:
    lease = store.acquire(CLUSTER, "ada@host (process 1)", 60, 0)
    change = FieldChange("spec.env.A_%", "1", None)
    first = Audit("create", "Session/p/a", 1.0, "new", "", "c0ffee", "9a9a", "here-1", "", "d1", (change,))
    second = Audit("replace", "Session/p/b", 2.0, "spec changed", "Bob", "beef", "9b9b", "here-1", "d1", "d2")
    third = Audit("delete", "Session/p/a", 3.0, actor="bob")
    store.write(lease, [first, second])
    store.write(lease, [third])

    def found(**wanted: object) -> list[str]:
        return [entry.verb for entry in store.audit(CLUSTER, **wanted)]  # type: ignore[arg-type]

    assert found() == ["create", "replace", "delete"]
    assert found(resource="Session/p/a") == ["create", "delete"]
    assert found(actor="ada") == ["create"] and found(actor="b") == ["delete"]
    assert found(commit="c0f") == ["create"] and found(plan="9b") == ["replace"]
    assert found(since=2.0) == ["replace", "delete"] and found(until=2.0) == ["create"]
    assert found(limit=1) == ["delete"] and found(actor="%") == []
    entries = store.audit(CLUSTER)
    assert entries[0].actor == lease.holder and entries[0].changes == (change,)
    assert [each.verb for each in store.audit(CLUSTER, after=entries[1].seq)] == ["delete"]
    assert [each.verb for each in store.audit(CLUSTER, before=entries[1].seq)] == ["create"]
    assert found(verb="delete") == ["delete"] and found(verb="del") == []
    assert store.audit("elsewhere") == ()


def test_entries_are_found_by_the_projects_of_their_resources(store: Store) -> None:
    lease = store.acquire(CLUSTER, "ada", 60, 0)
    named = ("Session/p/a", "Volume/pq/p", "Project/p", "Project/pq", "Node/p", "")
    store.write(lease, [Audit("create", name, 1.0) for name in named])

    def found(*projects: str) -> list[str]:
        return [entry.resource for entry in store.audit(CLUSTER, projects=projects)]

    assert found("p") == ["Session/p/a", "Project/p"]
    assert found("p", "pq") == ["Session/p/a", "Volume/pq/p", "Project/p", "Project/pq"]
    assert found("none") == found() == []
    newest = store.audit(CLUSTER, projects=("p",), limit=1)
    assert [entry.resource for entry in newest] == ["Project/p"]


def test_who_has_lost_the_lease_adds_nothing(store: Store) -> None:
    old = store.acquire(CLUSTER, "ada", 60, 0)
    store.steal(CLUSTER, "bob", 60, 0)
    with pytest.raises(LeaseLost):
        store.write(old, [Audit("create", "Session/p/a", 1.0)])
    assert store.audit(CLUSTER) == ()


def test_breaking_a_lease_is_written_down(store: Store) -> None:
    store.acquire(CLUSTER, "ada", 60, 0)
    store.unlock(CLUSTER, actor="bob", now=5.0)
    store.unlock(CLUSTER, actor="bob", now=6.0)
    (entry,) = store.audit(CLUSTER)
    assert (entry.verb, entry.actor, entry.at) == ("unlock", "bob", 5.0) and "ada" in entry.cause
