"""Who logs in: the keys that are offered, one after another, and what is said when none is accepted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import paramiko

from providers.machines.tls import text_as_file
from schemas.files.regular_files import check_regular_file
from schemas.problems.errors.node import LoginRefused

if TYPE_CHECKING:
    from providers.machines.ssh.route import Hop

DEFAULT_KEYS = ("~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa")


class _UnusableKey(Exception):
    """A key that cannot be offered, and why."""


def log_in(node: str, hop: Hop, transport: paramiko.Transport) -> None:
    """Offer the hop's keys, then the agent's. Raises LoginRefused, which names all that was tried."""
    tried: list[str] = []
    agent = paramiko.Agent()
    try:
        for name, load in _candidate_keys(hop, agent):
            if _try_key(hop, transport, name, load, tried):
                return
            if not transport.is_active():
                tried.append("then it hung up (MaxAuthTries)")
                break
    finally:
        agent.close()
    raise _refusal(node, hop, tried)


def _candidate_keys(hop: Hop, agent: paramiko.Agent) -> Iterator[tuple[str, Callable[[], paramiko.PKey]]]:
    """A key's name, and how it is loaded."""
    if hop.own_key:
        yield hop.own_name, lambda: _load_secret(hop)
    usual = () if hop.own_key else DEFAULT_KEYS
    for path in [Path(each) for each in hop.keys] or [Path(each).expanduser() for each in usual]:
        if path.exists():
            yield str(path), lambda path=path: _load_file(path, str(path))  # type: ignore[misc]
    for key in agent.get_keys():
        yield f"the agent's {key.comment or key.get_name()}", lambda key=key: key  # type: ignore[misc]


def _load_file(path: Path, name: str) -> paramiko.PKey:
    """Raises _UnusableKey."""
    try:
        check_regular_file(path)
        if (certificate := Path(f"{path}-cert.pub")).exists():
            check_regular_file(certificate)
        return paramiko.PKey.from_path(path)
    except (paramiko.PasswordRequiredException, TypeError):
        raise _UnusableKey(f"{name} (it has a passphrase: ssh-add it)") from None
    except OSError as error:
        raise _UnusableKey(f"{name} ({(error.strerror or str(error)).lower()})") from None
    except (ValueError, paramiko.SSHException, paramiko.pkey.UnknownKeyType):
        raise _UnusableKey(f"{name} (it is no private key that can be read)") from None


def _load_secret(hop: Hop) -> paramiko.PKey:
    """Raises _UnusableKey."""
    with text_as_file(hop.own_key + "\n") as path:
        return _load_file(Path(path), hop.own_name)


def _try_key(
    hop: Hop,
    transport: paramiko.Transport,
    name: str,
    load: Callable[[], paramiko.PKey],
    tried: list[str],
) -> bool:
    try:
        further = transport.auth_publickey(hop.user, load())
    except _UnusableKey as error:
        tried.append(str(error))
    except paramiko.BadAuthenticationType as error:
        tried.append(f"{name} (it takes {' or '.join(error.allowed_types)} only)")
    except paramiko.AuthenticationException:
        tried.append(name)
    except (paramiko.SSHException, EOFError, OSError) as error:
        tried.append(f"{name} ({error})")
    else:
        if not further:
            return True
        tried.append(f"{name} (accepted, but it wants {' and '.join(further)} as well)")
    return False


def _refusal(node: str, hop: Hop, tried: list[str]) -> LoginRefused:
    why = f"tried {', '.join(tried)}" if tried else "there is no key: no agent, and none in ~/.ssh"
    port = "" if hop.port == 22 else f"-p {hop.port} "
    hint = f"this must work: ssh {port}{hop.user}@{hop.host}; name a key with ssh.keyFrom, or start an agent"
    return LoginRefused(node=node, user=f"{hop.user} at {hop.entry}", why=why, hint=hint)
