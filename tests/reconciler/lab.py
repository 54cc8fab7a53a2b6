"""A repository of text, a fake world and a store: plan and apply as in real life, without machines."""

from __future__ import annotations

import functools
import tempfile
import textwrap
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from providers.fake import FakeProvider, World
from providers.storage.base import Storage
from reconciler.apply.apply import apply
from reconciler.apply.targets import ApplyTargets
from reconciler.observe.existing_memo import ExistingMemo
from reconciler.observe.observe import observe
from reconciler.plan.plan_cache import PlanCache
from reconciler.plan.plan_request import PlanRequest
from reconciler.sources.desired import DesiredCache, make_desired
from reconciler.store.store import Store
from reconciler.values.plan import Action, Plan
from reconciler.values.plan_options import WHOLE_PLAN, PlanOptions
from reconciler.values.results import ApplyResult
from reconciler.values.services.readiness import Readiness
from reconciler.values.state import Actual, Desired
from schemas.loading.document_cache import DocumentCache
from schemas.loading.loader import load_directory
from tests.lab.stores import environment, reader

REPO = "feedfacefeedface"

NODE = """
apiVersion: bai/v1
kind: Node
metadata: {{name: {name}}}
spec:
  resourceGroup: default
  hardware:
    numaNodes:
      - {{id: 0, cpus: 0-3, memory: 34359738368}}
      - {{id: 1, cpus: 4-7, memory: 34359738368}}
    gpus:
      - {{id: GPU-{name}-0, index: 0, model: A100, numaNode: 0, memory: 42949672960}}
      - {{id: GPU-{name}-1, index: 1, model: A100, numaNode: 1, memory: 42949672960}}
"""

BASE = """
apiVersion: bai/v1
kind: Cluster
metadata: {name: here}
spec: {provider: fake}
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {name: default}
spec: {}
---
apiVersion: bai/v1
kind: Project
metadata: {name: p}
spec: {}
"""


def session(name: str, spec: str = "", *, meta: str = "") -> str:
    """A session document; `spec` and `meta` are YAML flow pairs."""
    return textwrap.dedent(f"""
        apiVersion: bai/v1
        kind: Session
        metadata: {{name: {name}, project: p{", " + meta if meta else ""}}}
        spec: {{command: [sleep, inf]{", " + spec if spec else ""}}}
        """)


@functools.cache
def _empty_store() -> bytes:
    """A store is made once and copied: its migrations cost more than a whole test."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        Store.open(path).close()
        return path.read_bytes()


def new_store(path: Path) -> Store:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_empty_store())
    return Store.open(path)


class Lab:
    """`write` what is wanted, `plan` and `apply` it. The world's clock is everybody's clock. Like the loop it
    remembers what it read, saw and planned before."""

    storage: Storage | None = None
    """What looks after the folders of volumes."""
    readiness: Callable[[Actual, Collection[str]], Mapping[str, Readiness]] | None = None
    """How replicas answer while a plan is carried out."""

    def __init__(self, folder: Path, *, nodes: int = 1) -> None:
        self.folder = folder / "repo"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.world = World()
        self.provider = FakeProvider(self.world)
        self.plans, self.seen = PlanCache(), ExistingMemo()
        self.documents, self.desired_cache = DocumentCache(), DesiredCache()
        self.state = folder / "state" / "store.db"
        self.store = new_store(self.state)
        machines = "---".join(NODE.format(name=f"n{number}") for number in range(1, nodes + 1))
        self.write({"base": BASE, "nodes": machines})

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            (self.folder / f"{name}.yaml").write_text(text)

    def drop(self, *names: str) -> None:
        for name in names:
            (self.folder / f"{name}.yaml").unlink()

    def desired(self) -> Desired:
        repository = load_directory(self.folder, cache=self.documents)
        return make_desired(repository, "here", repo=REPO, commit="", cache=self.desired_cache)

    def actual(self) -> Actual:
        return observe(self.store, self.provider, "here", repo=REPO, memo=self.seen)

    def plan(
        self,
        *,
        targets: tuple[str, ...] = (),
        refresh_only: bool = False,
        destroy: bool = False,
        anew: tuple[str, ...] = (),
        moves: int = 0,
    ) -> Plan:
        options = PlanOptions(
            targets=targets, refresh_only=refresh_only, destroy=destroy, replace=anew, most_moves=moves
        )
        return self.plans.plan(self.request(options))

    def request(self, options: PlanOptions = WHOLE_PLAN) -> PlanRequest:
        return PlanRequest(self.desired(), self.actual(), self.world.clock.now(), options)

    def apply(self, plan: Plan | None = None) -> ApplyResult:
        plan = plan or self.plan()
        secrets = reader(environment("BAI_TEST_TOKEN", "HOME"))
        targets = ApplyTargets(
            self.store,
            self.provider,
            self.world.clock,
            self.storage,
            secrets=secrets,
            existing_memo=self.seen,
            readiness=self.readiness,
        )
        return apply(plan, targets, holder="tester")

    def converge(self) -> Plan:
        """Apply, and give the next plan."""
        result = self.apply()
        assert result.ok, [each for each in result.results if each.outcome != "done"]
        return self.plan()

    def lose_store(self) -> None:
        self.store.close()
        self.state.unlink()
        self.store = new_store(self.state)

    def kernel(self, session_name: str, kernel: str = "main1") -> str:
        return next(k for k in self.world.kernels if k.startswith(f"{session_name}-{kernel}-"))


def summary(plan: Plan) -> dict[str, str]:
    """Verb by identity, of what changes."""
    return {action.id: action.verb for action in plan.changes}


def action(plan: Plan, identity: str) -> Action:
    return next(each for each in plan.actions if each.id == identity)


def text(plan: Plan) -> str:
    """Everything a person would want to check in a plan, one fact a line; no digests."""
    lines = [f"complete: {plan.complete}"]
    for each in plan.actions:
        lines += _action(each)
    for wait in plan.waits:
        reasons = "; ".join(f"{reason.code}: {reason.message}" for reason in wait.reasons)
        lines.append(f"wait {wait.session} #{wait.position} skips {wait.skips}: {reasons}")
    lines += [f"drift {drift.resource} {drift.kernel}: {drift.what}" for drift in plan.drifts]
    lines += [f"quota {use.quota}: {dict(use.before)} -> {dict(use.after)}" for use in plan.quotas]
    lines += [f"group {use.group}: {dict(use.before)} -> {dict(use.after)}" for use in plan.groups]
    lines += [f"warning {warning}" for warning in plan.warnings]
    lines += [f"refused {one.policy or one.guard}: {one.why} ({one.hint})" for one in plan.violations]
    return "\n".join(lines) + "\n"


def _action(each: Action) -> list[str]:
    before, after = each.session_before, each.session_after
    phases = f"{before.phase if before else ''} -> {after.phase if after else ''}"
    if each.verb == "no-op":
        return [f"no-op {each.id} {phases if each.id.startswith('Session') else ''}".rstrip()]
    lines = [f"{each.verb} {each.id} ({each.why}) {phases}".rstrip(" >-")]
    lines += [f"    {c.path}: {c.before} -> {c.after}{' forces' if c.forces else ''}" for c in each.changes]
    if each.depends_on:
        lines.append(f"    after {', '.join(each.depends_on)}")
    placement = each.placement_after
    for part in placement.kernels if placement else ():
        devices = ",".join(grant.id for grant in part.devices)
        where = f"cpus {part.cpus} {part.cpu_milli}m nodes {part.memory_nodes} {devices}"
        lines.append(f"    {part.kernel} on {part.node}: {where}".rstrip())
    for spec in after.specs if after else ():
        lines.append(f"    kernel {spec.id}")
    if each.notice:
        lines.append(f"    told {each.notice.signal or 'as usual'}, {each.notice.grace:g} s")
    lines += [f"    warning {warning}" for warning in each.warnings]
    return lines
