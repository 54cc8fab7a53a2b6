"""Services expanded again and again, while what the plans say is done at once: replicas run, and get ready
when the test says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

from planner.model.plan_time import PlanTime
from planner.model.types import KernelPlacement, Placement
from reconciler.plan.services.expand import ExpansionMemory, expand_services
from reconciler.plan.services.service_rollouts import ServiceRollouts
from reconciler.values.records import Phase, Recorded
from reconciler.values.services.pattern import pattern_of
from reconciler.values.services.readiness import Readiness
from reconciler.values.services.scaling import ScaleDecision
from reconciler.values.services.state import NO_STATE, RolloutOrder, ServiceState
from reconciler.values.services.status import ServiceStatus
from reconciler.values.state import Actual, Desired, Existing
from schemas.kinds.service import Service
from schemas.kinds.session import Session

ID = "Service/p/web"


def service(command: str = "one", **spec: Any) -> Service:
    template = {"command": [command], "ports": [{"name": "http", "port": 8000}]}
    document = {
        "apiVersion": "bai/v1",
        "kind": "Service",
        "metadata": {"name": "web", "project": "p"},
        "spec": {"template": template, **spec},
    }
    return Service.model_validate(document)


def pattern_session(wanted: Service) -> Session:
    metadata = {"name": wanted.name, "project": wanted.project}
    spec = wanted.spec.template.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return Session.model_validate(
        {"apiVersion": "bai/v1", "kind": "Session", "metadata": metadata, "spec": spec}
    )


@dataclass
class ServiceWorld:
    wanted: Service
    now: float = 1000.0
    existing: dict[str, Existing] = field(default_factory=dict)
    readiness: dict[str, Readiness] = field(default_factory=dict)
    state: ServiceState = NO_STATE
    order: RolloutOrder | None = None
    scale: ScaleDecision | None = None
    leaving: Mapping[str, str] = field(default_factory=dict)
    complete: bool = True
    memory: ExpansionMemory = field(default_factory=ExpansionMemory)

    def expand(self) -> tuple[Desired, ServiceRollouts]:
        pattern = pattern_of(self.wanted, pattern_session(self.wanted))
        desired = Desired(
            repo="r", cluster="c", commit="abc", tree="", repository=cast(Any, SimpleNamespace()),
            resources={}, documents={}, digests={}, services={ID: pattern},
        )  # fmt: skip
        existing = dict(self.existing)
        if self.state != NO_STATE:
            record = Recorded(ID, "c", 1, "", {}, service=self.state)
            existing[ID] = Existing(ID, record, "")
        actual = Actual(
            "r", "c", existing, readiness=dict(self.readiness), complete=self.complete,
            rollout_orders={ID: self.order} if self.order else {},
            scales={ID: self.scale} if self.scale else {},
        )  # fmt: skip
        return expand_services(desired, actual, self.leaving, PlanTime(self.now), self.memory)

    def step(self) -> ServiceStatus:
        """What the plan says is done."""
        desired, rollouts = self.expand()
        for identity in self.existing.keys() - desired.resources.keys():
            del self.existing[identity]
            self.readiness.pop(identity, None)
        for identity in desired.resources:
            if identity not in self.existing:
                self.put(identity, desired.documents[identity], desired.digests[identity])
            elif identity in rollouts.restarts:
                record = self.existing[identity].recorded
                self.put(identity, record.document, record.digest, record.generation + 1)
        self.state = rollouts.states[ID]
        return rollouts.statuses[0]

    def put(
        self, identity: str, document: Mapping[str, object], digest: str, generation: int = 1,
        *, node: str = "n1",
    ) -> None:  # fmt: skip
        part = KernelPlacement("main1", node, (), 0, (), 0, ())
        record = Recorded(
            identity, "c", generation, digest, document, "RUNNING", Placement(identity, "g", (part,)), ("k",),
            started_at=self.now,
        )  # fmt: skip
        self.existing[identity] = Existing(identity, record, "RUNNING")
        self.readiness[identity] = Readiness(False, self.now, "nothing listens")

    def phase(self, identity: str, phase: Phase, **changes: Any) -> None:
        found = self.existing[identity]
        record = replace(found.recorded, phase=phase, **changes)
        self.existing[identity] = replace(found, phase=phase, recorded=record)

    def ready(self, *identities: str, to: bool = True) -> None:
        for identity in identities or tuple(self.existing):
            known = self.readiness.get(identity)
            if known is None or known.ready != to:
                self.readiness[identity] = Readiness(to, self.now, "" if to else "it answered 503")

    def settle(self, most: int = 100) -> ServiceStatus:
        """Until nothing changes; replicas get ready one step after they were made."""
        for _ in range(most):
            before = dict(self.existing), dict(self.readiness), self.state
            status = self.step()
            self.ready()
            if (dict(self.existing), dict(self.readiness), self.state) == before:
                return status
        raise AssertionError(f"still going on: {status}")

    def names(self, generation: str = "") -> list[str]:
        return sorted(name for name in self.existing if f"-{generation}" in name)
