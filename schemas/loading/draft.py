"""The rules between documents, and a file that somebody writes who may not know all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from schemas.kinds.session import Session
from schemas.problems.issues import Issue
from schemas.repository.repository import Repository
from schemas.rules.membership import OtherDocuments, check_membership, session_issues
from schemas.rules.references import ReferenceIndex
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
        issues = list(self.names.dangling(resource))
        if issues or not clear:
            return issues
        if isinstance(resource, Session):
            return list(session_issues(resource, self.others))
        return list(check_membership(self.repository, resource))


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
