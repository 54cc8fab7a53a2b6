"""The seam's three verbs, carried out with Ansible and seals."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from providers.ansible.artefacts import write_results
from providers.ansible.files import routes
from providers.ansible.hold import Hold, token_of
from providers.ansible.run import Ended, Settings, run
from providers.condition import ask
from providers.condition.values import Condition, Seal
from providers.machines.base import Machine
from providers.machines.connections import connect
from providers.machines.ssh.route import Route
from providers.provisioning import HostResult, ProvisionEvent, Stop, Target, Tell, never, untold
from schemas.problems.errors import NodeBusy, ProviderError, ProviderUnavailable, ProvisioningImpossible

LIMIT = 4 * 3600.0
"""Seconds after which a run is ended; a reboot's own time-out comes on top."""
_PAUSE = 1.0
RECONNECTS = (1.0, 4.0)
"""Seconds before the roles are run again on a node whose connection was refused or lost: they may be repeated
from any point, and a reboot is asked for only while it is needed."""


class AnsibleProvisioner:
    """`Provisioner`; see there."""

    def __init__(
        self,
        state_root: Path,
        resolve: Callable[[str], str],
        *,
        roles: Path,
        forks: int = 50,
        limit: float = LIMIT,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings = Settings(state_root.resolve(), roles.resolve(), forks, limit)
        self._resolve = resolve
        self._clock = clock

    def observe(self, targets: Sequence[Target]) -> tuple[Mapping[str, Condition], Mapping[str, str]]:
        return ask.observe(target.endpoint for target in targets)

    def check(
        self, targets: Sequence[Target], tell: Tell = untold, stop: Stop = never
    ) -> Mapping[str, HostResult]:
        ways, problems = routes(targets)
        results = {node: HostResult(node, False, (), why, True) for node, why in problems.items()}
        able = [target for target in targets if target.node not in problems]
        if able:
            secrets = self._secrets(able)
            found, _ = self._persistently(
                able, ways, secrets, label="check", check=True, tell=tell, stop=stop
            )  # fmt: skip
            results |= found
        return {target.node: results[target.node] for target in targets}

    def provision(self, target: Target, tell: Tell = untold, stop: Stop = never) -> HostResult:
        secrets = self._secrets([target])
        tell(ProvisionEvent(target.node, "start"))
        started = time.monotonic()
        try:
            result = self._held(target, secrets, tell, stop)
        except ProvisioningImpossible:
            raise
        except ProviderError as error:
            gone = isinstance(error, ProviderUnavailable) and not isinstance(error, NodeBusy)
            result = HostResult(target.node, False, (), str(error), gone)
        result = replace(result, seconds=time.monotonic() - started)
        tell(ProvisionEvent(target.node, "end", message=result.failed, seconds=result.seconds))
        return result

    def _held(
        self, target: Target, secrets: Mapping[str, Mapping[str, str]], tell: Tell, stop: Stop
    ) -> HostResult:
        ways, problems = routes([target])
        if problems:
            return HostResult(target.node, False, (), problems[target.node], True)
        machine = connect(target.endpoint)
        token = token_of(self._settings.state_root)
        with Hold(machine, grace=float(target.reboot_timeout), token=token) as hold:
            ask.begin(machine)
            results, ended = self._persistently(
                [target], ways, secrets, label=target.node, check=False, tell=tell,
                stop=lambda: bool(hold.lost) or stop(),
            )  # fmt: skip
            result = results[target.node]
            if hold.lost:
                result = replace(result, ok=False, failed=hold.lost)
            if result.ok:
                result = self._sealed(machine, target, ended.story.report(target.node), result, tell)
        write_results(ended.folder, [result])
        return result

    def _persistently(
        self,
        targets: Sequence[Target],
        ways: Mapping[str, Route],
        secrets: Mapping[str, Mapping[str, str]],
        *,
        label: str,
        check: bool,
        tell: Tell,
        stop: Stop,
    ) -> tuple[dict[str, HostResult], Ended]:
        """What came of each node, and the last run; those that were not reached to the end are run again."""
        results: dict[str, HostResult] = {}
        left = targets
        for attempt, pause in enumerate((*RECONNECTS, None), 1):
            ended = run(self._settings, left, ways, secrets, label=label, check=check, tell=tell, stop=stop)
            for target in left:
                result = ended.story.result(target.node, stopped=ended.stopped, artefacts=ended.folder)
                before = results.get(target.node)
                if before is not None and not check:  # what was changed the first time is not changed again
                    changed = (*before.changed, *result.changed)
                    result = replace(result, changed=changed, rebooted=before.rebooted or result.rebooted)
                if result.unreachable and attempt > 1:
                    result = replace(result, failed=f"{result.failed} (tried {attempt} times)")
                results[target.node] = result
            write_results(ended.folder, [results[target.node] for target in left])
            left = [target for target in left if results[target.node].unreachable]
            if not left or pause is None or ended.stopped or stop():
                break
            time.sleep(pause)
        return results, ended

    def _sealed(
        self,
        machine: Machine,
        target: Target,
        report: Mapping[str, Any] | None,
        result: HostResult,
        tell: Tell,
    ) -> HostResult:
        if report is None:
            return replace(result, ok=False, failed="the site play did not say what is to be watched")
        seal = Seal(target.profile, target.fingerprint, target.document, self._clock())
        deadline = time.monotonic() + max(30.0, float(target.reboot_timeout) if result.rebooted else 0.0)
        while True:
            try:
                ask.write_seal(machine, seal, merged(report.get("watch") or {}))
                break
            except ProviderUnavailable:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE)
        tell(ProvisionEvent(target.node, "sealed"))
        return result

    def _secrets(self, targets: Sequence[Target]) -> dict[str, dict[str, str]]:
        """Node → variable → value. Raises SecretMissing."""
        return {
            target.node: {name: self._resolve(reference) for name, reference in target.secrets.items()}
            for target in targets
            if target.secrets
        }


def merged(watches: Mapping[str, Any]) -> dict[str, Any]:
    """The lists of all roles as one: kind → names, sorted."""
    found: dict[str, set[str]] = {}
    for watch in watches.values():
        for kind, names in (watch or {}).items():
            found.setdefault(kind, set()).update(map(str, names or ()))
    return {kind: sorted(names) for kind, names in sorted(found.items())}
