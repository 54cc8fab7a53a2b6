"""Command lines that the pages show are such that the command takes them: its own parser reads each."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer

from bai.cli.global_options import move_global_options_first
from bai.cli.main import app

ROOT = Path(__file__).parents[2]
PAGES = [
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted(ROOT.glob("[A-Z]*.md")),
    *sorted(path for folder in ("examples", "roles", "deploy") for path in (ROOT / folder).rglob("*.md")),
]
FENCED = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)
INLINE = re.compile(r"`bai ([^`]+)`")
STATEMENT = re.compile(r"\n|; | \|\|? | && |\$\(")
TYPED = re.compile(r"\s*(?:\$ )?(?:\w+=\S+ )*(?:sudo |if |do )?bai (.+)")
INDENTED = re.compile(r"(?<=\n\n)(?: {4}.*\n)+")
REDIRECTION = re.compile(r"(?<=\s)\d?(?:>>?\s*(?:&\d|\S+)|<\s*\S+)|\s&$")
SYNOPSIS = re.compile(r"\[|COMMAND")
CHOICE = re.compile(r"(?<=[a-z])\|[a-z|]+")
REMARK = re.compile(r" {2,}[^-\"'].*")
NOT_TYPED = {"yaml", "ini", "json", "toml"}
EAGER = {"--help", "-h", "--version", "--install-completion"}
"""Options at which the parser acts, and reads no further."""


class Line(NamedTuple):
    """What follows the word `bai`. `whole`: it is typed so; else it may be the beginning of a command, or
    say with brackets and `|` what may be left out or chosen."""

    text: str
    whole: bool

    def words(self) -> list[str]:
        if self.whole:
            text = REMARK.sub("", REDIRECTION.sub("", self.text))
            if text.count("(") < text.count(")"):  # The end of `"$(bai ...)"`.
                text = text.rstrip(')"')
            return shlex.split(text, comments=True)
        words = CHOICE.sub("", re.sub(r"[][]|\.\.\.|OPTIONS", "", self.text)).partition("COMMAND")[0]
        return shlex.split(words.replace("\n", " "))


def written(text: str) -> Iterator[Line]:
    """In blocks of lines that are typed, and between backticks."""
    rest = FENCED.sub("", text)
    blocks = [*FENCED.findall(text), *(("", block) for block in INDENTED.findall(rest))]
    for language, block in blocks:
        if language in NOT_TYPED:
            continue
        for statement in STATEMENT.split(block.replace("\\\n", " ")):
            found = TYPED.fullmatch(statement)
            if found and not said(found[1]) and (language != "text" or "$ " in statement):
                yield Line(found[1], whole=not SYNOPSIS.search(found[1]))
    yield from (Line(found, whole=False) for found in INLINE.findall(rest))


def said(line: str) -> bool:
    """Output, not input: `bai plan: cluster here, working files ...`."""
    return line.partition(" ")[0].endswith(":")


_OPEN = re.compile(r"Missing|Option .* requires an argument|Invalid value for '[A-Z]+'")
"""What is refused of a line that leaves open what stands in a place."""


@cache
def top() -> Any:
    return typer.main.get_command(app)


def refusal(line: Line) -> str:
    """Why the parser does not take it; empty when it does."""
    words = line.words()
    if words[:1] and words[0] in EAGER:
        return ""
    command, name, context = top(), "bai", None
    rest: Sequence[str] = move_global_options_first(words)
    try:
        while rest or not hasattr(command, "resolve_command"):
            context = command.make_context(name, list(rest), parent=context)
            if not hasattr(command, "resolve_command"):
                return ""
            rest = [*context._protected_args, *context.args]
            if rest:
                name, command, rest = command.resolve_command(context, rest)
    except typer._click.exceptions.ClickException as error:  # type: ignore[attr-defined]
        why = error.format_message()
        return "" if not line.whole and _OPEN.match(why) else why
    return "" if command.invoke_without_command or not line.whole else "it names no command of this group"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_types_is_taken(page: Path) -> None:
    lines = list(written(page.read_text("utf-8")))
    assert {line: why for line in lines if (why := refusal(line))} == {}


def test_there_are_lines_to_try() -> None:
    found = [line for page in PAGES for line in written(page.read_text("utf-8"))]
    assert sum(line.whole for line in found) > 150 and sum(not line.whole for line in found) > 300


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("`bai plan --observe`", "No such option: --observe"),
        ("    $ bai applu --yes", "No such command 'applu'"),
        ("```sh\nbai nodes get\n```", "No such command 'get'"),
        ("```sh\nbai state\n```", "it names no command of this group"),
        ("```sh\nbai plan; bai explain | head\n```", "Missing argument 'SESSION'"),
        ("```sh\nbai logs x --tail many 2>&1\n```", "Invalid value for '--tail'"),
        ("```sh\nif bai status --offline > ~/x; then\n```", "No such option: --offline"),
        ("```text\n$ bai get one two three\n```", "unexpected extra argument"),
        ("`bai reconcile [DIR] [--mode auto|never] [--sometimes]`", "No such option: --sometimes"),
    ],
)
def test_what_is_not_taken_is_found(text: str, why: str) -> None:
    refused = [refusal(line) for line in written(f"\n\n{text}\n")]
    assert any(why in each for each in refused), refused


def test_what_is_taken_is_not_found() -> None:
    text = """`bai explain`, `bai state`, `bai apply --reviewed`, `bai reconcile [DIR] [--mode auto|observe]`

```sh
x=$(bai get sessions -C "a b" --format json) && bai logs hello > ~/log &
bai nodes list  # all of them
bai exec hello -- sh -c 'echo "$HOME"'
```
```text
bai apply would create it
```
"""
    lines = list(written(text))
    assert len(lines) == 8 and [refusal(line) for line in lines] == [""] * 8
