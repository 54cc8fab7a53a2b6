"""Nodes brought to what their profiles say: the seam, and the values that cross it.

`providers.ansible` carries it out with Ansible; `providers.fake_provisioner` remembers what it was asked.
What a provisioned node carries afterwards, its seal, is in `providers.condition`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from providers.condition.values import NodeCondition
from providers.machines.base import Endpoint


@dataclass(frozen=True, slots=True)
class ProvisionTarget:
    """One node and what it is to be."""

    node: str
    endpoint: Endpoint
    profile: str
    """Name of its NodeProfile."""
    roles: tuple[str, ...]
    """Those whose sections the profile has; the site play orders them."""
    variables: Mapping[str, Any]
    """Role variable (`<role>_<field>`) → JSON value."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Role variable → reference (`STORE/ENTRY`); resolved when the node is provisioned."""
    document: Mapping[str, Any] = field(default_factory=dict)
    """The profile's spec in canonical form, kept in the seal so that a change can be told by its fields."""
    fingerprint: str = ""
    """What a node that carries out all this is sealed with: `providers.condition.fingerprint`."""
    os: str = ""
    """`debian-12`, `ubuntu-22.04`, `ubuntu-24.04`, `rhel-9`; empty: not asserted."""
    reboot_allowed: bool = True
    reboot_timeout: int = 600
    """Seconds for the node to be back."""


@dataclass(frozen=True, slots=True)
class TaskChange:
    """One task that changed something, or would."""

    role: str
    """Empty for tasks of the site play itself."""
    task: str
    diff: str = ""
    """Short text, lines of a unified diff or what the module says; never of a task that hides its log."""


@dataclass(frozen=True, slots=True)
class HostResult:
    """What came of one node's run."""

    node: str
    ok: bool
    changed: tuple[TaskChange, ...] = ()
    failed: str = ""
    """Task and message; empty when ok."""
    unreachable: bool = False
    rebooted: bool = False
    seconds: float = 0.0
    artefacts: Path | None = None
    """Folder of the run's log, events and inventory."""
    reboot_needed: tuple[str, ...] = ()
    """`role: why`, whether or not it was allowed."""


@dataclass(frozen=True, slots=True)
class ProvisionEvent:
    """Something a run tells while it goes on."""

    node: str
    """Empty for what concerns the whole run."""
    what: Literal[
        "start", "task", "changed", "ok", "skipped", "failed", "unreachable", "reboot", "sealed", "end"
    ]
    """`task`: a task begins (no node); `changed` ... `unreachable`: what came of it on a node."""
    role: str = ""
    task: str = ""
    message: str = ""
    seconds: float = 0.0


OnProvisionEvent = Callable[[ProvisionEvent], None]
StopRequested = Callable[[], bool]


def ignore_event(_event: ProvisionEvent) -> None:
    """For callers who do not want to know."""


def never_stop() -> bool:
    """For callers who stop nothing."""
    return False


class Provisioner(Protocol):
    """Carried out by `providers.ansible.provisioner`. May be used by several threads, one node each; no node
    is ever provisioned twice at the same time, whoever asks (then the result says who is at it).

    `stop` is asked again and again: once it says yes, the run is ended and its nodes come back as failed
    ("stopped"). Raises ProvisioningImpossible where Ansible itself cannot run here, SecretMissing.
    """

    def observe(
        self, targets: Sequence[ProvisionTarget]
    ) -> tuple[Mapping[str, NodeCondition], Mapping[str, str]]:
        """Node → its condition; node → why it could not be looked at. One command per node, all at the same
        time, without Ansible. Never raises for a node."""
        ...

    def check(
        self,
        targets: Sequence[ProvisionTarget],
        tell: OnProvisionEvent = ignore_event,
        stop: StopRequested = never_stop,
    ) -> Mapping[str, HostResult]:
        """What provisioning would change: one run for all, which changes nothing."""
        ...

    def provision(
        self, target: ProvisionTarget, tell: OnProvisionEvent = ignore_event, stop: StopRequested = never_stop
    ) -> HostResult:
        """Converge, reboot where it is needed and allowed, verify, seal. A node that failed keeps no seal of
        this profile."""
        ...
