"""Expressions in CEL over values as JSON has them, within bounds: whoever may commit writes them.

`compile` reads one (`schemas/expressions`), `Expression.evaluate` says whether it holds. What an evaluation
does is counted in steps, the same on each machine: an operation is one, and what costs in proportion to a
text or a list is charged in proportion. `Budget` bounds the evaluations of a whole plan. Nothing that is
made is larger than its steps allow.

`evaluate` makes functions out of the tree (begin there), `functions` has CEL's functions, `values` equality,
order and arithmetic.
"""

from reconciler.guards.cel.evaluate import Expression, compile
from reconciler.guards.cel.steps import MAX_STEPS, Budget, EvaluationError, TooManySteps
from schemas.expressions import InvalidExpression

__all__ = [
    "MAX_STEPS",
    "Budget",
    "EvaluationError",
    "Expression",
    "InvalidExpression",
    "TooManySteps",
    "compile",
]
