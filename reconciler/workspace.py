"""One repository and one cluster, opened: what the command talks to. Store and provider are opened when
first needed."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from reconciler.actual import Actual, Desired
from reconciler.clock import Clock, SystemClock
from reconciler.plan import Plan
from reconciler.source import Source, choose_cluster, make_desired, open_source, path_id
from schemas.cluster import Cluster
from schemas.errors import LeaseHeld, StalePlan
from schemas.hardware.model import Hardware
from schemas.repository import Repository

if TYPE_CHECKING:
    from providers.base import Provider
    from reconciler.apply import ApplyEvent, ApplyResult
    from reconciler.diff import Study
    from reconciler.records import Lease
    from reconciler.store import Store

STATE = "BAI_STATE"
_REPO = "repo"
_TTL = 60.0


class Workspace:
    """Use as a context manager, or call `close`.

    Raises InvalidRepository and CannotRead when opening; StoreError and ProviderError when these are first
    needed.
    """

    def __init__(
        self, source: Source, repository: Repository, commit: str, cluster: Cluster, state: Path, clock: Clock
    ) -> None:
        self.source = source
        self.repository = repository
        self.cluster = cluster
        self.state = state
        """File of the store."""
        self.clock = clock
        self._commit = commit
        self._store: Store | None = None
        self._provider: Provider | None = None
        self._desired: Desired | None = None
        self._hardware: dict[bool, Mapping[str, Hardware]] = {}
        self._repo = ""

    @classmethod
    def open(
        cls,
        directory: Path | str,
        *,
        revision: str | None = None,
        cluster: str | None = None,
        state: Path | None = None,
        clock: Clock | None = None,
    ) -> Self:
        """`revision` is any git revision; without it, the working directory's files count. `cluster` must be
        given when there are several. `state`: the store's file (or the folder for it), by default
        `$BAI_STATE`, else `.bai/store.db` in the directory.
        """
        source = open_source(directory, revision)
        repository, commit = source.load()
        chosen = choose_cluster(repository, cluster)
        return cls(source, repository, commit, chosen, _state_file(source, state), clock or SystemClock())

    @property
    def repo_id(self) -> str:
        """What marks this repository's kernels; remembered by the store, so that a first commit does not
        change it."""
        if not self._repo:
            known = self.store.meta(_REPO) if self.has_store else None
            self._repo = known or self.source.repo
        return self._repo

    @property
    def has_store(self) -> bool:
        """Whether anything was ever written down here."""
        return self._store is not None or self.state.exists()

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
            self._provider = open_provider(spec.provider, spec.provider_options, state_root=root)
        return self._provider

    @provider.setter
    def provider(self, provider: Provider) -> None:
        self._provider = provider

    # Read

    def desired(self) -> Desired:
        """What the documents say, for the chosen cluster."""
        if self._desired is None:
            self._desired = make_desired(
                self.repository, self.cluster.name, repo=self.repo_id, commit=self._commit
            )
        return self._desired

    def actual(self, *, offline: bool = False) -> Actual:
        """What is recorded and runs; `offline` asks no provider and probes nothing."""
        from reconciler.observe import observe

        return observe(
            self.store if self.has_store else None,
            None if offline else self.provider,
            self.cluster.name,
            repo=self.repo_id,
            hardware=self.hardware(offline=offline),
        )

    def hardware(self, *, offline: bool = False) -> Mapping[str, Hardware]:
        """What the nodes are that declare nothing: this machine is probed, others are as last observed."""
        from reconciler.machines import find_hardware

        if offline not in self._hardware:
            nodes = self.repository.nodes_of(self.cluster.name)
            store = self.store if self.has_store else None
            self._hardware[offline] = find_hardware(nodes, store, self.cluster.name, probe=not offline)
        return self._hardware[offline]

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
    ) -> Plan:
        """Raises GuardRefused when a protected resource would be deleted, PlanError for an unknown target."""
        from reconciler.diff import make_plan
        from reconciler.policies import placer

        desired = self.desired()
        return make_plan(
            desired,
            self.actual(offline=offline),
            self.clock.now(),
            targets=targets,
            refresh_only=refresh_only,
            destroy=destroy,
            anew=anew,
            moves=moves,
            place=placer(desired),
        )

    def study(self, *, offline: bool = False) -> Study:
        """The plan of everything, with the planner's view of the cluster before and after it; for reading."""
        from reconciler.diff import make_study
        from reconciler.policies import placer

        desired = self.desired()
        actual = self.actual(offline=offline)
        return make_study(desired, actual, self.clock.now(), place=placer(desired))

    # Act

    def apply(
        self,
        plan: Plan,
        *,
        holder: str,
        parallel: int = 8,
        on_event: Callable[[ApplyEvent], None] | None = None,
        stop: threading.Event | None = None,
    ) -> ApplyResult:
        """Carry out `plan`; raises StalePlan when it is another cluster's or the world moved, LeaseHeld,
        LeaseLost."""
        from reconciler.apply import apply

        if (plan.repo, plan.cluster) != (self.repo_id, self.cluster.name):
            raise StalePlan(
                why=f"it was made for cluster {plan.cluster} of repository {plan.repo}",
                hint="plan again here",
            )
        if self.store.meta(_REPO) is None:
            self.store.set_meta(_REPO, self.repo_id)
        result = apply(
            plan,
            store=self.store,
            provider=self.provider,
            clock=self.clock,
            holder=holder,
            parallel=parallel,
            on_event=on_event,
            stop=stop,
        )
        with contextlib.suppress(LeaseHeld):
            self.refresh(holder=holder)
        return result

    def refresh(self, *, holder: str) -> Actual:
        """Observe, and write down what was seen: phases, results, hardware."""
        from reconciler.refresh import refreshed

        actual = self.actual()
        now = self.clock.now()
        if refreshed(actual, now, holder):
            with self._lease(holder) as lease:
                # Looked at again: what another apply wrote meanwhile must not be overwritten with what was.
                actual = self.actual()
                self.store.write(lease, refreshed(actual, now, holder))
        self._keep_hardware(actual.hardware, now)
        return actual

    def rebuild(self, *, holder: str) -> tuple[str, ...]:
        """Fill an empty or lost store from the labels of what runs; gives the identities recovered.

        Raises IncompleteObservation, LeaseHeld.
        """
        from reconciler.rebuild import owner, rebuilt
        from reconciler.records import Put

        seen = self.provider.observe()
        if self.store.meta(_REPO) is None:
            repo = owner(seen, self.cluster.name, (self.source.repo, path_id(self.source.directory)))
            self.store.set_meta(_REPO, repo)
            self._repo, self._desired = repo, None
        now = self.clock.now()
        with self._lease(holder) as lease:
            known = self.store.recorded(self.cluster.name)
            changes = rebuilt(
                seen, repo=self.repo_id, cluster=self.cluster.name, known=known, now=now, actor=holder
            )
            self.store.write(lease, changes)
        return tuple(change.record.resource for change in changes if isinstance(change, Put))

    @contextlib.contextmanager
    def _lease(self, holder: str) -> Iterator[Lease]:
        lease = self.store.acquire(self.cluster.name, holder, _TTL, self.clock.now())
        try:
            yield lease
        finally:
            self.store.release(lease)

    def _keep_hardware(self, found: Mapping[str, Hardware], now: float) -> None:
        known = self.store.hardware(self.cluster.name)
        for node, hardware in found.items():
            text = hardware.model_dump_json(by_alias=True, exclude_defaults=True)
            if node not in known or known[node].hardware != text:
                self.store.save_hardware(self.cluster.name, node, text, now)

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


def _state_file(source: Source, state: Path | None) -> Path:
    chosen = state or (Path(os.environ[STATE]) if os.environ.get(STATE) else None)
    if chosen is None:
        return source.directory / ".bai" / "store.db"
    return chosen / "store.db" if chosen.is_dir() else chosen
