"""Whether sessions can run here, and which limits hold: one kernel is run, and what it has is read back."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from bai.doctor.check import Finding

if TYPE_CHECKING:
    from providers.base import KernelSpec, Observed, Provider

SECONDS = 30.0


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
    from schemas.errors import ProviderError

    with tempfile.TemporaryDirectory(prefix="bai-doctor-") as root:
        provider = open_provider("process", {}, state_root=Path(root))
        spec = _spec()
        try:
            yield _verdict(spec, _run(provider, spec))
        except ProviderError as error:
            yield Finding("a session", "failed", error.message)
        finally:
            provider.remove(spec.id)


def _spec() -> KernelSpec:
    from providers.base import KernelSpec, Labels

    name = f"doctor-main1-{os.getpid():08x}-g1"
    labels = Labels("doctor", "doctor", "Session/doctor/doctor", 1, "0", "main1", "localhost")
    wait = "import time; print('running', flush=True); time.sleep(60)"
    core = min(os.sched_getaffinity(0))
    command = (sys.executable, "-c", wait)
    return KernelSpec(
        id=name, labels=labels, command=command, env={}, cpus=(core,), memory=256 << 20, stop_grace=1.0
    )


def _run(provider: Provider, spec: KernelSpec) -> Observed | None:
    """The kernel as observed once it runs (or has ended); None when it was not seen in time."""
    provider.create(spec)
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        for seen in provider.observe().kernels:
            if seen.id == spec.id and seen.state != "creating":
                return seen
        time.sleep(0.05)
    return None


def _verdict(spec: KernelSpec, seen: Observed | None) -> Finding:
    if seen is None:
        return Finding("a session", "failed", f"a kernel did not run within {SECONDS:.0f} s")
    if seen.state != "running":
        return Finding(
            "a session", "failed", f"a kernel ended at once: {seen.reason}, exit code {seen.exit_code}"
        )
    if seen.cpus != spec.cpus:
        return Finding("a session", "warning", f"a kernel runs, but on cores {seen.cpus}, not {spec.cpus}")
    return Finding("a session", "ok", f"a kernel ran on core {spec.cpus[0]}, as read back, and was removed")
