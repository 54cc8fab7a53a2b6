"""The health of a node in words, and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from bai.render.humanize import clean, plural

if TYPE_CHECKING:
    from providers.health.codes import Finding
    from providers.health.values import NodeHealth


def health_summary(health: NodeHealth) -> str:
    """`good`, `2 critical, 1 warning`, `unknown`."""
    if health.facts is None:
        return "unknown"
    counts = Counter(one.severity for one in health.findings)
    found = [f"{counts['critical']} critical"] if counts["critical"] else []
    found += [plural(counts["warning"], "warning")] if counts["warning"] else []
    return ", ".join(found) or "good"


def health_lines(health: NodeHealth, *, notes: bool = False) -> Iterator[tuple[str, str]]:
    """Each finding as a sentence, with what to do; `notes`: also those that are no fault of the node."""
    if health.problem:
        yield f"{clean(health.node)}: health is not known: {clean(health.problem)}", ""
    for one in health.findings:
        if notes or one.severity != "ok":
            severity = "note" if one.severity == "ok" else one.severity
            yield f"{clean(health.node)}: {severity}: {finding_sentence(health, one)}", clean(one.hint)


def finding_sentence(health: NodeHealth, one: Finding) -> str:
    """`gpu 3: row remapping is pending (gpu-rows-pending)`."""
    where = f"{clean(health.name(one.device))}: " if one.device else ""
    return f"{where}{clean(one.what)} ({one.code})"


def health_json(health: NodeHealth) -> dict[str, object]:
    """The `health` of a node in `bai nodes check` and `bai nodes show`."""
    return {
        "known": health.facts is not None,
        "problem": health.problem,
        "severity": health.severity if health.facts is not None else None,
        "findings": [asdict(one) for one in health.findings],
        "unfit": dict(health.unfit),
    }
