"""The seam's three verbs, carried out with Ansible and provision stamps."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    retry_if_result,
    stop_after_attempt,
    stop_after_delay,
    wait_chain,
    wait_fixed,
)

from providers.ansible.artefacts import write_results
from providers.ansible.files import Inventory, ssh_routes
from providers.ansible.node_lock import NodeLock, lock_token
from providers.ansible.run import RunOutcome, RunSettings, run_playbook
from providers.condition import query
from providers.condition.values import NodeCondition, ProvisionStamp
from providers.machines.base import Machine
from providers.machines.connections import connect
from providers.provisioning import (
    HostResult,
    OnProvisionEvent,
    ProvisionEvent,
    ProvisionTarget,
    StopRequested,
    ignore_event,
    never_stop,
)
from schemas.problems.errors.provider import ProviderError, ProviderUnavailable
from schemas.problems.errors.provisioning import NodeBusy, ProvisioningImpossible

LIMIT = 4 * 3600.0
"""Seconds after which a run is ended; a reboot's own time-out comes on top."""
_STAMP_RETRY = 1.0
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
        self._settings = RunSettings(state_root.resolve(), roles.resolve(), forks, limit)
        self._resolve = resolve
        self._clock = clock

    def observe(
        self, targets: Sequence[ProvisionTarget]
    ) -> tuple[Mapping[str, NodeCondition], Mapping[str, str]]:
        return query.observe_conditions(target.endpoint for target in targets)

    def check(
        self,
        targets: Sequence[ProvisionTarget],
        tell: OnProvisionEvent = ignore_event,
        stop: StopRequested = never_stop,
    ) -> Mapping[str, HostResult]:
        routes, problems = ssh_routes(targets)
        results = {node: HostResult(node, False, (), why, True) for node, why in problems.items()}
        able = [target for target in targets if target.node not in problems]
        if able:
            inventory = Inventory(able, routes, self._secrets(able))
            found, _ = self._run_with_reconnects(inventory, label="check", check=True, tell=tell, stop=stop)
            results |= found
        return {target.node: results[target.node] for target in targets}

    def provision(
        self, target: ProvisionTarget, tell: OnProvisionEvent = ignore_event, stop: StopRequested = never_stop
    ) -> HostResult:
        secrets = self._secrets([target])
        tell(ProvisionEvent(target.node, "start"))
        started = time.monotonic()
        try:
            result = self._provision_locked(target, secrets, tell, stop)
        except ProvisioningImpossible:
            raise
        except ProviderError as error:
            gone = isinstance(error, ProviderUnavailable) and not isinstance(error, NodeBusy)
            result = HostResult(target.node, False, (), str(error), gone)
        result = replace(result, seconds=time.monotonic() - started)
        tell(ProvisionEvent(target.node, "end", message=result.failed, seconds=result.seconds))
        return result

    def _provision_locked(
        self,
        target: ProvisionTarget,
        secrets: Mapping[str, Mapping[str, str]],
        tell: OnProvisionEvent,
        stop: StopRequested,
    ) -> HostResult:
        routes, problems = ssh_routes([target])
        if problems:
            return HostResult(target.node, False, (), problems[target.node], True)
        machine = connect(target.endpoint)
        token = lock_token(self._settings.state_root)
        with NodeLock(machine, grace=float(target.reboot_timeout), token=token) as lock:
            query.invalidate_stamp(machine)
            results, ended = self._run_with_reconnects(
                Inventory([target], routes, secrets), label=target.node, check=False, tell=tell,
                stop=lambda: bool(lock.lost) or stop(),
            )  # fmt: skip
            result = results[target.node]
            if lock.lost:
                result = replace(result, ok=False, failed=lock.lost)
            if result.ok:
                result = self._write_stamp(machine, target, ended.collector.report(target.node), result, tell)
        write_results(ended.folder, [result])
        return result

    def _run_with_reconnects(
        self,
        inventory: Inventory,
        *,
        label: str,
        check: bool,
        tell: OnProvisionEvent,
        stop: StopRequested,
    ) -> tuple[dict[str, HostResult], RunOutcome]:
        """What came of each node, and the last run; those that were not reached to the end are run again."""
        results: dict[str, HostResult] = {}
        left = inventory
        retrying = Retrying(
            retry=retry_if_result(lambda ended: bool(left.targets) and not (ended.stopped or stop())),
            stop=stop_after_attempt(len(RECONNECTS) + 1),
            wait=wait_chain(*map(wait_fixed, RECONNECTS)),
            retry_error_callback=_last_run,
        )

        def run_left() -> RunOutcome:
            nonlocal left
            attempt = retrying.statistics["attempt_number"]
            ended = run_playbook(self._settings, left, label=label, check=check, tell=tell, stop=stop)
            for node in left.nodes:
                result = ended.collector.result(node, stopped=ended.stopped, artefacts=ended.folder)
                before = results.get(node)
                if before is not None and not check:  # what was changed the first time is not changed again
                    changed = (*before.changed, *result.changed)
                    result = replace(result, changed=changed, rebooted=before.rebooted or result.rebooted)
                if result.unreachable and attempt > 1:
                    result = replace(result, failed=f"{result.failed} (tried {attempt} times)")
                results[node] = result
            write_results(ended.folder, [results[node] for node in left.nodes])
            left = left.limited_to([node for node in left.nodes if results[node].unreachable])
            return ended

        return results, retrying(run_left)

    def _write_stamp(
        self,
        machine: Machine,
        target: ProvisionTarget,
        report: Mapping[str, Any] | None,
        result: HostResult,
        tell: OnProvisionEvent,
    ) -> HostResult:
        if report is None:
            return replace(result, ok=False, failed="the site play did not say what is to be watched")
        stamp = ProvisionStamp(target.profile, target.fingerprint, target.document, self._clock())
        retrying = Retrying(
            retry=retry_if_exception_type(ProviderUnavailable),
            stop=stop_after_delay(max(30.0, float(target.reboot_timeout) if result.rebooted else 0.0)),
            wait=wait_fixed(_STAMP_RETRY),
            reraise=True,
        )
        retrying(query.write_stamp, machine, stamp, merge_watches(report.get("watch") or {}))
        tell(ProvisionEvent(target.node, "sealed"))
        return result

    def _secrets(self, targets: Sequence[ProvisionTarget]) -> dict[str, dict[str, str]]:
        """Node → variable → value. Raises SecretMissing."""
        return {
            target.node: {name: self._resolve(reference) for name, reference in target.secrets.items()}
            for target in targets
            if target.secrets
        }


def _last_run(state: RetryCallState) -> RunOutcome:
    assert state.outcome is not None
    ended: RunOutcome = state.outcome.result()
    return ended


def merge_watches(watches: Mapping[str, Any]) -> dict[str, Any]:
    """The lists of all roles as one: kind → names, sorted."""
    found: dict[str, set[str]] = {}
    for watch in watches.values():
        for kind, names in (watch or {}).items():
            found.setdefault(kind, set()).update(map(str, names or ()))
    return {kind: sorted(names) for kind, names in sorted(found.items())}
