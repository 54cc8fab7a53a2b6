"""What somebody who sees some projects writes, judged as if there were nothing else: what is wrong with it
names nothing of others, and is the same for what is hidden as for what is not there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bai.web.project_view import ProjectView
from reconciler.gitops.submit import FileChange
from schemas.kinds.tenancy import User
from schemas.loading.draft import Draft
from schemas.problems.errors.repository import InvalidRepository
from schemas.problems.problem import Problem, SourceLocation
from schemas.repository.repository import Repository
from schemas.rules.references import named_identities
from schemas.values.envelope import Resource

_OTHERS = "documents that are not yours have mistakes"
_OTHERS_HINT = "nothing can be changed here before somebody who may has corrected them"


def draft_of(view: ProjectView, repository: Repository, change: FileChange) -> Draft | None:
    """A changed file of the repository; None for who sees everything. What the file has named before, its
    author knows."""
    if view.sees_everything:
        return None
    file = change.name
    before = (repository.resources[name] for name, at in repository.locations.items() if at.file == file)
    named = {name for each in before for name in named_identities(each)}

    def knows(resource: Resource) -> bool:
        return view.knows(resource) or not named.isdisjoint(_names(resource))

    return Draft(file, knows)


def _names(resource: Resource) -> Iterator[str]:
    yield resource.identity
    if isinstance(resource, User) and resource.spec.email:
        yield f"User/@{resource.spec.email.lower()}"


@contextmanager
def own_mistakes(draft: Draft | None, *, whole: bool) -> Iterator[None]:
    """Of an InvalidRepository, those in the draft alone, where its author does not see everything (`whole`);
    of all others, that there are some."""
    try:
        yield
    except InvalidRepository as error:
        if whole:
            raise
        own = tuple(each for each in error.problems if draft is not None and each.place.file == draft.file)
        place = SourceLocation(draft.file if draft is not None else "the documents")
        raise InvalidRepository(own or (Problem(place, "BAI-V050", "", _OTHERS, _OTHERS_HINT),)) from None
