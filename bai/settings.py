"""What the options before the command say: which repository, cluster, store and commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from schemas.problems.text import printable

if TYPE_CHECKING:
    from reconciler.sources.source import Source
    from reconciler.trust.gate import TrustGate
    from reconciler.workspace.activity import ActivityListener
    from reconciler.workspace.kernel_access import KernelAccess
    from reconciler.workspace.store_access import StoreAccess
    from reconciler.workspace.workspace import Workspace
    from schemas.loading.document_cache import DocumentCache
    from schemas.problems.errors.repository import InvalidRepository
    from schemas.repository.repository import Repository


LOCAL_CONTEXT = "local"
"""In place of a context's name: this machine's repository."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The options that every command shares."""

    directory: Path = Path(".")
    cluster: str | None = None
    context: str | None = None
    """A server's cluster in place of a repository, by its name in the file of contexts."""
    names_repository: bool = False
    """Whether an option says which repository or store is meant."""
    state: str | None = None
    """File or URL of the store."""
    revision: str | None = None
    stores: Path | None = None
    """The owner's file of secret stores."""
    trust: Path | None = None
    """The owner's file that says whose commits are followed."""
    color: bool | None = None
    """None lets the terminal decide."""
    verbose: bool = False
    activity: ActivityListener | None = None
    """Is told what takes its time; None: nobody waits."""
    notify_user: Callable[[str], None] = lambda line: None
    """Is given lines about what the options lead to that is not what they say."""

    def workspace(
        self,
        *,
        acting: bool = False,
        source: Source | None = None,
        documents: DocumentCache | None = None,
    ) -> Workspace:
        """The repository with its store and provider; `acting`: secrets will be needed, so that stores of
        secrets which are declared nowhere are a mistake. `source`: as for `reading_workspace`; `documents`:
        what is known of them.

        Raises BaiError (InvalidRepository, CannotRead, StoreError) when it cannot be opened.
        """
        from reconciler.workspace.workspace import Workspace

        source = source or self.source(acting=acting)
        return Workspace.at(
            source, cluster=self.cluster, state=self.state, activity=self._listener(), documents=documents
        )

    def store_access(self) -> StoreAccess:
        """For commands that the store answers: what is wrong with other documents than the cluster's does not
        concern them. Raises as `reading_workspace`."""
        from reconciler.workspace.store_access import open_store_access

        source = self.source()
        return open_store_access(source, self.cluster, self.state) or self.reading_workspace(source)

    def kernel_access(self) -> KernelAccess:
        """For commands that go to a session which is there, likewise: nodes' documents count, too."""
        from reconciler.workspace.kernel_access import open_kernel_access

        source = self.source()
        return open_kernel_access(source, self.cluster, self.state) or self.reading_workspace(source)

    def reading_workspace(self, source: Source | None = None) -> Workspace:
        """For commands that look at what is there and change no plan: where the documents have mistakes, with
        the last good ones, which the user is told. `source`: the one that the options say, where it is known.

        Raises as `workspace`, InvalidRepository when there are no good ones or `revision` names the bad ones.
        """
        from reconciler.sources.last_good import open_last_good
        from reconciler.workspace.workspace import Workspace
        from schemas.problems.errors.repository import InvalidRepository

        source = source or self.source()
        open_at = partial(Workspace.at, cluster=self.cluster, state=self.state, activity=self._listener())
        try:
            return open_at(source)
        except InvalidRepository as error:
            if self.revision is not None:
                raise
            workspace, documents = open_last_good(source, error, open_at)
            self.notify_user(f"warning: {_first_problem(error)}; shown {documents}")
            return workspace

    def source(self, *, acting: bool = False) -> Source:
        """Where the documents are, which may be above `directory`. Raises CannotRead, InvalidRepository, and
        CommandError where a server was named: what a server is asked needs no documents."""
        from reconciler.sources.source import open_source

        if self.context not in (None, LOCAL_CONTEXT):
            from schemas.problems.errors.command import CommandError

            hint = f"leave out --context {self.context}, and run it where the repository is"
            raise CommandError(why="this is not done by a server", hint=hint)

        found = open_source(self.directory, self.revision, stores=self.stores, final=acting)
        if self.directory.expanduser().resolve() != found.directory:
            self.notify_user(f"note: the repository is {printable(str(found.directory))}")
        return found

    def repository(self, source: Source | None = None, cache: DocumentCache | None = None) -> Repository:
        """Its documents as the options say: a commit's, or the working files. Raises CannotRead,
        InvalidRepository."""
        source = source or self.source()
        with self._listener().during("reading documents"):
            return source.load(cache)[0]

    def _listener(self) -> ActivityListener:
        from reconciler.workspace.activity import NOBODY_WAITS

        return self.activity or NOBODY_WAITS

    def gate(self, folders: Sequence[Path]) -> TrustGate | None:
        """What commits must pass, where the owner says anything; `folders`: where documents are. Raises
        CannotRead, InvalidRepository."""
        from reconciler.trust.gate import TrustGate
        from reconciler.trust.trust_file import load_trust_settings

        found = load_trust_settings(self.trust, folders)
        return TrustGate(found) if found is not None else None


def _first_problem(error: InvalidRepository) -> str:
    first, *others = error.problems
    more = f" (and {len(others)} more, see `bai validate`)" if others else ""
    return f"{first.place}: {first.code}: {first.message}{more}"
