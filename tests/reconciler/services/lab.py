"""A cluster with services whose replicas really run, in a fake world, and get ready some time after they were
started."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from reconciler.values.plan import Plan
from reconciler.values.services.pattern import replica_ref
from reconciler.values.services.readiness import Readiness
from reconciler.values.services.status import ServiceStatus
from reconciler.values.state import Actual
from tests.reconciler.lab import BASE, Lab
from tests.reconciler.nodes.lab import NodeLab

WARM_UP = 10.0


def service(spec: str = "", *, template: str = "", name: str = "web", cpu: int = 1) -> str:
    """A service's document; `spec` and `template` are YAML flow pairs."""
    inner = f"resourceGroup: default, command: [serve], resources: {{cpu: {cpu}, memory: 1GiB}}"
    return textwrap.dedent(f"""
        apiVersion: bai/v1
        kind: Service
        metadata: {{name: {name}, project: p}}
        spec: {{template: {{{inner}{", " + template if template else ""}}}{", " + spec if spec else ""}}}
        """)


class ServiceLab(NodeLab):
    """Nodes n1 ... have a profile where `provisioned`. A replica is ready `WARM_UP` seconds after its start,
    unless its generation is one of `never_ready`."""

    def __init__(self, folder: Path, *, nodes: int = 3, rules: str = "", provisioned: bool = False) -> None:
        super().__init__(folder, nodes=nodes, rules=rules)
        self.never_ready: set[str] = set()
        self.watched: list[tuple[int, int]] = []
        """Replicas that were ready, and that there were, at the end of each pass."""
        if provisioned:
            self.roll()
        else:
            self.write({"base": BASE})

    def actual(self, *, offline: bool = False, check: bool = False) -> Actual:
        found = super().actual(offline=offline, check=check)
        return replace(found, readiness=self.readiness(found, found.existing))

    def readiness(self, found: Actual, relied: Collection[str]) -> Mapping[str, Readiness]:
        now, readiness = self.world.clock.now(), {}
        for identity in relied:
            existing = found.existing[identity]
            ref = replica_ref(identity, existing.recorded.document)
            if ref is None or existing.phase != "RUNNING" or existing.away:
                continue
            began = existing.recorded.started_at or now
            ready = ref.generation not in self.never_ready and now >= began + WARM_UP
            since = began + WARM_UP if ready else began
            readiness[identity] = Readiness(ready, since, "" if ready else "nothing listens")
        return readiness

    def turn(self, seconds: float = 5.0) -> Plan:
        """One pass of the loop: look, plan, apply; and some time goes by."""
        self.refresh()
        plan = self.plan_nodes()
        result = self.apply(plan)
        assert result.ok, [each for each in result.results if each.outcome != "done"]
        self.world.clock.sleep(seconds)
        seen, replicas = Lab.actual(self), self.replicas()
        answers = self.readiness(seen, [each for each in replicas if not seen.existing[each].away])
        self.watched.append((sum(each.ready for each in answers.values()), len(replicas)))
        return plan

    def settle(self, most: int = 60) -> Plan:
        """Until nothing changes any more, and every service is complete or was given up."""
        for _ in range(most):
            plan = self.turn()
            phases = {status.phase for status in plan.services}
            if not plan.changes and not phases & {"progressing"}:
                return plan
        raise AssertionError(f"still going on: {plan.changes} {plan.services} {plan.warnings}")

    def status(self) -> ServiceStatus:
        (found,) = self.plan_nodes().services
        return found

    def replicas(self) -> dict[str, str]:
        """Replica that runs → its node."""
        found = {}
        for identity, record in self.store.recorded("here").items():
            if replica_ref(identity, record.document) is not None and record.placement is not None:
                found[identity] = record.placement.kernels[0].node
        return found

    def spread(self) -> Counter[str]:
        """Node → replicas on it."""
        return Counter(self.replicas().values())
