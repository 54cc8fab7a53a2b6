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

from reconciler.trust.values import CommitRefusal
from schemas.files.yaml_reader import MOST_PROBLEMS
from schemas.problems.errors.repository import InvalidRepository
from schemas.problems.problem import Problem, SourceLocation
from schemas.problems.text import printable

FILE_NAME = "CODEOWNERS"
PROBLEM_CODE = "BAI-V094"
MAX_BYTES = 256 << 10
MAX_PATH_BYTES = 1024
MAX_SEGMENT_BYTES = 255
_MAX_STARS = 3
"""Of a pattern, and one step of `**` besides: a path that somebody makes up must not take seconds."""
_WORD = re.compile(r"(?:\\.|\S)+")
_OWNER = re.compile(r"@[\w./-]+|[^\s@]+@[^\s@]+")


@dataclass(frozen=True, slots=True)
class CodeownersRule:
    """One line: who may change what it matches; without owners, everybody."""

    line: int
    pattern: str
    owners: tuple[str, ...]
    regex: re.Pattern[str]

    def matches_path(self, path: str) -> bool:
        found = self.regex.match(path)
        deeper = found is not None and found.groupdict().get("ps_d") is not None
        return found is not None and not (deeper and self.pattern.endswith("/*"))


def parse_codeowners(data: bytes, file: str = FILE_NAME) -> tuple[CodeownersRule, ...]:
    """Raises InvalidRepository with every mistake."""
    found: list[CodeownersRule] = []
    problems: list[Problem] = []
    lines: list[str] = []
    try:
        if len(data) > MAX_BYTES:
            problems.append(
                _problem(file, 1, 1, f"it has more than {MAX_BYTES >> 10} KiB", "make it smaller")
            )
        else:
            lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        problems.append(_problem(file, 1, 1, "it is not UTF-8", "save it as UTF-8"))
    for number, line in enumerate(lines, 1):
        words = [(match.start() + 1, match.group()) for match in _WORD.finditer(line)]
        end = next((at for at, (_, word) in enumerate(words) if word.startswith("#")), len(words))
        if end:
            (_, pattern), owners = words[0], tuple(word for _, word in words[1:end])
            wrong = _find_mistake(words[:end])
            compiled = None if wrong else _compile_pattern(pattern)
            if compiled is not None:
                found.append(CodeownersRule(number, pattern, owners, compiled))
            else:
                column, *why = wrong or (1, f"`{printable(pattern)}` matches nothing", "write `*` for all")
                problems.append(_problem(file, number, column, *why))
    if problems:
        raise InvalidRepository(tuple(problems[:MOST_PROBLEMS]), where=file)
    return tuple(found)


def _find_mistake(words: list[tuple[int, str]]) -> tuple[int, str, str] | None:
    """Column, what is wrong and what would be right."""
    column, pattern = words[0]
    if pattern.startswith(("!", "[", "^[")) or "[" in pattern:
        hint = "write a line for each pattern"
        return column, f"`{printable(pattern)}`: neither sections nor `!` nor `[ ]` are known", hint
    steps = pattern.split("/")
    stars = sum(step.count("*") for step in steps if step != "**")
    if stars > _MAX_STARS or steps.count("**") > 1:
        return column, f"more than {_MAX_STARS} stars, or one step of `**`", "make it simpler"
    for at, owner in words[1:]:
        if not _OWNER.fullmatch(owner):
            return at, f"`{printable(owner)}` is no owner", "write an e-mail address, or @team"
    return None


def _compile_pattern(pattern: str) -> re.Pattern[str] | None:
    try:
        made = GitIgnoreSpecPattern(pattern).regex
    except ValueError:
        return None
    if made is None or not isinstance(made.pattern, str):
        return None
    # `$` would also fit before a line's end that is a part of the name.
    return re.compile(made.pattern.replace("$)", r"\Z)"), re.DOTALL)


def check_ownership(
    changes: Iterable[tuple[str, str, Iterable[bytes]]],
    known: tuple[CodeownersRule, ...],
    teams: Mapping[str, frozenset[str]],
) -> list[CommitRefusal]:
    """What is not theirs who changed it: commits with who answers for them (an e-mail address) and the paths
    that they change. A path that no rule matches is nobody's."""
    counts: dict[str, CodeownersRule | None] = {}
    found: list[CommitRefusal] = []
    for commit, who, paths in changes:
        for raw in sorted(paths):
            path = os.fsdecode(raw)
            if _is_unownable(raw, path):
                found.append(
                    CommitRefusal(
                        commit, "nobody can own a path with such letters, or so long", _printable_path(path)
                    )
                )
                continue
            if path not in counts:
                counts[path] = next((rule for rule in reversed(known) if rule.matches_path(path)), None)
            if why := _ownership_violation(who, counts[path], teams):
                found.append(CommitRefusal(commit, why, path))
    return found


def _is_unownable(raw: bytes, path: str) -> bool:
    """Whether no file has such a name, or none that can be shown as it is."""
    longest = max(map(len, raw.split(b"/")))
    return len(raw) > MAX_PATH_BYTES or longest > MAX_SEGMENT_BYTES or printable(path) != path


def _ownership_violation(who: str, rule: CodeownersRule | None, teams: Mapping[str, frozenset[str]]) -> str:
    if rule is None:
        return f"it is nobody's (no pattern of {FILE_NAME} matches it), and {printable(who)} changed it"
    known = {each for owner in rule.owners for each in _owner_emails(owner, teams)}
    if not rule.owners or who in known:
        return ""
    whose = ", ".join(rule.owners)
    return f"it is owned by {whose} ({FILE_NAME}:{rule.line}), and {printable(who)} changed it"


def _owner_emails(owner: str, teams: Mapping[str, frozenset[str]]) -> Iterable[str]:
    return teams.get(owner, ()) if owner.startswith("@") else (owner,)


def _printable_path(path: str) -> str:
    return printable(path)[:80]


def _problem(file: str, line: int, column: int, message: str, hint: str) -> Problem:
    return Problem(SourceLocation(file, line, column), PROBLEM_CODE, "", message, hint)
