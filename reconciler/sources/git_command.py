"""Running git for a remote: with our login and nobody else's, without hooks, and not for longer than we
wait."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from reconciler.sources.git import git_environment

TIMEOUT = 120.0
"""Seconds for one command."""
_QUIET_ENVIRONMENT = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",
}
_SSH_COMMAND = (
    "ssh -o BatchMode=yes -o ConnectTimeout=15 -o ServerAliveInterval=15"
    # A connection that stays for others would hold git's streams open.
    " -o ControlMaster=no -o ControlPath=none"
)
_SAFE_OPTIONS = (
    "-c", "protocol.ext.allow=never", "-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0",
    "-c", "fetch.fsckObjects=true", "-c", "credential.helper=",
)  # fmt: skip
_CREDENTIAL_HELPER = (
    '!f() { test "$1" = get && '
    'printf \'username=%s\\npassword=%s\\n\' "$BAI_GIT_USER" "$BAI_GIT_PASSWORD"; }; f'
)
_KILL_GRACE = 5.0


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
            ssh += f" -o IdentitiesOnly=yes -i {_shell_quote(self.key)}"
        if self.known_hosts is not None:
            ssh += f" -o StrictHostKeyChecking=yes -o UserKnownHostsFile={_shell_quote(self.known_hosts)}"
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
    """`url`: of the remote, whose server alone is told the password. `folder`: of the repository; None: in
    none. A command that takes longer than `timeout` has failed, and nothing of it is left."""
    where = ("--git-dir", str(folder)) if folder else ()
    command = ["git", *_SAFE_OPTIONS, *_credential_helper_options(login, url), *where, *arguments]
    try:
        child = subprocess.Popen(
            command, env={**git_environment(), **_QUIET_ENVIRONMENT, **login.environment()}, text=True,
            errors="replace", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        return subprocess.CompletedProcess(command, 127, "", f"git cannot be run: {error.strerror}")
    try:
        out, err = child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"no answer within {timeout:g} s")
    finally:
        if child.returncode is None:
            _kill_process_group(child)
    return subprocess.CompletedProcess(command, child.returncode, out, err)


def _credential_helper_options(login: GitLogin, url: str) -> list[str]:
    """Git asks for a login wherever it is led to, also by a redirect and by a proxy. From `http://` to
    `https://` of the same name is where servers lead who are asked without TLS."""
    scheme, mark, rest = url.partition("://")
    host = rest.partition("/")[0].rpartition("@")[2]
    if not login.password or not mark or scheme not in ("http", "https"):
        return []
    places = [f"{scheme}://{host}", *([f"https://{host}"] if scheme == "http" and ":" not in host else [])]
    return [word for place in places for word in ("-c", f"credential.{place}.helper={_CREDENTIAL_HELPER}")]


def _kill_process_group(child: subprocess.Popen[str]) -> None:
    """With all that it started: who speaks to the remote would wait on for ever."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    with contextlib.suppress(subprocess.TimeoutExpired, ValueError):
        child.communicate(timeout=_KILL_GRACE)
    for stream in (child.stdout, child.stderr):
        if stream is not None:
            stream.close()


def _shell_quote(path: Path) -> str:
    return "'" + str(path).replace("'", "'\\''") + "'"
