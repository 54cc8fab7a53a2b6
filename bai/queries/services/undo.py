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
    """From the generation that the document says to another one. Commits are empty where a generation is of
    none."""

    service: str
    """Identity."""
    generation: str
    commit: str
    latest: str
    latest_commit: str


def choose_undo(found: ServiceFacts, to: str = "") -> Undo:
    """`to`: a generation by its name; without one the stable one, where the document's is not that, else the
    one before. Raises CommandError, NoSuchResource."""
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
    assert found.status is not None
    state = found.state
    stable = state.find(found.status.stable)
    if stable is not None and stable.name != latest:
        return stable
    names = [each.name for each in state.generations]
    before = state.generations[: names.index(latest)] if latest in names else state.generations
    good = [each for each in before if each.name not in state.failed]
    if not good:
        raise CommandError(
            why=f"there is no generation of {clean(found.id)} before {clean(latest)} to go back to",
            hint=f"`bai describe {command_name(found.id)}` lists those known; --to takes any of them",
        )
    return good[-1]
