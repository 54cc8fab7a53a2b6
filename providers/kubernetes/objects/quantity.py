"""Quantities as Kubernetes writes them: `250m`, `16Gi`, `1e3`. Pure."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Context, Decimal

LARGEST = 2**63 - 1
"""What is more is this much, as in Kubernetes itself."""
_FORM = re.compile(
    r"\+?(?=\.?[0-9])([0-9]{0,30}(?:\.[0-9]{0,30})?)([eE][+-]?[0-9]{1,2}|[KMGTPE]i|[numkMGTPE]?)", re.ASCII
)
_FACTORS = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1),
    **{suffix: Decimal(1000**power) for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Decimal(1024**power) for power, suffix in enumerate("KMGTPE", 1)},
}  # fmt: skip
_EXACT = Context(prec=200)


def parse_quantity(text: str, *, milli: bool = False) -> int:
    """A quantity of Kubernetes, rounded up to whole units, or to thousandths. Zero for what is none."""
    found = _FORM.fullmatch(text)
    if found is None:
        return 0
    number, suffix = found.groups()
    factor = _FACTORS.get(suffix) or Decimal(f"1{suffix}")
    exact = _EXACT.multiply(Decimal(number), factor * (1000 if milli else 1))
    return min(int(exact.to_integral_value(ROUND_CEILING, _EXACT)), LARGEST)
