"""From `git push` to a running session: a real repository, a webhook, `bai serve`, a real provider.

    python -m benchmarks.push --provider process --remote http --count 20 --json result.json

Every push adds one session. The forge is a bare repository behind `git http-backend` with a password, which
sends a signed message after each push; with `--remote gitea`, a real Gitea (see tests/lab/gitea.py).
`bai serve` follows it with an interval of an hour, so that nothing but the message wakes it up.

- `push_s`: `git push`, from its start to its end.
- `running_s`: from the start of `git push` until the store says that the session runs (it is looked at every
  20 ms); `after_s`: the same from the end of `git push`.
- `stages_s`: means of what the server was at, by its own clock, passes without anything to do included.
"""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.results import spread
from benchmarks.served import HERE, SESSION, Work, main, served
from reconciler.store.database.address import StoreAddress
from reconciler.store.store import Store
from tests.lab.serve import Serve

PATIENCE = 120.0


@contextmanager
def node(provider: str) -> Iterator[tuple[str, dict[str, Any], Callable[[], None]]]:
    """Name and spec of the one node, and what takes away all that runs on it."""
    if provider == "process":
        yield "localhost", HERE, lambda: None
        return
    from benchmarks.launch import wipe
    from tests.lab.docker import Engines

    engines = Engines()
    try:
        (engine,) = engines(1)
        cpus = f"0-{(os.cpu_count() or 1) - 1}"
        yield engine.name, {
            "address": "localhost", "resourceGroup": "all", "docker": {"socket": engine.socket},
            "hardware": {"numaNodes": [{"id": 0, "cpus": cpus, "memory": 64 * 2**30}]},
        }, lambda: wipe(engine, len(engine.docker("ps", "-aq").split()))  # fmt: skip
    finally:
        engines.close()


def measure(provider: str, remote: str, count: int, root: Path) -> dict[str, Any]:
    with node(provider) as (name, spec, wipe), ExitStack() as stack:
        site = stack.enter_context(
            served(root, remote=remote, provider=provider, node=name, spec=spec, interval="1h")
        )
        site.set_hook(site.server.hook)
        stack.callback(wipe)
        with Store.open(StoreAddress.parse(site.server.state)) as store:
            try:
                # The first warms everything up: modules, connections, the engine.
                _once(site.work, store, "s0", provider)
                before = _stages(site.server)
                found = [_once(site.work, store, f"s{number}", provider) for number in range(1, count + 1)]
                after = _stages(site.server)
            finally:
                site.empty()
    return {
        "provider": provider, "remote": remote, "count": count,
        **{key: spread([each[key] for each in found]) for key in found[0]},
        "stages_s": {name: _mean(before[name], after[name]) for name in sorted(after)},
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()[0]},
    }  # fmt: skip


def _once(work: Work, store: Store, name: str, provider: str) -> dict[str, float]:
    extra = "  image: bai-lab:1\n" if provider == "docker" else ""
    work.commit(name, SESSION.format(name=name) + extra)
    begin = time.perf_counter()
    work.push()
    pushed = time.perf_counter()
    _wait(lambda: _is_there(store, name), f"{name} runs")
    running = time.perf_counter()
    return {"push_s": pushed - begin, "after_s": running - pushed, "running_s": running - begin}


def _is_there(store: Store, name: str) -> bool:
    events = store.events("here", resource=f"Session/demo/{name}")
    return any(event.after == "RUNNING" for event in events)


def _wait(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"still not: {what}")
        time.sleep(0.02)


def _stages(server: Serve) -> dict[str, tuple[float, int]]:
    """Seconds in each stage so far, and how often, as /metrics has them."""
    found: dict[str, list[float]] = {}
    for name, part, value in re.findall(
        r"^bai_(\w+?)_seconds_(sum|count)\{cluster=\"here\"\} (\S+)$", server.metrics(), re.M
    ):
        found.setdefault(name, [0.0, 0.0])[part == "count"] = float(value)
    return {name: (total, int(times)) for name, (total, times) in found.items()}


def _mean(before: tuple[float, int], after: tuple[float, int]) -> float | None:
    times = after[1] - before[1]
    return round((after[0] - before[0]) / times, 3) if times else None


if __name__ == "__main__":
    main("push", __doc__, 20, "pushes", measure)
