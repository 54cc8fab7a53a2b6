"""One repository and one cluster, opened: what the command talks to. Store and provider are opened when
first needed."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from reconciler.observe.clock_skew import clock_doubts
from reconciler.secrets.reader import SecretReader
from reconciler.sources.source import Source, choose_cluster, make_desired, open_source
from reconciler.store.database.address import Address
from reconciler.values.clock import Clock, SystemClock
from reconciler.values.plan import Plan
from reconciler.values.state import Actual, Desired
from reconciler.workspace.image_lookup import Inquiry, answered
from reconciler.workspace.node_provisioning import Workshop
from schemas.hardware.model import Hardware
from schemas.kinds.cluster import Cluster
from schemas.problems.errors import LeaseHeld, StalePlan, StoreError
from schemas.repository.repository import Repository

if TYPE_CHECKING:
    from providers.base import Provider
    from providers.machines.base import Endpoint
    from providers.provisioning import Tell
    from providers.storage.base import Seen, Storage
    from reconciler.apply.apply import ApplyEvent, ApplyResult
    from reconciler.observe.hardware import Found
    from reconciler.observe.observe import Look
    from reconciler.plan.study import Study
    from reconciler.store import Store
    from reconciler.values.records import Lease, StoreChange

_TTL = 60.0


class Workspace:
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
        state: Address,
        clock: Clock,
    ) -> None:
        self.source = source
        self.repository = repository
        self.cluster = cluster
        self.state = state
        """Where the store is."""
        self.clock = clock
        self.commit = commit
        """That the documents are from; empty for a folder's files."""
        self._store: Store | None = None
        self._provider: Provider | None = None
        self._desired: Desired | None = None
        self._found: dict[bool, Found] = {}
        self._kept: dict[str, Hardware] = {}
        self._repo = ""
        self.looked: Actual | None = None
        """What the last `refresh` saw: after an apply, what came of it."""
        self.nodes = Workshop(self)
        """Their provisioning."""
        self.inquiry = Inquiry(clock.now)
        self.secrets = SecretReader(repository.stores)
        """What documents name of secret stores; the same one for all that is opened here."""

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
        state: Path | str | Address | None = None,
        clock: Clock | None = None,
        store: Store | None = None,
    ) -> Self:
        """The same for documents that were found already; `store`: the one at `state`, open."""
        repository, commit = source.load()
        chosen = choose_cluster(repository, cluster)
        address = Address.choose(source.directory, state, named=chosen.spec.state)
        made = cls(source, repository, commit, chosen, address, clock or SystemClock())
        made._store = store
        return made

    @property
    def repo_id(self) -> str:
        """What marks this repository's kernels; remembered by the store, so that a first commit does not
        change it."""
        if not self._repo:
            known = None
            if self.has_store:
                from reconciler.store.ownership import known_repository

                known = known_repository(self.store, self.cluster.name)
            self._repo = known or self.source.repo
        return self._repo

    @property
    def has_store(self) -> bool:
        """Whether anything was ever written down here. A server that was named is there, or says why not."""
        return self._store is not None or self.state.path is None or self.state.path.exists()

    @property
    def store(self) -> Store:
        if self._store is None:
            from reconciler.store import Store

            self._store = Store.open(self.state)
        return self._store

    @property
    def provider(self) -> Provider:
        if self._provider is None:
            from providers.registry import open_provider

            spec = self.cluster.spec
            root = Path(spec.state_root) if spec.state_root else None
            self._provider = open_provider(
                spec.provider, spec.provider_options, state_root=root, machines=self.endpoints()
            )
        return self._provider

    @provider.setter
    def provider(self, provider: Provider) -> None:
        self._provider = provider

    def endpoints(self) -> tuple[Endpoint, ...]:
        """How each node of the cluster is reached."""
        from reconciler.observe.endpoints import endpoints

        return endpoints(
            self.repository.nodes_of(self.cluster.name), self.cluster.spec, self.secrets.infrastructure
        )

    @cached_property
    def storage(self) -> Storage | None:
        """What looks after the folders of volumes; None where the nodes' files are not bai's to make."""
        from reconciler.observe.storage_access import open_storage

        return open_storage(self.repository, self.cluster, self.secrets.infrastructure)

    # Read

    def desired(self) -> Desired:
        """What the documents say, for the chosen cluster."""
        if self._desired is None:
            self._desired = make_desired(
                self.repository, self.cluster.name, repo=self.repo_id, commit=self.commit
            )
        return self._desired

    def actual(self, *, offline: bool = False, seen: Look | None = None) -> Actual:
        """What is recorded and runs; `offline` asks nobody. `seen`: what the provider has just said."""
        from reconciler.observe.observe import located, look, with_store

        machines = self.find_hardware(offline=offline)
        found = with_store(
            self.store if self.has_store else None,
            seen or look(None if offline else self.provider),
            self.cluster.name,
            repo=self.repo_id,
            hardware=machines.hardware,
        )
        found = self.nodes.seen(replace(found, unprobed=machines.failed), offline=offline)
        if not offline:
            from reconciler.observe.gpu_sharing import with_fractions
            from reconciler.observe.health import with_health

            found = with_fractions(located(found, self.provider), self.desired(), self.provider)
            found = with_health(found, self.desired(), self.cluster, self.endpoints(), self.clock.now())
        more = {"doubts": clock_doubts(found, self.clock.now()), **self.images(found, offline=offline)}
        return replace(found, volumes=self.volumes(offline=offline), **more)

    def images(self, actual: Actual, *, offline: bool = False) -> dict[str, Any]:
        """What is remembered of images, and which of those that are to be there early the nodes have."""
        from reconciler.observe.images import held, remembered

        facts = remembered(self.store) if self.has_store else {}
        return {
            "images": facts,
            "held": None if offline else held(self.desired(), self.provider, actual),
        }

    def volumes(self, *, offline: bool = False, usage: bool = False) -> Mapping[str, Seen] | None:
        """The folders of the volumes as they are, with how much they hold; None when they are not bai's."""
        from reconciler.values.volume_folders import folders

        if self.storage is None:
            return None
        wanted = () if offline else tuple(folders(self.desired()).values())
        return self.storage.look(wanted, usage=usage)

    def hardware(self, *, offline: bool = False) -> Mapping[str, Hardware]:
        """What the nodes are that declare nothing."""
        return self.find_hardware(offline=offline).hardware

    def find_hardware(self, *, offline: bool = False, anew: bool = False) -> Found:
        """The same, with what was probed for it. What is far away is probed once, and again with `anew`."""
        from reconciler.observe.hardware import find_hardware

        if anew or offline not in self._found:
            found = find_hardware(
                self.repository.nodes_of(self.cluster.name),
                self.store if self.has_store else None,
                self.cluster.name,
                provider=None if offline else lambda: self.provider,
                anew=anew,
            )
            self._found[offline] = found
            if found.far:
                with contextlib.suppress(StoreError):  # The next plan probes again.
                    self.keep_hardware(found.far)
        return self._found[offline]

    def forget_hardware(self) -> None:
        """What nodes are is found out anew: this machine, whom nobody could probe, what others probed."""
        self._found = {}

    def keep_hardware(self, found: Mapping[str, Hardware]) -> tuple[str, ...]:
        """Remember what was probed; gives the nodes that are not what they were, or are new."""
        from reconciler.observe.hardware import keep

        new = {name: each for name, each in found.items() if self._kept.get(name) is not each}
        changed = keep(self.store, self.cluster.name, new, self.clock.now()) if new else ()
        self._kept.update(new)
        return changed

    # Decide

    def plan(
        self,
        *,
        targets: Sequence[str] = (),
        offline: bool = False,
        refresh_only: bool = False,
        destroy: bool = False,
        anew: Sequence[str] = (),
        moves: int = 0,
        without: Collection[str] = (),
        actual: Actual | None = None,
        check: Tell | None = None,
    ) -> Plan:
        """From `actual`, or what is seen now; with `check`, roles say what they would change on nodes, and
        tell it how far they have come. Raises PlanError for an unknown target."""
        from reconciler.plan.pipeline import make_plan
        from reconciler.workspace.placement_policies import placer

        desired = self.desired()
        actual = actual or self.actual(offline=offline)
        if check is not None and not offline:
            actual = self.nodes.checked(actual, check)
        make = partial(
            make_plan, desired, now=self.clock.now(), targets=targets, refresh_only=refresh_only,
            destroy=destroy, anew=anew, moves=moves, without=without, place=placer(desired),
        )  # fmt: skip
        plan = make(actual)
        return plan if offline else answered(self, make, plan, actual, destroy=destroy)

    def study(self, *, offline: bool = False) -> Study:
        """The plan of everything, with the planner's view of the cluster before and after it; for reading."""
        from reconciler.plan.pipeline import make_study
        from reconciler.workspace.placement_policies import placer

        desired, actual = self.desired(), self.actual(offline=offline)
        return make_study(desired, actual, self.clock.now(), place=placer(desired))

    # Act

    def apply(
        self, plan: Plan, *, holder: str, parallel: int = 32,
        on_event: Callable[[ApplyEvent], None] | None = None, stop: threading.Event | None = None,
    ) -> ApplyResult:  # fmt: skip
        """Carry out `plan`; raises StalePlan when it is another cluster's or the world moved, LeaseHeld,
        LeaseLost."""
        from reconciler.apply.apply import apply
        from reconciler.observe.images import learn
        from reconciler.store.ownership import remember_repository
        from reconciler.values.plan_json import dump

        if (plan.repo, plan.cluster) != (self.repo_id, self.cluster.name):
            raise StalePlan(
                why=f"it was made for cluster {plan.cluster} of repository {plan.repo}",
                hint="plan again here",
            )
        remember_repository(self.store, self.cluster.name, self.repo_id)
        if plan.changes:
            self.store.save_plan(self.cluster.name, plan.digest, dump(plan), self.clock.now())
        result = apply(
            plan, store=self.store, provider=self.provider, storage=self.storage, clock=self.clock,
            holder=holder, parallel=parallel, on_event=on_event, stop=stop, site=self.nodes.site(plan),
            secrets=self.secrets.fresh(),
        )  # fmt: skip
        if self.nodes.done(plan, result):
            self._renew()
        with contextlib.suppress(LeaseHeld):
            self.refresh(holder=holder)
        learn(self.repository, self.provider, self.store, plan, result, self.clock.now())
        return result

    def _renew(self) -> None:
        """Nodes are not what they were: they are reached and probed anew."""
        self.forget_hardware()
        if close := getattr(self._provider, "close", None):
            close()
            self._provider = None

    def refresh(self, *, holder: str, tell: Callable[[Sequence[StoreChange]], None] | None = None) -> Actual:
        """Observe, and write down what was seen: phases, results, contact with nodes, use, hardware. `tell`
        hears what was written."""
        from reconciler.observe.refresh import look_around

        self.looked = look_around(self, holder, tell)
        return self.looked

    def reloaded(self, source: Source | None = None) -> Workspace:
        """The same with the documents as they are now, or as they are in `source`; store and connections are
        kept where nothing that they rest on has changed. Raises InvalidRepository, CannotRead, PlanError."""
        source = source or self.source
        if source == self.source and source.revision and source.revision == self.commit:
            return self  # A commit does not change.
        repository, commit = source.load()
        if commit == self.commit and repository.says_what(self.repository):
            return self
        cluster = choose_cluster(repository, self.cluster.name)
        new = Workspace(source, repository, commit, cluster, self.state, self.clock)
        new._store, new._repo, new.secrets, new.inquiry = self._store, self._repo, self.secrets, self.inquiry
        new.secrets.follow(repository.stores)
        new.nodes.take_over(self.nodes)
        nodes = repository.nodes_of(cluster.name)
        if cluster == self.cluster and nodes == self.repository.nodes_of(cluster.name):
            new._provider, new._found = self._provider, self._found
        elif close := getattr(self._provider, "close", None):
            close()
        return new

    def rebuild(self, *, holder: str, tell: Callable[[str], None] = lambda _: None) -> tuple[str, ...]:
        """Fill an empty or lost store from the labels of what runs, after setting aside one that cannot be
        used; gives the identities recovered. Raises IncompleteObservation, LeaseHeld."""
        from reconciler.workspace.rebuild import rebuild

        return rebuild(self, holder, tell)

    def call_itself(self, repo: str) -> None:
        """Go by this id from here on."""
        self._repo, self._desired = repo, None

    @contextlib.contextmanager
    def lease(self, holder: str) -> Iterator[Lease]:
        """The right to write, given back at the end. Raises LeaseHeld."""
        lease = self.store.acquire(self.cluster.name, holder, _TTL, self.clock.now())
        try:
            yield lease
        finally:
            self.store.release(lease)

    # End

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
