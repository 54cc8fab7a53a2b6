"""A cluster whose nodes are provisioned, without machines: documents, a fake world for sessions, and fake
machines for roles."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from providers.fake_provisioner import FakeNodes, FakeProvisioner
from providers.machines.base import Endpoint
from reconciler.apply.apply import apply
from reconciler.apply.effect_runner import Runner
from reconciler.apply.node_effects import ProvisionerAccess
from reconciler.apply.targets import ApplyTargets
from reconciler.observe import node_status
from reconciler.observe.endpoints import endpoints
from reconciler.observe.store_changes import store_changes
from reconciler.plan.pipeline import make_plan
from reconciler.plan.plan_request import PlanRequest
from reconciler.values.plan import Plan
from reconciler.values.plan_options import PlanOptions
from reconciler.values.results import ApplyEvent, ApplyResult
from reconciler.values.state import Actual, Desired
from schemas.kinds.cluster import Cluster
from tests.reconciler.lab import BASE, NODE, Lab

PROFILE = """
apiVersion: bai/v1
kind: NodeProfile
metadata: {{name: {name}}}
spec:
  os: debian-12
  base: {{sysctls: {{vm.swappiness: '{swappiness}'}}}}
"""


def profile(name: str = "std", swappiness: int = 1) -> str:
    return PROFILE.format(name=name, swappiness=swappiness)


class NodeLab(Lab):
    """`Lab` whose nodes n1 ... have the profile `std`. `rules` are the cluster's `provisioning`."""

    def __init__(self, folder: Path, *, nodes: int = 3, rules: str = "") -> None:
        super().__init__(folder, nodes=nodes)
        self.names = tuple(f"n{number}" for number in range(1, nodes + 1))
        self.machines = FakeNodes(self.names, clock=self.world.clock.now)
        self.provisioner = FakeProvisioner(self.machines)
        self.events: list[ApplyEvent] = []
        self.rules(rules)
        self.write({"profile": profile()})

    def rules(self, text: str, *, default: str = "std") -> None:
        spec = f"spec: {{provider: fake, profile: {default}, provisioning: {{{text}}}}}"
        self.write({"base": BASE.replace("spec: {provider: fake}", spec)})

    def set_node(self, name: str, spec: str) -> None:
        """One node's own document; `spec` are lines of YAML."""
        document = NODE.format(name=name).replace("spec:\n", f"spec:\n  {spec}\n")
        others = (NODE.format(name=each) for each in self.names if each != name)
        self.write({"nodes": "---".join([*others, document])})

    def endpoints(self, desired: Desired | None = None) -> dict[str, Endpoint]:
        desired = desired or self.desired()
        cluster = desired.resources["Cluster/here"]
        assert isinstance(cluster, Cluster)
        return {each.name: each for each in endpoints(desired.nodes, cluster.spec)}

    def actual(self, *, offline: bool = False, check: bool = False) -> Actual:
        found = super().actual()
        desired, provisioner = self.desired(), None if offline else lambda: self.provisioner
        provision_status = node_status.provision_status(
            desired, self.endpoints(desired).values(), found.provision_records, provisioner
        )
        found = replace(found, provision_status=provision_status)
        return node_status.add_role_checks(found, self.provisioner) if check else found

    def plan_nodes(self, *, check: bool = False, offline: bool = False, without: Iterable[str] = ()) -> Plan:
        actual = self.actual(check=check, offline=offline)
        options = PlanOptions(without=frozenset(without))
        return make_plan(PlanRequest(self.desired(), actual, self.world.clock.now(), options))

    def apply(
        self,
        plan: Plan | None = None,
        *,
        parallel: int = 8,
        runner: Runner | None = None,
        stop: threading.Event | None = None,
        on_event: Callable[[ApplyEvent], None] | None = None,
    ) -> ApplyResult:
        return apply(
            plan or self.plan_nodes(),
            ApplyTargets(
                self.store,
                self.provider,
                self.world.clock,
                self.storage,
                ProvisionerAccess(self.provisioner, self.endpoints()),
                readiness=self.readiness,
            ),
            holder="tester",
            parallel=parallel,
            runner=runner,
            stop=stop,
            on_event=on_event or self.events.append,
        )

    def refresh(self) -> None:
        now = self.world.clock.now()
        lease = self.store.acquire("here", "refresh", 60, now)
        self.store.write(lease, store_changes(self.actual(), self.desired(), {}, now, "refresh"))
        self.store.release(lease)

    def roll(self, most: int = 20) -> list[tuple[str, ...]]:
        """Plan and apply until no node is left to provision; gives the waves."""
        waves: list[tuple[str, ...]] = []
        for _ in range(most):
            plan = self.plan_nodes()
            result = self.apply(plan)
            assert result.ok, [each for each in result.results if each.outcome != "done"]
            if plan.rollout is None or not plan.rollout.wave:
                return waves
            waves.append(plan.rollout.wave)
        raise AssertionError(f"no end: {waves}")

    def place_of(self, session: str) -> str:
        """The node that a session runs on; empty when it does not run."""
        record = self.store.recorded("here").get(f"Session/p/{session}")
        placement = record.placement if record and record.phase == "RUNNING" else None
        return placement.kernels[0].node if placement else ""
