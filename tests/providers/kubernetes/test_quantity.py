"""Quantities as Kubernetes writes them."""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.kubernetes.objects.quantity import parse_quantity

FACTORS = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1), "k": Decimal(10**3),
    "M": Decimal(10**6), "G": Decimal(10**9), "T": Decimal(10**12), "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30), "Ti": Decimal(2**40),
    "Pi": Decimal(2**50), "Ei": Decimal(2**60),
}  # fmt: skip
LARGEST = 2**63 - 1


@given(
    st.decimals(0, 1_000_000, places=3, allow_nan=False, allow_infinity=False),
    st.sampled_from(sorted(FACTORS)),
    st.booleans(),
)
def test_a_quantity_is_its_number_rounded_up(number: Decimal, suffix: str, milli: bool) -> None:
    exact = number * FACTORS[suffix] * (1000 if milli else 1)
    wanted = min(int(exact.to_integral_value(ROUND_CEILING)), LARGEST)
    assert parse_quantity(f"{number:f}{suffix}", milli=milli) == wanted


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("1e3", 1000), ("1E3", 1000), ("12E", LARGEST), ("1.5Gi", 3 * 2**29), ("+5", 5), ("0.1", 1),
        (".5k", 500), ("5.", 5), ("1e-9", 1), ("1e99", LARGEST),
        ("", 0), (".", 0), ("x", 0), ("Gi", 0), ("m", 0), ("-5", 0), ("NaN", 0), ("sNaN", 0), ("Infinity", 0),
        ("1Kim", 0), ("1 Gi", 0), ("1_000", 0), ("\u0663", 0), ("1e999999999", 0), ("1e-999999999", 0),
    ],
)  # fmt: skip
def test_what_is_written_otherwise(text: str, amount: int) -> None:
    assert parse_quantity(text) == amount


@given(st.text(max_size=12))
def test_no_text_is_an_error(text: str) -> None:
    assert 0 <= parse_quantity(text) <= LARGEST
    assert 0 <= parse_quantity(text, milli=True) <= LARGEST
