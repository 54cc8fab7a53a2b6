"""The audit: all of it, found again, and never less."""

from __future__ import annotations

import contextlib
import sqlite3

import pytest
from sqlalchemy import text

from reconciler.store import rows
from reconciler.store.database.engine import open_engine, write_transaction
from reconciler.store.reader import open_file_reader
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


def _applied(store: Store) -> None:
    """Two applies of many actions, some of which fail, and an order between them."""
    lease = store.acquire(CLUSTER, "ada", 60, 0)
    for name in ("here-1", "here-2"):
        told = [Audit("apply", "", 1.0, "9 actions", apply=name)]
        told += [Audit("create", f"Session/p/s{at}", 2.0, "new", apply=name) for at in range(5)]
        told += [Audit("delete", f"Session/p/t{at}", 3.0, "gone", apply=name) for at in range(4)]
        told += [Audit("override", "Session/p/s0", 3.0, "why", apply=name)]
        told += [Audit("failed", f"Session/p/s{at}", 4.0, f"no {at}", apply=name) for at in (1, 4)]
        store.write(lease, [*told, Audit("suspend", "", 5.0, "a break"), Audit("create", "Project/p", 5.0)])


def test_what_applies_did_is_counted_where_it_stands(store: Store) -> None:
    _applied(store)
    told = [(each.verb, each.apply) for each in store.cluster_entries(CLUSTER, 3)]
    assert told == [("suspend", ""), ("apply", "here-2"), ("suspend", "")]
    counts = {"create": 5, "delete": 4, "failed": 2, "override": 1}
    assert store.count_actions(CLUSTER, ["here-1", "here-2", "no"]) == {"here-1": counts, "here-2": counts}
    many = [f"here-{at}" for at in range(1200)]
    assert store.count_actions(CLUSTER, many) == {"here-1": counts, "here-2": counts}
    assert store.count_actions(CLUSTER, []) == {} == store.count_actions("elsewhere", ["here-1"])


def test_actions_of_an_apply_are_read_in_parts(store: Store) -> None:
    _applied(store)
    beside = {"failed", "override"}
    seen = []
    for first in range(0, 9, 4):
        part = store.actions(CLUSTER, "here-1", first, 4)
        mine = [each.resource for each in part if each.verb not in beside]
        failed = {each.resource for each in part if each.verb == "failed"}
        assert failed == {"Session/p/s1", "Session/p/s4"} & set(mine)
        assert [each.resource for each in part if each.verb == "override"] == ["Session/p/s0"]
        seen += mine
    assert seen == [*(f"Session/p/s{at}" for at in range(5)), *(f"Session/p/t{at}" for at in range(4))]
    assert [each.verb for each in store.actions(CLUSTER, "here-1", 9, 4)] == ["override"]
    assert store.actions(CLUSTER, "no", 0, 4) == ()


def test_a_page_costs_no_more_because_the_audit_is_long(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that become entries, and, on a file, what the engine searches by."""
    _applied(store)
    made: list[object] = []
    make = rows.audit_from_row
    monkeypatch.setattr(rows, "audit_from_row", lambda row: made.append(row) or make(row))
    store.cluster_entries(CLUSTER, 2)
    store.count_actions(CLUSTER, ["here-1"])
    store.actions(CLUSTER, "here-1", 4, 2)
    # Of the last: two actions, what failed of them, and where a policy did not count.
    assert len(made) == 2 + 2 + 2
    if store.address.path is None:
        return
    reader = open_file_reader(store.address)
    assert reader is not None
    with contextlib.closing(reader):
        reader.asked = []
        reader.cluster_entries(CLUSTER, 2)
        reader.count_actions(CLUSTER, ["here-1"])
        reader.actions(CLUSTER, "here-1", 4, 2)
        reader.audit(CLUSTER, apply="here-1", verb="apply", limit=1)
        asked, reader.asked = tuple(reader.asked), None
        connection = sqlite3.connect(store.address.path)
        steps = [
            [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {each.sql}", each.parameters)]
            for each in asked
        ]
        connection.close()
    assert len(steps) == 6
    assert not [step for each in steps for step in each if step.startswith("SCAN")], steps
    used = [" ".join(each) for each in steps]
    assert "audit_resource (cluster=? AND resource=?)" in used[0]
    assert all("audit_apply (cluster=? AND apply=?" in each for each in used[1:]), used
