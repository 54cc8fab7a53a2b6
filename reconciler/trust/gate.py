"""Whether a commit may be followed: signatures and ownership of all that is new in it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from reconciler.trust.codeowners import FILE_NAME, CodeownersRule, check_ownership, parse_codeowners
from reconciler.trust.commit_history import (
    MAX_COMMITS,
    changed_paths,
    commits_between,
    descends_from,
    differing_paths,
    read_commits,
    read_file_at,
)
from reconciler.trust.signatures import SignatureVerifier
from reconciler.trust.trust_file import TrustSettings
from reconciler.trust.values import Commit, CommitRefusal, TrustPolicy, VerifiedCommit
from schemas.problems.errors.git_remote import NotTrusted
from schemas.problems.errors.repository import InvalidRepository

MAX_SHOWN_REFUSALS = 5
"""Refusals that are told of one commit."""
_REPAIR_HINT = "to repair it, take `owners` out of the owner's file for one commit"


class TrustGate:
    """The owner's settings, and what they came to last. May be used by several threads."""

    def __init__(self, settings: TrustSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._last: tuple[object, NotTrusted | None] | None = None
        self._stamp: object = None
        self._signers: dict[str, str] = {}
        """Who signed what was verified under these settings."""

    def check(self, folder: Path, tip: str, base: str = "") -> None:
        """`folder`: of the repository; `base`: the last commit that passed, empty when none did. Raises
        NotTrusted; CannotRead and InvalidRepository where the settings or the commits cannot be read.

        What it came to last is not found out again before the settings change.
        """
        with self._lock:
            if self._last is None or self._last[0] != (tip, base, self._settings.stamp()):
                found = self._judge(folder, tip, base)
                error = NotTrusted(revision=tip[:12], why=_refusals_text(found)) if found else None
                self._last = ((tip, base, self._settings.stamp()), error)
            if self._last[1] is not None:
                raise self._last[1]

    def refusals(self, folder: Path, tip: str, base: str) -> tuple[CommitRefusal, ...]:
        """As `check`, as values. Raises CannotRead, InvalidRepository."""
        with self._lock:
            return tuple(self._judge(folder, tip, base))

    def _judge(self, folder: Path, tip: str, base: str) -> list[CommitRefusal]:
        trust = self._settings.current()
        if self._stamp != self._settings.stamp() or len(self._signers) > MAX_COMMITS:
            self._stamp, self._signers = self._settings.stamp(), {}
        return judge_commits(folder, trust, tip, base, self._signers)


def judge_commits(
    folder: Path, trust: TrustPolicy, tip: str, base: str, signers: dict[str, str]
) -> list[CommitRefusal]:
    """What keeps `tip` from being followed where `base` was; empty when nothing does. `signers`: of commits
    that need not be verified again, to which those are added that are.

    Without a base nothing is known of who owns what, nor where to begin: the tip alone must be signed, and
    whoever signs it answers for what it rests on. Raises CannotRead.
    """
    names = commits_between(folder, base, tip) if base else [tip]
    if len(names) > MAX_COMMITS:
        return [CommitRefusal(tip, f"more than {MAX_COMMITS} commits are new; push them in smaller steps")]
    found, refused = read_commits(folder, names)
    if refused:
        return refused
    if trust.commits != "none":
        wanted = [one for one in found if trust.commits == "each" or one.name == tip]
        if refused := _verify_signatures(trust, [one for one in wanted if one.name not in signers], signers):
            return refused
    if trust.teams is None or not found:
        return []
    by = {one.name: one.author if trust.commits == "none" else signers[one.name] for one in found}
    return _check_ownership(folder, trust.teams, found, by, tip, base)


def _verify_signatures(
    trust: TrustPolicy, wanted: Sequence[Commit], signers: dict[str, str]
) -> list[CommitRefusal]:
    if not wanted:
        return []
    with SignatureVerifier(trust) as verifier:
        outcomes = verifier.verify(wanted)
    signers.update((one.commit, one.signer) for one in outcomes if isinstance(one, VerifiedCommit))
    return [one for one in outcomes if isinstance(one, CommitRefusal)]


def _check_ownership(
    folder: Path,
    teams: Mapping[str, frozenset[str]],
    found: Sequence[Commit],
    by: Mapping[str, str],
    tip: str,
    base: str,
) -> list[CommitRefusal]:
    """By the rules of the base: nobody makes himself an owner. A tip whose own rules cannot be understood
    would leave nobody able to change anything. A tip that does not rest on the base takes away what it lacks:
    all that differs is its signer's change."""
    _, wrong = _read_codeowners(folder, tip)
    known, unclear = _read_codeowners(folder, base) if base else (None, [])
    if wrong or unclear:
        return [*wrong, *(replace(one, why=f"{one.why}; {_REPAIR_HINT}") for one in unclear)]
    if known is None:
        return []
    changes = [
        (each.name, by[each.name], paths)
        for each, paths in zip(found, changed_paths(folder, found), strict=True)
    ]
    if not descends_from(folder, tip, base):
        changes.append((tip, by[tip], differing_paths(folder, tip, base)))
    return check_ownership(changes, known, teams)


def _read_codeowners(
    folder: Path, commit: str
) -> tuple[tuple[CodeownersRule, ...] | None, list[CommitRefusal]]:
    """Those of a commit, None where it has none, and what is wrong with them."""
    try:
        data = read_file_at(folder, commit, FILE_NAME)
        return (parse_codeowners(data) if data is not None else None), []
    except ValueError as error:
        return None, [CommitRefusal(commit, str(error))]
    except InvalidRepository as error:
        return None, [CommitRefusal(commit, str(problem)) for problem in error.problems]


def _refusals_text(found: Sequence[CommitRefusal]) -> str:
    more = len(found) - MAX_SHOWN_REFUSALS
    shown = "; ".join(map(str, found[:MAX_SHOWN_REFUSALS]))
    return f"{shown}; and {more} more" if more > 0 else shown
