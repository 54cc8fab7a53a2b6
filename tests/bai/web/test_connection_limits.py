"""Who gets in where all places are taken, and who has to leave."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from bai.web.connection_limits import PROBE_RESERVE, Admission, ConnectionLimits, Connections, ConnectionState


@dataclass(eq=False)
class One:
    """A connection."""

    address: str = "192.0.2.1"
    dropped: bool = field(default=False)

    def drop(self) -> None:
        self.dropped = True


def bounds(connections: int, per_address: int, *proxies: str) -> ConnectionLimits:
    return ConnectionLimits(connections, per_address, tuple(ipaddress.ip_network(each) for each in proxies))


def admitted(there: Connections, *addresses: str, at: ConnectionState = ConnectionState.waiting) -> list[One]:
    """One after the other, all whole, and then at something."""
    made = [One(address) for address in addresses]
    for each in made:
        assert there.admit(each) is Admission.whole
        there.set_state(each, at)
    return made


def test_who_waits_the_longest_leaves_first() -> None:
    there = Connections(bounds(3, 3))
    first, second, third = admitted(there, *["192.0.2.1"] * 3)
    there.set_state(first, ConnectionState.answered)
    there.set_state(first, ConnectionState.waiting)
    admitted(there, "192.0.2.1")
    assert (first.dropped, second.dropped, third.dropped) == (False, True, False)
    admitted(there, "192.0.2.1")
    assert (first.dropped, third.dropped) == (False, True)


def test_who_is_slow_leaves_after_who_waits_and_who_is_answered_never() -> None:
    there = Connections(bounds(3, 3))
    answered, slow, waiting = admitted(there, *["192.0.2.1"] * 3)
    there.set_state(answered, ConnectionState.answered)
    there.set_state(slow, ConnectionState.slow)
    (new,) = admitted(there, "192.0.2.1", at=ConnectionState.answered)
    assert waiting.dropped and not slow.dropped
    (last,) = admitted(there, "192.0.2.1", at=ConnectionState.answered)
    assert slow.dropped
    assert there.admit(One()) is Admission.probes
    assert not (answered.dropped or new.dropped or last.dropped)


def test_one_address_takes_from_itself() -> None:
    there = Connections(bounds(10, 2))
    (other,) = admitted(there, "192.0.2.9")
    many = admitted(there, *["192.0.2.1"] * 5)
    assert [each.dropped for each in many] == [True] * 3 + [False] * 2 and not other.dropped
    network = admitted(there, *[f"2001:db8::{number}" for number in range(1, 5)])
    assert [each.dropped for each in network] == [True, True, False, False]


def test_who_has_few_loses_none_to_who_has_many() -> None:
    there = Connections(bounds(10, 6))
    (few,) = admitted(there, "192.0.2.9")
    admitted(there, *["192.0.2.1"] * 6, *["192.0.2.2"] * 6, *["192.0.2.3"] * 6)
    assert not few.dropped and len(there) == 10


def test_a_proxy_is_many_clients() -> None:
    there = Connections(bounds(10, 2, "10.1.0.0/16"))
    assert not any(each.dropped for each in admitted(there, *["::ffff:10.1.2.3"] * 5, *["10.1.9.9"] * 5))


def test_there_is_room_for_probes_where_all_are_answered() -> None:
    there = Connections(bounds(2, 2))
    held = admitted(there, "192.0.2.1", "192.0.2.2", at=ConnectionState.answered)
    probes = [One(f"192.0.2.{number % 5}") for number in range(PROBE_RESERVE + 1)]
    assert {there.admit(each) for each in probes} == {Admission.probes}
    assert [each.dropped for each in probes] == [True] + [False] * PROBE_RESERVE
    for each in probes:
        there.set_state(each, ConnectionState.answered)
    assert there.admit(One()) is Admission.refused
    there.forget(held[0])
    assert there.admit(One("192.0.2.1")) is Admission.whole and not held[1].dropped


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.sampled_from([*ConnectionState, None])), max_size=80))
def test_bounds_hold_whatever_happens(steps: list[tuple[str, ConnectionState | None]]) -> None:
    there, open_, answered = Connections(bounds(4, 2)), list[One](), set[One]()
    for address, at in steps:
        mine = [each for each in open_ if each.address == address and not each.dropped]
        if at is None and mine:
            there.forget(mine[0])
            open_.remove(mine[0])
            continue
        before = {each for each in open_ if not each.dropped}
        one = One(address)
        if there.admit(one) is not Admission.refused:
            open_.append(one)
            there.set_state(one, at or ConnectionState.waiting)
        gone = {each for each in before if each.dropped}
        assert len(gone) <= 1 and not gone & answered
        if at is ConnectionState.answered:
            answered.add(one)
        living = [each for each in open_ if not each.dropped]
        assert len(living) == len(there) <= 4 + PROBE_RESERVE
