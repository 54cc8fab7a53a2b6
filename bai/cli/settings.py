"""What the options before the command say, handed to every command as `ctx.obj`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from reconciler.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Settings:
    """The options that every command shares."""

    directory: Path = Path(".")
    cluster: str | None = None
    state: str | None = None
    """File or URL of the store."""
    revision: str | None = None
    color: bool | None = None
    """None lets the terminal decide."""
    verbose: bool = False

    def workspace(self) -> Workspace:
        """The repository with its store and provider.

        Raises BaiError (InvalidRepository, CannotRead, StoreError) when it cannot be opened.
        """
        from reconciler.workspace import Workspace

        return Workspace.open(self.directory, revision=self.revision, cluster=self.cluster, state=self.state)


def settings_of(ctx: typer.Context) -> Settings:
    """The settings that the main callback left in the context."""
    found = ctx.find_object(Settings)
    return found if found is not None else Settings()
