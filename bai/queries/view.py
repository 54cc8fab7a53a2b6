"""What reading commands look at: a cluster as documents, store and nodes show it, seen by somebody.

`WorkspaceView` looks for itself, on the machine where the command runs; a server's view (`bai.web.pass_view`)
has what the last pass of its loop saw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from schemas.values.resource_ref import ref_of

if TYPE_CHECKING:
    from bai.render.resources.loop_status import LoopStatus
    from planner.advice.capacity import GroupCapacity
    from planner.model.types import Wait
    from providers.storage.base import FolderState, VolumeFolder
    from reconciler.gitops.directives import Directives
    from reconciler.observe.observe import ProviderReading
    from reconciler.plan.study import Study
    from reconciler.review.values import Review
    from reconciler.sources.commit_facts import CommitFacts
    from reconciler.store.reader import StoreReader
    from reconciler.values.plan import Plan
    from reconciler.values.records import Holdings, Sample
    from reconciler.values.services.status import ServiceStatus
    from reconciler.values.state import Actual, Desired
    from reconciler.workspace.kernel_access import KernelAccess
    from reconciler.workspace.store_access import StoreAccess
    from reconciler.workspace.workspace import Workspace
    from schemas.repository.repository import Repository

    Samples = Mapping[str, tuple[Sample, ...]]


class ClusterView(Protocol):
    """Each is looked up once, and when it is first asked for. Any may raise BaiError."""

    @property
    def user(self) -> str:
        """Whose view it is, where that is known."""
        ...

    @property
    def cluster(self) -> str:
        """The cluster's name."""
        ...

    @property
    def desired(self) -> Desired: ...

    @property
    def actual(self) -> Actual: ...

    @property
    def wanted(self) -> Mapping[str, str]:
        """Identity → digest of all that documents want."""
        ...

    @property
    def observed(self) -> Actual:
        """What is recorded and runs, as in `actual`, which knows more of nodes, images and volumes."""
        ...

    @property
    def waits(self) -> Mapping[str, Wait]:
        """Session → why it waits."""
        ...

    @property
    def services(self) -> Mapping[str, ServiceStatus]:
        """Service → how it stands, as far as a plan has come to it."""
        ...

    @property
    def unbound_ports(self) -> Mapping[int, str]:
        """Ports for apps that the server could not listen at, to why; none where no server was asked."""
        ...

    @property
    def store(self) -> StoreReader | None:
        """None where nothing was ever applied."""
        ...

    def commit_facts(self, commits: Iterable[str]) -> Mapping[str, CommitFacts]:
        """Commit → who wrote it and about what, of those that are known and theirs to know."""
        ...

    def holdings(self, since: float, until: float, session: str = "") -> Holdings | None:
        """What sessions (or one) held between two moments; None where nothing was ever applied."""
        ...

    def measure_usage(self, kernels: Sequence[str], known: Samples) -> Mapping[str, Sample]:
        """Kernel → what it has used by now, on top of what is `known`, where it may be asked for that."""
        ...

    @property
    def repository(self) -> Repository:
        """The documents."""
        ...

    @property
    def gpu_models(self) -> tuple[str, ...]:
        """Of the GPUs that are known; nobody is asked."""
        ...

    @property
    def now(self) -> float:
        """Seconds since the epoch."""
        ...

    @property
    def loop(self) -> LoopStatus: ...

    @property
    def directives(self) -> Directives | None:
        """Orders that hold; None where there is no store."""
        ...

    @property
    def study(self) -> Study:
        """A plan of everything, with what the planner saw."""
        ...

    @property
    def capacities(self) -> tuple[GroupCapacity, ...]:
        """What each resource group has room for, before and after that plan."""
        ...

    def review(self, commit: str) -> Review:
        """What a commit, branch or tag would change."""
        ...

    def folder_state(self, folder: VolumeFolder) -> FolderState | None:
        """A volume's folder as it is; None where folders are not bai's."""
        ...

    def sees(self, identity: str) -> bool:
        """Whether a resource is theirs to read."""
        ...

    def lists(self, identity: str) -> bool:
        """Whether they may know that it is there."""
        ...


class WorkspaceView:
    """As it is now, for whoever has the repository and reaches the nodes: they see everything. `offline`:
    nobody is asked."""

    user = ""

    def __init__(
        self,
        access: StoreAccess,
        open_workspace: Callable[[], Workspace],
        *,
        offline: bool = False,
    ) -> None:
        """`open_workspace`: loads all documents, once something of them is asked for."""
        self._access, self._open_workspace, self._offline = access, open_workspace, offline
        self.now = access.clock.now()

    @classmethod
    def of(cls, workspace: Workspace, *, offline: bool = False) -> WorkspaceView:
        """Whose documents are loaded."""
        return cls(workspace, lambda: workspace, offline=offline)

    @cached_property
    def _workspace(self) -> Workspace:
        return self._open_workspace()

    @property
    def _is_loaded(self) -> bool:
        return "_workspace" in self.__dict__

    @property
    def cluster(self) -> str:
        return self._access.cluster.name

    @cached_property
    def desired(self) -> Desired:
        return self._workspace.desired()

    @cached_property
    def actual(self) -> Actual:
        if "_seen" not in self.__dict__ or self._offline:
            return self._workspace.actual(offline=self._offline)
        from reconciler.observe.observe import add_capabilities

        return self._workspace.actual(reading=add_capabilities(self._seen, self._workspace.provider))

    @cached_property
    def wanted(self) -> Mapping[str, str]:
        known = None if self._is_loaded else self._access.indexed_digests()
        return self._workspace.index_digests() if known is None else known

    @cached_property
    def observed(self) -> Actual:
        from reconciler.observe.observe import add_recorded

        if "actual" in self.__dict__:
            return self.actual
        return add_recorded(self.store, self._seen, self.cluster, repo=self._kernel_access.repo_id)

    @cached_property
    def _seen(self) -> ProviderReading:
        from reconciler.observe.observe import read_kernels

        return read_kernels(None if self._offline else self._kernel_access.provider)

    @property
    def _kernel_access(self) -> KernelAccess:
        from reconciler.workspace.kernel_access import KernelAccess

        return self._access if isinstance(self._access, KernelAccess) else self._workspace

    @cached_property
    def waits(self) -> Mapping[str, Wait]:
        """As a plan made now says; nothing is planned when none waits."""
        if all(item.phase != "PENDING" for item in self.observed.existing.values()):
            return {}
        return {wait.session: wait for wait in self._plan.waits} if self._plan is not None else {}

    @property
    def unbound_ports(self) -> Mapping[int, str]:
        return {}

    @cached_property
    def services(self) -> Mapping[str, ServiceStatus]:
        """The same; nothing is planned where there is no service."""
        if all(ref_of(name).kind != "Service" for name in {*self.wanted, *self.observed.existing}):
            return {}
        return {each.service: each for each in self._plan.services} if self._plan is not None else {}

    @cached_property
    def _plan(self) -> Plan | None:
        """One that is refused, for a guard say, is no reason to show nothing."""
        from schemas.problems.errors.plan import PlanError

        try:
            return self._workspace.plan(offline=self._offline, actual=self.actual, sealed=False)
        except PlanError:
            return None

    @property
    def store(self) -> StoreReader | None:
        return self._access.existing_reader

    def holdings(self, since: float, until: float, session: str = "") -> Holdings | None:
        store = self._access.existing_store
        return store.holdings(self.cluster, since, until, session) if store is not None else None

    def measure_usage(self, kernels: Sequence[str], known: Samples) -> Mapping[str, Sample]:
        from reconciler.observe.usage_samples import measure_usage

        return measure_usage(self._workspace.provider, set(kernels), known)

    @property
    def repository(self) -> Repository:
        return self._workspace.repository

    @property
    def gpu_models(self) -> tuple[str, ...]:
        recorded = self._workspace.find_hardware(offline=True).hardware
        declared = (node.spec.hardware for node in self.repository.nodes_of(self.cluster))
        known = [each for each in (*declared, *recorded.values()) if each is not None]
        return tuple(sorted({gpu.model for hardware in known for gpu in hardware.gpus}))

    def commit_facts(self, commits: Iterable[str]) -> Mapping[str, CommitFacts]:
        from reconciler.sources.commit_facts import read_commit_facts

        return read_commit_facts(self._access.source.git, commits)

    @property
    def loop(self) -> LoopStatus:
        from bai.queries.facts.loop_status import read_loop_status

        return read_loop_status(self._workspace)

    @property
    def directives(self) -> Directives | None:
        if self.store is None:
            return None
        from reconciler.gitops.directives import read_directives

        return read_directives(self.store, self.cluster)

    def review(self, commit: str) -> Review:
        from reconciler.review.between_commits import review_of

        return review_of(self._workspace, commit)

    @cached_property
    def study(self) -> Study:
        return self._workspace.study(offline=self._offline)

    @property
    def capacities(self) -> tuple[GroupCapacity, ...]:
        from planner.advice.capacity import capacities
        from reconciler.workspace.placement_policies import planner_for

        return capacities(self.study.before, self.study.after, planner_for(self.desired))

    def folder_state(self, folder: VolumeFolder) -> FolderState | None:
        storage = self._workspace.storage
        return None if storage is None else storage.observe([folder], usage=True).get(folder.volume)

    def sees(self, identity: str) -> bool:
        return True

    def lists(self, identity: str) -> bool:
        return True
