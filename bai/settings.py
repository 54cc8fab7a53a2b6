"""What the options before the command say, handed to every command as `ctx.obj`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from reconciler.sources.source import Source
    from reconciler.trust.gate import Gate
    from reconciler.workspace.workspace import Workspace


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

    def gate(self, folders: Sequence[Path]) -> Gate | None:
        """What commits must pass, where the owner says anything; `folders`: where documents are. Raises
        CannotRead, InvalidRepository."""
        from reconciler.trust.gate import Gate
        from reconciler.trust.trust_file import settings

        found = settings(self.trust, folders)
        return Gate(found) if found is not None else None


def settings_of(ctx: typer.Context) -> Settings:
    """The settings that the main callback left in the context."""
    found = ctx.find_object(Settings)
    return found if found is not None else Settings()
