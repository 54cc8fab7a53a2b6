"""Waves, as cases: who can go, and in which waves they go. A new bug is a new file."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from reconciler.plan.nodes.waves import WaveCandidate, plan_waves

CASES = Path(__file__).parents[2] / "cases" / "waves"


@pytest.mark.parametrize("case", sorted(path.stem for path in CASES.glob("*.yaml")))
def test_case(case: str) -> None:
    said = yaml.safe_load((CASES / f"{case}.yaml").read_text())
    found = plan_waves(
        [WaveCandidate(**node) for node in said["nodes"]],
        most=said["most"],
        down=said.get("down", 0),
        canary=said.get("canary", True),
        proven=frozenset(said.get("proven", ())),
    )
    assert [list(wave) for wave in found] == said["waves"], said["about"]


CANDIDATES = st.lists(
    st.builds(
        WaveCandidate,
        node=st.sampled_from([f"n{number}" for number in range(12)]),
        profile=st.sampled_from(["a", "b"]),
        serves=st.booleans(),
        resumed=st.booleans(),
        moves=st.integers(0, 3),
    ),
    unique_by=lambda one: one.node,
    max_size=12,
)


@given(CANDIDATES, st.integers(1, 4), st.integers(0, 5), st.booleans())
def test_never_too_many_and_every_node_once(
    nodes: list[WaveCandidate], most: int, down: int, canary: bool
) -> None:
    found = plan_waves(nodes, most=most, down=down, canary=canary, proven=frozenset())
    told = [node for wave in found for node in wave]
    assert len(told) == len(set(told))
    serving = {one.node for one in nodes if one.serves}
    for wave in found:
        assert len(serving & set(wave)) <= max(0, most - down)
    if down < most:
        assert set(told) == {one.node for one in nodes}
    else:
        assert {one.node for one in nodes if not one.serves} <= set(told)
    first = {one.node for one in nodes if one.resumed}
    if found and first & set(found[0]):
        assert set(found[0]) <= first


@given(CANDIDATES)
def test_the_first_of_a_profile_goes_alone(nodes: list[WaveCandidate]) -> None:
    nodes = [one for one in nodes if not one.resumed]
    found = plan_waves(nodes, most=3, down=0, canary=True, proven=frozenset())
    profiles = {one.node: one.profile for one in nodes}
    seen: set[str] = set()
    for wave in found:
        for profile in {profiles[node] for node in wave} - seen:
            assert sum(profiles[node] == profile for node in wave) == 1
        seen |= {profiles[node] for node in wave}
