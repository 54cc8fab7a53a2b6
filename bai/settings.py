"""What the options before the command say: which repository, cluster, store and commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reconciler.sources.source import Source
    from reconciler.trust.gate import TrustGate
    from reconciler.workspace.workspace import Workspace
    from schemas.repository.repository import Repository


@dataclass(frozen=True, slots=True)
class Settings:
    """The options that every command shares."""

    directory: Path = Path(".")
    cluster: str | None = None
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

    def workspace(self, *, acting: bool = False) -> Workspace:
        """The repository with its store and provider; `acting`: secrets will be needed, so that stores of
        secrets which are declared nowhere are a mistake.

        Raises BaiError (InvalidRepository, CannotRead, StoreError) when it cannot be opened.
        """
        from reconciler.workspace.workspace import Workspace

        return Workspace.at(self.source(acting=acting), cluster=self.cluster, state=self.state)

    def source(self, *, acting: bool = False) -> Source:
        """Where the documents are. Raises CannotRead, InvalidRepository."""
        from reconciler.sources.source import open_source

        return open_source(self.directory, self.revision, stores=self.stores, final=acting)

    def repository(self) -> Repository:
        """Its documents as the options say: a commit's, or the working files. Raises CannotRead,
        InvalidRepository."""
        return self.source().load()[0]

    def gate(self, folders: Sequence[Path]) -> TrustGate | None:
        """What commits must pass, where the owner says anything; `folders`: where documents are. Raises
        CannotRead, InvalidRepository."""
        from reconciler.trust.gate import TrustGate
        from reconciler.trust.trust_file import load_trust_settings

        found = load_trust_settings(self.trust, folders)
        return TrustGate(found) if found is not None else None
