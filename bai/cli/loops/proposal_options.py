"""Options of `bai serve` about changes that people ask for on its pages."""

from __future__ import annotations

import os
import re
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from bai.web.panel.proposals.settings import ProposalSettings

FORGE_TOKEN = "BAI_FORGE_TOKEN"
_PERSON = re.compile(r"([^<>]*[^<> ]) <([^<>\s@]+@[^<>\s@]+)>")


class ProposalMode(StrEnum):
    """How far changes go that people ask for."""

    off = "off"
    branch = "branch"
    commit = "commit"


Proposals = Annotated[
    ProposalMode,
    typer.Option(
        "--proposals",
        help="Changes on pages: `off`: YAML to copy. `branch`: for a pull request. `commit`: to --ref.",
    ),
]
Committer = Annotated[
    str,
    typer.Option("--committer", metavar="PERSON", help="Of such commits: NAME <ADDRESS>."),
]
ForgeApi = Annotated[
    str,
    typer.Option(
        "--forge",
        metavar="URL",
        help="Its API, for pull requests: .../api/v1 (Gitea), .../api/v4 (GitLab). Known for github.com.",
    ),
]


def proposal_settings(mode: ProposalMode, committer: str, forge: str, *, remote: bool) -> ProposalSettings:
    """With the token of the environment. Raises CommandError for what could not be."""
    from bai.web.panel.proposals.settings import BAI, ProposalSettings
    from reconciler.proposals.values import Person
    from schemas.problems.errors.command import CommandError

    if mode is not ProposalMode.off and not remote:
        raise CommandError(why=f"--proposals {mode} goes with --remote", hint="name the remote")
    person = _PERSON.fullmatch(committer)
    if committer and (person is None or not committer.isprintable()):
        raise CommandError(why=f"--committer: {committer!r} is nobody", hint="write NAME <ADDRESS>")
    made = Person(*person.groups()) if person is not None else BAI
    return ProposalSettings(mode.value, made, forge, os.environ.get(FORGE_TOKEN, ""))
