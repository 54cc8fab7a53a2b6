"""A cluster as the last pass of its loop saw it, by somebody who may see all of it or some projects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from fastapi import HTTPException

from bai.web.auth.roles import Principal
from bai.web.cluster_loops import ServedCluster
from bai.web.dependencies import RETRY_AFTER, last_plan, project_view
from bai.web.project_view import ProjectView
from reconciler.gitops.directives import Directive, Directives, read_directives
from reconciler.values.state import Actual, Desired

if TYPE_CHECKING:
    from bai.queries.view import Samples
    from bai.render.resources.loop_status import LoopStatus
    from planner.advice.capacity import GroupCapacity, GroupView
    from planner.model.types import Snapshot, Wait
    from providers.storage.base import FolderState, VolumeFolder
    from reconciler.plan.study import Study
    from reconciler.review.values import Review
    from reconciler.sources.commit_facts import CommitFacts
    from reconciler.store.store import Store
    from reconciler.values.records import Holdings, Sample
    from reconciler.values.services.status import ServiceStatus
    from schemas.repository.repository import Repository

T = TypeVar("T")
_SOMEBODY = "an operator"


class PassView:
    """A `ClusterView`. Asks no node. Answers 503 before there was a pass. `plan`: what the pass planned,
    whoever looks."""

    def __init__(self, cluster: ServedCluster, user: Principal) -> None:
        done, self.actual, self.plan = last_plan(cluster, user)
        self._done = done
        if done.desired is None:
            raise HTTPException(503, "nothing was seen yet", headers={"Retry-After": RETRY_AFTER})
        self.desired: Desired = done.desired
        self._cluster, self._principal, self._whole = cluster, user, user.projects is None
        self.user = user.name

    @cached_property
    def _projects(self) -> ProjectView:
        return project_view(self._cluster, self._principal)

    @property
    def projects(self) -> frozenset[str] | None:
        """Those that the viewer sees; None: everything."""
        return self._principal.projects

    @property
    def cluster(self) -> str:
        return self._cluster.name

    @property
    def wanted(self) -> Mapping[str, str]:
        return self.desired.digests

    @property
    def observed(self) -> Actual:
        return self.actual

    @property
    def whole(self) -> bool:
        """Whether all projects are theirs to see."""
        return self._whole

    @cached_property
    def waits(self) -> Mapping[str, Wait]:
        return {wait.session: wait for wait in self.plan.waits}

    @cached_property
    def services(self) -> Mapping[str, ServiceStatus]:
        return {each.service: each for each in self.plan.services}

    @property
    def unbound_ports(self) -> Mapping[int, str]:
        return self._cluster.unbound_ports

    @property
    def store(self) -> Store | None:
        return self._cluster.loop.workspace.existing_store

    def holdings(self, since: float, until: float, session: str = "") -> Holdings | None:
        store = self.store
        return store.holdings(self.cluster, since, until, session) if store is not None else None

    def measure_usage(self, kernels: Sequence[str], known: Samples) -> Mapping[str, Sample]:
        """Nothing: the loop measures, and whoever asks a server has it look no more often."""
        return {}

    @property
    def repository(self) -> Repository:
        return self.desired.repository

    @property
    def gpu_models(self) -> tuple[str, ...]:
        return tuple(sorted({gpu.model for each in self.actual.hardware.values() for gpu in each.gpus}))

    def commit_facts(self, commits: Iterable[str]) -> Mapping[str, CommitFacts]:
        """For who sees all projects: the commit that a project's session was changed at may be another
        project's."""
        if not self._whole:
            return {}
        return self._cluster.commit_facts.read(self._cluster.loop.workspace.source.git, commits)

    @property
    def now(self) -> float:
        return self._cluster.loop.workspace.clock.now()

    @property
    def loop(self) -> LoopStatus:
        """Notes of passes are for who sees all projects."""
        from bai.queries.facts.loop_status import read_loop_status

        found = read_loop_status(self._cluster.loop.workspace)
        return found if self._whole else replace(found, last_pass=None, directives=self.directives)

    @property
    def directives(self) -> Directives:
        """So is who gave an order, and why."""
        found = read_directives(self._cluster.loop.workspace.store, self._cluster.name)
        return found if self._whole else _anonymous(found)

    @property
    def study(self) -> Study:
        return self._cluster.studies.study(self._done, self.now)

    @property
    def capacities(self) -> tuple[GroupCapacity, ...]:
        return self._cluster.studies.capacities(self._done, self.now)

    @property
    def present(self) -> Snapshot:
        """The cluster as it is now, as the planner sees it; nobody waits in it."""
        return self._cluster.studies.present(self._done, self.now)

    @property
    def room(self) -> Mapping[str, GroupView]:
        """What each resource group gives and still fits now, by name."""
        return self._cluster.studies.room(self._done, self.now)

    def folder_state(self, folder: VolumeFolder) -> FolderState | None:
        return (self.actual.volumes or {}).get(folder.volume)

    def review(self, commit: str) -> Review:
        """What a commit, branch or tag would change. Raises CannotRead, InvalidRepository, PlanError."""
        from reconciler.review.between_commits import review_of

        return review_of(self._cluster.loop.workspace, commit, self._cluster.review_memory)

    def sees(self, identity: str) -> bool:
        return self._projects.sees(identity)

    def lists(self, identity: str) -> bool:
        return self._projects.lists(identity)

    def redact(self, value: T) -> T:
        """A text, or lists and mappings of them, without others' names."""
        return self._projects.redact(value)


def _anonymous(directives: Directives) -> Directives:
    def without_names(order: Directive | None) -> Directive | None:
        return None if order is None else Directive(_SOMEBODY, order.at, "", order.commit)

    return Directives(
        suspend=without_names(directives.suspend),
        pin=without_names(directives.pin),
        approve=without_names(directives.approve),
    )
