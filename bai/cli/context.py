"""The global options, as commands get them: `ctx.obj`."""

from __future__ import annotations

from dataclasses import replace

import typer

from bai.settings import Settings


def settings_of(ctx: typer.Context) -> Settings:
    """The settings that the main callback left in the context."""
    found = ctx.find_object(Settings)
    return found if found is not None else Settings()


def waiting_settings(ctx: typer.Context) -> Settings:
    """The same for a command whose user waits for its answer, and is told what it is at."""
    return with_notice(settings_of(ctx))


def with_notice(settings: Settings) -> Settings:
    from bai.cli.waiting_notice import waiting_notice

    notice = waiting_notice()
    return settings if notice is None else replace(settings, activity=notice)
