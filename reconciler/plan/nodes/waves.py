"""Which nodes are provisioned together, one wave after the other. Pure.

A node that serves counts against `maxUnavailable`, and so does one that is out of use already. One that is
out of use anyway (it never joined, or its last provisioning failed) takes nothing away from anybody, and
needs no room. The first node of a profile goes alone, as its canary, unless another one has proven the
profile already. What failed or was not finished is resumed before anything else is begun.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reconciler.plan.node_rollout import Wave


@dataclass(frozen=True, slots=True)
class WaveCandidate:
    """A node that can be provisioned. `serves`: it is in use; `down`: it is out of use and counts as such;
    neither: it never joined. `moves`: sessions that have to leave it."""

    node: str
    profile: str
    serves: bool = False
    down: bool = False
    resumed: bool = False
    moves: int = 0


def plan_waves(
    candidates: Sequence[WaveCandidate], *, most: int, down: int, canary: bool, proven: frozenset[str]
) -> tuple[Wave, ...]:
    """All waves, as they come when each one succeeds. `down`: nodes out of use, candidates among them;
    `proven`: profiles that some node carries already. Nodes that there is no room for are in none."""
    left = sorted(candidates, key=_cheapest_first)
    known = set(proven) if canary else {one.profile for one in left}
    found: list[Wave] = []
    while left:
        chosen = _next_wave(left, most - down, known)
        if not chosen:
            break
        found.append(tuple(sorted(one.node for one in chosen)))
        known |= {one.profile for one in chosen}
        down -= sum(one.down for one in chosen)
        gone = set(found[-1])
        left = [one for one in left if one.node not in gone]
    return tuple(found)


def _cheapest_first(one: WaveCandidate) -> tuple[bool, bool, int, str]:
    """Those that cost nobody anything first."""
    return not one.resumed, one.serves, one.moves, one.node


def _next_wave(left: Sequence[WaveCandidate], room: int, proven: set[str]) -> list[WaveCandidate]:
    resumed = _fit_room([one for one in left if one.resumed], room, proven)
    return resumed or _fit_room([one for one in left if not one.resumed], room, proven)


def _fit_room(left: Sequence[WaveCandidate], room: int, proven: set[str]) -> list[WaveCandidate]:
    chosen: list[WaveCandidate] = []
    for one in left:
        alone = not one.resumed and one.profile not in proven
        if alone and any(other.profile == one.profile for other in chosen):
            continue
        if one.serves and room <= 0:
            break  # Those that serve come last.
        room -= one.serves
        chosen.append(one)
    return chosen
