"""Which pull request a pipeline runs for, from what its environment says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from providers.forge.base import Forge
from providers.forge.github import GitHub
from providers.forge.gitlab import GitLab
from schemas.files.regular_files import read_regular_file
from schemas.files.strict_json import parse_json
from schemas.problems.errors.forge import ForgeUnknown
from schemas.values.naturals import parse_natural

ForgeKind = Literal["github", "gitea", "gitlab"]
TOKEN = "BAI_FORGE_TOKEN"
LARGEST_EVENT = 64 << 20
"""Bytes of what a forge says about a run; its own limit is 25 MB."""
_HINT = f"it needs a token in {TOKEN} (or GITHUB_TOKEN, GITLAB_TOKEN) and a run for a pull request"


@dataclass(frozen=True, slots=True)
class PipelineRun:
    """A pipeline's run for one pull request."""

    kind: ForgeKind
    url: str
    """Of the forge's API."""
    repository: str
    number: int
    base: str
    """Commit that the pull request is to be merged into."""
    head: str
    """Its newest commit: the one that gets the status."""
    page: str = ""
    """Of the run, for whoever wants to read more."""
    token: str = field(default="", repr=False)


def run_from_environment(environment: Mapping[str, str]) -> PipelineRun:
    """GitHub, Gitea and Forgejo Actions, and GitLab CI. Raises ForgeUnknown when it is none of these, or not
    for a pull request."""
    if environment.get("GITLAB_CI"):
        return _gitlab_run(environment)
    if environment.get("GITHUB_ACTIONS"):
        return _actions_run(environment)
    raise ForgeUnknown(why="this is no run of GitHub, Gitea or Forgejo Actions or GitLab CI", hint=_HINT)


def open_forge(run: PipelineRun) -> Forge:
    """Raises ForgeUnknown without a token."""
    if not run.token:
        raise ForgeUnknown(why="there is no token", hint=_HINT)
    if run.kind == "gitlab":
        return GitLab(run.url, run.repository, run.token)
    return GitHub(run.url, run.repository, run.token)


def _actions_run(environment: Mapping[str, str]) -> PipelineRun:
    event = _read_event(environment.get("GITHUB_EVENT_PATH", ""))
    request = event.get("pull_request")
    if not isinstance(request, Mapping):
        name = environment.get("GITHUB_EVENT_NAME", "something else")
        raise ForgeUnknown(why=f"this run is for {name}, not for a pull request", hint=_HINT)
    server, repository = environment.get("GITHUB_SERVER_URL", ""), environment.get("GITHUB_REPOSITORY", "")
    other = environment.get("GITEA_ACTIONS") or environment.get("FORGEJO_ACTIONS")
    return PipelineRun(
        kind="gitea" if other else "github",
        url=environment.get("GITHUB_API_URL", "https://api.github.com"),
        repository=repository,
        number=int(request["number"]),
        base=str(request["base"]["sha"]),
        head=str(request["head"]["sha"]),
        page=f"{server}/{repository}/actions/runs/{environment.get('GITHUB_RUN_ID', '')}",
        token=environment.get(TOKEN) or environment.get("GITHUB_TOKEN", ""),
    )


def _read_event(path: str) -> Mapping[str, Any]:
    try:
        found = parse_json(read_regular_file(path, LARGEST_EVENT))
    except (OSError, ValueError) as error:
        raise ForgeUnknown(
            why=f"what the run is for cannot be read from {path or 'GITHUB_EVENT_PATH'}"
        ) from error
    return found if isinstance(found, Mapping) else {}


def _gitlab_run(environment: Mapping[str, str]) -> PipelineRun:
    number = parse_natural(environment.get("CI_MERGE_REQUEST_IID", ""))
    if number is None:
        hint = "run the job where $CI_PIPELINE_SOURCE is merge_request_event"
        raise ForgeUnknown(why="this pipeline is not for a merge request", hint=hint)
    return PipelineRun(
        kind="gitlab",
        url=environment["CI_API_V4_URL"],
        repository=environment["CI_PROJECT_ID"],
        number=number,
        base=environment["CI_MERGE_REQUEST_DIFF_BASE_SHA"],
        head=environment.get("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA") or environment["CI_COMMIT_SHA"],
        page=environment.get("CI_JOB_URL", ""),
        token=environment.get(TOKEN) or environment.get("GITLAB_TOKEN", ""),
    )
