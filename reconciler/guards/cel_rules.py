"""Rules of one's own, in CEL: what they know of a change, and what they find. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from reconciler.guards import cel
from reconciler.guards.builtin_rules import GuardFacts, GuardFinding
from schemas.kinds.policy import RULE_VARIABLES, Policy

if TYPE_CHECKING:
    from reconciler.guards.proposed_change import ProposedChange


def evaluate_validations(
    policy: Policy, changes: Sequence[ProposedChange], facts: GuardFacts
) -> Iterator[GuardFinding]:
    """An expression that is false, or that cannot be evaluated, refuses the change."""
    for rule in policy.spec.validations:
        expression = _compile_rule(rule.expression)
        for each in changes:
            try:
                holds = expression.evaluate(_rule_variables(each, facts.plan), facts.budget)
            except cel.EvaluationError as error:
                why = f"{each.id}: {rule.message} (the rule cannot be evaluated: {error})"
                yield GuardFinding((each.id,), why, "ask has(...) before what may be missing")
                continue
            if not holds:
                yield GuardFinding((each.id,), f"{each.id}: {rule.message}")


@lru_cache(maxsize=256)
def _compile_rule(text: str) -> cel.Expression:
    """Documents were read with it: it is an expression."""
    return cel.compile(text, RULE_VARIABLES)


def _rule_variables(change: ProposedChange, plan: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "action": change.facts,
        "before": change.before or None,
        "after": change.after or None,
        "plan": plan,
    }


def plan_variables(changes: Sequence[ProposedChange], cluster: str) -> dict[str, Any]:
    """What rules know of the plan as a whole: how many changes of each verb there are."""
    verbs = [each.action.verb for each in changes]
    counts = {f"{verb}s": verbs.count(verb) for verb in ("create", "update", "replace", "delete")}
    return {"cluster": cluster, **counts}
