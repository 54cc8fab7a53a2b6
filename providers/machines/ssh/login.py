"""Who logs in: the keys that are offered, one after another, and what is said when none is accepted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import paramiko

from providers.machines.ssh.route import Hop
from providers.machines.tls import as_file
from schemas.files.plain_files import check_plain
from schemas.problems.errors import LoginRefused

USUAL = ("~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa")


class _Unusable(Exception):
    """A key that cannot be offered, and why."""


def log_in(node: str, hop: Hop, transport: paramiko.Transport) -> None:
    """Offer the hop's keys, then the agent's. Raises LoginRefused, which names all that was tried."""
    tried: list[str] = []
    agent = paramiko.Agent()
    try:
        for name, load in _candidates(hop, agent):
            if _accepted(hop, transport, name, load, tried):
                return
            if not transport.is_active():
                tried.append("then it hung up (MaxAuthTries)")
                break
    finally:
        agent.close()
    raise _refused(node, hop, tried)


def _candidates(hop: Hop, agent: paramiko.Agent) -> Iterator[tuple[str, Callable[[], paramiko.PKey]]]:
    """A key's name, and how it is loaded."""
    if hop.own_key:
        yield hop.own_name, lambda: _from_text(hop)
    usual = () if hop.own_key else USUAL
    for path in [Path(each) for each in hop.keys] or [Path(each).expanduser() for each in usual]:
        if path.exists():
            yield str(path), lambda path=path: _from_file(path, str(path))  # type: ignore[misc]
    for key in agent.get_keys():
        yield f"the agent's {key.comment or key.get_name()}", lambda key=key: key  # type: ignore[misc]


def _from_file(path: Path, name: str) -> paramiko.PKey:
    """Raises _Unusable."""
    try:
        check_plain(path)
        if (certificate := Path(f"{path}-cert.pub")).exists():
            check_plain(certificate)
        return paramiko.PKey.from_path(path)
    except (paramiko.PasswordRequiredException, TypeError):
        raise _Unusable(f"{name} (it has a passphrase: ssh-add it)") from None
    except OSError as error:
        raise _Unusable(f"{name} ({(error.strerror or str(error)).lower()})") from None
    except (ValueError, paramiko.SSHException, paramiko.pkey.UnknownKeyType):
        raise _Unusable(f"{name} (it is no private key that can be read)") from None


def _from_text(hop: Hop) -> paramiko.PKey:
    """Raises _Unusable."""
    with as_file(hop.own_key + "\n") as path:
        return _from_file(Path(path), hop.own_name)


def _accepted(
    hop: Hop,
    transport: paramiko.Transport,
    name: str,
    load: Callable[[], paramiko.PKey],
    tried: list[str],
) -> bool:
    try:
        further = transport.auth_publickey(hop.user, load())
    except _Unusable as error:
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


def _refused(node: str, hop: Hop, tried: list[str]) -> LoginRefused:
    why = f"tried {', '.join(tried)}" if tried else "there is no key: no agent, and none in ~/.ssh"
    port = "" if hop.port == 22 else f"-p {hop.port} "
    hint = f"this must work: ssh {port}{hop.user}@{hop.host}; name a key with ssh.keyFrom, or start an agent"
    return LoginRefused(node=node, user=f"{hop.user} at {hop.entry}", why=why, hint=hint)
