"""A Typer group that imports a command's module only when that command is run.

Help, completion and suggestions are answered from a table of names and one-line helps, so that they cost no
more than Typer itself. Typer brings its own Click along and gives its contexts no public type, so that they
stand here as `Any`; of both, only public names are used.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from typing import Any, ClassVar, cast

import typer
from typer.core import TyperCommand, TyperGroup

from bai.cli.completion import GLOBAL_OPTIONS


class Interrupted(Exception):
    """Ctrl-C, where nothing more careful was to be done."""


class LazyGroup(TyperGroup):
    """Commands by name; `modules` maps a name to (module with an `app`, one line of help)."""

    modules: ClassVar[Mapping[str, tuple[str, str]]] = {}

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, (_, line) in self.modules.items():
            self.commands[name] = TyperCommand(name, help=line, rich_markup_mode=None)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        # Completion needs no values; reading them would load pydantic.
        values, rest, _ = self.make_parser(ctx).parse_args(args=list(args))
        ctx.meta.setdefault(GLOBAL_OPTIONS, values)
        ctx.args = rest
        return rest

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            # Typer would end with 130, which is left to programs run by `bai exec`.
            raise Interrupted from error

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        if name is not None and name in self.modules:
            command = load_command(self.modules[name][0])
            command.name = name
        return name, command, rest


@functools.cache
def load_command(module: str) -> TyperCommand | TyperGroup:
    """The command (or group of commands) that a module defines as `app`."""
    found = typer.main.get_command(importlib.import_module(module).app)
    return cast("TyperCommand | TyperGroup", found)


def new_app(**options: Any) -> typer.Typer:
    """A Typer app as every command module makes it: plain help, exceptions left to `error_messages`."""
    common: dict[str, Any] = {
        "add_completion": False,
        "rich_markup_mode": None,
        "pretty_exceptions_enable": False,
        "context_settings": {"help_option_names": ["-h", "--help"]},
    }
    return typer.Typer(**{**common, **options})
