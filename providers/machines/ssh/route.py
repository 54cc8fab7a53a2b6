"""Where a node is and how to log in there, from its document and the user's own SSH configuration."""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import paramiko

from schemas.values.naturals import parse_natural

if TYPE_CHECKING:
    from providers.machines.base import Endpoint
    from schemas.kinds.cluster import Ssh

PORT = 22
TIMEOUT = 10.0
"""Seconds for a host to answer, where nothing else is said."""
KEEP_ALIVE = 15.0
KNOWN_HOSTS = "~/.ssh/known_hosts"
SYSTEM_KNOWN_HOSTS = "/etc/ssh/ssh_known_hosts"


@dataclass(frozen=True, slots=True)
class Hop:
    """One login: where, as whom, with which keys (empty: the agent's and the user's usual ones)."""

    host: str
    port: int = PORT
    user: str = ""
    keys: tuple[str, ...] = ()
    """Files of the user's own configuration."""
    own_key: str = field(default="", repr=False)
    """A private key, in place of `keys`; `own_name` is the secret that it is."""
    own_name: str = ""

    @property
    def entry(self) -> str:
        """Its name in known-hosts files."""
        return self.host if self.port == PORT else f"[{self.host}]:{self.port}"


@dataclass(frozen=True, slots=True)
class Route:
    """The node itself and the hosts to go through, nearest first."""

    target: Hop
    jumps: tuple[Hop, ...] = ()
    timeout: float = TIMEOUT
    record_new: bool = False
    """Unknown host keys are recorded instead of refused."""
    known_hosts: tuple[str, ...] = (KNOWN_HOSTS, SYSTEM_KNOWN_HOSTS)
    """Files, the first of which takes new keys."""
    own_hosts: str = field(default="", repr=False)
    """Lines of known hosts that count before these files; `own_hosts_name` is the secret that they are."""
    own_hosts_name: str = ""
    sudo: bool = False
    keep_alive: float = KEEP_ALIVE
    """Seconds of silence after which the far side is asked for a sign of life."""


def user_config(path: Path | None = None) -> paramiko.SSHConfig:
    """The user's own `~/.ssh/config`; empty where there is none."""
    found = path or Path.home() / ".ssh" / "config"
    return paramiko.SSHConfig.from_path(str(found)) if found.is_file() else paramiko.SSHConfig()


def ssh_route(endpoint: Endpoint, config: paramiko.SSHConfig) -> Route:
    """What documents say wins over `config`. Raises ValueError for a jump host that cannot be understood,
    SecretMissing."""
    ssh = endpoint.ssh
    key = (endpoint.secret(ssh.key_from), ssh.key_from) if ssh.key_from else ("", "")
    hosts = (
        (endpoint.secret(ssh.known_hosts_from), ssh.known_hosts_from) if ssh.known_hosts_from else ("", "")
    )
    said = config.lookup(endpoint.address)
    target = Hop(
        host=said.get("hostname", endpoint.address),
        port=ssh.port or int(said.get("port", PORT)),
        user=ssh.user or said.get("user") or getpass.getuser(),
        keys=() if ssh.key_from else tuple(said.get("identityfile", ())),
        own_key=key[0],
        own_name=key[1],
    )
    jumps = ssh.jump if ssh.jump is not None else said.get("proxyjump", "")
    return Route(
        target=target,
        jumps=tuple(_hop(each.strip(), config, ssh, key) for each in jumps.split(",") if _is_jump(each)),
        timeout=float(ssh.connect_timeout or said.get("connecttimeout") or TIMEOUT),
        record_new=_records_new_keys(ssh, said),
        known_hosts=(_expand_home(KNOWN_HOSTS), SYSTEM_KNOWN_HOSTS),
        own_hosts=hosts[0],
        own_hosts_name=hosts[1],
        sudo=bool(ssh.sudo),
        keep_alive=float(ssh.keep_alive or said.get("serveraliveinterval") or 0) or KEEP_ALIVE,
    )


def _records_new_keys(ssh: Ssh, said: Mapping[str, str]) -> bool:
    if ssh.host_keys is not None:
        return ssh.host_keys == "accept-new"
    return said.get("stricthostkeychecking", "").lower() == "accept-new"


def _is_jump(jump: str) -> bool:
    return jump.strip().lower() not in ("", "none")


def _hop(text: str, config: paramiko.SSHConfig, ssh: Ssh, key: tuple[str, str]) -> Hop:
    """`[user@]host[:port]`; an IPv6 address with a port stands in brackets."""
    user, _, place = text.rpartition("@")
    host, port = _split_host_port(place)
    said = config.lookup(host)
    keys = tuple(said.get("identityfile", ()))
    own, name = ("", "") if keys else key
    return Hop(
        host=said.get("hostname", host),
        port=port or int(said.get("port", PORT)),
        user=user or said.get("user") or ssh.user or getpass.getuser(),
        keys=keys,
        own_key=own,
        own_name=name,
    )


_LAST_PORT = 65_535


def _split_host_port(place: str) -> tuple[str, int]:
    if place.startswith("["):
        host, closed, rest = place[1:].partition("]")
        port = rest.removeprefix(":")
        number = parse_natural(port, _LAST_PORT) if rest else 0
        if not closed or number is None:
            raise ValueError(f"{place!r} is no [host]:port")
        return host, number
    if place.count(":") != 1:
        return place, 0
    host, _, port = place.partition(":")
    number = parse_natural(port, _LAST_PORT)
    if not host or number is None:
        raise ValueError(f"{place!r} is no host:port")
    return host, number


def _expand_home(path: str) -> str:
    return str(Path(path).expanduser())
