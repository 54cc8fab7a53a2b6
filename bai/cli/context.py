"""The global options, as commands get them: `ctx.obj`."""

from __future__ import annotations

import typer

from bai.settings import Settings


def settings_of(ctx: typer.Context) -> Settings:
    """The settings that the main callback left in the context."""
    found = ctx.find_object(Settings)
    return found if found is not None else Settings()
