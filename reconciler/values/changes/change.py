"""What differs between what a resource is and what it is to be, as a closed family."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ChangeKind(StrEnum):
    """What a change is about; its path is for readers."""

    FIELD = "field"
    """A field of the document."""
    RESTART = "restart"
    """Another generation is asked for."""
    MOVE = "move"
    """Other nodes, to join what is free."""
    TERMINATION = "termination"
    """Its termination was begun, and is not to be finished."""
    PLACEMENT = "placement"
    """It has none, though it should."""
    CONTAINERS = "containers"
    """Its placement is of other containers."""
    LEAVE_NODE = "leave-node"
    """A node of its placement is out of use."""
    NODE_LOSS = "node-loss"
    """A node of its placement is given up."""
    UNFIT_DEVICE = "unfit-device"
    """A device of its placement gets no sessions."""
    APP_PORT = "app-port"
    """Where an app is reached at the host of its AppProxy."""


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that differs. `before`/`after` are rendered values (secrets already replaced by a hash);
    `forces`: it cannot change in place."""

    path: str
    before: str | None
    after: str | None
    forces: bool = False
    kind: ChangeKind = ChangeKind.FIELD
    """Left out of the JSON for a field of the document."""
    subject: str = ""
    """The node or device that it is about; left out of the JSON where it is about none."""


def restart(before: int, after: int) -> Change:
    """From one generation to another."""
    return Change("generation", str(before), str(after), forces=True, kind=ChangeKind.RESTART)


def move(before: str, after: str) -> Change:
    """From nodes to nodes, each list joined by commas."""
    return Change("placement.nodes", before, after, forces=True, kind=ChangeKind.MOVE)


def unfinished_termination() -> Change:
    """A session whose termination was begun is to run."""
    return Change("phase", "TERMINATING", "RUNNING", forces=True, kind=ChangeKind.TERMINATION)


def missing_placement() -> Change:
    """A session that is recorded to run has no placement."""
    return Change("placement", None, "to be decided", forces=True, kind=ChangeKind.PLACEMENT)


def other_containers(before: str, after: str) -> Change:
    """The containers that were placed, and those of the document, joined by commas."""
    return Change("placement.kernels", before, after, forces=True, kind=ChangeKind.CONTAINERS)


def leave_node(node: str, become: str) -> Change:
    """A node that has to be left, and what it has become: `drained`, `not in the repository`."""
    path = f"placement.nodes.{node}"
    return Change(path, "active", become, forces=True, kind=ChangeKind.LEAVE_NODE, subject=node)


def node_loss(node: str) -> Change:
    """A node that is waited for no longer."""
    return Change(f"contact.{node}", "reached", "lost", forces=True, kind=ChangeKind.NODE_LOSS, subject=node)


def unfit_device(device: str) -> Change:
    """A device that gets no sessions."""
    path = f"placement.devices.{device}"
    return Change(path, "fit", "unfit", forces=True, kind=ChangeKind.UNFIT_DEVICE, subject=device)


def app_port(app: str, before: str | None, after: str | None) -> Change:
    """An app, and the URLs with its port before and after."""
    return Change(f"ports.{app}", before, after, kind=ChangeKind.APP_PORT, subject=app)
