"""A Typer group that imports a command's module only when that command is run.

Help, completion and suggestions are answered from a table of names and one-line helps, so that they cost no
more than Typer itself.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from bai.cli.completion import GLOBAL_OPTIONS

if TYPE_CHECKING:
    from typer import _click


class Interrupted(Exception):
    """Ctrl-C, where nothing more careful was to be done."""


class LazyGroup(TyperGroup):
    """Commands by name; `modules` maps a name to (module with an `app`, one line of help)."""

    modules: ClassVar[Mapping[str, tuple[str, str]]] = {}

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, (_, line) in self.modules.items():
            self.commands[name] = TyperCommand(name, help=line, rich_markup_mode=None)

    def parse_args(self, ctx: _click.Context, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        # Completion needs no values; reading them would load pydantic.
        values, rest, _ = self.make_parser(ctx).parse_args(args=list(args))
        ctx.meta.setdefault(GLOBAL_OPTIONS, values)
        ctx._protected_args, ctx.args = rest[:1], rest[1:]
        return ctx.args

    def invoke(self, ctx: _click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            # Typer would end with 130, which is left to programs run by `bai exec`.
            raise Interrupted from error

    def resolve_command(
        self, ctx: _click.Context, args: list[str]
    ) -> tuple[str | None, _click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        if name is not None and name in self.modules:
            command = load_command(self.modules[name][0])
            command.name = name
        return name, command, rest


def load_command(module: str) -> _click.Command:
    """The command (or group of commands) that a module defines as `app`."""
    return typer.main.get_command(importlib.import_module(module).app)


def new_app(**options: Any) -> typer.Typer:
    """A Typer app as every command module makes it: plain help, exceptions left to `error_messages`."""
    common: dict[str, Any] = {
        "add_completion": False,
        "rich_markup_mode": None,
        "pretty_exceptions_enable": False,
        "context_settings": {"help_option_names": ["-h", "--help"]},
    }
    return typer.Typer(**{**common, **options})
