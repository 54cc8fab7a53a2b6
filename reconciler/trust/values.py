"""Commits as they are judged, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

SignatureKind = Literal["ssh", "openpgp"]


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit, from its own bytes. `name`, `tree` and `parents` are hexadecimal names of objects."""

    name: str
    tree: str
    parents: tuple[str, ...]
    author: str
    """The author's e-mail address, as the commit says."""
    committer: str
    signature: bytes
    """In its armor; empty where there is none."""
    signed: bytes
    """The bytes that a signature of it is over."""


@dataclass(frozen=True, slots=True)
class VerifiedCommit:
    """A commit with a good signature of somebody who is allowed to."""

    commit: str
    signer: str
    """E-mail address: the committer's, for which the owner's settings know the key."""
    kind: SignatureKind
    key: str
    """Fingerprint, as OpenSSH (`SHA256:...`) or GnuPG writes it."""


@dataclass(frozen=True, slots=True)
class CommitRefusal:
    """Why a commit is not followed; `path`: of a file that its author may not change."""

    commit: str
    why: str
    path: str = ""

    def __str__(self) -> str:
        return f"{self.commit[:12]}: {f'{self.path}: ' if self.path else ''}{self.why}"


@dataclass(frozen=True, slots=True)
class TrustPolicy:
    """What the owner says."""

    commits: Literal["each", "tip", "none"] = "none"
    """Which commits must be signed: each new one, the newest alone, or none."""
    allowed_signers: bytes = b""
    """In the format of OpenSSH; empty: signatures of SSH keys do not count."""
    revoked_keys: bytes = b""
    """For `ssh-keygen -r`: a list of public keys, or a KRL."""
    openpgp_keys: tuple[bytes, ...] = ()
    """Armored public keys; none: signatures of OpenPGP do not count."""
    teams: Mapping[str, frozenset[str]] | None = None
    """`@team` → e-mail addresses; None: whose a path is does not matter."""
