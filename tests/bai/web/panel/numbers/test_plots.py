"""Points and lines of plots, against what rows say."""

from __future__ import annotations

import pytest

from bai.web.panel.numbers.plots import MOST_LINES, REST, Plot, plots_of
from bai.web.panel.numbers.points import HELD, Point, points_of
from bai.web.panel.numbers.ranges import RANGES, Scale
from reconciler.values.figures.recorded import HOUR, MINUTE, FigureRow

NOW = 1_800_000_000.0
FINE = Scale(60, 6, MINUTE)


def row(at: float, group: str = "g", count: int = 1, **sums: float) -> FigureRow:
    return FigureRow(group, MINUTE, at, count, {key.replace("__", "/"): value for key, value in sums.items()})


def plot(points: list[Point | None], key: str) -> Plot:
    (found,) = (each for each in plots_of(points) if each.key == key)
    return found


def lines(points: list[Point | None], key: str) -> dict[str, tuple[float | None, ...]]:
    return {line.label: line.values for line in plot(points, key).lines}


@pytest.mark.parametrize("name", RANGES)
def test_a_time_has_at_most_five_hundred_points_and_ends_now(name: str) -> None:
    for scale in (RANGES[name].plot, RANGES[name].table):  # type: ignore[index]
        assert scale.count <= 500 and scale.step % scale.length == 0
        for now in (NOW, NOW + 59.9, NOW + 12_345.6):
            begin = scale.begin(now)
            assert begin % scale.step == 0
            assert begin + (scale.count - 1) * scale.step <= now < begin + scale.count * scale.step
    assert RANGES[name].table.count <= 31  # type: ignore[index]


def test_rows_of_a_step_are_their_mean_and_groups_are_added() -> None:
    scale = Scale(120, 2, MINUTE)
    rows = [
        row(NOW, "g", a=2), row(NOW, "h", a=10), row(NOW + 60, "g", a=4), row(NOW + 60, "h", a=10),
        row(NOW - 120, "g", a=1),
        row(NOW - 600, "g", a=99), row(NOW + 120, "g", a=99),
    ]  # fmt: skip
    before, last = points_of(rows, scale, NOW + 100)
    assert before is not None and last is not None
    assert before.figures == {"a": 1.0} and last.figures == {"a": 13.0}


def test_of_the_longest_wait_the_longest_counts() -> None:
    rows = [row(NOW, "g", queue_oldest_seconds__quota=60), row(NOW, "h", queue_oldest_seconds__quota=90)]
    assert lines(points_of(rows, Scale(60, 1, MINUTE), NOW), "waits") == {"quota": (90.0,)}


def test_what_was_told_stands_a_while_where_passes_are_rarer_than_points() -> None:
    scale = Scale(60, 30, MINUTE)
    rows = [row(scale.begin(NOW), queue_length=1), row(scale.begin(NOW) + 20 * 60, queue_length=2)]
    ((_, values),) = lines(points_of(rows, scale, NOW), "queue").items()
    stands = int(HELD // 60)
    assert values[: stands + 1] == (1.0,) * (stands + 1)
    assert values[stands + 1 : 20] == (None,) * (19 - stands)
    assert values[20:] == (2.0, *(None,) * 9)


def test_an_hour_in_which_nothing_was_told_is_a_gap() -> None:
    scale = Scale(HOUR, 3, HOUR)
    rows = [FigureRow("g", HOUR, scale.begin(NOW), 2, {"queue_length": 3})]
    assert lines(points_of(rows, scale, NOW), "queue") == {"g": (1.5, None, None)}


def test_shares_are_made_as_the_dashboard_makes_them() -> None:
    rows = [
        row(
            NOW, "g", capacity__cpu=8000, allocated__cpu=2000, capacity__mem=2**40, allocated__mem=2**39,
            **{
                "capacity/cuda.device": 4, "allocated/cuda.device": 3, "capacity/cuda.shares": 4000,
                "allocated/cuda.shares": 2500, "capacity/cuda.mig.1g": 7, "allocated/cuda.mig.1g": 7,
                "held/cuda.shares": 1001,
            },
        ),
        row(NOW, "h", capacity__cpu=8000, allocated__cpu=0),
    ]  # fmt: skip
    shares = {label: values[-1] for label, values in lines(points_of(rows, FINE, NOW), "utilisation").items()}
    assert shares == {"GPUs": round(100 * 2503 / 4004, 3), "GPUs held": 25.0, "cores": 12.5, "memory": 50.0}


def test_a_share_of_nothing_is_unknown() -> None:
    points = points_of(
        [row(NOW - 60, capacity__cpu=0), row(NOW, measured__cpu=4000, used__cpu=1000)], FINE, NOW
    )
    assert lines(points, "utilisation") == {}
    assert lines(points, "used") == {"cores": (None, None, None, None, None, 25.0)}


def test_what_passes_did_not_tell_is_none_and_what_nobody_told_is_unknown() -> None:
    rows = [row(NOW - 60, "g", queue_reasons__quota=2), row(NOW, "g")]
    assert lines(points_of(rows, FINE, NOW), "reasons") == {"quota": (None, None, None, None, 2.0, 0.0)}


def test_many_lines_are_cut_to_the_largest_and_the_rest() -> None:
    told = {f"fits/{size} GPUs": float(size) for size in range(1, 13)}
    found = lines(points_of([FigureRow("g", MINUTE, NOW, 1, told)], Scale(60, 1, MINUTE), NOW), "fits")
    assert len(found) == MOST_LINES
    assert list(found) == [*(f"{size} GPUs" for size in range(6, 13)), REST]
    assert found[REST] == (sum(range(1, 6)),)
    waits = {f"queue_oldest_seconds/r{at}": float(at) for at in range(12)}
    assert lines(points_of([FigureRow("g", MINUTE, NOW, 1, waits)], Scale(60, 1, MINUTE), NOW), "waits")[
        REST
    ] == (4.0,)


def test_localities_are_in_words() -> None:
    rows = [row(NOW, "", sessions_by_numa_nodes__1=3, sessions_by_numa_nodes__2=1, sessions_by_nodes__1=4)]
    points = points_of(rows, Scale(60, 1, MINUTE), NOW)
    assert lines(points, "numa") == {"1 NUMA node": (3.0,), "2 NUMA nodes": (1.0,)}
    assert lines(points, "spread") == {"1 node": (4.0,)}
    assert [each.key for each in plots_of(points) if each.whole] == ["sessions", "numa", "spread", "wrong"]
    (seen,) = points_of([row(NOW, "", nodes_unreached=2, drifts=0)], Scale(60, 1, MINUTE), NOW)
    assert lines([seen], "wrong") == {"nodes": (2.0,), "other than recorded": (0.0,)}
