"""What guards find, as values that are part of a plan."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    """Why a plan is not carried out. Made by `judge`, read by apply, the loop and rendering."""

    policy: str
    """Name of the Policy; empty for the annotation `bai/protect`."""
    guard: str
    """As the Policy's document names it: `maxDeletions`, `validations`, ...; `protect` for the annotation."""
    resources: tuple[str, ...]
    """Identities that a plan has to leave as they are to break it no more."""
    why: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Overridden:
    """What a Policy would refuse, had the resource no annotation that says otherwise."""

    policy: str
    guard: str
    resource: str
    until: str
    """The last day (UTC) on which it counts: `2026-12-31`."""
    reason: str


@dataclass(frozen=True, slots=True)
class GuardVerdict:
    """`warnings`: of Policies that only warn."""

    violations: tuple[Violation, ...] = ()
    overridden: tuple[Overridden, ...] = ()
    warnings: tuple[str, ...] = ()
