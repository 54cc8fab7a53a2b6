"""Services in simulated lives: documents that change, replicas that get ready some time after they run, or
never, or are asked what none can answer; and what must hold of plans for them, checked without the help of
what makes plans."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from planner.model.types import Placement
from providers.base import KernelSpec
from providers.fake import World
from reconciler.values.plan import Action, Plan
from reconciler.values.services.pattern import replica_ref
from reconciler.values.services.probes import READINESS_ANNOTATION
from reconciler.values.services.readiness import Readiness
from reconciler.values.services.status import ServiceStatus
from reconciler.values.session_phase import ENDED
from reconciler.values.state import Actual, Desired, Existing
from schemas.kinds.service import ServiceSpec
from schemas.kinds.session import Session
from tests.simulation.invariants import Violation, live

WRONG = "wrong"
"""What no replica answers."""
WARM_UP = 30.0
"""Seconds after which a replica is ready."""
DEADLINE = 250.0
_BOUNDS = ((1, 0), (1, 0), (0, 1), (2, 1))


class ServiceDocuments:
    """One or two services, which come, change and go."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.documents: dict[str, dict[str, Any]] = {}
        self._add()

    def change(self) -> None:
        """One or two edits."""
        edits = [self._add, self._update, self._update, self._break, self._probe, self._scale, self._rules]
        edits += [self._remove] if self.rng.random() < 0.2 else []
        for _ in range(self.rng.randint(1, 2)):
            self.rng.choice(edits)()

    def patterns(self) -> dict[str, Session]:
        """What each one's replicas are."""
        return {
            f"Service/p/{name}": Session.model_validate(
                {**each, "kind": "Session", "spec": each["spec"]["template"]}
            )
            for name, each in self.documents.items()
        }

    def _add(self) -> None:
        name = self.rng.choice(["web", "web", "api"])
        if name not in self.documents:
            template = {
                "type": "inference",
                "command": ["serve"],
                "resources": {"cpu": 1, "memory": "1GiB"},
                "restart": {"policy": "always"},
                "env": {"VERSION": "0"},
            }
            metadata = {"name": name, "project": "p"}
            spec = {"replicas": self.rng.randint(1, 3), "template": template}
            self.documents[name] = {
                "apiVersion": "bai/v1",
                "kind": "Service",
                "metadata": metadata,
                "spec": spec,
            }
            self._rules()

    def _some(self) -> dict[str, Any] | None:
        name = self.rng.choice(sorted(self.documents)) if self.documents else ""
        spec: dict[str, Any] | None = self.documents[name]["spec"] if name else None
        return spec

    def _remove(self) -> None:
        if self.documents:
            del self.documents[self.rng.choice(sorted(self.documents))]

    def _update(self) -> None:
        if (spec := self._some()) is not None:
            spec["template"] = {**spec["template"], "env": {"VERSION": str(self.rng.randrange(50))}}

    def _break(self) -> None:
        """A generation that never gets ready."""
        if (spec := self._some()) is not None:
            env = {"VERSION": str(self.rng.randrange(50)), "BROKEN": "true"}
            spec["template"] = {**spec["template"], "env": env}

    def _probe(self) -> None:
        """Another question, which no replica answers, or none."""
        if (spec := self._some()) is not None:
            spec.pop("readiness", None)
            if self.rng.random() < 0.7:
                word = self.rng.choice(["well", "also-well", WRONG])
                spec["readiness"] = {"command": [word]}

    def _scale(self) -> None:
        if (spec := self._some()) is not None:
            spec["replicas"] = self.rng.randint(0, 4)

    def _rules(self) -> None:
        if (spec := self._some()) is not None:
            surge, unavailable = self.rng.choice(_BOUNDS)
            spec["placement"] = self.rng.choice(["spread", "pack"])
            spec["headroom"] = {"replicas": self.rng.choice([0, 1, 2])}
            spec["update"] = {
                "surge": surge,
                "unavailable": unavailable,
                "deadline": f"{DEADLINE:.0f}s",
                "rollback": self.rng.random() < 0.8,
            }


def answers(world: World, actual: Actual, ahead: float) -> dict[str, Readiness]:
    """How the replicas that run answer, by the world alone. `ahead`: of the world's clock, bai's."""
    found = {}
    for identity, existing in actual.existing.items():
        if replica_ref(identity, existing.recorded.document) is None:
            continue
        if existing.phase != "RUNNING" or existing.away:
            continue
        kernels = [world.kernels[each.id] for each in existing.kernels]
        began = max((each.ready for each in kernels), default=world.clock.now())
        broken = any("BROKEN" in each.spec.env or WRONG in _question(each.spec) for each in kernels)
        ready = not broken and world.clock.now() >= began + WARM_UP
        since = began + WARM_UP if ready else began
        found[identity] = Readiness(ready, since + ahead, "" if ready else "nothing listens")
    return found


def _question(spec: KernelSpec) -> str:
    """What a replica is asked, by what its kernel carries."""
    annotations = json.loads(spec.labels.document)["metadata"].get("annotations", {})
    return str(annotations.get(READINESS_ANNOTATION, ""))


def _wanted(spec: ServiceSpec) -> str:
    """What replicas of the document are."""
    asked = spec.readiness.command if spec.readiness is not None else None
    return _what(spec.template.env, json.dumps({"command": asked}, separators=(",", ":")) if asked else "")


def _what(env: Mapping[str, Any], question: str) -> str:
    return f"{env.get('VERSION')} {env.get('BROKEN', '')} {question}"


def bounds_hold(plan: Plan, actual: Actual, desired: Desired) -> None:
    """A plan takes no ready replica away that is needed, and makes no more than there may be: for updates and
    drains, whatever else happens."""
    actions = {action.id: action for action in plan.changes}
    forced = {node.name for node in desired.nodes if node.spec.drain.force and node.spec.state == "drained"}
    for identity, pattern in desired.services.items():
        spec = pattern.service.spec
        before = _replicas(actual, identity)
        ready = {name for name in before if _is_ready(before[name], actual)}
        taken = {name for name in ready if _is_stopped(before[name], actions.get(name))}
        taken_by_force = {name for name in taken if _nodes(before[name]) & forced}
        _check_ready(identity, spec, ready, taken, taken_by_force)
        gone = {name for name in before if _is_gone(before[name], actions.get(name))}
        made = {name for name in actions if name not in before and _service_of(actions[name]) == identity}
        # Others take the place of those whose nodes are lost, which nobody can count on.
        standing = {name for name in before if not actual.existing[name].away}
        there = len(standing - gone) + len(made)
        if there > max(len(standing), spec.replicas + spec.update.surge):
            raise Violation(f"{identity} has {there} replicas: {sorted(before)} and {sorted(made)}")


def held_alone(plan: Plan) -> None:
    """Nobody has anything of what is held for a service but who gives way to it."""
    taken: dict[tuple[str, str], str] = {}
    for action in plan.actions:
        side = action.session_after
        there = side is not None and side.phase not in ENDED
        for thing in _things(side.placement if side is not None and there else None):
            taken[thing] = action.id
    for status in plan.services:
        for place in status.held:
            others = {taken[thing] for thing in _things(place.placement) if thing in taken}
            if others - set(place.lent):
                raise Violation(f"{place.placement.session} is held, and {others} are there: {place.lent}")
            taken |= dict.fromkeys(_things(place.placement), place.placement.session)


def _things(placement: Placement | None) -> Iterator[tuple[str, str]]:
    for part in placement.kernels if placement is not None else ():
        yield from ((part.node, grant.id) for grant in part.devices)
        yield from ((part.node, f"CPU {cpu}") for cpu in part.cpus)


def _check_ready(
    identity: str, spec: ServiceSpec, ready: Collection[str], taken: Collection[str], forced: Collection[str]
) -> None:
    left, needed = len(ready) - len(taken), spec.replicas - spec.update.unavailable
    if len(taken) > len(forced) and left + len(forced) < needed:
        raise Violation(f"{identity} keeps {left} of {sorted(ready)}, and needs {needed}: {sorted(taken)} go")


def _replicas(actual: Actual, service: str) -> Mapping[str, Existing]:
    return {
        identity: existing
        for identity, existing in actual.existing.items()
        if (ref := replica_ref(identity, existing.recorded.document)) is not None and ref.service == service
    }


def _is_ready(existing: Existing, actual: Actual) -> bool:
    answer = actual.readiness.get(existing.id)
    ends = existing.phase != "RUNNING" or existing.recorded.phase == "TERMINATING"
    return not ends and not existing.missing and answer is not None and answer.ready


def _nodes(existing: Existing) -> set[str]:
    placement = existing.recorded.placement
    return {part.node for part in placement.kernels} if placement is not None else set()


def _is_stopped(existing: Existing, action: Action | None) -> bool:
    """Whether kernels of its generation go; those that are left over of another one are none of it."""
    if action is None or action.verb == "no-op":
        return False
    after = action.session_after
    return bool({each.id for each in existing.kernels} - set(after.kernels if after is not None else ()))


def _is_gone(existing: Existing, action: Action | None) -> bool:
    """Deleted by the plan, or before: then it is only remembered for what may be left on a lost node."""
    left = bool(existing.recorded.ghosts) and not existing.kernels
    return left if action is None else action.after is None


def _service_of(action: Action) -> str:
    side = action.session_after
    ref = replica_ref(action.id, side.document) if side is not None and side.document else None
    return ref.service if ref is not None else ""


def is_settled(status: ServiceStatus) -> bool:
    """Whether nothing is waited for but room."""
    return status.phase != "progressing" or status.count("waiting") > 0


def services_are_as_wanted(world: World, plan: Plan, desired: Desired) -> None:
    """In the end each service has all its replicas of its document's generation, or, where that never gets
    ready, of the last one that did; fewer only where there is no room for more."""
    found: dict[str, Counter[str]] = {}
    for kernel in live(world).values():
        if owner := owner_of(kernel.spec.labels.resource, desired):
            versions = found.setdefault(owner, Counter())
            versions[_what(kernel.spec.env, _question(kernel.spec))] += 1
    statuses = {status.service: status for status in plan.services}
    for identity, pattern in desired.services.items():
        status, spec = statuses[identity], pattern.service.spec
        versions, wanted = found.get(identity, Counter()), _wanted(spec)
        broken = "BROKEN" in spec.template.env or WRONG in wanted
        if status.count("waiting"):
            continue
        if sum(versions.values()) != spec.replicas and status.phase != "failed":
            raise Violation(f"{identity} runs {dict(versions)}, and is {status}")
        if status.phase == "complete" and spec.replicas and set(versions) != {wanted}:
            raise Violation(f"{identity} runs {dict(versions)} in place of {wanted}: {status}")
        if status.phase == "failed" and not broken:
            raise Violation(f"{identity} was given up, and gets ready: {status}")
        if status.phase == "complete" and broken and spec.replicas:
            raise Violation(f"{identity} is complete, and never gets ready: {status}")
        rolled_back = status.phase == "failed" and spec.update.rollback and status.stable
        if rolled_back and status.stable != status.latest and wanted in versions:
            raise Violation(f"{identity} was given up, and runs still: {dict(versions)}: {status}")


def owner_of(session: str, desired: Desired) -> str:
    """The service that a replica is of, by its name; empty for any other session. Here only replicas have a
    hyphen in their names."""
    name = session.rpartition("/")[2]
    return f"Service/p/{name.partition('-')[0]}" if "-" in name else ""


def replicas_recorded(recorded: Collection[str], desired: Desired) -> Iterator[str]:
    """Those of services that there are."""
    return (each for each in recorded if owner_of(each, desired) in desired.services)
