"""From `bai run` to the session's first word: the command, git, the webhook, `bai serve`, a real provider.

    python -m benchmarks.run --count 10 --json result.json

The forge and the server are those of `benchmarks.push`: nothing but the webhook wakes the server up. Each
command starts one batch session that says a word and stays, and is interrupted when the word has arrived.

- `running_s`: from the start of the command until the store says that the session runs (it is looked at every
  20 ms).
- `word_s`: until what the session says has come out of the command.
- `cpu_s`: CPU time of the command and of the git that it calls, all in all.
"""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.push import node
from benchmarks.results import spread
from benchmarks.served import Site, main, served
from reconciler.store.database.address import StoreAddress
from reconciler.store.store import Store

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 120.0
SAYS = ("sh", "-c", "echo here; exec sleep 100000")


def measure(provider: str, remote: str, count: int, root: Path) -> dict[str, Any]:
    with (
        node(provider) as (name, spec, wipe),
        served(root, remote=remote, provider=provider, node=name, spec=spec, interval="1h") as site,
        Store.open(StoreAddress.parse(site.server.state)) as store,
    ):
        site.set_hook(site.server.hook)
        for key, value in (("user.name", "Ada"), ("user.email", "ada@cluster.example")):
            site.work.git("config", key, value)
        site.work.git("branch", "--move", "--force", "main")
        try:
            # The first warms everything up: modules, connections, the engine.
            found = [_once(site, store, f"s{at}", provider, root) for at in range(count + 1)][1:]
        finally:
            shutil.rmtree(site.work.folder / "sessions", ignore_errors=True)
            site.empty()
            wipe()
    return {
        "provider": provider, "remote": remote, "count": count,
        **{key: spread([each[key] for each in found]) for key in found[0]},
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()[0]},
    }  # fmt: skip


def _once(site: Site, store: Store, name: str, provider: str, root: Path) -> dict[str, float]:
    image = ("--image", "bai-lab:1") if provider == "docker" else ()
    words = ("run", "--name", name, "--batch", "--cpu", "10m", "--memory", "16MiB", *image, "--", *SAYS)
    begin = time.perf_counter()
    child = subprocess.Popen(
        [sys.executable, "-c", "from bai.cli.main import main; main()", "--state", site.server.state, *words],
        cwd=site.work.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT), "BAI_PROCESS_ROOT": str(root / "machine")},
    )  # fmt: skip
    heard: list[float] = []
    listener = threading.Thread(target=_listen, args=(child, heard), daemon=True)
    listener.start()
    try:
        running = _until_runs(store, name)
        listener.join(PATIENCE)
    finally:
        child.send_signal(signal.SIGINT)
        _, _, usage = os.wait4(child.pid, 0)
        child.returncode = 0
    if not heard:
        raise SystemExit(f"nothing was heard of {name}")
    cpu = usage.ru_utime + usage.ru_stime
    return {"running_s": running - begin, "word_s": heard[0] - begin, "cpu_s": cpu}


def _listen(child: subprocess.Popen[bytes], heard: list[float]) -> None:
    assert child.stdout is not None
    if child.stdout.readline().strip() == b"here":
        heard.append(time.perf_counter())


def _until_runs(store: Store, name: str) -> float:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if any(each.after == "RUNNING" for each in store.events("here", resource=f"Session/demo/{name}")):
            return time.perf_counter()
        time.sleep(0.02)
    raise SystemExit(f"{name} does not run")


if __name__ == "__main__":
    main("run", __doc__, 10, "commands", measure)
