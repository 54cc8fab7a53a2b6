"""What the machine has: Python, git, bubblewrap, a user manager, NVML, the probe."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator

from bai.cli.doctor.check import Finding

SECONDS = 20
OLDEST = (3, 11)


def _run_program(*argv: str) -> tuple[int, str]:
    """Exit code and output of a program; 127 when it is not there, 124 when it takes too long."""
    if shutil.which(argv[0]) is None:
        return 127, f"{argv[0]} is not installed"
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return 124, f"{argv[0]} did not answer within {SECONDS} s"
    return done.returncode, (done.stdout or done.stderr).strip()


def python() -> Iterator[Finding]:
    version = platform.python_version()
    if sys.version_info >= OLDEST:
        yield Finding("python", "ok", f"{version} at {sys.executable}")
    else:
        yield Finding("python", "failed", f"{version} is too old", "bai needs 3.11 or newer")


def system() -> Iterator[Finding]:
    if sys.platform == "linux":
        yield Finding("system", "ok", f"Linux {platform.release()} on {platform.machine()}")
    else:
        yield Finding("system", "failed", f"{sys.platform} is not supported", "bai runs on Linux")


def git() -> Iterator[Finding]:
    code, output = _run_program("git", "--version")
    if code == 0:
        yield Finding("git", "ok", output)
    else:
        yield Finding("git", "failed", output, "install git")


def bubblewrap() -> Iterator[Finding]:
    code, output = _run_program("bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "true")
    if code == 0:
        yield Finding("bubblewrap", "ok", "a program ran in a sandbox")
        return
    what = output if code in (124, 127) else f"bwrap does not work here: {output[:200]}"
    hint = "install bubblewrap" if code == 127 else "sessions see the whole file system"
    yield Finding("bubblewrap", "warning", what, hint)


def user_manager() -> Iterator[Finding]:
    if os.geteuid() == 0:
        yield Finding("user manager", "skipped", "not needed: root sets limits through cgroups itself")
        return
    code, output = _run_program("systemctl", "--user", "show", "--property=Version")
    if code == 0:
        yield Finding("user manager", "ok", f"systemd user manager answers: {output}")
    else:
        hint = "without it only affinity and rlimits are enforced"
        yield Finding(
            "user manager", "warning", output.splitlines()[0] if output else "no user manager", hint
        )


def nvml() -> Iterator[Finding]:
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        status = "skipped" if "Library" in type(error).__name__ else "warning"
        yield Finding("nvml", status, f"no NVIDIA driver answers ({error}): no GPUs here")  # type: ignore[arg-type]
        return
    try:
        version = pynvml.nvmlSystemGetDriverVersion()
        yield Finding("nvml", "ok", f"driver {version}, {pynvml.nvmlDeviceGetCount()} GPUs")
    finally:
        pynvml.nvmlShutdown()


def probe() -> Iterator[Finding]:
    from bai.render.humanize import join_limited, plural, size
    from bai.render.nodes.picture import count_cores
    from providers.probe import probe_local
    from schemas.problems.errors.base import BaiError

    try:
        found = probe_local()
    except BaiError as error:
        yield Finding("probe", "failed", error.message)
        return
    cores = count_cores(found)
    memory = size(sum(numa.memory for numa in found.numa_nodes))
    parts = f"{plural(len(found.numa_nodes), 'NUMA node')}, {plural(cores, 'core')}, {memory}"
    yield Finding("probe", "ok", f"{parts}, {plural(len(found.gpus), 'GPU')}")
    for gpu in found.gpus:
        if not gpu.healthy:
            yield Finding("gpu health", "warning", f"GPU {gpu.index}: {join_limited(gpu.health)}")
