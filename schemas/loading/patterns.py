"""Services while documents are loaded: each one's template becomes a session, its pattern, which is judged as
if it stood there. What is wrong with that is told at its place in the service's document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from schemas.kinds.service import Service
from schemas.kinds.session import Session
from schemas.loading.parsed_file import ParsedDocument, judge_expanded
from schemas.problems.issues import Issue
from schemas.rules.services.template_rules import in_service, template_rules
from schemas.rules.warning_rules import document_warnings
from schemas.templates.expansion import TemplateExpander, pattern_document
from schemas.values.envelope import Resource


class ServicePatterns:
    """Of one loading."""

    def __init__(self) -> None:
        self._found: dict[str, Session] = {}

    def judge(
        self, one: ParsedDocument, templates: TemplateExpander
    ) -> tuple[Resource | None, Sequence[Issue]]:
        """A document of a service, with what is wrong with it and with its template. Where that is no session
        at all, there is no service."""
        service, issues = one.judge()
        if not isinstance(service, Service) or not one.raw.sound:
            return service, issues
        made = templates.expand_service(one.raw.value)
        pattern, broken = judge_expanded(pattern_document(one.raw.value), made)
        if not isinstance(pattern, Session):
            return None, [*issues, *map(in_service, broken)]
        self._found.setdefault(service.identity, pattern)
        own = list(template_rules(pattern))
        # What stands in its metadata was judged as the service's.
        rest = (in_service(issue) for issue in broken if issue.at[:1] == ("spec",))
        refused = {issue.at for issue in own}
        return service, [*issues, *own, *(issue for issue in rest if issue.at not in refused)]

    def of(self, resource: Resource) -> Session | None:
        """Of a service; None for what is none."""
        return self._found.get(resource.identity) if isinstance(resource, Service) else None

    def warnings(self, resource: Resource) -> Iterator[Issue]:
        """What is worth saying of a sound document."""
        yield from document_warnings(resource)
        pattern = self.of(resource)
        if pattern is not None:
            yield from map(in_service, document_warnings(pattern))

    def among(self, resources: Mapping[str, Resource]) -> dict[str, Session]:
        """Those of these services, by their identities."""
        return {identity: self._found[identity] for identity in resources if identity in self._found}
