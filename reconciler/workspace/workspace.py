"""One repository and one cluster, opened: what the command talks to."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Self

from reconciler.observe.clock_skew import clock_doubts
from reconciler.observe.existing_memo import ExistingMemo
from reconciler.sources.desired import DesiredCache, make_desired
from reconciler.sources.source import Source, choose_cluster, open_source
from reconciler.store.database.address import StoreAddress
from reconciler.values.clock import Clock, SystemClock
from reconciler.values.plan_options import WHOLE_PLAN, PlanOptions
from reconciler.workspace.activity import NOBODY_WAITS, ActivityListener
from reconciler.workspace.connections import ClusterConnections
from reconciler.workspace.enforcement_memory import StoredEnforcement
from reconciler.workspace.image_lookup import RegistryLookups, replan_with_lookups
from reconciler.workspace.node_provisioning import NodeProvisioning, touched_nodes
from reconciler.workspace.node_requests import NodeRequests
from schemas.loading.document_cache import DocumentCache
from schemas.problems.errors.plan import StalePlan
from schemas.problems.errors.store import LeaseHeld, StoreError

if TYPE_CHECKING:
    from providers.provisioning import OnProvisionEvent
    from providers.storage.base import FolderState
    from reconciler.apply.targets import Traffic
    from reconciler.observe.observe import ProviderReading
    from reconciler.observe.refresh import OnWritten, RecordWriter
    from reconciler.plan.plan_cache import PlanCache
    from reconciler.plan.study import Study
    from reconciler.store.store import Store
    from reconciler.values.plan import Plan
    from reconciler.values.results import ApplyEvent, ApplyResult
    from reconciler.values.state import Actual, Desired
    from schemas.images.facts import ImageFacts
    from schemas.kinds.cluster import Cluster
    from schemas.repository.repository import Repository


class Workspace(ClusterConnections):
    """Use as a context manager, or call `close`.

    Raises InvalidRepository and CannotRead when opening; StoreError and ProviderError when these are first
    needed.
    """

    def __init__(
        self,
        source: Source,
        repository: Repository,
        commit: str,
        cluster: Cluster,
        state: StoreAddress,
        clock: Clock,
    ) -> None:
        super().__init__(source, repository, cluster, state, clock)
        self.commit = commit
        """That the documents are from; empty for a folder's files."""
        self.document_cache, self._desired_cache = DocumentCache(), DesiredCache()
        self._plan_cache: PlanCache | None = None
        self.existing_memo = ExistingMemo()
        self._studied: tuple[Actual, Study | None] | None = None
        self._desired: Desired | None = None
        self.activity: ActivityListener = NOBODY_WAITS
        self.last_refresh: Actual | None = None
        """What the last `refresh` saw: after an apply, what came of it."""
        self.node_provisioning = NodeProvisioning(self._open_provisioner)
        self.registry_lookups = RegistryLookups(clock.now)
        self.enforcement = StoredEnforcement(self)
        self._node_requests = NodeRequests()

    @classmethod
    def open(
        cls,
        directory: Path | str,
        *,
        revision: str | None = None,
        cluster: str | None = None,
        state: Path | str | None = None,
        clock: Clock | None = None,
    ) -> Self:
        """`revision` is any git revision; without it, the working directory's files count. `cluster` must be
        given when there are several. `state`: the store's file (or the folder for it) or URL, by default
        `$BAI_STATE`, else `.bai/store.db` in the directory.
        """
        return cls.at(open_source(directory, revision), cluster=cluster, state=state, clock=clock)

    @classmethod
    def at(
        cls,
        source: Source,
        *,
        cluster: str | None = None,
        state: Path | str | StoreAddress | Store | None = None,
        clock: Clock | None = None,
        activity: ActivityListener = NOBODY_WAITS,
        documents: DocumentCache | None = None,
    ) -> Self:
        """The same for documents that were found already. `state` may be an open store; `documents`: what is
        known of them."""
        cache = documents or DocumentCache()
        with activity.during("reading documents"):
            repository, commit = source.load(cache)
        chosen = choose_cluster(repository, cluster)
        store = None
        if state is not None and not isinstance(state, Path | str | StoreAddress):
            store, state = state, state.address
        address = StoreAddress.choose(source.directory, state, named=chosen.spec.state)
        made = cls(source, repository, commit, chosen, address, clock or SystemClock())
        made._store, made.document_cache, made.activity = store, cache, activity
        return made

    # Read

    def desired(self) -> Desired:
        """What the documents say, for the chosen cluster."""
        if self._desired is None:
            self._desired = make_desired(
                self.repository, self.cluster.name, repo=self.repo_id, commit=self.commit,
                cache=self._desired_cache,
            )  # fmt: skip
        return self._desired

    def reading_caches(self) -> tuple[DocumentCache, DesiredCache]:
        """For another thread that reads documents like these: what is the same is not read anew."""
        return self.document_cache.fork(), self._desired_cache.fork()

    def index_digests(self) -> Mapping[str, str]:
        """Identity → digest of all that the documents want; the next command finds them without loading
        these."""
        digests, index = self.desired().digests, self._document_index()
        if index is not None:
            index.write(digests, self.repository, self.document_cache)
        return digests

    def observe_sessions(
        self,
        *,
        offline: bool = False,
        reading: ProviderReading | None = None,
        memo: ExistingMemo | None = None,
    ) -> Actual:
        """What is recorded and runs, and on which hardware: no more of the nodes than that. `memo`: of
        whoever looks, in place of the workspace's own."""
        from reconciler.observe.observe import add_recorded, read_provider

        machines = self.find_hardware(offline=offline)
        reading = reading or read_provider(None if offline else self.provider)
        if reading.observation is not None and reading.observation.offered is not None:
            machines = self.find_more_hardware(machines, reading.observation.offered)
        found = add_recorded(
            self.existing_reader,
            reading,
            self.cluster.name,
            repo=self.repo_id,
            hardware=machines.hardware,
            memo=memo if memo is not None else self.existing_memo,
        )
        return replace(found, unprobed=machines.failed)

    def actual(
        self,
        *,
        offline: bool = False,
        reading: ProviderReading | None = None,
        memo: ExistingMemo | None = None,
    ) -> Actual:
        """What is recorded and runs; `offline` asks nobody. `reading`: what the provider has just said;
        `memo`: of whoever looks, in place of the workspace's own."""
        from reconciler.observe.images import images_on_nodes
        from reconciler.observe.observe import locate_kernels

        found = self.observe_sessions(offline=offline, reading=reading, memo=memo)
        if self.has_profiles:
            desired, endpoints = self.desired(), self.endpoints()
            found = self.node_provisioning.add_status(found, desired, endpoints, offline=offline)
        if not offline:
            from providers.abilities import ReportsHealth
            from reconciler.observe.gpu_sharing import add_gpu_fractions
            from reconciler.observe.health import add_health, add_reported_health

            locate_kernels(self.provider, found)
            now = self.clock.now()
            found = add_gpu_fractions(found, self.desired(), self.provider, self.enforcement, now)
            if isinstance(self.provider, ReportsHealth):
                found = add_reported_health(found, self.desired(), self.provider)
            else:
                found = add_health(found, self.desired(), self.cluster, self.endpoints(), now)
            found = self.scaling.add_scales(self.replicas.add_readiness(found, self), self.desired())
        return replace(
            found,
            doubts=clock_doubts(found, self.clock.now()),
            images=self._recorded_images(),
            held=None if offline else images_on_nodes(self.desired(), self.provider, found),
            volumes=self.volumes(offline=offline),
        )

    @property
    def has_profiles(self) -> bool:
        """Whether nodes are to be as a profile says."""
        return any(self.repository.profile_of(node) for node in self.nodes)

    def _recorded_images(self) -> Mapping[str, ImageFacts]:
        from reconciler.observe.images import recorded_images

        return recorded_images(self.reader) if self.has_store else {}

    def volumes(self, *, offline: bool = False, usage: bool = False) -> Mapping[str, FolderState] | None:
        """The folders of the volumes as they are, with how much they hold; None when they are not bai's."""
        from reconciler.values.volume_folders import volume_folders

        if self.storage is None:
            return None
        wanted = () if offline else tuple(volume_folders(self.desired()).values())
        return self.storage.observe(wanted, usage=usage)

    # Decide

    def plan(
        self,
        options: PlanOptions = WHOLE_PLAN,
        *,
        offline: bool = False,
        actual: Actual | None = None,
        on_role_check: OnProvisionEvent | None = None,
        sealed: bool = True,
    ) -> Plan:
        """From `actual`, or what is seen now; with `on_role_check`, roles say what they would change on
        nodes, and tell it how far they have come. One that is not `sealed` is cheaper, and no apply takes it.
        Raises PlanError for an unknown target."""
        from reconciler.plan.plan_cache import PlanCache
        from reconciler.plan.plan_request import PlanRequest
        from reconciler.workspace.placement_policies import planner_for

        desired = self.desired()
        if actual is None:
            with self.activity.during(f"looking at {len(desired.nodes)} nodes"):
                actual = self.actual(offline=offline)
        if on_role_check is not None and not offline:
            actual = self.node_provisioning.add_checks(actual, on_role_check)
        place = planner_for(desired, self.activity)
        request = PlanRequest(desired, actual, self.clock.now(), options, place, sealed=sealed)
        if self._plan_cache is None:
            self._plan_cache = PlanCache()
        with self.activity.during(f"planning {len(desired.sessions())} sessions"):
            plan = self._plan_cache.plan(request)
        if self._studied is None or self._studied[0] is not actual:
            self._studied = actual, self._plan_cache.study
        if offline:
            return plan
        look_up = partial(
            self.registry_lookups.look_up,
            repository=self.repository, secret=self.secrets.for_infrastructure,
        )  # fmt: skip
        with self.activity.during("asking registries about images"):
            found = replan_with_lookups(plan, request, remember=self._remember_images, look_up=look_up)
        if found is not plan:
            self._studied = actual, None
        return found

    @property
    def plan_valid_until(self) -> float:
        """Until when (seconds since the epoch, exclusive) the last plan is the one of what it was made of."""
        return self._plan_cache.valid_until if self._plan_cache is not None else -inf

    def first_study(self, actual: Actual) -> Study | None:
        """What the first plan of this very observation was made in; the same object for as long as the plan
        is the same. None where none was made, or registries had to be asked for it."""
        return self._studied[1] if self._studied is not None and self._studied[0] is actual else None

    def _remember_images(self, facts: Sequence[ImageFacts]) -> None:
        with contextlib.suppress(StoreError):  # What is not remembered is asked again.
            self.store.save_images(facts, self.clock.now())

    def study(self, *, offline: bool = False) -> Study:
        """The plan of everything, with the planner's view of the cluster before and after it; for reading."""
        from reconciler.plan.pipeline import make_study
        from reconciler.plan.plan_request import PlanRequest
        from reconciler.workspace.placement_policies import planner_for

        desired = self.desired()
        with self.activity.during(f"looking at {len(desired.nodes)} nodes"):
            actual = self.actual(offline=offline)
        with self.activity.during(f"planning {len(desired.sessions())} sessions"):
            place = planner_for(desired, self.activity)
            return make_study(PlanRequest(desired, actual, self.clock.now(), place=place))

    # Act

    def apply(
        self, plan: Plan, *, holder: str, parallel: int = 32, stop: threading.Event | None = None,
        on_event: Callable[[ApplyEvent], None] | None = None, traffic: Traffic | None = None,
    ) -> ApplyResult:  # fmt: skip
        """Carry out `plan`, telling `traffic` of replicas. Raises StalePlan when it is another cluster's or
        the world moved, LeaseHeld, LeaseLost."""
        from reconciler.apply.apply import apply
        from reconciler.apply.targets import NO_TRAFFIC, ApplyTargets
        from reconciler.observe.images import record_pulled_images
        from reconciler.store.ownership import remember_repository
        from reconciler.values.encoding.plan_json import dump_plan_compactly

        if (plan.repo, plan.cluster) != (self.repo_id, self.cluster.name):
            raise StalePlan(
                why=f"it was made for cluster {plan.cluster} of repository {plan.repo}",
                hint="plan again here",
            )
        if not plan.digest:
            raise StalePlan(why="it was made only to be looked at", hint="plan again here")
        remember_repository(self.store, self.cluster.name, self.repo_id)
        if plan.changes:
            self.store.save_plan(self.cluster.name, plan.digest, dump_plan_compactly(plan), self.clock.now())
        targets = ApplyTargets(
            self.store, self.provider, self.clock, self.storage,
            self.node_provisioning.access_for(plan, self.endpoints), self.secrets.for_one_apply(),
            self.existing_memo, partial(self.replicas.look_again, self), traffic or NO_TRAFFIC,
        )  # fmt: skip
        result = apply(plan, targets, holder=holder, parallel=parallel, on_event=on_event, stop=stop)
        if touched_nodes(plan, result):
            self._reconnect()
        with contextlib.suppress(LeaseHeld):
            self.refresh(holder=holder)
        record_pulled_images(self.repository, self.provider, self.store, plan, result, self.clock.now())
        return result

    def refresh(self, *, holder: str, on_written: OnWritten | None = None) -> Actual:
        """Observe, and write down what was seen: phases, results, contact with nodes, use, hardware.
        `on_written` hears what was written. Raises LeaseHeld."""
        from reconciler.observe.refresh import refresh_store

        actual = refresh_store(
            self.provider, self.desired(), lambda reading: self.actual(reading=reading),
            self._record_writer(holder), on_written, self.existing_memo,
        )  # fmt: skip
        self.record_hardware(self.find_hardware().local)
        self.last_refresh = actual
        return actual

    def settle_node_requests(self, plan: Plan, actual: Actual | None, holder: str) -> tuple[str, ...]:
        """What the plan asks an autoscaler for is asked for, and nothing else; gives what went wrong. None:
        what there is, is asked now. Raises LeaseHeld, StoreError."""
        return self._node_requests.settle(
            plan, actual.node_asks if actual else None, self.provider, lambda: self.lease(holder)
        )

    def _record_writer(self, holder: str) -> RecordWriter:
        from reconciler.observe.refresh import RecordWriter

        return RecordWriter(self.store, self.lease(holder), holder, self.clock)

    def reloaded(self, source: Source | None = None) -> Workspace:
        """The same with the documents as they are now, or as they are in `source`; store and connections are
        kept where nothing that they rest on has changed. Raises InvalidRepository, CannotRead, PlanError."""
        source = source or self.source
        if source == self.source and source.revision and source.revision == self.commit:
            return self  # A commit does not change.
        repository, commit = source.load(self.document_cache)
        if commit == self.commit and (
            repository is self.repository or repository.has_same_content(self.repository)
        ):
            return self
        cluster = choose_cluster(repository, self.cluster.name)
        new = Workspace(source, repository, commit, cluster, self.state, self.clock)
        new.take_connections(self)
        new.registry_lookups = self.registry_lookups
        new.document_cache, new._desired_cache = self.document_cache, self._desired_cache
        new._plan_cache, new.existing_memo = self._plan_cache, self.existing_memo
        new.enforcement.postponed = self.enforcement.postponed
        new._node_requests, new.activity = self._node_requests, self.activity
        new.node_provisioning.adopt(self.node_provisioning)
        return new

    def rebuild(self, *, holder: str, log: Callable[[str], None] = lambda _: None) -> tuple[str, ...]:
        """Fill an empty or lost store from the labels of what runs, after setting aside one that cannot be
        used; gives the identities recovered. Raises IncompleteObservation, LeaseHeld."""
        from reconciler.sources.source import repository_id_of_path
        from reconciler.store.ownership import known_repository, remember_repository
        from reconciler.workspace.rebuild import (
            owning_repository,
            quarantine_unusable,
            require_complete,
            write_rebuilt,
        )

        seen, cluster = self.provider.observe(), self.cluster.name
        require_complete(seen)
        quarantine_unusable(self.state, log)
        if known_repository(self.store, cluster) is None:
            candidates = (self.source.repo, repository_id_of_path(self.source.directory))
            self._repo, self._desired = owning_repository(seen, cluster, candidates), None
            remember_repository(self.store, cluster, self._repo)
        writer = self._record_writer(holder)
        return write_rebuilt(seen, writer, repo=self.repo_id, cluster=cluster, log=log)
