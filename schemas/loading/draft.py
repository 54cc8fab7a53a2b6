"""The rules between documents, and a file that somebody writes who may not know all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from schemas.kinds.service import Service
from schemas.kinds.session import Session
from schemas.problems.issues import Issue
from schemas.repository.repository import Repository
from schemas.rules.membership import OtherDocuments, check_membership, session_issues
from schemas.rules.references import ReferenceIndex
from schemas.rules.services.measure_rules import measure_rules
from schemas.rules.services.template_rules import in_service, probe_rules, session_name_rules
from schemas.rules.sessions.app_rules import named_port_rules
from schemas.values.envelope import Resource


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The documents among which one is judged."""

    repository: Repository
    names: ReferenceIndex
    others: OtherDocuments

    @classmethod
    def of(
        cls, repository: Repository, broken: frozenset[str], others: OtherDocuments | None = None
    ) -> Surroundings:
        """`broken`: identities of documents with problems."""
        return cls(repository, ReferenceIndex(repository, broken), others or OtherDocuments(repository))

    def issues(self, resource: Resource, *, clear: bool) -> list[Issue]:
        """What is wrong with it here; `clear`: whether all is there that the rules rest on."""
        if isinstance(resource, Session):
            issues = list(session_name_rules(resource, self.names.known))
            return issues + self._session_issues(resource, clear=clear)
        if isinstance(resource, Service):
            return self._service_issues(resource, clear=clear)
        dangling = list(self.names.dangling(resource))
        return dangling if dangling or not clear else list(check_membership(self.repository, resource))

    def _session_issues(self, session: Session, *, clear: bool) -> list[Issue]:
        dangling = list(self.names.dangling(session))
        if dangling or not clear:
            return dangling
        return [*session_issues(session, self.others), *named_port_rules(self.repository, session)]

    def _service_issues(self, service: Service, *, clear: bool) -> list[Issue]:
        pattern = self.repository.patterns.get(service.identity)
        if pattern is None:
            return []  # It was told why there is none.
        issues = [in_service(issue) for issue in self._session_issues(pattern, clear=clear)]
        if clear:
            issues += probe_rules(self.repository, service, pattern)
            issues += measure_rules(self.repository, service, pattern)
        return issues


@dataclass(frozen=True, slots=True)
class Draft:
    """`file`: where its documents stand; `knows`: whether their author may know a document. One that they do
    not know is not there for what they write, and for what is said of that."""

    file: str
    knows: Callable[[Resource], bool]

    def surroundings(self, repository: Repository, broken: frozenset[str]) -> Surroundings:
        """The documents that they know. Those that cannot be read are told without their names."""
        found = {name: each for name, each in repository.resources.items() if self.knows(each)}
        return Surroundings.of(replace(repository, resources=found), broken)


def own_issues(own: Iterable[Issue], every: Iterable[Issue]) -> list[Issue]:
    """What is wrong with a draft among the documents that its author knows; where something else is, among
    all of them, only that."""
    found = {each.at: each for each in own}
    for each in every:
        message = "this does not go together with documents that are not yours to see"
        found.setdefault(each.at, Issue(each.at, message, "ask somebody who sees all of them", each.code))
    return list(found.values())


def bare_circle(issue: Issue) -> Issue:
    """That a session of a draft waits for itself; not all of those between may be for its author to see."""
    return replace(issue, message="sessions wait for each other, this one among them")
