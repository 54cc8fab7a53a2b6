"""One run of the site play over some nodes, through ansible-runner and the guard."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from providers.ansible import files
from providers.ansible.artefacts import RUNNER, EventFile, new_run_folder, new_scratch_folder, tidy_run_folder
from providers.ansible.events import EventCollector
from providers.ansible.secrets import Mask
from providers.condition.fingerprint import PLAY
from providers.machines.ssh.route import Route
from providers.provisioning import OnProvisionEvent, StopRequested
from schemas.problems.errors.provisioning import ProvisioningImpossible

GUARD = Path(__file__).resolve().parent / "guard.py"
_CANCEL_INTERVAL = 0.5
"""Seconds between looks whether the run is to be stopped."""
_KEPT_ENV = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "SSH_AUTH_SOCK", "PYTHONPATH", "VIRTUAL_ENV",
    "http_proxy", "https_proxy", "no_proxy",
)  # fmt: skip
"""What Ansible gets of bai's environment, which may hold secrets; the runner writes it down."""
_RUNNER_ENV = ("ANSIBLE_", "AWX_", "RUNNER_", "ORIGINAL_STDOUT_CALLBACK")


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """A run that came to an end, good or bad."""

    collector: EventCollector
    folder: Path
    stopped: str
    """Why it was ended early, or what Ansible said last when it failed; empty otherwise."""


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What is the same for all runs of one provisioner."""

    state_root: Path
    roles: Path
    forks: int
    limit: float
    """Seconds after which a run is ended."""


def run_playbook(
    settings: RunSettings,
    inventory: files.Inventory,
    *,
    label: str,
    check: bool,
    tell: OnProvisionEvent,
    stop: StopRequested,
) -> RunOutcome:
    """Run it to its end. Raises ProvisioningImpossible when Ansible did not get to any node."""
    _check_usable(settings.roles, inventory.routes)
    mask = Mask(value for values in inventory.secrets.values() for value in values.values())
    folder, scratch = new_run_folder(settings.state_root, label), new_scratch_folder()
    try:
        forks = max(1, min(len(inventory.targets), settings.forks))
        files.write_run_files(folder, scratch, inventory, roles=settings.roles, forks=forks)
        collector = EventCollector(inventory.nodes, tell, time.monotonic, check=check)
        why = _execute_run(settings, folder, scratch, collector, mask, check=check, stop=stop)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        tail = tidy_run_folder(folder, mask)
    if not why and not collector.has_events:
        raise ProvisioningImpossible(
            why=f"Ansible did not begin: {tail or 'it said nothing'}", hint=f"see {folder}"
        )
    return RunOutcome(collector, folder, why)


def _check_usable(roles: Path, routes: Mapping[str, Route]) -> None:
    from importlib.util import find_spec

    if any(find_spec(name) is None for name in ("ansible_runner", "ansible", "ansible_mitogen")):
        hint = "pip install 'bai[provisioning]'"
        raise ProvisioningImpossible(why="Ansible is not installed here", hint=hint)
    if not (roles / PLAY).is_file():
        raise ProvisioningImpossible(why=f"there is no {PLAY} in {roles}")
    if routes and shutil.which("ssh") is None:
        raise ProvisioningImpossible(why="there is no ssh here", hint="install openssh-client")


def _execute_run(
    settings: RunSettings,
    folder: Path,
    scratch: Path,
    collector: EventCollector,
    mask: Mask,
    *,
    check: bool,
    stop: StopRequested,
) -> str:
    """Why it was ended early; empty when Ansible came to its own end."""
    kept = EventFile(folder / "events.jsonl")
    cancel = _CancelCheck(scratch, stop, time.monotonic() + settings.limit, settings.limit)

    def on_event(event: Mapping[str, Any]) -> bool:
        event = mask.data(event)
        kept.write(event)
        collector.handle(event)
        return False  # the runner need not keep it as well

    try:
        runner = _make_runner(settings, folder, scratch, check=check, on_event=on_event, cancel=cancel)
        runner.config.env = {**_environment(runner.config.env), "TMPDIR": str(scratch / "tmp")}
        runner.run()
    finally:
        kept.close()
    return cancel.why


def init_runner() -> Callable[..., Any]:
    """The library's, once all of it is there: its package gets its table of plugins last, and who imports a
    module of it by its full name does not wait for another thread that is importing the package."""
    from ansible_runner import interface

    made: Callable[..., Any] = interface.init_runner
    return made


def _make_runner(
    settings: RunSettings,
    folder: Path,
    scratch: Path,
    *,
    check: bool,
    on_event: Callable[[Mapping[str, Any]], bool],
    cancel: Callable[[], bool],
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
        settings={"pexpect_timeout": _CANCEL_INTERVAL},
        fact_cache_type="memory",
        quiet=True,
        event_handler=on_event,
        cancel_callback=cancel,
    )


class _CancelCheck:
    """Asked by the runner again and again: whether the run is to be ended. Ends it through the guard, so that
    nothing of it is left; the runner itself would kill the guard."""

    def __init__(self, scratch: Path, stop: StopRequested, deadline: float, limit: float) -> None:
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
                self._tell_guard()
        return False

    def _tell_guard(self) -> None:
        handle = os.pidfd_open(int(self._pid.read_text()))
        try:
            if self._pid.exists():  # Else the guard has ended, and its number may be another one's.
                signal.pidfd_send_signal(handle, signal.SIGTERM)
        finally:
            os.close(handle)


def _environment(env: Mapping[str, str]) -> dict[str, str]:
    """Only what Ansible needs: nothing of the user's Ansible settings, no secrets."""
    own = {name: value for name, value in env.items() if name in _KEPT_ENV}
    given = {
        name: value
        for name, value in env.items()
        if name.startswith(_RUNNER_ENV) and os.environ.get(name) != value
    }
    return {**own, **given, "LC_ALL": "C.UTF-8", "LANG": "C.UTF-8"}
