"""What a plan says about the provisioning of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from providers.condition.fingerprint import fingerprint
from providers.machines.base import Endpoint
from providers.provisioning import ProvisionTarget, TaskChange


@dataclass(frozen=True, slots=True)
class Provision:
    """What one node is brought to: its target, but for how it is reached, which is looked up when it is
    done."""

    node: str
    profile: str
    roles: tuple[str, ...]
    """Those whose sections the profile has."""
    variables: Mapping[str, Any]
    """Role variable → value."""
    secrets: Mapping[str, str]
    """Role variable → reference."""
    document: Mapping[str, Any]
    """The profile's spec, canonical."""
    fingerprint: str
    """Of roles, variables and operating system: what the node is sealed with."""
    os: str = ""
    reboot_allowed: bool = True
    reboot_timeout: int = 600
    """Seconds."""
    probe: bool = True
    """Whether it is probed before it joins: not where its document says what the machine is."""

    @classmethod
    def of(cls, target: ProvisionTarget, *, probe: bool) -> Provision:
        return cls(
            target.node, target.profile, target.roles, dict(target.variables), dict(target.secrets),
            dict(target.document), target.fingerprint, target.os, target.reboot_allowed,
            target.reboot_timeout, probe,
        )  # fmt: skip

    def target(self, endpoint: Endpoint) -> ProvisionTarget:
        """The same for a node that is reached so."""
        return ProvisionTarget(
            self.node, endpoint, self.profile, self.roles, self.variables, self.secrets, self.document,
            self.fingerprint, self.os, self.reboot_allowed, self.reboot_timeout,
        )  # fmt: skip

    def fits(self, digest: str) -> bool:
        """Whether roles of this digest are those that it was planned with."""
        return self.fingerprint == fingerprint(self.roles, self.variables, self.secrets, self.os, digest)


@dataclass(frozen=True, slots=True)
class NodeWait:
    """A node that is to be provisioned and cannot be in this plan, nor in those that follow from it."""

    node: str
    why: str


@dataclass(frozen=True, slots=True)
class Rollout:
    """The provisioning that a plan knows of: `wave` is what it does, `later` what plans after it would do."""

    wave: tuple[str, ...] = ()
    """Nodes that this plan provisions."""
    later: tuple[tuple[str, ...], ...] = ()
    """The waves after it, should each one succeed."""
    waits: tuple[NodeWait, ...] = ()
    most: int = 1
    """Nodes that may be out of use at the same time."""
    leaves: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Node → sessions that are moved away from it, in this wave or a later one."""
    tasks: Mapping[str, tuple[TaskChange, ...]] = field(default_factory=dict)
    """Node → what its roles would change, where they were asked."""
    unsure: Mapping[str, str] = field(default_factory=dict)
    """Node → why its roles could not say what they would change."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """All that are to be provisioned, now or later."""
        return (*self.wave, *(node for wave in self.later for node in wave))
