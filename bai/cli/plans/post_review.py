"""A review shown here and on the forge."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from bai.cli.formats import PlanFormat, PlanView
from bai.settings import Settings

if TYPE_CHECKING:
    from providers.forge import CommitState, Forge, PipelineRun
    from reconciler.review import Review
    from reconciler.sources.source import Source
    from reconciler.trust.gate import TrustGate
    from reconciler.values.state import Actual
    from reconciler.workspace.workspace import Workspace
    from schemas.problems.errors.repository import InvalidRepository

STATUS_CONTEXT = "bai"
UPSTREAM = "origin/HEAD"


@dataclass(frozen=True, slots=True)
class PullRequestComment:
    """The pull request that this pipeline runs for, and the forge it is on."""

    run: PipelineRun
    forge: Forge

    @classmethod
    def from_current_pipeline(cls) -> PullRequestComment:
        """From the environment. Raises ForgeUnknown."""
        from providers.forge import open_forge, run_from_environment

        run = run_from_environment(os.environ)
        return cls(run, open_forge(run))

    def publish(self, marker: str, page: str, state: CommitState, cluster: str, line: str) -> None:
        """Comment and status. Raises ForgeError."""
        where = self.forge.comment(self.run.number, marker, page)
        context = f"{STATUS_CONTEXT}/{cluster}" if cluster else STATUS_CONTEXT
        self.forge.status(self.run.head, state, context, line, where)
        typer.echo(f"Said in {where}", err=True)


def review_and_post(
    settings: Settings,
    base: str | None,
    comment: PullRequestComment | None,
    format: PlanFormat,
    out: Path | None,
    view: PlanView,
) -> bool:
    """Whether the change may be applied. Raises BaiError; documents that cannot be used are told on the
    forge first."""
    from bai.cli.plans.show_review import save_review, show_review
    from reconciler.review.between_commits import review_since
    from schemas.problems.errors.repository import CannotRead, InvalidRepository

    start = base or (comment.run.base if comment else UPSTREAM)
    try:
        with settings.workspace() as workspace:
            found = review_since(workspace, start, gate=commit_gate(settings, workspace.source))
            if out is not None:
                save_review(found, out)
            show_review(settings, found, format, view)
            if comment is not None:
                _publish_review(comment, found)
    except InvalidRepository as error:
        if comment is not None:
            _publish_problems(comment, error, settings.cluster or "")
        raise
    except CannotRead as error:
        if UPSTREAM in error.message:
            error.hint = "say what it is to be merged into: --base main"
        raise
    return found.passes


def commit_gate(settings: Settings, source: Source) -> TrustGate | None:
    """What commits must pass, of the repository that these documents are in."""
    return settings.gate(source.folders)


def pin_trusted_revision(settings: Settings) -> Settings:
    """The settings with the very commit that `--revision` names, where commits must pass anything. Raises
    NotTrusted for one whose signature does not count."""
    from schemas.files.git_objects import resolve_commit

    source = settings.source() if settings.revision is not None else None
    gate = settings.gate(source.folders) if source is not None else None
    if source is None or source.git is None or gate is None or settings.revision is None:
        return settings
    commit = resolve_commit(source.git, settings.revision)
    gate.check(source.git, commit)
    return replace(settings, revision=commit)


def _publish_review(comment: PullRequestComment, found: Review) -> None:
    from bai.render.plan.review_markdown import comment_marker, render_review_markdown
    from bai.render.plan.review_sections import refusal_line, review_headline, untrusted_commit_lines

    page = render_review_markdown(found)
    refused = refusal_line(found) or next(iter(untrusted_commit_lines(found)), "")
    line = refused or review_headline(found)
    cluster = found.plan.cluster
    comment.publish(comment_marker(cluster), page, "failure" if refused else "success", cluster, line)


def _publish_problems(comment: PullRequestComment, error: InvalidRepository, cluster: str) -> None:
    from bai.render.humanize import plural
    from bai.render.plan.review_markdown import comment_marker, render_problems_markdown

    line = f"{plural(len(error.problems), 'mistake')} in the documents"
    comment.publish(
        comment_marker(cluster), render_problems_markdown(error.problems, cluster), "failure", cluster, line
    )


@dataclass(frozen=True, slots=True)
class ReviewedChange:
    """What somebody has read: the digest of what lies between a commit and the documents."""

    base: str
    digest: str

    @classmethod
    def from_options(cls, base: str | None, digest: str | None) -> ReviewedChange | None:
        """From the options; None without them. Raises CommandError when one of the two is missing."""
        from schemas.problems.errors.command import CommandError

        if base is None and digest is None:
            return None
        if base is None or digest is None:
            raise CommandError(
                why="--base and --reviewed go together", hint="the digest stands below the review"
            )
        return cls(base, digest)

    def check(self, settings: Settings, workspace: Workspace, seen: Actual) -> None:
        """Raises StalePlan when, on what was just seen, something else happens than was read, or when not
        everything could be seen; NotTrusted for commits that are not followed."""
        from bai.render.humanize import clean, join_limited
        from bai.render.plan.review_sections import untrusted_commit_lines
        from reconciler.review.between_commits import review_since
        from schemas.problems.errors.git_remote import NotTrusted
        from schemas.problems.errors.plan import StalePlan

        found = review_since(workspace, self.base, gate=commit_gate(settings, workspace.source), seen=seen)
        if found.untrusted_commits:
            raise NotTrusted(revision=found.head[:12], why="; ".join(untrusted_commit_lines(found)))
        if not found.complete:
            why = f"not everything could be observed: {'; '.join(seen.errors)}"
            raise StalePlan(why=why, hint="apply it when it can")
        if found.digest == self.digest:
            return
        what = f"something else happens ({found.digest[:12]}) than was reviewed ({self.digest[:12]})"
        if review_since(workspace, self.base).digest != self.digest:
            hint = "`bai review` shows what, and gives the new digest"
            raise StalePlan(why=f"since {self.base}, {what}", hint=hint)
        # A new review would rest on the same records, and give the same digest.
        away = f"; not reached: {join_limited(map(clean, sorted(seen.missed)))}" if seen.missed else ""
        hint = "`bai apply --refresh-only` records what runs: review again, or save a plan of what is seen"
        raise StalePlan(why=f"what is seen is not what is recorded, and {what}{away}", hint=hint)
