"""Whether a commit may be followed: signatures and ownership of all that is new in it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from reconciler.trust.history import MOST, between, changed, commits, file_at
from reconciler.trust.owners import NAME, refusals, rules
from reconciler.trust.settings import Settings
from reconciler.trust.signatures import Verifier
from reconciler.trust.values import Commit, Refusal, Trust, Verified
from schemas.errors import InvalidRepository, NotTrusted

SHOWN = 5
"""Refusals that are told of one commit."""


class Gate:
    """The owner's settings, and what they came to last. May be used by several threads."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._alone = threading.Lock()
        self._last: tuple[object, NotTrusted | None] | None = None

    def check(self, folder: Path, tip: str, base: str = "") -> None:
        """`folder`: of the repository; `base`: the last commit that passed, empty when none did. Raises
        NotTrusted; CannotRead and InvalidRepository where the settings or the commits cannot be read.

        What it came to last is not found out again before the settings change.
        """
        with self._alone:
            if self._last is None or self._last[0] != (tip, base, self._settings.stamp()):
                found = judged(folder, self._settings.current(), tip, base)
                error = NotTrusted(revision=tip[:12], why=_words(found)) if found else None
                self._last = ((tip, base, self._settings.stamp()), error)
            if self._last[1] is not None:
                raise self._last[1]

    def refusals(self, folder: Path, tip: str, base: str) -> tuple[Refusal, ...]:
        """As `check`, as values. Raises CannotRead, InvalidRepository."""
        with self._alone:
            return tuple(judged(folder, self._settings.current(), tip, base))


def judged(folder: Path, trust: Trust, tip: str, base: str) -> list[Refusal]:
    """What keeps `tip` from being followed where `base` was; empty when nothing does.

    Without a base nothing is known of who owns what, nor where to begin: the tip alone must be signed, and
    whoever signs it answers for what it rests on. Raises CannotRead.
    """
    names = between(folder, base, tip) if base else [tip]
    if len(names) > MOST:
        return [Refusal(tip, f"more than {MOST} commits are new; push them in smaller steps")]
    found, refused = commits(folder, names)
    if refused:
        return refused
    verified: dict[str, str] = {}
    if trust.commits != "none" and found:
        wanted = found if trust.commits == "each" else [one for one in found if one.name == tip]
        with Verifier(trust) as verifier:
            outcomes = verifier.verify(wanted)
        verified = {one.commit: one.signer for one in outcomes if isinstance(one, Verified)}
        if refused := [one for one in outcomes if isinstance(one, Refusal)]:
            return refused
    return _owned(folder, trust, found, verified, tip, base) if trust.teams is not None and found else []


def _owned(
    folder: Path, trust: Trust, found: Sequence[Commit], verified: dict[str, str], tip: str, base: str
) -> list[Refusal]:
    """By the rules of the base: nobody makes himself an owner. A commit whose own rules cannot be understood
    would leave nobody able to change anything."""
    assert trust.teams is not None
    if (data := file_at(folder, tip, NAME)) is not None:
        try:
            rules(data)
        except InvalidRepository as error:
            return [Refusal(tip, str(problem)) for problem in error.problems]
    before = file_at(folder, base, NAME) if base else None
    if before is None:
        return []
    changes = zip(found, changed(folder, found), strict=True)
    return refusals(
        [(one.name, verified.get(one.name, one.author), paths) for one, paths in changes],
        rules(before), trust.teams,
    )  # fmt: skip


def _words(found: Sequence[Refusal]) -> str:
    more = len(found) - SHOWN
    shown = "; ".join(map(str, found[:SHOWN]))
    return f"{shown}; and {more} more" if more > 0 else shown
