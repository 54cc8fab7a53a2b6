"""Trying whether parts of GPUs hold, on the nodes that are to give some: once for each version of what
enforces them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from providers.abilities import TriesFractions
from providers.gpu.enforcement import EnforcementVerdict, TrialPart
from providers.gpu.enforcement_rules import judge_part
from reconciler.observe.fraction_trials import held_milli, trial_parts
from reconciler.values.records import EnforcementRecord
from reconciler.values.state import Actual, Desired
from schemas.hardware.model import Hardware
from schemas.problems.errors.base import BaiError

AT_ONCE = 32
"""Most nodes that are tried at the same time, and in one pass: the others wait for the next."""
POSTPONED = 60.0
"""Seconds until a node is asked again that could not try just now."""
_LATER = "it has not been tried yet: the next pass does"
Choices = tuple[tuple[TrialPart, ...], ...]


@dataclass(frozen=True, slots=True)
class Trial:
    """That a means is to be tried on a node. `version`: what would enforce it there."""

    node: str
    means: str
    version: str


class EnforcementMemory(Protocol):
    """Where it is kept what came of trials. `postponed`, by node and means: what was said by those that could
    not try, and until when that counts; it need not outlive the process."""

    postponed: dict[tuple[str, str], tuple[float, EnforcementRecord]]

    def recorded(self) -> Mapping[tuple[str, str], EnforcementRecord]:
        """By node and means."""
        ...

    def record(self, found: Sequence[EnforcementRecord]) -> None: ...


def find_enforcement(
    trials: Iterable[Trial], actual: Actual, desired: Desired, provider: TriesFractions,
    memory: EnforcementMemory, now: float,
) -> dict[Trial, EnforcementRecord]:  # fmt: skip
    """What is known of these trials; what nobody has seen yet with this version is tried now. Never raises
    for a node."""
    known, found, new = memory.recorded(), {}, []
    for trial in trials:
        record = known.get((trial.node, trial.means))
        if record is None or record.version != trial.version:
            record = _postponed(trial, memory, now)
        if record is not None:
            found[trial] = record
        else:
            new.append(trial)
    choices, busy = trial_choices(new, actual, desired, now)
    turn = dict(list(choices.items())[:AT_ONCE])
    tried = try_enforcement(turn, provider, now)
    for trial, record in tried.items():
        if record.outcome == "untested":
            memory.postponed[trial.node, trial.means] = (now + POSTPONED, record)
    memory.record([record for record in tried.values() if record.outcome != "untested"])
    later = {trial: _untested(trial, _LATER, now) for trial in choices if trial not in turn}
    return found | busy | tried | later


def _postponed(trial: Trial, memory: EnforcementMemory, now: float) -> EnforcementRecord | None:
    """What was said when it could not be tried, while that is not long ago."""
    until, record = memory.postponed.get((trial.node, trial.means), (0.0, None))
    # Of the future is what was said before the clock was set back.
    fresh = record is not None and record.version == trial.version and now < until <= now + POSTPONED
    return record if fresh else None


def trial_choices(
    trials: Sequence[Trial], actual: Actual, desired: Desired, now: float
) -> tuple[dict[Trial, Choices], dict[Trial, EnforcementRecord]]:
    """The parts by which each can be tried (see `trial_parts`); what is said of those that have none."""
    choices: dict[Trial, Choices] = {}
    busy: dict[Trial, EnforcementRecord] = {}
    held = held_milli(actual) if trials else {}
    declared = {node.name: node.spec.hardware for node in desired.nodes} if trials else {}
    for trial in trials:
        hardware = declared.get(trial.node) or actual.hardware.get(trial.node)
        if not actual.complete or trial.node in actual.missed:
            busy[trial] = _untested(trial, "what runs there could not be observed", now)
        elif parts := trial_parts(trial.means, hardware, held):
            choices[trial] = parts
        else:
            busy[trial] = _untested(trial, _obstacle_to_trial(hardware), now)
    return choices, busy


def _obstacle_to_trial(hardware: Hardware | None) -> str:
    if hardware is None:
        return "its hardware is not known: probe it (`bai nodes probe`)"
    if not any(gpu.id.startswith("GPU-") for gpu in hardware.gpus):
        return "none of its GPUs is known by a UUID: probe it (`bai nodes probe`)"
    return "all of its GPUs are in use: it is tried when one is free"


def _untested(trial: Trial, why: str, now: float) -> EnforcementRecord:
    return EnforcementRecord(*_key(trial), "untested", why, now)


def try_enforcement(
    choices: Mapping[Trial, Choices], provider: TriesFractions, now: float
) -> dict[Trial, EnforcementRecord]:
    """What comes of trying these now, several nodes at the same time."""
    by_node: dict[str, list[Trial]] = {}
    for trial in choices:
        by_node.setdefault(trial.node, []).append(trial)
    if not by_node:
        return {}

    def try_node(node: str) -> list[tuple[Trial, EnforcementRecord]]:
        return [(trial, _try(trial, choices[trial], provider, now)) for trial in by_node[node]]

    with ThreadPoolExecutor(min(AT_ONCE, len(by_node)), "enforcement") as pool:
        return {trial: record for found in pool.map(try_node, by_node) for trial, record in found}


def _try(trial: Trial, choices: Choices, provider: TriesFractions, now: float) -> EnforcementRecord:
    said = []
    for parts in choices:
        verdict = _try_one(trial, parts, provider)
        if verdict.outcome != "held":
            return EnforcementRecord(*_key(trial), verdict.outcome, verdict.why, now)
        said.append(verdict.why)
    return EnforcementRecord(*_key(trial), "held", "; ".join(said), now)


def _try_one(trial: Trial, parts: Sequence[TrialPart], provider: TriesFractions) -> EnforcementVerdict:
    try:
        facts = provider.try_fraction(trial.node, trial.means, parts)
    except BaiError as error:
        return EnforcementVerdict("untested", error.message)
    tried = next((part for part in parts if part.gpu == facts.gpu), None)
    if tried is None and not facts.problem:
        return EnforcementVerdict("untested", "it says that it tried a GPU that it was not asked to")
    return judge_part(trial.means, tried or parts[0], facts)


def _key(trial: Trial) -> tuple[str, str, str]:
    return trial.node, trial.means, trial.version


def obstacle(record: EnforcementRecord) -> str:
    """Why a node gives no parts by this means; empty when it does."""
    if record.outcome == "held":
        return ""
    if record.outcome == "untested":
        return f"{record.means} has not been seen to hold there: {record.why}"
    again = f"`bai nodes check --enforcement {record.node}` tries again"
    return f"{record.means} did not hold: {record.why} ({record.version}); {again}"
