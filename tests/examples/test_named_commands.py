"""Commands and options that the pages name are those that there are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from bai.cli.lazy_commands import load_command
from bai.cli.main import COMMANDS, app

ROOT = Path(__file__).parents[2]
PAGES = [*sorted((ROOT / "docs").glob("*.md")), *ROOT.glob("[A-Z]*.md")]
FENCED = re.compile(r"```\w*\n.*?```", re.DOTALL)
INLINE = re.compile(r"`bai ([^`]+)`")
STATEMENT = re.compile(r"\n|; | \|\|? | && |\$\(")
TYPED = re.compile(r"\s*(?:\$ )?(?:\w+=\S+ )*(?:sudo |if |do )?bai (.+)")
INDENTED = re.compile(r"(?<=\n\n)(?: {4}.*\n)+")
OPTION = re.compile(r"-[a-zA-Z]|--[a-z][a-z-]+")
WORD = re.compile(r"[a-z][a-z-]*")
END = {"&", ">", "<", "#", "--"}


def written(text: str) -> Iterator[str]:
    """What follows the word `bai`: in a line that is typed, or between backticks."""
    blocks = [*FENCED.findall(text), *INDENTED.findall(FENCED.sub("", text))]
    for block in blocks:
        if not block.startswith(("```yaml", "```ini", "```json")):
            typed = [TYPED.fullmatch(each) for each in STATEMENT.split(block.replace("\\\n", " "))]
            yield from (found[1] for found in typed if found and not said(found[1]))
    yield from (found.replace("\n", " ") for found in INLINE.findall(FENCED.sub("", text)))


def said(line: str) -> bool:
    """Output, not input: `bai plan: cluster here, working files ...`."""
    return line.partition(" ")[0].endswith(":")


def options_of(command: Any) -> set[str]:
    return {name for each in command.params for name in (*each.opts, *each.secondary_opts)} | {"-h", "--help"}


@cache
def top() -> tuple[set[str], dict[str, Any]]:
    """Options of every command, and the commands."""
    commands = {name: load_command(module) for name, (module, _) in COMMANDS.items()}
    return options_of(typer.main.get_command(app)), commands


def unknown(line: str) -> list[str]:
    """Words of a command line that are no command, or no option of it."""
    allowed, children = top()
    wrong: list[str] = []
    for word in re.split(r"[\s\[\]=,]+", line):
        if word in END:
            break
        if OPTION.fullmatch(word) and word not in allowed:
            wrong.append(word)
        elif children and WORD.fullmatch(word):
            if word not in children:
                return [word]
            place = children[word]
            allowed, children = allowed | options_of(place), getattr(place, "commands", {})
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_names_is_there(page: Path) -> None:
    lines = list(written(page.read_text("utf-8")))
    assert {line: unknown(line) for line in lines if unknown(line)} == {}


def test_what_is_not_there_is_found() -> None:
    text = "`bai plan --observe`\n\n    $ bai applu --yes\n\n```sh\nbai nodes get; bai plan --out f\n```\n"
    assert [unknown(line) for line in written(text)] == [["get"], [], ["applu"], ["--observe"]]
