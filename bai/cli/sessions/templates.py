"""A template filled in from the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schemas.kinds.session_template import SessionTemplate
from schemas.problems.errors import CommandError
from schemas.repository.repository import Repository


def rendered(
    repository: Repository, template: str, texts: tuple[str, ...], name: str, project: str
) -> Mapping[str, Any]:
    """The Session's document. Raises CommandError for what cannot be."""
    from bai.cli.sessions.session_request import only_project
    from schemas.templates.templated import Templates, typed_session
    from schemas.values.envelope import API_VERSION

    owner = next((each.metadata.project for each in _named(repository, template)), None)
    metadata = {"name": name, "project": project or owner or only_project(repository)}
    spec = {"from": {"template": template, "parameters": values(repository, template, texts)}}
    made = Templates(repository.of(SessionTemplate)).session(
        {"apiVersion": API_VERSION, "kind": "Session", "metadata": metadata, "spec": spec}
    )
    _, issues = typed_session({}, made)
    if issues:
        raise CommandError(why=issues[0].message, hint=issues[0].hint)
    found: Mapping[str, Any] = made.value
    return found


def values(repository: Repository, template: str, texts: tuple[str, ...]) -> dict[str, Any]:
    """`NAME=VALUE` by name: a text where the template wants one, else as YAML reads it. Raises
    CommandError."""
    from bai.cli.sessions.session_request import pairs
    from schemas.files.scalars import ScalarError, plain

    wanted = {
        name: one.type for each in _named(repository, template) for name, one in each.spec.parameters.items()
    }
    found: dict[str, Any] = {}
    for name, text in pairs(texts, "--set").items():
        try:
            found[name] = text if wanted.get(name) == "text" else plain(text)
        except ScalarError as error:
            raise CommandError(why=f"--set {name}: {error.message}", hint=error.hint) from None
    return found


def _named(repository: Repository, template: str) -> list[SessionTemplate]:
    return [each for each in repository.of(SessionTemplate) if each.name == template]
