"""A cluster's documents with a change laid over them, what that would do, and the way into git."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from bai.web.auth.roles import Principal, Role
from bai.web.cluster_loops import ServedCluster
from bai.web.dependencies import project_view
from bai.web.panel.plans.planning_queue import PlanningQueue, Progress
from bai.web.panel.proposals.drafts import draft_of, own_mistakes
from bai.web.panel.proposals.requests import ChangeRequest, PreparedChange, prepare, required_role
from bai.web.panel.proposals.settings import ProposalSettings
from bai.web.panel.proposals.turns import LatestTurns
from reconciler.gitops.document_source import FollowedDocuments
from reconciler.proposals.edits import Documents
from reconciler.proposals.overlay import ChangedSource
from reconciler.proposals.permission import foreign_documents
from reconciler.proposals.publish import Publisher, Pushed
from reconciler.proposals.values import Person, Proposal, PushMode
from reconciler.review.between_commits import review_of_documents
from reconciler.review.memory import ReviewMemory
from reconciler.sources.desired import make_desired
from reconciler.sources.source import choose_cluster
from reconciler.values.records import Audit
from schemas.loading.draft import Draft
from schemas.loading.loader import load
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.command import CommandError
from schemas.problems.errors.forge import ForgeError

if TYPE_CHECKING:
    from bai.web.pass_view import PassView
    from reconciler.gitops.revision_tracker import RevisionTracker
    from reconciler.gitops.submit import FileChange
    from reconciler.review.build import Tell
    from reconciler.review.preview import PlanPreview
    from reconciler.review.values import Review
    from reconciler.sources.source import Source
    from reconciler.values.state import Actual, Desired
    from schemas.files.sources import SourceFile
    from schemas.repository.repository import Repository

VERB = "propose"
"""What the audit calls it."""
_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


@dataclass(frozen=True)
class OpenedDocuments:
    """The documents of a commit, or of a folder (`commit` is then empty)."""

    source: Source
    commit: str
    given: tuple[SourceFile, ...]
    repository: Repository

    @cached_property
    def documents(self) -> Documents:
        files = {each.path: each.data for each in self.given if each.problem is None}
        return Documents(files, self.repository)


@dataclass(frozen=True, slots=True)
class PushWay:
    """How far a change of somebody goes: `mode`, and in words why no further; `is_denied`: because their role
    does not let them."""

    mode: PushMode
    why: str = ""
    is_denied: bool = False


class ClusterDesk:
    """Of one cluster. Thread-safe."""

    def __init__(self, cluster: ServedCluster, settings: ProposalSettings, planning: PlanningQueue) -> None:
        self._cluster, self._settings, self._planning = cluster, settings, planning
        self._opened: tuple[Repository, OpenedDocuments] | None = None
        self._memory = ReviewMemory()
        self.turns = LatestTurns()

    def newest(self, who: Principal) -> OpenedDocuments:
        """What a change of theirs begins with. Raises BaiError."""
        with own_mistakes(None, whole=who.projects is None):
            return self._newest()

    def _newest(self) -> OpenedDocuments:
        workspace, tracker = self._cluster.loop.workspace, self._tracker
        tip = tracker.remote.resolve(tracker.ref) if tracker is not None else workspace.commit
        if tip != workspace.commit:
            return self._open_at(tip)
        known = self._opened
        if known is None or known[0] is not workspace.repository:
            read = workspace.document_cache.last_read()
            given = read[0] if read is not None else tuple(workspace.source.file_source().files())
            opened = OpenedDocuments(workspace.source, workspace.commit, given, workspace.repository)
            self._opened = known = workspace.repository, opened
        return known[1]

    def prepare(self, opened: OpenedDocuments, asked: ChangeRequest, who: Principal) -> PreparedChange:
        """The change as files. Raises CommandError, InvalidRepository; CommandError as well for whoever sees
        some projects only, where the file has documents of others."""
        prepared = prepare(opened.documents, asked)
        if who.projects is not None and foreign_documents([prepared.change], who.projects):
            why = f"the file of {prepared.identity} has documents that are not yours"
            raise CommandError(why=why, hint="somebody who may change all of them has to do it")
        return prepared

    def desired_with(self, opened: OpenedDocuments, change: FileChange, who: Principal) -> Desired:
        """What the documents say then. Raises InvalidRepository, with every problem that is for them to know,
        CannotRead."""
        workspace, draft = self._cluster.loop.workspace, self._draft(opened, change, who)
        documents, known = workspace.reading_caches()
        with own_mistakes(draft, whole=who.projects is None):
            source = ChangedSource(opened.source.file_source(), [change], opened.given)
            repository = load(source, opened.source.owner, documents, draft)
            return make_desired(
                repository, self._cluster.name, repo=workspace.repo_id, commit="", cache=known
            )

    def preview(self, head: Desired, actual: Actual) -> PlanPreview:
        """The plan of these documents, on what the last pass saw."""
        from reconciler.plan.plan_request import PlanRequest
        from reconciler.review.preview import make_preview
        from reconciler.workspace.placement_policies import planner_for

        now = self._cluster.loop.workspace.clock.now()
        return make_preview(PlanRequest(head, actual, now, place=planner_for(head)))

    def review(
        self,
        opened: OpenedDocuments,
        change: FileChange,
        view: PassView,
        who: Principal,
        patience: float | None = None,
    ) -> Review | Progress:
        """What a plan with this change would do beside what it would do anyway, on what the pass has seen, or
        how far that is after `patience` seconds. Raises InvalidRepository, CannotRead, PlanError,
        TooMuchPlanned."""

        def make(tell: Tell) -> Review:
            tell("reading the documents")
            head = self.desired_with(opened, change, who)
            return review_of_documents(view.desired, head, view.actual, view.now, self._memory, tell)

        # Mistakes are told to each as far as they are for them to know.
        key = (VERB, self._cluster.name, opened.commit, change, who.projects)
        return self._planning.ask(key, who.name, make, patience)

    # Into git

    def way(self, who: Principal, asked: ChangeRequest, identity: str) -> PushWay:
        """How far this change of theirs goes."""
        role, project = required_role(asked, identity)
        tracker, mode = self._tracker, self._settings.mode
        if not who.may(role, project):
            where = f"project {project}" if project else "all projects"
            return PushWay("off", f"to commit it you need the role {role.name} for {where}", is_denied=True)
        if mode == "off":
            return PushWay("off", "this server writes nothing into git (bai serve --proposals)")
        if tracker is None:
            return PushWay("off", "the documents are a folder here, and no remote that could be pushed to")
        if not tracker.remote.has_branch(tracker.ref):
            why = f"what is followed, {tracker.ref} (--ref), is no branch that a change could be merged into"
            return PushWay("off", why)
        if mode == "commit" and tracker.is_judged:
            why = "commits must be signed here: it goes to a branch, for somebody to sign and merge"
            return PushWay("branch", why)
        return PushWay(mode)

    def publish(self, asked: ChangeRequest, who: Principal, base: str, reason: str) -> Pushed:
        """Commit and push it, open a pull request if that can be, and write it down. Raises CommandError,
        InvalidRepository, StaleProposal, NotPushed, RemoteError."""
        tracker = self._tracker
        if tracker is None or not _COMMIT.fullmatch(base) or not tracker.remote.has_commit(base):
            raise CommandError(why="what this began with is not there any more", hint="begin again")
        with own_mistakes(None, whole=who.projects is None):
            opened = self._open_at(base)
        prepared = self.prepare(opened, asked, who)
        way = self.way(who, asked, prepared.identity)
        if way.mode == "off":
            raise CommandError(why=way.why)
        _, project = required_role(asked, prepared.identity)
        if not who.may(Role.operator) and foreign_documents([prepared.change], {project}):
            why = f"the file of {prepared.identity} has documents of others, too"
            raise CommandError(why=why, hint="an operator of all projects has to do it")
        workspace = self._cluster.loop.workspace
        author = Person.of(who.name, self._cluster.name)
        proposal = Proposal(base, (prepared.change,), prepared.title, reason, author)
        publisher = Publisher(tracker.remote, tracker.ref, workspace.source.subpath, self._settings.committer)
        push = publisher.to_followed if way.mode == "commit" else publisher.to_branch
        draft = self._draft(opened, prepared.change, who)
        with own_mistakes(draft, whole=who.projects is None):
            pushed = push(proposal, partial(self._check, draft))
        request, note = self._create_request(tracker, proposal, pushed) if way.mode == "branch" else ("", "")
        where = f"to {pushed.branch}" + (f", {request}" if request else "") + (f"; {note}" if note else "")
        entry = Audit(VERB, prepared.identity, workspace.clock.now(), where, who.name, commit=pushed.commit)
        workspace.store.record_audit(self._cluster.name, entry)
        self._cluster.wake()
        return pushed

    def is_followed(self, commit: str) -> bool:
        """Whether what is carried out has it."""
        tracker, followed = self._tracker, self._cluster.loop.workspace.commit
        return tracker is not None and bool(followed) and tracker.descends_from(followed, commit)

    def waits_for_approval(self, commit: str) -> bool:
        """Whether what is followed rests on it, and it is carried out once somebody approves."""
        followed = self._cluster.loop.documents.followed
        if followed is None or not followed.approval or self.is_followed(commit):
            return False
        try:
            return followed.remote.descends_from(followed.remote.resolve(followed.ref), commit)
        except BaiError:  # It cannot be found out now.
            return False

    def _create_request(
        self, tracker: RevisionTracker, proposal: Proposal, pushed: Pushed
    ) -> tuple[str, str]:
        from providers.forge import forge_of_remote

        settings = self._settings
        if not settings.forge_token:
            return "", "without a token of the forge (BAI_FORGE_TOKEN) the pull request is yours to open"
        title, _, body = proposal.message.strip().partition("\n\n")
        body = f"{body}\n\nProposed by {proposal.author.name} on the page of cluster {self._cluster.name}."
        try:
            forge = forge_of_remote(tracker.remote.url, settings.forge_token, settings.forge)
            return forge.create_request(pushed.branch, tracker.ref, title, body.strip()), ""
        except ForgeError as error:
            return "", f"the branch is there, but no pull request could be opened: {error.message}"

    @property
    def _tracker(self) -> RevisionTracker | None:
        found = self._cluster.loop.documents
        return found.tracker if isinstance(found, FollowedDocuments) else None

    def _open_at(self, commit: str) -> OpenedDocuments:
        workspace, tracker = self._cluster.loop.workspace, self._tracker
        if commit == workspace.commit:
            known = self._opened
            if known is not None and known[1].commit == commit:
                return known[1]
        if tracker is not None and tracker.is_judged:
            tracker.verify_trust(commit)
        source = replace(workspace.source, revision=commit)
        documents, _ = workspace.reading_caches()
        given = tuple(source.file_source().files())
        repository = load(ChangedSource(source.file_source(), (), given), source.owner, documents)
        return OpenedDocuments(source, commit, given, repository)

    def _draft(self, opened: OpenedDocuments, change: FileChange, who: Principal) -> Draft | None:
        return draft_of(project_view(self._cluster, who), opened.repository, change)

    def _check(self, draft: Draft | None, commit: str) -> None:
        """As `bai validate` does. Raises InvalidRepository, CannotRead, PlanError."""
        source = replace(self._cluster.loop.workspace.source, revision=commit)
        documents, _ = self._cluster.loop.workspace.reading_caches()
        repository = load(source.file_source(), source.owner, documents, draft)
        choose_cluster(repository, self._cluster.name)


class ProposalDesks:
    """Of all clusters of a server."""

    def __init__(
        self, clusters: Mapping[str, ServedCluster], settings: ProposalSettings, planning: PlanningQueue
    ) -> None:
        self.by_cluster = {
            name: ClusterDesk(cluster, settings, planning) for name, cluster in clusters.items()
        }
