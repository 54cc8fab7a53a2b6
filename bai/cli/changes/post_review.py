"""A review shown here and on the forge."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from bai.cli.formats import PlanFormat
from bai.settings import Settings

if TYPE_CHECKING:
    from providers.forge import Forge, Run, State
    from reconciler.review import Review
    from reconciler.trust.gate import Gate
    from reconciler.values.state import Actual
    from reconciler.workspace.workspace import Workspace
    from schemas.problems.errors import InvalidRepository

CONTEXT = "bai"
UPSTREAM = "origin/HEAD"


@dataclass(frozen=True, slots=True)
class Posting:
    """The pull request that this pipeline runs for, and the forge it is on."""

    run: Run
    forge: Forge

    @classmethod
    def here(cls) -> Posting:
        """From the environment. Raises ForgeUnknown."""
        from providers.forge import from_environment, open_forge

        run = from_environment(os.environ)
        return cls(run, open_forge(run))

    def tell(self, marker: str, page: str, state: State, cluster: str, line: str) -> None:
        """Comment and status. Raises ForgeError."""
        where = self.forge.comment(self.run.number, marker, page)
        context = f"{CONTEXT}/{cluster}" if cluster else CONTEXT
        self.forge.status(self.run.head, state, context, line, where)
        typer.echo(f"Said in {where}", err=True)


def review_and_tell(
    settings: Settings, base: str | None, posting: Posting | None, format: PlanFormat, out: Path | None
) -> bool:
    """Whether the change may be applied. Raises BaiError; documents that cannot be used are told on the
    forge first."""
    from bai.cli.changes.show_review import save_review, show_review
    from reconciler.review.between_commits import review_since
    from schemas.problems.errors import CannotRead, InvalidRepository

    start = base or (posting.run.base if posting else UPSTREAM)
    try:
        with settings.workspace() as workspace:
            found = review_since(workspace, start, gate=gate_of(settings, workspace))
            if out is not None:
                save_review(found, out)
            show_review(settings, found, format)
            if posting is not None:
                _post(posting, found)
    except InvalidRepository as error:
        if posting is not None:
            _post_problems(posting, error, settings.cluster or "")
        raise
    except CannotRead as error:
        if UPSTREAM in error.message:
            error.hint = "say what it is to be merged into: --base main"
        raise
    return found.passes


def gate_of(settings: Settings, workspace: Workspace) -> Gate | None:
    """What commits must pass, of the repository that the workspace's documents are in."""
    return settings.gate(workspace.source.folders)


def trusted(settings: Settings) -> Settings:
    """The settings with the very commit that `--revision` names, where commits must pass anything. Raises
    NotTrusted for one whose signature does not count."""
    from reconciler.sources.git import commit_of

    source = settings.source() if settings.revision is not None else None
    gate = settings.gate(source.folders) if source is not None else None
    if source is None or source.git is None or gate is None or settings.revision is None:
        return settings
    commit = commit_of(source.git, settings.revision)
    gate.check(source.git, commit)
    return replace(settings, revision=commit)


def _post(posting: Posting, found: Review) -> None:
    from bai.render.plan.review_markdown import marker, render
    from bai.render.plan.review_sections import distrust, headline, refusal

    page = render(found)
    refused = refusal(found) or next(iter(distrust(found)), "")
    line = refused or headline(found)
    cluster = found.plan.cluster
    posting.tell(marker(cluster), page, "failure" if refused else "success", cluster, line)


def _post_problems(posting: Posting, error: InvalidRepository, cluster: str) -> None:
    from bai.render.humanize import plural
    from bai.render.plan.review_markdown import marker, problems_page

    line = f"{plural(len(error.problems), 'mistake')} in the documents"
    posting.tell(marker(cluster), problems_page(error.problems, cluster), "failure", cluster, line)


@dataclass(frozen=True, slots=True)
class Reviewed:
    """What somebody has read: the digest of what lies between a commit and the documents."""

    base: str
    digest: str

    @classmethod
    def given(cls, base: str | None, digest: str | None) -> Reviewed | None:
        """From the options; None without them. Raises CommandError when one of the two is missing."""
        from schemas.problems.errors import CommandError

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
        from bai.render.humanize import clean, listed
        from bai.render.plan.review_sections import distrust
        from reconciler.review.between_commits import review_since
        from schemas.problems.errors import NotTrusted, StalePlan

        found = review_since(workspace, self.base, gate=gate_of(settings, workspace), seen=seen)
        if found.distrusted:
            raise NotTrusted(revision=found.head[:12], why="; ".join(distrust(found)))
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
        away = f"; not reached: {listed(map(clean, sorted(seen.missed)))}" if seen.missed else ""
        hint = "`bai apply --refresh-only` records what runs: review again, or save a plan of what is seen"
        raise StalePlan(why=f"what is seen is not what is recorded, and {what}{away}", hint=hint)
