"""What an apply writes down of nodes: how far each has come, and what it was found to be."""

from __future__ import annotations

from dataclasses import replace

from providers.provisioning import HostResult, ProvisionEvent
from reconciler.apply.journal_writer import Ledger
from reconciler.apply.node_effects import NodeNews, Probed
from reconciler.values.clock import Clock
from reconciler.values.records import Event, NodeObservation, Standing, StandingState
from reconciler.values.rollout import Provision
from reconciler.values.times import span


class Book:
    """One apply's; called from the thread that owns the ledger."""

    def __init__(self, ledger: Ledger, clock: Clock, commit: str) -> None:
        self._ledger = ledger
        self._clock = clock
        self._commit = commit
        self._results: dict[str, HostResult] = {}

    def begin(self, wanted: Provision, why: str) -> None:
        """From here on it takes no sessions, whatever happens to us."""
        self._enter(wanted, "provisioning", why)

    def ready(self, wanted: Provision) -> None:
        """It was verified and probed, and joins. What was remembered of its condition is over."""
        result = self._results.get(wanted.node)
        self._enter(wanted, "ready", _words(result) if result else "provisioned")

    def failed(self, wanted: Provision, why: str) -> None:
        self._enter(wanted, "failed", why)

    def hear(self, news: NodeNews) -> None:
        """Keep what has to be kept of what is told."""
        match news:
            case HostResult():
                self._results[news.node] = news
            case Probed():
                text = news.hardware.model_dump_json(by_alias=True, exclude_defaults=True)
                now, cluster = self._clock.now(), self._ledger.lease.cluster
                self._ledger.add(NodeObservation(news.node, cluster, text, now))
            case ProvisionEvent(what="reboot") if news.node:
                self._event(news.node, "PROVISIONING", "REBOOTING", news.message or "a role needs it")

    def _enter(self, wanted: Provision, state: StandingState, why: str) -> None:
        known = self._ledger.standings.get(wanted.node, Standing(wanted.node))
        new = replace(
            known,
            state=state,
            profile=wanted.profile,
            fingerprint=wanted.fingerprint,
            why=why,
            at=self._clock.now(),
            condition="" if state == "ready" else known.condition,
        )
        self._ledger.standings[wanted.node] = new
        self._ledger.add(new)
        self._event(wanted.node, known.state.upper(), state.upper(), why)

    def _event(self, node: str, before: str, after: str, cause: str) -> None:
        now = self._clock.now()
        self._ledger.add(Event(f"Node/{node}", before, after, cause, now, commit=self._commit))


def _words(result: HostResult) -> str:
    changed = len(result.changed)
    parts = [
        f"{changed} {'task' if changed == 1 else 'tasks'} changed something" if changed else "nothing changed"
    ]
    if result.rebooted:
        parts.append("rebooted")
    if result.seconds >= 1:
        parts.append(span(result.seconds))
    return f"provisioned: {', '.join(parts)}"
