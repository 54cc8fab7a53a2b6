"""Scores that are remembered by a node's state are those that would be computed for it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from planner.model.types import Outcome, Snapshot
from planner.policies import Policies
from planner.selection.concentrated import Concentrated
from planner.selection.dispersed import Dispersed
from planner.selection.node_scorer import NodeScorer
from planner.selection.roundrobin import RoundRobin
from tests.planner.support import BUILT_IN, machine, node, place, session
from tests.planner.test_place_properties import snapshots
from tests.planner.test_repack import GROUP


class PlainConcentrated(Concentrated):
    by_state = False


class PlainDispersed(Dispersed):
    by_state = False


class PlainRoundRobin(RoundRobin):
    by_state = False


PLAIN = Policies(
    queue=BUILT_IN.queue,
    selection={
        **BUILT_IN.selection,
        "concentrated": PlainConcentrated,
        "dispersed": PlainDispersed,
        "roundrobin": PlainRoundRobin,
    },
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(snapshots())
def test_the_outcome_is_the_one_of_scoring_each_node_anew(snapshot: Snapshot) -> None:
    assert place(snapshot) == place(snapshot, PLAIN)


def test_equal_states_are_scored_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve nodes take the same sessions one after the other: the twelfth's states are known by then."""
    scored: list[int] = []
    score = NodeScorer._score

    def counted(self: NodeScorer, need: object, values: object, nodes: np.ndarray) -> None:  # type: ignore[type-arg]
        scored.append(len(nodes))
        score(self, need, values, nodes)  # type: ignore[arg-type]

    monkeypatch.setattr(NodeScorer, "_score", counted)
    assert _fill_up(3).placements and sum(scored) > 3
    few = sum(scored) - 3
    scored.clear()
    assert len(_fill_up(12).placements) == 48
    assert sum(scored) - 12 == few


def _fill_up(nodes: int) -> Outcome:
    members = tuple(node(f"n{at:02}", machine(numa=1, cores=8, gpus=4)) for at in range(nodes))
    pending = tuple(session(f"s{at:03}", cpu=2, gpus=1, enqueued=at) for at in range(4 * nodes))
    return place(Snapshot(members, (GROUP,), pending=pending))
