"""The life of kernels in one script without test tools: for other users and other machines than the tests'.

    python scenario.py ROOT MODE     MODE: `whole` (all this machine offers), `groups` or `bare`

Needs nothing but the standard library. Prints one JSON object of what it found; any broken promise is a
traceback.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from providers.base import KernelSpec, Labels, Limit, Observed
from providers.process.linux import cgroup_mounts, procfs
from providers.process.provider import ProcessProvider
from tests.waiting import until

MIB = 1 << 20
UID = 1_900_000_123
LABELS = Labels("repo", "here", "Session/vision/s", 1, "digest", "main1", "node")
DAEMONS = "(setsid sh -c 'trap \"\" TERM; sleep 300' &) ; echo up; sleep 300"
EATER = "kept = [bytes([1]) * (8 << 20) for _ in range(20)]; print(len(kept))"
OPTIONS = {"whole": {}, "groups": {"sandbox": False}, "bare": {"sandbox": False, "cgroups": False}}


def shell(name: str, text: str, **fields: Any) -> KernelSpec:
    return KernelSpec(name, LABELS, ("/bin/sh", "-c", text), fields.pop("env", {}), uid=UID, **fields)


def seen(provider: ProcessProvider, name: str) -> Observed:
    return next(kernel for kernel in provider.observe().kernels if kernel.id == name)


def ended(provider: ProcessProvider, name: str) -> Observed:
    until(lambda: seen(provider, name).state in ("exited", "lost"))
    return seen(provider, name)


def output(provider: ProcessProvider, name: str) -> bytes:
    return b"".join(provider.logs(name))


def running(provider: ProcessProvider) -> list[int]:
    prefix = f"{procfs.MARKER}={provider.root.key}/".encode()
    return [p for p in procfs.pids() if any(e.startswith(prefix) for e in procfs.environment(p))]


def life(provider: ProcessProvider) -> None:
    one = shell("life", "echo $A$B; pwd; " + DAEMONS, env={"A": "1"}, secret_env={"B": "2"})
    provider.create(one)
    assert provider.create(one).state == "running"
    until(lambda: b"up" in output(provider, "life"))
    assert output(provider, "life").startswith(b"12\n")
    assert provider.execute("life", ("sh", "-c", '[ "$A" = 1 ] && exit 3')) == 3
    end = provider.stop("life", grace=0.2)
    assert end.state == "exited" and end.reason == "stopped", end
    assert running(provider) == []
    provider.remove("life")


def loss(provider: ProcessProvider) -> None:
    provider.create(shell("loss", DAEMONS))
    until(lambda: b"up" in output(provider, "loss"))
    record = provider.root.read("loss")
    assert record is not None
    os.kill(record.state["supervisor"], signal.SIGKILL)
    assert ended(provider, "loss").state == "lost"
    assert running(provider) == []
    provider.remove("loss")


def limits(provider: ProcessProvider) -> dict[str, Any]:
    """Whatever counts as enforced is, and can be changed in place."""
    can = provider.capabilities().limits
    cpu = min(os.sched_getaffinity(0))
    asked = shell(
        "limits", "sleep 300", cpus=(cpu,), memory_nodes=(0,), memory=64 * MIB, pids=20, cpu_milli=500
    )
    provider.create(asked)
    kernel = seen(provider, "limits")
    assert kernel.cpus == (cpu,), kernel
    assert kernel.memory == (64 * MIB if Limit.MEMORY in can else 0), kernel
    assert kernel.pids == (20 if Limit.PIDS in can else 0), kernel
    if Limit.MEMSET in can:
        assert kernel.memory_nodes == (0,), kernel
    after = provider.update("limits", replace(asked, memory=96 * MIB, pids=0))
    assert after.memory == (96 * MIB if Limit.MEMORY in can else 0) and after.pids == 0, after
    record = provider.root.read("limits")
    assert record is not None
    versions = sorted({group["version"] for group in record.groups})
    provider.remove("limits")
    return {"cpus": kernel.cpus, "memory": kernel.memory, "pids": kernel.pids, "versions": versions}


def hunger(provider: ProcessProvider) -> None:
    """Too much memory is an out-of-memory kill, or without groups a refused allocation."""
    provider.create(KernelSpec("hunger", LABELS, (sys.executable, "-c", EATER), {}, memory=64 * MIB, uid=UID))
    end = ended(provider, "hunger")
    if Limit.MEMORY in provider.capabilities().limits:
        assert (end.exit_code, end.reason) == (137, "out-of-memory"), end
    else:
        assert end.exit_code == 1 and b"MemoryError" in output(provider, "hunger"), end
    provider.remove("hunger")


def scratch(provider: ProcessProvider) -> None:
    """Files that are deleted and open, or in a folder that nobody may read, count as others do, wherever no
    quota holds them."""
    if Limit.SCRATCH in provider.capabilities().limits:
        return
    hidden = (
        "exec 7> big; rm big; head -c 8388608 /dev/zero >&7; sleep 300",
        "mkdir shut; head -c 8388608 /dev/zero > shut/big; chmod 000 shut; sleep 300",
    )
    for way in hidden:
        provider.create(replace(shell("scratch", way), scratch=4 * MIB))
        end = ended(provider, "scratch")
        # It may be counted while it still grows.
        assert re.match("scratch-full: [5-9]MiB used", end.reason), end
        provider.remove("scratch")


def main(root: Path, mode: str) -> dict[str, Any]:
    provider = ProcessProvider(root, **OPTIONS[mode])
    missing = {str(limit): why for limit, why in provider.capabilities().limits_missing.items()}
    life(provider)
    loss(provider)
    found = limits(provider)
    hunger(provider)
    scratch(provider)
    assert provider.observe().kernels == () and running(provider) == []
    left = [
        top["path"] for top in cgroup_mounts.mounted() if os.path.exists(f"{top['path']}/{provider.base}")
    ]
    until(lambda: not left or not os.path.exists(f"{left[0]}/{provider.base}"))
    return {"uid": os.geteuid(), "missing": missing, **found}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), sys.argv[2])))
