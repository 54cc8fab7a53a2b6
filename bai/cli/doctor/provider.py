"""Whether sessions can run here, and which limits hold: one kernel is run, and what it has is read back."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from bai.cli.doctor.check import Finding

if TYPE_CHECKING:
    from bai.settings import Settings
    from providers.base import KernelSpec, Observed, Provider

SECONDS = 20.0


def provider_checks(settings: Settings) -> Iterator[Finding]:
    """What this machine can do for sessions, where any run here."""
    name = _provider_name(settings)
    if name == "process":
        yield from limits()
        yield from kernel()
        return
    where = f"provider {name} runs none as processes of this machine"
    yield Finding("limits", "skipped", f"{where}; `bai plan` warns of those that its nodes lack")
    yield Finding("a session", "skipped", where)


def _provider_name(settings: Settings) -> str:
    """Of the repository's cluster; what a machine is asked for without one is the default."""
    from schemas.problems.errors.base import BaiError

    try:
        with settings.reading_workspace() as workspace:
            return workspace.cluster.spec.provider
    except BaiError:
        return "process"


def limits() -> Iterator[Finding]:
    """One finding per limit, as the process provider found it on this machine."""
    from providers.base import Limit
    from providers.registry import open_provider

    with tempfile.TemporaryDirectory(prefix="bai-doctor-") as root:
        capabilities = open_provider("process", {}, state_root=Path(root)).capabilities()
    for limit in Limit:
        if limit in (Limit.DEVICES, Limit.FRACTION) and limit not in capabilities.limits:
            continue
        if limit in capabilities.limits:
            yield Finding(f"limit {limit.value}", "ok", "is enforced")
        else:
            why = capabilities.limits_missing.get(limit, "this provider cannot")
            yield Finding(f"limit {limit.value}", "warning", f"is not enforced: {why}")


def kernel() -> Iterator[Finding]:
    """Run one kernel on one core in a place of its own, see what it really has, and remove it."""
    from providers.registry import open_provider
    from schemas.problems.errors.provider import ProviderError

    with tempfile.TemporaryDirectory(prefix="bai-doctor-") as root:
        provider = open_provider("process", {}, state_root=Path(root))
        spec = _kernel_spec()
        try:
            seen = _run_kernel(provider, spec)
            yield _kernel_finding(spec, seen, _last_words(provider, spec))
        except ProviderError as error:
            yield Finding("a session", "failed", error.message)
        finally:
            provider.remove(spec.id)


def _kernel_spec() -> KernelSpec:
    from providers.base import KernelSpec, Labels
    from schemas.kinds.cluster import SessionUids

    name = f"doctor-main1-{os.getpid():08x}-g1"
    labels = Labels("doctor", "doctor", "Session/doctor/doctor", 1, "0", "main1", "localhost")
    core = min(os.sched_getaffinity(0))
    command = ("sh", "-c", "echo running; sleep 60")
    uid = SessionUids().uid_for("doctor")
    return KernelSpec(
        id=name,
        labels=labels,
        command=command,
        env={},
        cpus=(core,),
        memory=256 << 20,
        uid=uid,
        stop_grace=1.0,
    )


def _run_kernel(provider: Provider, spec: KernelSpec) -> Observed | None:
    """The kernel once it has spoken and runs where it should, or has ended; else as last seen."""
    provider.create(spec)
    last: Observed | None = None
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        last = next((seen for seen in provider.observe().kernels if seen.id == spec.id), last)
        if last and last.state not in ("creating", "starting", "running"):
            return last
        if last and last.cpus == spec.cpus and _last_words(provider, spec):
            return last
        time.sleep(0.05)
    return last


def _last_words(provider: Provider, spec: KernelSpec) -> str:
    """The end of what the kernel wrote."""
    text = b"".join(provider.logs(spec.id, tail=1)).decode(errors="replace").strip()
    return f": {text[:200]}" if text else ""


def _kernel_finding(spec: KernelSpec, seen: Observed | None, words: str) -> Finding:
    if seen is None:
        return Finding("a session", "failed", f"a kernel did not run within {SECONDS:.0f} s")
    if seen.state != "running":
        ended = f"{seen.reason}, exit code {seen.exit_code}{words}"
        return Finding("a session", "failed", f"a kernel ended at once: {ended}")
    if seen.cpus != spec.cpus:
        return Finding("a session", "warning", f"a kernel runs, but on cores {seen.cpus}, not {spec.cpus}")
    return Finding("a session", "ok", f"a kernel ran on core {spec.cpus[0]}, as read back, and was removed")
