"""Git and a remote: with our login and nobody else's, and with no more of its own settings than it needs."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from schemas.files.git_process import TIMEOUT, decoded, execute_git

_ENVIRONMENT = {"GIT_CONFIG_NOSYSTEM": "1"}
_SSH_COMMAND = (
    "ssh -o BatchMode=yes -o ConnectTimeout=15 -o ServerAliveInterval=15"
    # A connection that stays for others would hold git's streams open.
    " -o ControlMaster=no -o ControlPath=none"
)
_SAFE_OPTIONS = (
    "-c", "protocol.ext.allow=never", "-c", "gc.auto=0", "-c", "fetch.fsckObjects=true",
    "-c", "credential.helper=",
)  # fmt: skip
_CREDENTIAL_HELPER = (
    '!f() { test "$1" = get && '
    'printf \'username=%s\\npassword=%s\\n\' "$BAI_GIT_USER" "$BAI_GIT_PASSWORD"; }; f'
)


@dataclass(frozen=True, slots=True)
class GitLogin:
    """How the remote is asked. `password` (or a token) for HTTP, `key` a private key's file for SSH."""

    user: str = ""
    password: str = field(default="", repr=False)
    key: Path | None = None
    known_hosts: Path | None = None

    def environment(self) -> dict[str, str]:
        found: dict[str, str] = {}
        if self.password:
            found |= {"BAI_GIT_USER": self.user or "bai", "BAI_GIT_PASSWORD": self.password}
        ssh = os.environ.get("GIT_SSH_COMMAND", _SSH_COMMAND)
        if self.key is not None:
            ssh += f" -o IdentitiesOnly=yes -i {shlex.quote(str(self.key))}"
        if self.known_hosts is not None:
            ssh += f" -o StrictHostKeyChecking=yes -o UserKnownHostsFile={shlex.quote(str(self.known_hosts))}"
        return found | {"GIT_SSH_COMMAND": ssh}


def login_from_environment(found: Mapping[str, str]) -> GitLogin:
    """From `BAI_GIT_USER`, `BAI_GIT_PASSWORD`, `BAI_GIT_KEY` and `BAI_GIT_KNOWN_HOSTS`."""
    key, hosts = found.get("BAI_GIT_KEY"), found.get("BAI_GIT_KNOWN_HOSTS")
    return GitLogin(
        found.get("BAI_GIT_USER", ""),
        found.get("BAI_GIT_PASSWORD", ""),
        Path(key) if key else None,
        Path(hosts) if hosts else None,
    )


def run_git(
    login: GitLogin, url: str, *arguments: str, folder: Path | None, timeout: float = TIMEOUT
) -> subprocess.CompletedProcess[str]:
    """`url`: of the remote, whose server alone is told the password. `folder`: of the bare repository; None:
    in none. A command that takes longer than `timeout` has failed, and nothing of it is left."""
    # Not by looking for it, which would find another one where this one is damaged.
    where = ("--git-dir", str(folder)) if folder else ()
    options = (*_SAFE_OPTIONS, *_credential_helper_options(login, url), *where)
    environment = {**_ENVIRONMENT, **login.environment()}
    return decoded(execute_git(*options, *arguments, timeout=timeout, environment=environment))


def _credential_helper_options(login: GitLogin, url: str) -> list[str]:
    """Git asks for a login wherever it is led to, also by a redirect and by a proxy. From `http://` to
    `https://` of the same name is where servers lead who are asked without TLS."""
    scheme, mark, rest = url.partition("://")
    host = rest.partition("/")[0].rpartition("@")[2]
    if not login.password or not mark or scheme not in ("http", "https"):
        return []
    places = [f"{scheme}://{host}", *([f"https://{host}"] if scheme == "http" and ":" not in host else [])]
    return [word for place in places for word in ("-c", f"credential.{place}.helper={_CREDENTIAL_HELPER}")]
