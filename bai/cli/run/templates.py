"""A template filled in from the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bai.cli.run.request_values import only_project, parse_pairs
from schemas.kinds.session_template import SessionTemplate
from schemas.problems.errors.command import CommandError
from schemas.repository.repository import Repository


def render_template(
    repository: Repository, template: str, texts: tuple[str, ...], name: str, project: str
) -> Mapping[str, Any]:
    """The Session's document. Raises CommandError for what cannot be."""
    from schemas.loading.documents import parse_expanded_session
    from schemas.templates.expansion import TemplateExpander
    from schemas.values.envelope import API_VERSION

    owner = next((each.metadata.project for each in _templates_named(repository, template)), None)
    metadata = {"name": name, "project": project or owner or only_project(repository)}
    spec = {"from": {"template": template, "parameters": parse_parameters(repository, template, texts)}}
    made = TemplateExpander(repository.of(SessionTemplate)).expand_session(
        {"apiVersion": API_VERSION, "kind": "Session", "metadata": metadata, "spec": spec}
    )
    _, issues = parse_expanded_session({}, made)
    if issues:
        raise CommandError(why=issues[0].message, hint=issues[0].hint)
    found: Mapping[str, Any] = made.value
    return found


def parse_parameters(repository: Repository, template: str, texts: tuple[str, ...]) -> dict[str, Any]:
    """`NAME=VALUE` by name: a text where the template wants one, else as YAML reads it. Raises
    CommandError."""
    from schemas.files.yaml_scalars import ScalarError, parse_scalar

    wanted = {
        name: one.type
        for each in _templates_named(repository, template)
        for name, one in each.spec.parameters.items()
    }
    found: dict[str, Any] = {}
    for name, text in parse_pairs(texts, "--set").items():
        try:
            found[name] = text if wanted.get(name) == "text" else parse_scalar(text)
        except ScalarError as error:
            raise CommandError(why=f"--set {name}: {error.message}", hint=error.hint) from None
    return found


def _templates_named(repository: Repository, template: str) -> list[SessionTemplate]:
    return [each for each in repository.of(SessionTemplate) if each.name == template]
