"""Documents that come from templates: `from` of a Session is filled in, a Sweep becomes its sessions. It
happens on plain values, before they are read as sessions, so that everything holds for them as for others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from schemas.kinds.session_template import FromTemplate, SessionTemplate, Sweep
from schemas.loading.documents import typed
from schemas.problems.issues import Issue, Loc
from schemas.problems.model_errors import issues_of
from schemas.problems.positions import path_text
from schemas.problems.text import did_you_mean, shown
from schemas.values.envelope import API_VERSION, Resource

FROM = "from"
LABEL = "bai/sweep"


@dataclass(frozen=True, slots=True)
class Made:
    """A session's document, complete, and what is wrong with how it was to be made."""

    value: Any
    issues: tuple[Issue, ...] = ()


class Templates:
    """The templates of a repository, by where they belong."""

    def __init__(self, templates: Iterable[SessionTemplate], *, complete: bool = True) -> None:
        self._found = {(each.metadata.project, each.name): each for each in templates}
        self._complete = complete
        """Whether one that is missing is really not there."""

    def session(self, value: Mapping[str, Any]) -> Made:
        """A Session's document without `from`: what the template says, and above it what the document
        says."""
        spec, metadata = value.get("spec"), value.get("metadata")
        if not isinstance(spec, Mapping) or FROM not in spec or not isinstance(metadata, Mapping):
            return Made(value)
        try:
            source = FromTemplate.model_validate(spec[FROM], by_alias=True, by_name=False)
        except ValidationError as error:
            found = issues_of(error, FromTemplate)
            return Made(None, tuple(_below(issue, ("spec", FROM)) for issue in found))
        own = {key: each for key, each in spec.items() if key != FROM}
        return self._filled(value, source, metadata, own, ("spec", FROM))

    def sweep(self, sweep: Sweep) -> Iterator[Made]:
        """The documents of a sweep's sessions."""
        from schemas.templates.templating import combinations

        found, issues = combinations(sweep.spec)
        if issues:
            yield Made(None, tuple(issues))
        before = ""
        for number, values in enumerate(found, 1):
            name = f"{sweep.name}-{number}"
            labels = {**sweep.metadata.labels, LABEL: sweep.name}
            metadata = {"name": name, "project": sweep.metadata.project, "labels": labels}
            if sweep.metadata.annotations:
                metadata["annotations"] = dict(sweep.metadata.annotations)
            value = {"apiVersion": API_VERSION, "kind": "Session", "metadata": metadata}
            source = FromTemplate(
                template=sweep.spec.template, parameters={**sweep.spec.parameters, **values}
            )
            own = {"dependsOn": [before]} if sweep.spec.sequential and before else {}
            made = self._filled(value, source, metadata, own, ("spec",))
            yield made
            if made.issues:
                return
            before = f"Session/{sweep.metadata.project}/{name}"

    def _filled(
        self, value: Mapping[str, Any], source: FromTemplate, metadata: Mapping[str, Any],
        own: Mapping[str, Any], at: Loc,
    ) -> Made:  # fmt: skip
        from schemas.templates.templating import filled, merged

        project, name = metadata.get("project"), metadata.get("name")
        template = self._found.get((_text(project), source.template)) or self._found.get(
            (None, source.template)
        )
        if template is None:
            if not self._complete:
                return Made(None)
            known = {key for where, key in self._found if where in (None, project)}
            message = f"there is no session template {shown(source.template)}"
            issue = Issue((*at, "template"), message, did_you_mean(source.template, known), "BAI-V040")
            return Made(None, (issue,))
        spec, issues = filled(
            template.spec, source.parameters, name=str(name), project=str(project), at=(*at, "parameters")
        )
        if issues:
            return Made(None, tuple(issues))
        return Made({**value, "spec": merged(spec, own)})


def typed_session(written: Any, made: Made) -> tuple[Resource | None, list[Issue]]:
    """The session of a document that was made, or every issue at its place in the document as `written`."""
    if made.issues:
        return None, list(made.issues)
    if made.value is None:
        return None, []
    resource, issues = typed(made.value)
    if made.value is written:
        return resource, issues
    return resource, [issue if _stands(written, issue.at) else _from_above(issue) for issue in issues]


def _stands(value: Any, at: Loc) -> bool:
    for step in at:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return False
    return True


def _from_above(issue: Issue) -> Issue:
    """What the template brings is told where the template is named."""
    path = path_text(issue.at)
    return Issue(("spec", FROM), f"with the template, {path}: {issue.message}", issue.hint, issue.code)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _below(issue: Issue, at: Loc) -> Issue:
    return Issue((*at, *issue.at), issue.message, issue.hint, issue.code, issue.value, issue.key)
