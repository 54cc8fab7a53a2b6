"""The change of a pull request, as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from planner.model.types import NodeInfo, Placement, Wait
from reconciler.trust.values import CommitRefusal
from reconciler.values.plan import Plan

DisruptionEffect = Literal["moved", "pushed out", "stopped"]


@dataclass(frozen=True, slots=True)
class Disruption:
    """A running session that does not stay where it is."""

    session: str
    effect: DisruptionEffect
    why: str
    before: Placement
    after: Placement | None
    """None: it waits, or has ended."""


@dataclass(frozen=True, slots=True)
class Review:
    """What the step from `base` to `head` does to one cluster."""

    base: str
    """Commit that the change starts from; empty where the cluster is new."""
    head: str
    """Commit with the change; empty for the files of a working directory."""
    plan: Plan
    """Of the head, on the cluster as the base leaves it. Its waits are those that the change brings about."""
    disruptions: tuple[Disruption, ...] = ()
    """Running sessions that the change moves, pushes out or stops."""
    admitted: tuple[str, ...] = ()
    """Sessions that wait without the change, and run with it."""
    still_waiting: tuple[Wait, ...] = ()
    """Sessions that wait with and without it, for the same reasons."""
    untrusted_commits: tuple[CommitRefusal, ...] = ()
    """Why its commits would not be followed: signatures, and whose the paths are that they change."""
    pending: int = 0
    """Actions that the base itself still asks for: drift, or a commit that nobody applied."""
    nodes: Mapping[str, NodeInfo] = field(default_factory=dict)
    """The machines of head and base, by name."""
    digest: str = ""
    """64 hexadecimal digits over what the change does: equal for the same documents on the same cluster,
    whatever the commit is called."""

    @property
    def passes(self) -> bool:
        """Whether it may be carried out."""
        return not self.plan.violations and not self.untrusted_commits

    @property
    def complete(self) -> bool:
        """Whether everything was known that it rests on."""
        return self.plan.complete
