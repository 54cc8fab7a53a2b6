"""What follows from a value is worked out once, and is no part of the value."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from schemas.hardware.model import Hardware
from schemas.kinds.session import Session
from schemas.values.once_per_value import last_per_value, once_per_value, some_per_value

CAPTURE = Path(__file__).parents[2] / "examples" / "clusters" / "dgx-h100" / "hardware" / "dgx-h100.json"


@dataclass(frozen=True)
class Box:
    size: int


CALLS: list[tuple[object, ...]] = []


@once_per_value
def doubled(box: Box) -> int:
    """Twice the size."""
    CALLS.append((box.size,))
    return 2 * box.size


@last_per_value
def times(box: Box, factor: int, *, plus: int = 0) -> int:
    CALLS.append((box.size, factor, plus))
    return box.size * factor + plus


@some_per_value(2)
def plus(box: Box, more: int) -> int:
    CALLS.append((box.size, more))
    return box.size + more


def test_once_for_each_object() -> None:
    CALLS.clear()
    one, other = Box(2), Box(2)
    assert [doubled(one), doubled(one), doubled(other)] == [4, 4, 4]
    assert CALLS == [(2,), (2,)]
    assert doubled.__doc__ == "Twice the size."


def test_it_is_neither_compared_nor_copied() -> None:
    one = Box(2)
    doubled(one)
    times(one, 3)
    assert one == Box(2) and hash(one) == hash(Box(2)) and repr(one) == repr(Box(2))
    assert doubled(replace(one, size=5)) == 10 and times(replace(one, size=5), 3) == 15


def test_the_last_for_equal_others() -> None:
    CALLS.clear()
    one = Box(2)
    assert [times(one, 3), times(one, 3), times(one, 3, plus=1), times(one, 3, plus=1)] == [6, 6, 7, 7]
    assert CALLS == [(2, 3, 0), (2, 3, 1)]
    assert times(one, 3) == 6 and CALLS[2:] == [(2, 3, 0)]


def test_some_for_equal_others() -> None:
    CALLS.clear()
    one = Box(2)
    assert [plus(one, 1), plus(one, 2), plus(one, 1), plus(one, 2), plus(Box(3), 1)] == [3, 4, 3, 4, 4]
    assert CALLS == [(2, 1), (2, 2), (3, 1)]
    assert [plus(one, 3), plus(one, 3), plus(one, 1)] == [5, 5, 3]
    assert CALLS[3:] == [(2, 3), (2, 1)]
    assert one == Box(2) and plus(replace(one, size=5), 1) == 6


def test_none_is_a_result_too() -> None:
    calls = []

    @once_per_value
    def nothing(box: Box) -> None:
        calls.append(box)

    one = Box(1)
    nothing(one)
    nothing(one)
    assert calls == [one]


def test_a_changed_copy_of_a_model_is_another_value() -> None:
    """`model_copy` copies what a model has, and then changes fields."""
    hardware = Hardware.model_validate_json(CAPTURE.read_text())

    @once_per_value
    def gpus(machine: Hardware) -> int:
        return len(machine.gpus)

    @last_per_value
    def more(machine: Hardware, count: int) -> int:
        return len(machine.gpus) + count

    assert (gpus(hardware), more(hardware, 1)) == (8, 9)
    fewer = hardware.model_copy(update={"gpus": hardware.gpus[:3]})
    assert (gpus(fewer), more(fewer, 1)) == (3, 4)
    session = Session.model_validate(
        {"apiVersion": "bai/v1", "kind": "Session", "metadata": {"name": "s", "project": "p"}, "spec": {}}
    )

    @once_per_value
    def name(each: Session) -> str:
        return each.name

    assert name(session) == "s"
    other = session.model_copy(update={"metadata": session.metadata.model_copy(update={"name": "t"})})
    assert name(other) == "t"
    assert session == Session.model_validate(session.model_dump(by_alias=True))
