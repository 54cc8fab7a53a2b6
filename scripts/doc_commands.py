"""The page of commands, from the Typer application."""

from __future__ import annotations

import enum
from typing import Any

from doc_text import MADE, escaped

_COMMANDS_HEAD = """\
Options of every command may stand before or after the command's name. `bai --install-completion` sets up your
shell; `bai COMMAND --help` shows the same as this page. Exit codes: 0 done, 1 any error, 2 only for
`bai plan --detailed-exitcode` when there are changes.
"""


def commands_page() -> str:
    """Every command with its arguments and options, from the Typer application."""
    import typer

    from bai.cli.lazy_commands import load_command
    from bai.cli.main import COMMANDS, app

    parts = [MADE, "# Commands\n", _COMMANDS_HEAD, "## Options of every command\n"]
    parts.append(_parameters(typer.main.get_command(app)))
    for name, (module, line) in COMMANDS.items():
        parts += _command(f"bai {name}", load_command(module), line, level=2)
    return "\n".join(parts)


def _command(title: str, command: Any, line: str, level: int) -> list[str]:
    parts = [f"\n{'#' * level} `{title}`\n", _prose(str(command.help or line)), ""]
    parts += [f"```\n{_usage(title, command)}\n```\n", _parameters(command)]
    for name, child in getattr(command, "commands", {}).items():
        parts += _command(f"{title} {name}", child, "", level + 1)
    return parts


def _prose(text: str) -> str:
    """Paragraphs as they are; those that Typer keeps line by line (marked by a backspace) as code."""
    return "\n\n".join(
        _code(part) if part.lstrip().startswith("\b") else part for part in text.split("\n\n")
    ).strip()


def _code(part: str) -> str:
    return f"```console\n{part.replace(chr(8), '').strip()}\n```"


def _usage(title: str, command: Any) -> str:
    options = ["[OPTIONS]"] if any(p.param_type_name == "option" for p in command.params) else []
    arguments = [_argument(p) for p in command.params if p.param_type_name == "argument"]
    children = ["COMMAND ..."] if getattr(command, "commands", None) else []
    return " ".join([title, *options, *arguments, *children])


def _argument(parameter: Any) -> str:
    text = parameter.metavar or str(parameter.name).upper()
    if not parameter.required and not text.startswith("["):
        text = f"[{text}]"
    return text if parameter.nargs == 1 or "..." in text else f"{text}..."


def _parameters(command: Any) -> str:
    """A table, made here rather than by the library, whose wording changes between its versions."""
    left_out = ("help", "install_completion", "show_completion")
    shown = [p for p in command.params if not getattr(p, "hidden", False) and p.name not in left_out]
    rows = [f"| `{_signature(p)}` | {escaped(_meaning(p))} |" for p in shown]
    return "\n".join(["| | |", "|---|---|", *rows]) + "\n" if rows else ""


def _signature(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return _argument(parameter)
    names = ", ".join(sorted(parameter.opts, key=len))
    if parameter.is_flag:
        return names
    return f"{names} {parameter.metavar or '|'.join(_choices(parameter)) or str(parameter.name).upper()}"


def _choices(parameter: Any) -> list[str]:
    """Of an enumeration, wherever this version of the library keeps it."""
    kept = getattr(getattr(parameter, "type", None), "choices", ())
    values = kept or (type(parameter.default) if isinstance(parameter.default, enum.Enum) else ())
    return [str(getattr(choice, "value", choice)) for choice in values]


def _meaning(parameter: Any) -> str:
    text = " ".join(str(getattr(parameter, "help", "") or "").split())
    default = getattr(parameter.default, "value", parameter.default)
    if isinstance(default, str | int) and not isinstance(default, bool) and str(default):
        text += f" Default: `{default}`."
    if getattr(parameter, "envvar", None):
        text += f" Environment: `{parameter.envvar}`."
    return text
