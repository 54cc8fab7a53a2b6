"""Whether a commit may be followed: signatures and ownership of all that is new in it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from reconciler.trust.codeowners import NAME, Rule, refusals, rules
from reconciler.trust.commit_history import MOST, between, changed, commits, differing, file_at, rests_on
from reconciler.trust.signatures import Verifier
from reconciler.trust.trust_file import Settings
from reconciler.trust.values import Commit, Refusal, Trust, Verified
from schemas.problems.errors import InvalidRepository, NotTrusted

SHOWN = 5
"""Refusals that are told of one commit."""
_REPAIR = "to repair it, take `owners` out of the owner's file for one commit"


class Gate:
    """The owner's settings, and what they came to last. May be used by several threads."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._alone = threading.Lock()
        self._last: tuple[object, NotTrusted | None] | None = None
        self._stamp: object = None
        self._signers: dict[str, str] = {}
        """Who signed what was verified under these settings."""

    def check(self, folder: Path, tip: str, base: str = "") -> None:
        """`folder`: of the repository; `base`: the last commit that passed, empty when none did. Raises
        NotTrusted; CannotRead and InvalidRepository where the settings or the commits cannot be read.

        What it came to last is not found out again before the settings change.
        """
        with self._alone:
            if self._last is None or self._last[0] != (tip, base, self._settings.stamp()):
                found = self._judged(folder, tip, base)
                error = NotTrusted(revision=tip[:12], why=_words(found)) if found else None
                self._last = ((tip, base, self._settings.stamp()), error)
            if self._last[1] is not None:
                raise self._last[1]

    def refusals(self, folder: Path, tip: str, base: str) -> tuple[Refusal, ...]:
        """As `check`, as values. Raises CannotRead, InvalidRepository."""
        with self._alone:
            return tuple(self._judged(folder, tip, base))

    def _judged(self, folder: Path, tip: str, base: str) -> list[Refusal]:
        trust = self._settings.current()
        if self._stamp != self._settings.stamp() or len(self._signers) > MOST:
            self._stamp, self._signers = self._settings.stamp(), {}
        return judged(folder, trust, tip, base, self._signers)


def judged(folder: Path, trust: Trust, tip: str, base: str, signers: dict[str, str]) -> list[Refusal]:
    """What keeps `tip` from being followed where `base` was; empty when nothing does. `signers`: of commits
    that need not be verified again, to which those are added that are.

    Without a base nothing is known of who owns what, nor where to begin: the tip alone must be signed, and
    whoever signs it answers for what it rests on. Raises CannotRead.
    """
    names = between(folder, base, tip) if base else [tip]
    if len(names) > MOST:
        return [Refusal(tip, f"more than {MOST} commits are new; push them in smaller steps")]
    found, refused = commits(folder, names)
    if refused:
        return refused
    if trust.commits != "none":
        wanted = [one for one in found if trust.commits == "each" or one.name == tip]
        if refused := _unsigned(trust, [one for one in wanted if one.name not in signers], signers):
            return refused
    if trust.teams is None or not found:
        return []
    by = {one.name: one.author if trust.commits == "none" else signers[one.name] for one in found}
    return _owned(folder, trust.teams, found, by, tip, base)


def _unsigned(trust: Trust, wanted: Sequence[Commit], signers: dict[str, str]) -> list[Refusal]:
    if not wanted:
        return []
    with Verifier(trust) as verifier:
        outcomes = verifier.verify(wanted)
    signers.update((one.commit, one.signer) for one in outcomes if isinstance(one, Verified))
    return [one for one in outcomes if isinstance(one, Refusal)]


def _owned(
    folder: Path,
    teams: Mapping[str, frozenset[str]],
    found: Sequence[Commit],
    by: Mapping[str, str],
    tip: str,
    base: str,
) -> list[Refusal]:
    """By the rules of the base: nobody makes himself an owner. A tip whose own rules cannot be understood
    would leave nobody able to change anything. A tip that does not rest on the base takes away what it lacks:
    all that differs is its signer's change."""
    _, wrong = _rules(folder, tip)
    known, unclear = _rules(folder, base) if base else (None, [])
    if wrong or unclear:
        return [*wrong, *(replace(one, why=f"{one.why}; {_REPAIR}") for one in unclear)]
    if known is None:
        return []
    changes = [
        (each.name, by[each.name], paths) for each, paths in zip(found, changed(folder, found), strict=True)
    ]
    if not rests_on(folder, tip, base):
        changes.append((tip, by[tip], differing(folder, tip, base)))
    return refusals(changes, known, teams)


def _rules(folder: Path, commit: str) -> tuple[tuple[Rule, ...] | None, list[Refusal]]:
    """Those of a commit, None where it has none, and what is wrong with them."""
    try:
        data = file_at(folder, commit, NAME)
        return (rules(data) if data is not None else None), []
    except ValueError as error:
        return None, [Refusal(commit, str(error))]
    except InvalidRepository as error:
        return None, [Refusal(commit, str(problem)) for problem in error.problems]


def _words(found: Sequence[Refusal]) -> str:
    more = len(found) - SHOWN
    shown = "; ".join(map(str, found[:SHOWN]))
    return f"{shown}; and {more} more" if more > 0 else shown
