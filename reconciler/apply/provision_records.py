"""What an apply writes down of nodes: how far each has come, and what it was found to be."""

from __future__ import annotations

from dataclasses import replace

from providers.provisioning import HostResult, ProvisionEvent
from reconciler.apply.journal_writer import JournalWriter
from reconciler.apply.node_effects import NodeProgress, Probed
from reconciler.values.clock import Clock
from reconciler.values.records import Event, NodeObservation, ProvisionRecord, ProvisionState
from reconciler.values.rollout import Provision
from reconciler.values.times import format_duration
from schemas.values.resource_ref import identity_of


class ProvisionRecorder:
    """One apply's; called from the thread that owns the journal."""

    def __init__(self, journal: JournalWriter, clock: Clock, commit: str) -> None:
        self._journal = journal
        self._clock = clock
        self._commit = commit
        self._results: dict[str, HostResult] = {}

    def begin(self, wanted: Provision, why: str) -> None:
        """From here on it takes no sessions, whatever happens to us."""
        self._enter_state(wanted, "provisioning", why)

    def ready(self, wanted: Provision) -> None:
        """It was verified and probed, and joins. What was remembered of its condition is over."""
        result = self._results.get(wanted.node)
        self._enter_state(wanted, "ready", _summary(result) if result else "provisioned")

    def failed(self, wanted: Provision, why: str) -> None:
        self._enter_state(wanted, "failed", why)

    def record_progress(self, progress: NodeProgress) -> None:
        """Keep what has to be kept of what is told."""
        match progress:
            case HostResult():
                self._results[progress.node] = progress
            case Probed():
                text = progress.hardware.model_dump_json(by_alias=True, exclude_defaults=True)
                now, cluster = self._clock.now(), self._journal.lease.cluster
                self._journal.add(NodeObservation(progress.node, cluster, text, now))
            case ProvisionEvent(what="reboot") if progress.node:
                self._event(progress.node, "PROVISIONING", "REBOOTING", progress.message or "a role needs it")

    def _enter_state(self, wanted: Provision, state: ProvisionState, why: str) -> None:
        known = self._journal.provision_records.get(wanted.node, ProvisionRecord(wanted.node))
        new = replace(
            known,
            state=state,
            profile=wanted.profile,
            fingerprint=wanted.fingerprint,
            why=why,
            at=self._clock.now(),
            condition="" if state == "ready" else known.condition,
        )
        self._journal.provision_records[wanted.node] = new
        self._journal.add(new)
        self._event(wanted.node, known.state.upper(), state.upper(), why)

    def _event(self, node: str, before: str, after: str, cause: str) -> None:
        now = self._clock.now()
        self._journal.add(Event(identity_of("Node", node), before, after, cause, now, commit=self._commit))


def _summary(result: HostResult) -> str:
    changed = len(result.changed)
    parts = [
        f"{changed} {'task' if changed == 1 else 'tasks'} changed something" if changed else "nothing changed"
    ]
    if result.rebooted:
        parts.append("rebooted")
    if result.seconds >= 1:
        parts.append(format_duration(result.seconds))
    return f"provisioned: {', '.join(parts)}"
