"""Facts and what is expected of a node, judged. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from providers.health.codes import RANK, Finding
from providers.health.facts import Facts
from providers.health.rules.driver import driver
from providers.health.rules.errors import errors
from providers.health.rules.gpus import gpus
from providers.health.rules.machine import machine
from providers.health.rules.matched import matched
from providers.health.values import Expected


def judge(facts: Facts, expected: Expected) -> tuple[Finding, ...]:
    """All findings, the worst first, by code and device."""
    found = sorted(_found(facts, expected), key=lambda one: (RANK[one.severity], one.code, one.device))
    return tuple(dict.fromkeys(found))


def _found(facts: Facts, expected: Expected) -> Iterator[Finding]:
    here = matched(facts, expected)
    yield from driver(facts, expected)
    yield from gpus(facts, expected, here)
    yield from errors(facts, here)
    yield from machine(facts, expected)
