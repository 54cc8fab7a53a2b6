"""What a kernel is called: the same for the same thing, whoever asks."""

from __future__ import annotations

import hashlib

from schemas.values.resource_ref import ref_of

_LONGEST_NAME = 40


def kernel_id(repo: str, cluster: str, resource: str, kernel: str, generation: int) -> str:
    """`<session>-<kernel>-<hash>-g<generation>`: safe as hostname, path and label."""
    return f"{hostname_part(resource)}-{kernel}-{scope_hash(repo, cluster, resource)}-g{generation}"


def hostname_part(resource: str) -> str:
    """The beginning of a session's name."""
    return ref_of(resource).name[:_LONGEST_NAME].rstrip("-._").lower()


def scope_hash(repo: str, cluster: str, resource: str) -> str:
    """Of a session, with the repository and the cluster that it is of."""
    return hashlib.sha256(f"{repo}/{cluster}/{resource}".encode()).hexdigest()[:8]
