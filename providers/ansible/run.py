"""One run of the site play over some nodes, through ansible-runner and the guard."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from providers.ansible import files
from providers.ansible.artefacts import RUNNER, EventFile, new_run, new_scratch, tidy
from providers.ansible.events import Story
from providers.ansible.secrets import Mask
from providers.condition.fingerprint import PLAY
from providers.machines.ssh.route import Route
from providers.provisioning import Stop, Target, Tell
from schemas.problems.errors import ProvisioningImpossible

GUARD = Path(__file__).resolve().parent / "guard.py"
_LOOK = 0.5
"""Seconds between looks whether the run is to be stopped."""
_KEPT_ENV = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "SSH_AUTH_SOCK", "PYTHONPATH", "VIRTUAL_ENV",
    "http_proxy", "https_proxy", "no_proxy",
)  # fmt: skip
"""What Ansible gets of bai's environment, which may hold secrets; the runner writes it down."""
_RUNNER_ENV = ("ANSIBLE_", "AWX_", "RUNNER_", "ORIGINAL_STDOUT_CALLBACK")


@dataclass(frozen=True, slots=True)
class Ended:
    """A run that came to an end, good or bad."""

    story: Story
    folder: Path
    stopped: str
    """Why it was ended early, or what Ansible said last when it failed; empty otherwise."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What is the same for all runs of one provisioner."""

    state_root: Path
    roles: Path
    forks: int
    limit: float
    """Seconds after which a run is ended."""


def run(
    settings: Settings,
    targets: Sequence[Target],
    ways: Mapping[str, Route],
    secrets: Mapping[str, Mapping[str, str]],
    *,
    label: str,
    check: bool,
    tell: Tell,
    stop: Stop,
) -> Ended:
    """Run it to its end. Raises ProvisioningImpossible when Ansible did not get to any node."""
    _usable(settings.roles, ways)
    mask = Mask(value for values in secrets.values() for value in values.values())
    folder, scratch = new_run(settings.state_root, label), new_scratch()
    try:
        forks = max(1, min(len(targets), settings.forks))
        files.write(folder, scratch, targets, ways, roles=settings.roles, forks=forks, secrets=secrets)
        story = Story((target.node for target in targets), tell, time.monotonic, check=check)
        why = _carry_out(settings, folder, scratch, story, mask, check=check, stop=stop)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        tail = tidy(folder, mask)
    if not why and not story.told:
        raise ProvisioningImpossible(
            why=f"Ansible did not begin: {tail or 'it said nothing'}", hint=f"see {folder}"
        )
    return Ended(story, folder, why)


def _usable(roles: Path, ways: Mapping[str, Route]) -> None:
    from importlib.util import find_spec

    if any(find_spec(name) is None for name in ("ansible_runner", "ansible", "ansible_mitogen")):
        hint = "pip install 'bai[provisioning]'"
        raise ProvisioningImpossible(why="Ansible is not installed here", hint=hint)
    if not (roles / PLAY).is_file():
        raise ProvisioningImpossible(why=f"there is no {PLAY} in {roles}")
    if ways and shutil.which("ssh") is None:
        raise ProvisioningImpossible(why="there is no ssh here", hint="install openssh-client")


def _carry_out(
    settings: Settings,
    folder: Path,
    scratch: Path,
    story: Story,
    mask: Mask,
    *,
    check: bool,
    stop: Stop,
) -> str:
    """Why it was ended early; empty when Ansible came to its own end."""
    kept = EventFile(folder / "events.jsonl")
    ending = _Ending(scratch, stop, time.monotonic() + settings.limit, settings.limit)

    def heard(event: Mapping[str, Any]) -> bool:
        event = mask.data(event)
        kept.write(event)
        story.take(event)
        return False  # the runner need not keep it as well

    try:
        runner = _runner(settings, folder, scratch, check=check, heard=heard, ending=ending)
        runner.config.env = {**_environment(runner.config.env), "TMPDIR": str(scratch / "tmp")}
        runner.run()
    finally:
        kept.close()
    return ending.why


def init_runner() -> Callable[..., Any]:
    """The library's, once all of it is there: its package gets its table of plugins last, and who imports a
    module of it by its full name does not wait for another thread that is importing the package."""
    from ansible_runner import interface

    made: Callable[..., Any] = interface.init_runner
    return made


def _runner(
    settings: Settings,
    folder: Path,
    scratch: Path,
    *,
    check: bool,
    heard: Callable[[Mapping[str, Any]], bool],
    ending: Callable[[], bool],
) -> Any:
    (folder / RUNNER).mkdir(mode=0o700)
    words = [str(GUARD), str(os.getpid()), str(scratch), sys.executable, "-m", "ansible", "playbook"]
    words += ["--check", "--diff"] if check else ["--diff"]
    words += [str(settings.roles / PLAY)]
    return init_runner()(
        private_data_dir=str(folder / RUNNER),
        artifact_dir=str(folder / RUNNER / "artifacts"),
        binary=sys.executable,
        cmdline=shlex.join(words),
        inventory=[str(folder / files.INVENTORY), str(scratch / files.SECRETS / files.INVENTORY)],
        envvars={
            "ANSIBLE_CONFIG": str(scratch / "ansible.cfg"),
            "ANSIBLE_HOST_KEY_CHECKING": "True",
            "ANSIBLE_HOME": str(scratch / "home"),
        },
        settings={"pexpect_timeout": _LOOK},
        fact_cache_type="memory",
        quiet=True,
        event_handler=heard,
        cancel_callback=ending,
    )


class _Ending:
    """Asked by the runner again and again: whether the run is to be ended. Ends it through the guard, so that
    nothing of it is left; the runner itself would kill the guard."""

    def __init__(self, scratch: Path, stop: Stop, deadline: float, limit: float) -> None:
        self._pid = scratch / "pid"
        self._stop = stop
        self._deadline = deadline
        self._limit = limit
        self.why = ""

    def __call__(self) -> bool:
        if not self.why:
            if self._stop():
                self.why = "stopped"
            elif time.monotonic() > self._deadline:
                self.why = f"not finished within {self._limit:g} s"
        if self.why:
            with contextlib.suppress(OSError, ValueError):
                os.kill(int(self._pid.read_text()), signal.SIGTERM)
        return False


def _environment(env: Mapping[str, str]) -> dict[str, str]:
    """Only what Ansible needs: nothing of the user's Ansible settings, no secrets."""
    own = {name: value for name, value in env.items() if name in _KEPT_ENV}
    given = {
        name: value
        for name, value in env.items()
        if name.startswith(_RUNNER_ENV) and os.environ.get(name) != value
    }
    return {**own, **given, "LC_ALL": "C.UTF-8", "LANG": "C.UTF-8"}
