"""Whose the paths of a repository are: a file in the format of `CODEOWNERS`. Pure.

Patterns are git's, and the last one that matches counts. As on forges, `docs/*` means the files of a folder
and not what lies deeper, and there are neither `!` nor `[ ]`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

from reconciler.trust.values import Refusal
from schemas.files.reading import MOST_PROBLEMS
from schemas.problems.errors import InvalidRepository, Place, Problem
from schemas.problems.text import printable

NAME = "CODEOWNERS"
CODE = "BAI-V094"
LARGEST = 256 << 10
LONGEST_PATH = 1024
LONGEST_STEP = 255
_MOST_STARS = 3
"""Of a pattern, and one step of `**` besides: a path that somebody makes up must not take seconds."""
_WORD = re.compile(r"(?:\\.|\S)+")
_OWNER = re.compile(r"@[\w./-]+|[^\s@]+@[^\s@]+")


@dataclass(frozen=True, slots=True)
class Rule:
    """One line: who may change what it matches; without owners, everybody."""

    line: int
    pattern: str
    owners: tuple[str, ...]
    matches: re.Pattern[str]

    def fits(self, path: str) -> bool:
        found = self.matches.match(path)
        deeper = found is not None and found.groupdict().get("ps_d") is not None
        return found is not None and not (deeper and self.pattern.endswith("/*"))


def rules(data: bytes, file: str = NAME) -> tuple[Rule, ...]:
    """Raises InvalidRepository with every mistake."""
    found: list[Rule] = []
    problems: list[Problem] = []
    lines: list[str] = []
    try:
        if len(data) > LARGEST:
            problems.append(_problem(file, 1, 1, f"it has more than {LARGEST >> 10} KiB", "make it smaller"))
        else:
            lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        problems.append(_problem(file, 1, 1, "it is not UTF-8", "save it as UTF-8"))
    for number, line in enumerate(lines, 1):
        words = [(match.start() + 1, match.group()) for match in _WORD.finditer(line)]
        end = next((at for at, (_, word) in enumerate(words) if word.startswith("#")), len(words))
        if end:
            (_, pattern), owners = words[0], tuple(word for _, word in words[1:end])
            wrong = _wrong(words[:end])
            compiled = None if wrong else _compiled(pattern)
            if compiled is not None:
                found.append(Rule(number, pattern, owners, compiled))
            else:
                column, *why = wrong or (1, f"`{printable(pattern)}` matches nothing", "write `*` for all")
                problems.append(_problem(file, number, column, *why))
    if problems:
        raise InvalidRepository(tuple(problems[:MOST_PROBLEMS]), where=file)
    return tuple(found)


def _wrong(words: list[tuple[int, str]]) -> tuple[int, str, str] | None:
    """Column, what is wrong and what would be right."""
    column, pattern = words[0]
    if pattern.startswith(("!", "[", "^[")) or "[" in pattern:
        hint = "write a line for each pattern"
        return column, f"`{printable(pattern)}`: neither sections nor `!` nor `[ ]` are known", hint
    steps = pattern.split("/")
    stars = sum(step.count("*") for step in steps if step != "**")
    if stars > _MOST_STARS or steps.count("**") > 1:
        return column, f"more than {_MOST_STARS} stars, or one step of `**`", "make it simpler"
    for at, owner in words[1:]:
        if not _OWNER.fullmatch(owner):
            return at, f"`{printable(owner)}` is no owner", "write an e-mail address, or @team"
    return None


def _compiled(pattern: str) -> re.Pattern[str] | None:
    try:
        made = GitIgnoreSpecPattern(pattern).regex
    except ValueError:
        return None
    if made is None or not isinstance(made.pattern, str):
        return None
    # `$` would also fit before a line's end that is a part of the name.
    return re.compile(made.pattern.replace("$)", r"\Z)"), re.DOTALL)


def refusals(
    changes: Iterable[tuple[str, str, Iterable[bytes]]],
    rules: tuple[Rule, ...],
    teams: Mapping[str, frozenset[str]],
) -> list[Refusal]:
    """What is not theirs who changed it: commits with who answers for them (an e-mail address) and the paths
    that they change. A path that no rule matches is nobody's."""
    counts: dict[str, Rule | None] = {}
    found: list[Refusal] = []
    for commit, who, paths in changes:
        for raw in sorted(paths):
            path = os.fsdecode(raw)
            if _impossible(raw, path):
                found.append(
                    Refusal(commit, "nobody can own a path with such letters, or so long", _short(path))
                )
                continue
            if path not in counts:
                counts[path] = next((rule for rule in reversed(rules) if rule.fits(path)), None)
            if why := _why_not(who, counts[path], teams):
                found.append(Refusal(commit, why, path))
    return found


def _impossible(raw: bytes, path: str) -> bool:
    """Whether no file has such a name, or none that can be shown as it is."""
    longest = max(map(len, raw.split(b"/")))
    return len(raw) > LONGEST_PATH or longest > LONGEST_STEP or printable(path) != path


def _why_not(who: str, rule: Rule | None, teams: Mapping[str, frozenset[str]]) -> str:
    if rule is None:
        return f"it is nobody's (no pattern of {NAME} matches it), and {printable(who)} changed it"
    known = {each for owner in rule.owners for each in _people(owner, teams)}
    if not rule.owners or who in known:
        return ""
    whose = ", ".join(rule.owners)
    return f"it is owned by {whose} ({NAME}:{rule.line}), and {printable(who)} changed it"


def _people(owner: str, teams: Mapping[str, frozenset[str]]) -> Iterable[str]:
    return teams.get(owner, ()) if owner.startswith("@") else (owner,)


def _short(path: str) -> str:
    return printable(path)[:80]


def _problem(file: str, line: int, column: int, message: str, hint: str) -> Problem:
    return Problem(Place(file, line, column), CODE, "", message, hint)
