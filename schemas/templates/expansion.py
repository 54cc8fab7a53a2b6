"""Documents that come from templates: `from` of a Session is filled in, a Sweep becomes its sessions, a
Service the session that its replicas are like. It happens on plain values, before they are read as sessions,
so that everything holds for them as for others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from schemas.kinds.session_template import FromTemplate, SessionTemplate, Sweep
from schemas.problems.issues import Issue, Loc
from schemas.problems.model_errors import issues_of
from schemas.problems.text import did_you_mean, format_value
from schemas.values.envelope import API_VERSION, PROTECT
from schemas.values.resource_ref import identity_of

FROM = "from"
LABEL = "bai/sweep"


@dataclass(frozen=True, slots=True)
class ExpandedSession:
    """A session's document, complete, and what is wrong with how it was to be made."""

    value: Any
    issues: tuple[Issue, ...] = ()


def is_from_template(value: Any) -> bool:
    """Whether a plain document is a session that names its template."""
    if not isinstance(value, Mapping) or value.get("kind") != "Session":
        return False
    spec, metadata = value.get("spec"), value.get("metadata")
    return isinstance(spec, Mapping) and FROM in spec and isinstance(metadata, Mapping)


def pattern_document(service: Mapping[str, Any]) -> dict[str, Any]:
    """A sound service's template as a session's document, as it is written. `bai/protect` is the service's
    alone: its replicas come and go."""
    metadata = dict(service["metadata"])
    notes = {key: text for key, text in metadata.pop("annotations", {}).items() if key != PROTECT}
    if notes:
        metadata["annotations"] = notes
    spec = dict(service["spec"]["template"])
    return {"apiVersion": API_VERSION, "kind": "Session", "metadata": metadata, "spec": spec}


class TemplateExpander:
    """The templates of a repository, by where they belong."""

    def __init__(self, templates: Iterable[SessionTemplate], *, complete: bool = True) -> None:
        self._found = {(each.metadata.project, each.name): each for each in templates}
        self._complete = complete
        """Whether one that is missing is really not there."""

    def expand_session(self, value: Mapping[str, Any]) -> ExpandedSession:
        """The document of a session that names its template, without `from`: what the template says, and
        above it what the document says."""
        spec, metadata = value["spec"], value["metadata"]
        try:
            source = FromTemplate.model_validate(spec[FROM], by_alias=True, by_name=False)
        except ValidationError as error:
            found = issues_of(error, FromTemplate)
            return ExpandedSession(None, tuple(_nest_issue(issue, ("spec", FROM)) for issue in found))
        own = {key: each for key, each in spec.items() if key != FROM}
        return self._expand(value, source, metadata, own, ("spec", FROM))

    def expand_sweep(self, sweep: Sweep) -> Iterator[ExpandedSession]:
        """The documents of a sweep's sessions."""
        from schemas.templates.rendering import sweep_combinations

        found, issues = sweep_combinations(sweep.spec)
        if issues:
            yield ExpandedSession(None, tuple(issues))
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
            made = self._expand(value, source, metadata, own, ("spec",))
            yield made
            if made.issues:
                return
            before = identity_of("Session", name, sweep.metadata.project)

    def expand_service(self, service: Mapping[str, Any]) -> ExpandedSession:
        """The document of the session that a sound service's replicas are like, by the service's name. Issues
        are where they would be in that session's document."""
        value = pattern_document(service)
        made = self.expand_session(value) if FROM in value["spec"] else ExpandedSession(value)
        if made.value is None:
            return made
        spec = {"type": "inference", **made.value["spec"]}
        if spec["type"] != "batch" and isinstance(spec.get("restart", {}), Mapping):
            spec["restart"] = {"policy": "always", **spec.get("restart", {})}
        return ExpandedSession({**made.value, "spec": spec}, made.issues)

    def _expand(
        self, value: Mapping[str, Any], source: FromTemplate, metadata: Mapping[str, Any],
        own: Mapping[str, Any], at: Loc,
    ) -> ExpandedSession:  # fmt: skip
        from schemas.templates.rendering import fill_template, merge_specs

        project, name = metadata.get("project"), metadata.get("name")
        template = self._found.get((_text_or_none(project), source.template)) or self._found.get(
            (None, source.template)
        )
        if template is None:
            if not self._complete:
                return ExpandedSession(None)
            known = {key for where, key in self._found if where in (None, project)}
            message = f"there is no session template {format_value(source.template)}"
            issue = Issue((*at, "template"), message, did_you_mean(source.template, known), "BAI-V040")
            return ExpandedSession(None, (issue,))
        spec, issues = fill_template(
            template.spec, source.parameters, name=str(name), project=str(project), at=(*at, "parameters")
        )
        if issues:
            return ExpandedSession(None, tuple(issues))
        return ExpandedSession({**value, "spec": merge_specs(spec, own)})


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _nest_issue(issue: Issue, at: Loc) -> Issue:
    return Issue((*at, *issue.at), issue.message, issue.hint, issue.code, issue.value, issue.key)
