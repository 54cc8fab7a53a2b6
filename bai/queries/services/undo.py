"""Which generation a service goes back to when somebody asks for it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bai.render.humanize import clean, join_limited
from bai.render.resources.services import command_name
from schemas.problems.errors.command import CommandError, NoSuchResource

if TYPE_CHECKING:
    from bai.render.resources.services import ServiceFacts
    from reconciler.values.services.state import ServiceGeneration


@dataclass(frozen=True, slots=True)
class Undo:
    """From the generation that the document says to another one; to that itself where an order against it
    is undone, which ends the order. Commits are empty where a generation is of none."""

    service: str
    """Identity."""
    generation: str
    commit: str
    latest: str
    latest_commit: str

    @property
    def ends_order(self) -> bool:
        return self.generation == self.latest


def choose_undo(found: ServiceFacts, to: str = "") -> Undo:
    """`to`: a generation by its name; without one the last that was complete before the one that is wanted
    now, by the document or by an order: so the second `undo` takes back the first. Raises CommandError,
    NoSuchResource."""
    known = found.state.generations
    if found.status is None or not known:
        raise CommandError(why=f"nothing is known of earlier generations of {clean(found.id)}")
    latest = found.status.latest
    chosen = _named(found, to, latest) if to else _earlier(found, latest)
    said = found.state.find(latest)
    return Undo(found.id, chosen.name, chosen.commit, latest, said.commit if said is not None else "")


def _named(found: ServiceFacts, to: str, latest: str) -> ServiceGeneration:
    chosen = found.state.find(to)
    if chosen is None:
        names = join_limited((clean(each.name) for each in reversed(found.state.generations)), 10)
        raise NoSuchResource(
            what=f"generation of {clean(found.id)}", name=clean(to), hint=f"known are {names}"
        )
    if chosen.name == latest:
        raise CommandError(
            why=f"generation {clean(to)} is what the document of {clean(found.id)} says",
            hint=f"`bai rollout resume {command_name(found.id)}` ends an order against it",
        )
    return chosen


def _earlier(found: ServiceFacts, latest: str) -> ServiceGeneration:
    state = found.state
    current = found.order.generation if found.order is not None else latest
    # A record of a store that was read back from labels may know no more than the stable one.
    completed = state.completed or (state.stable,)
    earlier = (name for name in reversed(completed) if name != current and name not in state.failed)
    chosen = next(filter(None, map(state.find, earlier)), None)
    if chosen is None:
        raise CommandError(
            why=f"no generation of {clean(found.id)} was complete before {clean(current)}",
            hint=f"`bai describe {command_name(found.id)}` lists those known; --to takes any of them",
        )
    return chosen
