"""Why something is done: a code that programs decide on, and a text that people read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class CauseCode(StrEnum):
    """Every cause of a decision or an action. Nothing decides on the text beside it."""

    # Of any resource.
    NEW = "new"
    """There was none of it."""
    SPEC_CHANGED = "spec-changed"
    """Its document says something else."""
    REMOVED = "removed"
    """Its document is no longer in the repository."""
    DESTROYED = "destroyed"
    """Everything is destroyed."""
    ORPHAN = "orphan"
    """A kernel that no resource owns."""

    # Of a session, by what is seen of it.
    CREATION_FAILED = "creation-failed"
    """It could not be created before."""
    CREATION_UNFINISHED = "creation-unfinished"
    """An earlier apply began to create it."""
    UPDATE_UNFINISHED = "update-unfinished"
    """An earlier apply began to update it."""
    TERMINATION_UNFINISHED = "termination-unfinished"
    """An earlier apply began to stop it."""
    KERNELS_LOST = "kernels-lost"
    """Kernels of it are gone."""
    STALE_KERNELS = "stale-kernels"
    """Kernels of another generation are left over."""
    ADOPTED = "adopted"
    """It runs, and the store had no record of it."""
    LIMITS_DRIFTED = "limits-drifted"
    """A kernel has other limits than were set."""
    CONTAINERS_UNKNOWN = "containers-unknown"
    """It is not recorded where all of its containers are."""
    ENDED = "ended"
    """Its main container ended; the others are stopped."""

    # Of a session, by where it is.
    LEAVE_NODE = "leave-node"
    """A node of it is drained, or no longer in the repository."""
    NODE_LOSS = "node-loss"
    """A node of it is not reached."""
    UNFIT_DEVICE = "unfit-device"
    """A GPU that it had gets no sessions."""

    # Of a session, by the time, by others and by people.
    TIMEOUT = "timeout"
    """It ran as long as it may."""
    IDLE = "idle"
    """It did next to nothing for as long as it may."""
    PENDING_TIMEOUT = "pending-timeout"
    """It waited as long as its group lets it."""
    SCHEDULED = "scheduled"
    """It waited, and its turn has come."""
    SKIPPED = "skipped"
    """Later ones were placed before it."""
    PREEMPTED = "preempted"
    """It makes room for another."""
    REPLACE_REQUEST = "replace-request"
    """Somebody asked for it by `--replace`."""
    REPLICA_FAILED = "replica-failed"
    """A replica of a service ended, or failed its liveness probe: it is started again."""
    REPLICA_REMOVED = "replica-removed"
    """Its service goes on without this replica."""
    DEFRAGMENTATION = "defragmentation"
    """It is moved by `--defragment`."""

    # Of a volume, an image, a node, a service.
    FOLDER_DRIFTED = "folder-drifted"
    """A volume's folder is not what it was made."""
    IMAGE_MISSING = "image-missing"
    """Nodes lack an image that they are to have."""
    ROLLOUT = "rollout"
    """A service has another generation, or one is complete, or given up."""
    APP_PORTS = "app-ports"
    """Apps have other ports of their AppProxy's host."""
    PROVISIONING = "provisioning"
    """A node is not what its profile says."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Made where it is decided that something is done, carried by decisions and actions; a plan without a
    cause for a resource leaves it as it is."""

    code: CauseCode
    text: str
    """A few words: `new`, `spec changed`, `kernel main1 is gone`, `no longer in the repository`, ..."""

    def followed_by(self, text: str) -> Cause:
        """The same cause, and something more to be said."""
        return Cause(self.code, f"{self.text}; {text}")


NEW = Cause(CauseCode.NEW, "new")
SPEC_CHANGED = Cause(CauseCode.SPEC_CHANGED, "spec changed")
REMOVED = Cause(CauseCode.REMOVED, "no longer in the repository")
DESTROYED = Cause(CauseCode.DESTROYED, "everything is destroyed")
