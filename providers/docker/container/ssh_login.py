"""The key pair by which a session's containers log in to each other, and the files that SSH reads. Pure.

Everything follows from one seed: all containers of a session's generation have the same key, whoever makes
them and when.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from providers.base import Peer, SshLogin

FOLDER = "/run/bai/ssh"
_ALIAS = "bai-session"
"""All of a session's servers have one host key, known under one name."""


def ssh_files(login: SshLogin) -> Iterator[tuple[str, str]]:
    """File name → text, of the folder that containers find at `FOLDER`. The seed must have been resolved."""
    seed = bytes.fromhex(login.seed)
    private, public = key_pair(seed)
    host_private, host_public = key_pair(hashlib.sha256(b"host" + seed).digest())
    yield "key", private
    yield "key.pub", f"{public} session\n"
    yield "authorized_keys", f"{public} session\n"
    yield "host_key", host_private
    yield "known_hosts", f"{_ALIAS} {host_public}\n"
    yield "config", "".join(_client_config(peer) for peer in login.peers)
    yield "sshd_config", _server_config(login.port)


def key_pair(seed: bytes) -> tuple[str, str]:
    """Private (OpenSSH's format) and public half of the Ed25519 key that 32 bytes stand for."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
    )

    key = Ed25519PrivateKey.from_private_bytes(seed)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
    return private, key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def _client_config(peer: Peer) -> str:
    """A peer by its name in the session."""

    return f"""\
Host {peer.name}
    HostName {peer.host}
    Port {peer.port}
    IdentityFile {FOLDER}/key
    IdentitiesOnly yes
    UserKnownHostsFile {FOLDER}/known_hosts
    GlobalKnownHostsFile /dev/null
    HostKeyAlias {_ALIAS}
    StrictHostKeyChecking yes
    LogLevel ERROR
"""


def _server_config(port: int) -> str:
    """Only the session's key opens it. Files are not the user's own, hence no strict modes; what is run has
    the container's environment."""
    return f"""\
Port {port}
HostKey {FOLDER}/host_key
AuthorizedKeysFile {FOLDER}/authorized_keys
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
PidFile none
PrintMotd no
X11Forwarding no
MaxStartups 1000
MaxSessions 1000
Subsystem sftp internal-sftp
ForceCommand /bin/sh /run/bai/login
"""
