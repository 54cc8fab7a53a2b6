"""Figures over time: written once a minute whoever writes, added up without loss, forgotten in time."""

from __future__ import annotations

import random
import threading
from dataclasses import replace

import pytest
from sqlalchemy import inspect, text

from reconciler.store.database.engine import open_engine, write_transaction
from reconciler.store.maintenance.migrate import migrate
from reconciler.store.store import Store
from reconciler.values.figures.pass_figures import Figure
from reconciler.values.figures.recorded import (
    HOUR,
    KEPT_HOURS,
    KEPT_MINUTES,
    MINUTE,
    FigureRow,
    figure_rows,
    key_of,
)
from reconciler.values.records import PutRecord
from tests.reconciler.store.samples import CLUSTER, NAME, full_record

BEGIN = 1_800_000_000.0 // HOUR * HOUR
FOR_EVER = 1e12


def row(at: float, group: str = "g", **sums: float) -> FigureRow:
    return FigureRow(group, MINUTE, at, 1, sums)


def all_rows(store: Store, length: int) -> tuple[FigureRow, ...]:
    return store.figures(CLUSTER, length, 0.0, FOR_EVER)


def test_a_pass_is_a_row_for_each_group() -> None:
    told = [
        Figure("bai_sessions", ("RUNNING",), 3.0),
        Figure("bai_drifts", (), 0.0),
        Figure("bai_queue_length", ("g",), 2.0),
        Figure("bai_fits", ("g", "2 GPUs"), 0.0),
        Figure("bai_allocated", ("h", "cpu"), 500.0),
    ]
    at = BEGIN + 125.7
    assert figure_rows(told, at) == (
        FigureRow("", MINUTE, BEGIN + 120, 1, {"sessions/RUNNING": 3.0, "drifts": 0.0}),
        FigureRow("g", MINUTE, BEGIN + 120, 1, {"queue_length": 2.0, "fits/2 GPUs": 0.0}),
        FigureRow("h", MINUTE, BEGIN + 120, 1, {"allocated/cpu": 500.0}),
    )


def test_hours_have_the_sums_of_their_minutes(store: Store) -> None:
    chance, minutes = random.Random(7), 200
    told: dict[tuple[str, float], list[FigureRow]] = {}
    for minute in range(minutes):
        rows = [
            row(BEGIN + 60 * minute, group, a=chance.randrange(9), queue_length=2**60 + chance.randrange(9))
            for group in ("", "g", "h")
            if chance.random() < 0.8
        ]
        store.save_figures(CLUSTER, rows)
        for each in rows:
            told.setdefault((each.group, each.at // HOUR * HOUR), []).append(each)
    hours = {(each.group, each.at): each for each in all_rows(store, HOUR)}
    assert hours.keys() == told.keys()
    for key, parts in told.items():
        hour = hours[key]
        assert hour.count == len(parts)
        assert hour.sums == {name: sum(each.sums[name] for each in parts) for name in ("a", "queue_length")}
        assert hour.mean("a") == sum(each.sums["a"] for each in parts) / len(parts)
    assert sum(each.count for each in all_rows(store, MINUTE)) == sum(map(len, told.values()))


def test_of_what_lasts_the_longest_is_kept(store: Store) -> None:
    key = key_of("bai_queue_oldest_seconds", "quota")
    for minute, age in enumerate((60.0, 120.0, 5.0)):
        store.save_figures(CLUSTER, [replace(row(BEGIN + 60 * minute), sums={key: age})])
    (hour,) = all_rows(store, HOUR)
    assert (hour.count, hour.sums[key], hour.mean(key)) == (3, 120.0, 120.0)


def test_what_only_some_passes_told_is_nothing_in_the_others(store: Store) -> None:
    store.save_figures(CLUSTER, [row(BEGIN, a=4.0)])
    store.save_figures(CLUSTER, [row(BEGIN + 60, b=1.0)])
    (hour,) = all_rows(store, HOUR)
    assert (hour.mean("a"), hour.mean("b"), hour.mean("c")) == (2.0, 0.5, 0.0)


def test_a_minute_counts_once_however_many_tell_of_it(store: Store) -> None:
    """Loops beside one file take turns, and a leader may be overtaken in the middle of a pass."""
    for value in (1.0, 5.0, 9.0):
        store.save_figures(CLUSTER, [row(BEGIN, a=value)])
    assert [each.sums for each in all_rows(store, MINUTE)] == [{"a": 1.0}]
    assert [(each.count, each.sums) for each in all_rows(store, HOUR)] == [(1, {"a": 1.0})]


def test_several_that_write_at_once_lose_nothing(store: Store) -> None:
    failed: list[BaseException] = []

    def tell(first: int) -> None:
        try:
            with Store.open(store.address) as own:
                for minute in range(first, 60, 2):
                    own.save_figures(CLUSTER, [row(BEGIN + 60 * minute, a=1.0)])
        except BaseException as error:
            failed.append(error)

    store.save_figures(CLUSTER, [row(BEGIN, a=1.0)])
    threads = [threading.Thread(target=tell, args=(first,)) for first in (0, 1, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert [(each.count, each.sums) for each in all_rows(store, HOUR)] == [(60, {"a": 60})]


def test_the_oldest_and_what_is_to_come_are_forgotten(store: Store) -> None:
    ahead = BEGIN + KEPT_HOURS + 20 * HOUR
    for at in (BEGIN, BEGIN + 60, ahead):
        store.save_figures(CLUSTER, [row(at, a=1.0)])
    now = BEGIN + KEPT_HOURS + HOUR
    store.save_figures("other", [row(BEGIN, a=1.0)])
    store.save_figures(CLUSTER, [row(now, a=1.0)])
    assert [each.at for each in all_rows(store, MINUTE)] == [now]
    assert [each.at for each in all_rows(store, HOUR)] == [now // HOUR * HOUR]
    assert len(store.figures("other", MINUTE, 0.0, FOR_EVER)) == 1
    later = now + KEPT_MINUTES + HOUR
    store.save_figures(CLUSTER, [row(later, a=1.0)])
    assert [each.at for each in all_rows(store, MINUTE)] == [later]
    assert len(all_rows(store, HOUR)) == 2


def test_a_group_is_read_with_the_cluster(store: Store) -> None:
    rows = [replace(row(BEGIN, a=1.0), group=group) for group in ("", "g", "h")]
    store.save_figures(CLUSTER, rows)
    assert [each.group for each in store.figures(CLUSTER, MINUTE, BEGIN, BEGIN + 60, "h")] == ["", "h"]
    assert [each.group for each in store.figures(CLUSTER, MINUTE, BEGIN, BEGIN + 60)] == ["", "g", "h"]
    assert store.figures(CLUSTER, MINUTE, BEGIN + 60, FOR_EVER) == ()


def test_a_clock_that_was_ahead_leaves_no_figures_behind(store: Store) -> None:
    store.save_figures(CLUSTER, [row(BEGIN, a=1.0), row(BEGIN + 10 * HOUR, a=1.0)])
    lease = store.acquire(CLUSTER, "me", 60, 0)
    assert store.clamp_future_times(lease, BEGIN + HOUR) == 2
    assert [each.at for each in all_rows(store, MINUTE)] == [BEGIN]


def test_nobody_who_waits_for_changes_hears_of_figures(store: Store) -> None:
    before = store.revision(CLUSTER)
    store.save_figures(CLUSTER, [row(BEGIN, a=1.0)])
    assert store.revision(CLUSTER) == before


def test_a_store_of_the_version_before_has_all_it_had(store: Store) -> None:
    store.write(store.acquire(CLUSTER, "me", 60, 0), [PutRecord(full_record())])
    engine = open_engine(store.address)
    with write_transaction(engine, "s") as connection:
        connection.execute(text("DROP TABLE rollout_orders"))
        connection.execute(text("DROP TABLE server_reports"))
        connection.execute(text("ALTER TABLE resources DROP COLUMN service"))
        connection.execute(text("ALTER TABLE resources DROP COLUMN app_ports"))
        connection.execute(text("DROP INDEX audit_apply"))
        connection.execute(text("DROP TABLE figures"))
        connection.execute(text("UPDATE alembic_version SET version_num = '0009'"))
    migrate(engine, store.address)
    assert "figures" in inspect(engine).get_table_names()
    engine.dispose()
    with Store.open(store.address) as again:
        assert again.recorded(CLUSTER) == {NAME: full_record()}
        again.save_figures(CLUSTER, [row(BEGIN, a=1.0)])
        assert len(all_rows(again, HOUR)) == 1


@pytest.mark.parametrize("group", ["", "g\x00\udcff"])
def test_whatever_a_group_is_called(store: Store, group: str) -> None:
    store.save_figures(CLUSTER, [row(BEGIN, group, a=1.0)])
    store.save_figures(CLUSTER, [row(BEGIN + 60, group, a=1.0)])
    assert [each.count for each in all_rows(store, HOUR)] == [2]
