"""A plan against what is protected and what Policies ask for. Pure; asked when a plan is made, and again
before it is carried out.

A Policy holds as it is recorded and as it is to be: a commit that deletes or loosens one is still held to it,
and as long as it breaks it, the Policy stays as it is, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from reconciler.guards.builtin_rules import GuardFacts, GuardFinding, GuardRule, enabled_guards
from reconciler.guards.cel_rules import evaluate_validations, plan_variables
from reconciler.guards.proposed_change import ProposedChange, policy_matches
from reconciler.guards.signers import ImageSigners
from reconciler.values.encoding.placement_json import canonical_json
from reconciler.values.violations import GuardVerdict, Overridden, Violation
from schemas.kinds.policy import Policy
from schemas.problems.errors.plan import GuardRefused, PlanError
from schemas.problems.text import printable

if TYPE_CHECKING:
    from planner.model.uses import QuotaUse
    from reconciler.values.plan import Action, Plan
    from reconciler.values.records import Recorded

MAX_SHOWN_VIOLATIONS = 5
_PREFIX = "Policy/"


@dataclass(frozen=True, slots=True)
class EnforcedPolicy:
    """A policy as it is recorded, or as it is to be. `changes`: this plan makes another one of it."""

    policy: Policy
    changes: bool = False


def enforced_policies(
    recorded: Mapping[str, Recorded], digests: Mapping[str, str], documents: Mapping[str, Mapping[str, Any]]
) -> tuple[EnforcedPolicy, ...]:
    """Every version that holds: as recorded, and as it is to be. `digests`, `documents`: of all that is to
    be. Raises PlanError for a recorded one that cannot be read and is not to be another one."""
    found = [
        EnforcedPolicy(_parse_policy(identity, documents[identity]))
        for identity in sorted(digests)
        if identity.startswith(_PREFIX)
    ]
    for identity in sorted(name for name in recorded if name.startswith(_PREFIX)):
        record = recorded[identity]
        if digests.get(identity) == record.digest:
            continue
        try:
            found.append(EnforcedPolicy(_parse_policy(identity, record.document), changes=True))
        except PlanError:
            if identity not in digests:
                raise
    return tuple(found)


def judge_actions(
    actions: Iterable[Action],
    policies: Sequence[EnforcedPolicy],
    recorded: Mapping[str, Recorded],
    quotas: tuple[QuotaUse, ...],
    now: float,
    signers: ImageSigners | None = None,
) -> GuardVerdict:
    """What stands against these actions at that time (seconds since the epoch); without `signers` no image is
    known to be signed."""
    changes = [ProposedChange(action) for action in actions if action.verb != "no-op"]
    found = [GuardVerdict(tuple(_protected_deletions(changes, recorded)))]
    if policies and changes:
        documents = {name: one.document for name, one in recorded.items()}
        cluster = changes[0].action.cluster
        facts = GuardFacts(documents, quotas, plan_variables(changes, cluster), signers or ImageSigners())
        today = datetime.fromtimestamp(now, UTC).date().isoformat()
        found += [_judge_policy(each, changes, facts, today) for each in policies]
    return GuardVerdict(
        tuple(dict.fromkeys(one for each in found for one in each.violations)),
        tuple(dict.fromkeys(one for each in found for one in each.overridden)),
        tuple(dict.fromkeys(one for each in found for one in each.warnings)),
    )


def raise_if_violated(plan: Plan, found: Iterable[Violation] = ()) -> None:
    """Raises GuardRefused where something stands against the plan."""
    violations = tuple(dict.fromkeys((*plan.violations, *found)))
    if not violations:
        return
    told = [violation_text(one) for one in violations[:MAX_SHOWN_VIOLATIONS]]
    if len(violations) > MAX_SHOWN_VIOLATIONS:
        told.append(f"and {len(violations) - MAX_SHOWN_VIOLATIONS} more")
    hint = next((one.hint for one in violations if one.hint), "")
    raise GuardRefused(why="; ".join(told), hint=hint)


def violation_text(violation: Violation) -> str:
    """In a line, with the policy's name."""
    why = printable(" ".join(violation.why.split()))
    return f"{_PREFIX}{violation.policy}: {why}" if violation.policy else why


def _protected_deletions(
    changes: Iterable[ProposedChange], recorded: Mapping[str, Recorded]
) -> Iterator[Violation]:
    for each in changes:
        if each.action.verb != "delete":
            continue
        record = recorded.get(each.id)
        if each.action.protected or (record is not None and record.protected):
            hint = 'first apply the document with the annotation bai/protect: "false", then delete it'
            yield Violation("", "protect", (each.id,), f"{each.id} would be deleted, and is protected", hint)


def _judge_policy(
    each: EnforcedPolicy, changes: Sequence[ProposedChange], facts: GuardFacts, today: str
) -> GuardVerdict:
    policy = each.policy
    mine = [one for one in changes if policy_matches(policy.spec.match, one.id, one.before, one.after)]
    aside = {
        one.id: one for one in mine if policy.spec.overridable and _has_valid_override(one, policy, today)
    }
    left = [one for one in mine if one.id not in aside]
    violations: list[Violation] = []
    overridden: list[Overridden] = []
    warnings: list[str] = []
    rules = (("validations", evaluate_validations),) if policy.spec.validations else ()
    for name, guard in (*enabled_guards(policy.spec.guards), *rules):
        findings = list(guard(policy, left, facts))
        if policy.spec.enforcement == "warn":
            warnings += [violation_text(_violation(each, name, finding)) for finding in findings]
            continue
        violations += [_violation(each, name, finding) for finding in findings]
        if aside:
            overridden += _effective_overrides(policy, name, guard, mine, aside, facts, findings)
    return GuardVerdict(tuple(violations), tuple(overridden), tuple(warnings))


def _effective_overrides(
    policy: Policy,
    name: str,
    guard: GuardRule,
    mine: Sequence[ProposedChange],
    aside: Mapping[str, ProposedChange],
    facts: GuardFacts,
    findings: Sequence[GuardFinding],
) -> Iterator[Overridden]:
    """The overrides without which more would be wrong."""
    known = {one for finding in findings for one in finding.resources}
    more = {one for finding in guard(policy, mine, facts) for one in finding.resources} - known
    for identity in sorted(more & aside.keys()):
        override = aside[identity].override(policy.name)
        assert override is not None
        yield Overridden(policy.name, name, identity, override.until.isoformat(), override.reason)


def _violation(each: EnforcedPolicy, guard: str, finding: GuardFinding) -> Violation:
    resources, hint = finding.resources, finding.hint
    if each.changes:
        resources = (*resources, each.policy.identity)
        hint = hint or "a policy that is recorded holds until a commit that keeps to it has changed it"
    return Violation(each.policy.name, guard, resources, finding.why, hint)


def _has_valid_override(change: ProposedChange, policy: Policy, today: str) -> bool:
    override = change.override(policy.name)
    return override is not None and today <= override.until.isoformat()


def _parse_policy(identity: str, document: Mapping[str, Any]) -> Policy:
    try:
        return Policy.model_validate_json(canonical_json(document))
    except ValidationError as error:
        why = f"the recorded {identity} cannot be read: {error.errors()[0]['msg']}"
        raise PlanError(why=why, hint="apply it with a document that can be read") from error


def with_verdict(plan: Plan, verdict: GuardVerdict) -> Plan:
    """The plan with what stands against it."""
    return replace(
        plan,
        violations=verdict.violations,
        overridden=verdict.overridden,
        warnings=(*plan.warnings, *verdict.warnings),
    )
