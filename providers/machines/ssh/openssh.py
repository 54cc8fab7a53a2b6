"""OpenSSH's own client on the ways that bai goes: a configuration in which hosts, ports, users, keys, jump
hosts and known hosts are those of `route`. The user's own `~/.ssh/config` counts only through that.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from providers.machines.ssh.login import DEFAULT_KEYS
from providers.machines.ssh.route import Hop, Route

CONFIG = "ssh_config"
_FOR_ALL = """
Host *
  BatchMode yes
  GlobalKnownHostsFile /dev/null
  HashKnownHosts no
  ServerAliveCountMax 3
  ConnectionAttempts 1
  ForwardAgent no
  ForwardX11 no
  PreferredAuthentications publickey
  LogLevel ERROR
"""


def write_ssh_config(folder: Path, routes: Mapping[str, Route]) -> Path:
    """The configuration's file in `folder`, which is this user's alone, beside keys and known hosts that it
    names. `routes`: node → how to get there; `ssh -F FILE ALIAS` does."""
    path = folder / CONFIG
    hops = [line for node, route in routes.items() for line in _hops(node, route, folder)]
    write_private(path, "\n".join(hops) + _FOR_ALL)
    return path


def ssh_alias(node: str, route: Route) -> str:
    """What the node itself is called in the configuration."""
    return _alias(node, len(route.jumps))


def write_private(path: Path, text: str) -> None:
    """A file for this user alone."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def _hops(node: str, route: Route, folder: Path) -> Iterator[str]:
    # The first file takes new keys.
    known_hosts = (*route.known_hosts, *_write_key(folder, "hosts", route.own_hosts))
    for at, hop in enumerate((*route.jumps, route.target)):
        yield f"Host {_alias(node, at)}"
        yield f"  HostName {hop.host}"
        yield f"  Port {hop.port}"
        yield f"  User {hop.user}"
        for key in _write_key(folder, "key", hop.own_key) or _keys(hop):
            yield f"  IdentityFile {_word(key)}"
        if at:
            yield f"  ProxyJump {_alias(node, at - 1)}"
        yield f"  UserKnownHostsFile {' '.join(map(_word, known_hosts))}"
        yield f"  StrictHostKeyChecking {'accept-new' if route.record_new else 'yes'}"
        yield f"  ConnectTimeout {max(1, math.ceil(route.timeout))}"
        yield f"  ServerAliveInterval {max(1, math.ceil(route.keep_alive))}"
        yield ""


def _keys(hop: Hop) -> tuple[str, ...]:
    """ssh looks for the usual keys in the folder that the system says is the user's, bai in $HOME."""
    if hop.keys:
        return tuple(hop.keys)
    return tuple(str(path) for name in DEFAULT_KEYS if (path := Path(name).expanduser()).exists())


def _write_key(folder: Path, kind: str, text: str) -> tuple[str, ...]:
    """The file of a text that a secret store has, written once for all that share it; none for no text."""
    if not text:
        return ()
    path = folder / f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    if not path.exists():
        write_private(path, text + "\n")
    return (str(path),)


def _alias(node: str, hop: int) -> str:
    """No name of the outer world: whatever ssh knows about the host stands under it."""
    return f"{node}.hop{hop}.bai"


def _word(path: str) -> str:
    """One word of an ssh configuration; `%` would be expanded."""
    return '"' + path.replace("%", "%%") + '"'
