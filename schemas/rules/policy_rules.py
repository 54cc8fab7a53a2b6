"""What a Policy must fulfil beyond the types of its fields, and what annotations must that override one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from schemas.kinds.policy import RULE_VARIABLES, Policy
from schemas.problems.issues import Issue
from schemas.problems.text import format_value
from schemas.repository.repository import Repository
from schemas.values.envelope import OVERRIDE, Resource
from schemas.values.names import NAME_PATTERN

LONGEST_REASON = 500
MOST_POLICIES = 100
MOST_VALIDATIONS = 100
"""In a repository."""
_KIND_OF_GUARD: Mapping[str, str] = {
    "max_provisioned": "Node",
    "require_owner": "Session",
    "images": "Session",
    "mounts": "Session",
    "forbid": "Session",
    "quota_headroom": "Session",
}
"""Guards of one kind only."""


@dataclass(frozen=True, slots=True)
class PolicyOverride:
    """What an annotation says: good until the end of that day (UTC), and why."""

    until: date
    reason: str


def parse_override(text: str) -> PolicyOverride | None:
    """`2026-12-31 why`; None for what is written otherwise."""
    day, _, reason = text.partition(" ")
    reason = reason.strip()
    if not re.match(r"\d{4}-\d\d-\d\d\Z", day) or not 0 < len(reason) <= LONGEST_REASON:
        return None
    try:
        return PolicyOverride(date.fromisoformat(day), reason)
    except ValueError:
        return None


def override_rules(resource: Resource) -> Iterator[Issue]:
    """Its annotations that override policies."""
    for key, value in resource.metadata.annotations.items():
        if not key.startswith(OVERRIDE):
            continue
        at = ("metadata", "annotations", key)
        if not re.match(NAME_PATTERN, key.removeprefix(OVERRIDE)):
            hint = f"write {OVERRIDE}<name of the policy>"
            yield Issue(at, f"{format_value(key)} names no policy", hint, "BAI-V033", key=True)
        elif parse_override(value) is None:
            message = f"{format_value(value)} is not the last day on which it counts, and a reason"
            yield Issue(at, message, 'write "2026-12-31 why"', "BAI-V030")


def policy_rules(policy: Any) -> Iterator[Issue]:
    """One Policy, judged alone."""
    spec = policy.spec
    asked = [name for name in type(spec.guards).model_fields if _is_guard_set(getattr(spec.guards, name))]
    if not asked and not spec.validations:
        yield Issue(("spec",), "it asks for nothing", "write guards or validations", "BAI-V050")
    most = spec.guards.max_deletions
    if most is not None and most.count is None and most.percent is None:
        message = "neither count nor percent"
        yield Issue(("spec", "guards", "maxDeletions"), message, "write one of them, or both", "BAI-V050")
    yield from _expression_rules(policy)
    for field in asked:
        kind, name = _KIND_OF_GUARD.get(field), type(spec.guards).model_fields[field].alias or field
        at = ("spec", "guards", name)
        if kind and spec.match.kinds and kind not in spec.match.kinds:
            message = f"it is about kind {kind}, which match.kinds leaves out"
            yield Issue(at, message, f"add {kind} to match.kinds, or leave kinds out", "BAI-V034", key=True)
        elif kind == "Node" and (spec.match.projects or spec.match.labels):
            message = "nodes of pools have no project and no labels of their own to match by"
            yield Issue(at, message, "leave match.projects and match.labels out", "BAI-V034", key=True)


def _expression_rules(policy: Policy) -> Iterator[Issue]:
    from schemas.expressions import InvalidExpression, parse  # Lark, which few repositories need.

    for index, rule in enumerate(policy.spec.validations):
        try:
            parse(rule.expression, RULE_VARIABLES)
        except InvalidExpression as error:
            at = ("spec", "validations", index, "expression")
            where = (
                f"line {error.line}, column {error.column}"
                if "\n" in rule.expression
                else f"column {error.column}"
            )
            yield Issue(at, f"{where}: {error.why}", error.hint, "BAI-V059")


def policy_count_rules(repository: Repository, policy: Policy) -> Iterator[Issue]:
    """Every change is held to each of them, so that there is a bound; told once, of the first."""
    every = list(repository.of(Policy)) if policy is next(repository.of(Policy)) else []
    if len(every) > MOST_POLICIES:
        message = f"{len(every)} policies, {MOST_POLICIES} at most"
        yield Issue(("metadata", "name"), message, "let one Policy ask for more", "BAI-V050")
    rules = sum(len(each.spec.validations) for each in every)
    if rules > MOST_VALIDATIONS:
        message = f"{rules} validations in all policies together, {MOST_VALIDATIONS} at most"
        yield Issue(("metadata", "name"), message, "join some with &&", "BAI-V050")


def _is_guard_set(value: object) -> bool:
    return value is not None and value is not False and value != ()
