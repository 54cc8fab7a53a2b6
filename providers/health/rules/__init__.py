"""Facts and what is expected of a node, judged. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from providers.health.codes import RANK, Finding
from providers.health.facts import MachineFacts
from providers.health.rules.driver import driver_findings
from providers.health.rules.errors import error_findings
from providers.health.rules.gpus import gpu_findings
from providers.health.rules.machine import machine_findings
from providers.health.rules.matching import match_gpus
from providers.health.values import ExpectedNode


def judge(facts: MachineFacts, expected: ExpectedNode) -> tuple[Finding, ...]:
    """All findings, the worst first, by code and device."""
    found = sorted(_all_findings(facts, expected), key=lambda one: (RANK[one.severity], one.code, one.device))
    return tuple(dict.fromkeys(found))


def _all_findings(facts: MachineFacts, expected: ExpectedNode) -> Iterator[Finding]:
    here = match_gpus(facts, expected)
    yield from driver_findings(facts, expected)
    yield from gpu_findings(facts, expected, here)
    yield from error_findings(facts, here)
    yield from machine_findings(facts, expected)
