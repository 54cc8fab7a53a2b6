"""One plain document → a typed resource, or what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from schemas.files.yaml_reader import RawDocument
from schemas.kinds.kind_registry import KINDS
from schemas.problems.issues import Issue, Loc
from schemas.problems.model_errors import issues_of
from schemas.problems.positions import path_text
from schemas.problems.text import did_you_mean, format_value
from schemas.templates.expansion import FROM, ExpandedSession
from schemas.values.envelope import API_VERSION, Resource


@dataclass(frozen=True, slots=True)
class Document:
    """A document with the resource that it is; `resource` is None when it has problems of its own."""

    file: str
    raw: RawDocument
    identity: str
    resource: Resource | None


def kind_of(value: Any) -> str:
    """The word in `kind:`; empty when there is none."""
    found = value.get("kind") if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


def parse_resource(value: Any) -> tuple[Resource | None, list[Issue]]:
    """The resource of a plain document, or every issue."""
    if not isinstance(value, dict):
        return None, [
            Issue(
                (),
                f"a document is a mapping, this is {format_value(value)}",
                "begin with apiVersion: bai/v1",
                "BAI-V014",
            )
        ]
    issues = _envelope_issues(value)
    model = KINDS.get(value["kind"]) if isinstance(value.get("kind"), str) else None
    if model is None or issues:
        return None, issues
    try:
        return model.model_validate(value, by_alias=True, by_name=False), []
    except ValidationError as error:
        return None, issues_of(error, model)


def parse_expanded_session(written: Any, made: ExpandedSession) -> tuple[Resource | None, list[Issue]]:
    """The session of a document that was made, or every issue at its place in the document as `written`."""
    if made.issues:
        return None, list(made.issues)
    if made.value is None:
        return None, []
    resource, issues = parse_resource(made.value)
    return resource, [issue if _is_written(written, issue.at) else _at_template(issue) for issue in issues]


def _is_written(value: Any, at: Loc) -> bool:
    for step in at:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return False
    return True


def _at_template(issue: Issue) -> Issue:
    """What the template brings is told where the template is named."""
    path = path_text(issue.at)
    return Issue(("spec", FROM), f"with the template, {path}: {issue.message}", issue.hint, issue.code)


def _envelope_issues(value: dict[str, Any]) -> list[Issue]:
    if "apiVersion" not in value and "kind" not in value:
        hint = (
            "YAML files that are not for bai belong outside, or in a directory whose name begins with a dot"
        )
        return [
            Issue((), "this is not a document of bai: it has neither apiVersion nor kind", hint, "BAI-V014")
        ]
    issues = []
    version = value.get("apiVersion")
    if "apiVersion" not in value:
        issues.append(
            Issue((), "the field 'apiVersion' is missing", f"write apiVersion: {API_VERSION}", "BAI-V021")
        )
    elif version != API_VERSION:
        issues.append(
            Issue(
                ("apiVersion",),
                f"{format_value(version)} is not a known version",
                f"write {API_VERSION}",
                "BAI-V015",
            )
        )
    kind = value.get("kind")
    if "kind" not in value:
        issues.append(
            Issue((), "the field 'kind' is missing", did_you_mean("kind", ()) or "add it", "BAI-V021")
        )
    elif not isinstance(kind, str) or kind not in KINDS:
        issues.append(
            Issue(
                ("kind",),
                f"{format_value(kind)} is not a known kind",
                did_you_mean(str(kind), KINDS),
                "BAI-V016",
            )
        )
    return issues


def claimed_identity(value: Any) -> str:
    """The identity that a document claims, also when it has problems; empty when it cannot be told."""
    if not isinstance(value, dict) or not isinstance(value.get("metadata"), dict):
        return ""
    metadata = value["metadata"]
    parts = (value.get("kind"), metadata.get("project"), metadata.get("name"))
    if not isinstance(parts[0], str) or not isinstance(parts[2], str):
        return ""
    return "/".join(part for part in parts if isinstance(part, str) and part)
