"""Defragmentation: moves that join what is free, each possible when its turn comes, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from planner.advice.defragment import Move, defragment, snapshot_after_moves
from planner.model.types import GroupInfo, NodeReservation, Running, SessionRequest, Snapshot
from planner.selection.from_snapshot import build_node_tables
from tests.planner.support import machine, node, place, session

GROUP = GroupInfo("main", selection="dispersed")


def filled(requests: list[SessionRequest], nodes: int = 2, group: GroupInfo = GROUP, **more: Any) -> Snapshot:
    """Sessions placed one after another, each on the emptiest node."""
    hardware = machine(gpus=8)
    snapshot = Snapshot(tuple(node(f"n{at}", hardware) for at in range(nodes)), (group,), **more)
    for request in requests:
        for placed in place(replace(snapshot, pending=(request,))).placements:
            snapshot = replace(snapshot, running=(*snapshot.running, Running(request, placed, 0.0)))
    return snapshot


def ids(snapshot: Snapshot) -> set[str]:
    return {one.request.id for one in snapshot.running}


def where(move: Move) -> tuple[str, str, str]:
    return (move.session, move.before.kernels[0].node, move.after.kernels[0].node)


def test_the_fewest_moves_that_free_a_whole_node() -> None:
    snapshot = filled([session(name, gpus=2) for name in "abc"] + [session("d", gpus=1)])
    assert place(replace(snapshot, pending=(session("big", gpus=8),))).waits
    (move,) = defragment(replace(snapshot, running=snapshot.running[:2]), {"a", "b"}, 5)
    assert where(move) == ("a", "n0", "n1")
    assert move.gain.startswith("largest free block 6 -> 8 GPUs, room for sessions of 8 GPUs 0 -> 1")
    moves = defragment(snapshot, ids(snapshot), 5)
    assert len(moves) == 2
    after = snapshot_after_moves(snapshot, moves)
    assert place(replace(after, pending=(session("big", gpus=8),))).placements


def test_only_what_may_move_is_moved_and_never_too_much() -> None:
    snapshot = filled([session(name, gpus=2) for name in "abcd"])
    assert defragment(snapshot, set(), 5) == ()
    assert defragment(snapshot, ids(snapshot), 0) == ()
    assert {move.session for move in defragment(snapshot, {"b", "d"}, 5)} == {"b", "d"}
    assert defragment(snapshot, {"a", "b", "d"}, 1) == ()  # one move alone joins nothing


def test_parts_of_devices_are_joined() -> None:
    snapshot = filled([session("a", shares=500), session("b", shares=300)])
    (move,) = defragment(snapshot, ids(snapshot), 5)
    assert move.session == "b" or move.session == "a"
    assert "room for sessions of 8 GPUs 0 -> 1" in move.gain


def test_what_cannot_be_placed_elsewhere_as_well_stays() -> None:
    bound = [
        session("a", gpus=2, designated=frozenset({"n0"})),
        session("b", gpus=2, designated=frozenset({"n1"})),
    ]
    snapshot = filled(bound)
    assert defragment(snapshot, ids(snapshot), 5) == ()
    kept = NodeReservation("course", frozenset({"n0", "n1"}), frozenset({"school"}), 10.0, 1e9)
    reserved = filled([session("a", gpus=2), session("b", gpus=2)])
    reserved = replace(reserved, groups=(replace(GROUP, reservations=(kept,)),), now=20.0)
    assert defragment(reserved, ids(reserved), 5) == ()
    # Joined on n1 they would be over two NUMA nodes: three GPUs of each socket are taken there.
    split = [session(name, gpus=3) for name in ("a", "b", "c")]
    snapshot = filled(split, 2)
    for move in defragment(snapshot, {"c"}, 5):
        assert {part.node for part in move.after.kernels[0].parts} in ({0}, {1})


def test_gangs_and_sessions_without_devices_stay() -> None:
    gang = session("gang", gpus=2, kernels=2, multi_node=True)
    snapshot = filled([gang, session("cpu", cpu=4)])
    assert defragment(snapshot, ids(snapshot), 5) == ()


def test_a_cordoned_node_is_no_target() -> None:
    snapshot = filled([session("a", gpus=2), session("b", gpus=2)], 2)
    shut = tuple(replace(one, state="cordoned" if one.name == "n1" else "active") for one in snapshot.nodes)
    assert defragment(replace(snapshot, nodes=shut), ids(snapshot), 5) == ()


SIZES = st.sampled_from(({"gpus": 1}, {"gpus": 2}, {"gpus": 3}, {"gpus": 4}, {"shares": 400}, {"cpu": 4}))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.lists(st.tuples(SIZES, st.booleans()), max_size=14), st.integers(0, 6), st.integers(2, 4))
def test_moves_are_possible_in_their_turn_and_gain(asked: list[Any], most: int, nodes: int) -> None:
    requests = [session(f"s{at:02}", **sizes) for at, (sizes, _) in enumerate(asked)]
    movable = {f"s{at:02}" for at, (_, may) in enumerate(asked) if may}
    snapshot = filled(requests, nodes)
    before = str(snapshot)
    moves = defragment(snapshot, movable, most)
    assert moves == defragment(snapshot, movable, most)
    assert str(snapshot) == before
    assert len(moves) <= most
    assert len({move.session for move in moves}) == len(moves)
    now = snapshot
    for move in moves:
        assert move.session in movable
        assert move.before.kernels[0].node != move.after.kernels[0].node
        now = snapshot_after_moves(now, [move])
        assert build_node_tables(now)[1] == []  # nothing is held twice at any step
    if moves:
        fits = [place(one).groups[0].fits_before for one in (snapshot, now)]
        order = sorted(fits[0], key=lambda words: -int(words.split()[0]))
        old, new = ([one[size] for size in order] for one in fits)
        assert new > old or "largest free block" in moves[-1].gain
