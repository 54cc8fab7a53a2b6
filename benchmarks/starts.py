"""One session's start, by this version and by another checkout of bai in turn.

Each in a process that has started one before.

    git worktree add /tmp/before COMMIT
    python -m benchmarks.starts --provider process --before /tmp/before --pairs 60 --json result.json

Needs root; for Docker also what `benchmarks.launch` needs. Without `--before`, this version alone.

- `process`: from the call until the session's own command says what time it is.
- `docker`: until the engine has started the container.

`now` and `before`: milliseconds of a start; `more`: by how much this version's was longer, pair by pair.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
UID = 1_900_000_000
CLOCK = ("date", "+%s.%N")
IDLE = ("sleep", "100000")


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        _work(json.loads(sys.argv[2]))
        return
    from benchmarks.results import parser_of, show

    parser = parser_of("starts", __doc__)
    parser.add_argument("--provider", choices=["process", "docker"], default="process")
    parser.add_argument("--before", type=Path, help="a checkout of another version")
    parser.add_argument("--pairs", type=int, default=40)
    show(measure(parser.parse_args()), parser.parse_args().json)


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Raises SystemExit where no engine can be started."""
    from benchmarks.results import spread

    roots = {"now": ROOT} | ({"before": given.before.resolve()} if given.before else {})
    taken: dict[str, list[float]] = {name: [] for name in roots}
    with contextlib.ExitStack() as stack:
        about = stack.enter_context(_engine() if given.provider == "docker" else _folders(roots))
        workers = {
            name: stack.enter_context(_worker(root, {"name": name, **about})) for name, root in roots.items()
        }
        for number in range(given.pairs + 1):
            # Whoever is first in one pair is second in the next.
            for name in sorted(workers, reverse=bool(number % 2)):
                seconds = _asked(workers[name], number)
                if number:
                    taken[name].append(seconds * 1000)
    found: dict[str, Any] = {name: spread(each) for name, each in taken.items()}
    if "before" in taken:
        pairs = zip(taken["now"], taken["before"], strict=True)
        found["more"] = spread([now - before for now, before in pairs])
    return {"provider": given.provider, "pairs": given.pairs, "load": os.getloadavg()[0], **found}


@contextlib.contextmanager
def _folders(names: dict[str, Path]) -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)
        yield {"folders": {name: f"{folder}/{name}" for name in names}}


@contextlib.contextmanager
def _engine() -> Iterator[dict[str, Any]]:
    from tests.lab.docker import IMAGE, Engines, why_not

    if reason := why_not():
        raise SystemExit(f"no engine can be started here: {reason}")
    engines = Engines()
    try:
        (engine,) = engines(1)
        yield {"socket": engine.socket, "node": engine.name, "image": IMAGE}
    finally:
        engines.close()


@contextlib.contextmanager
def _worker(root: Path, about: dict[str, Any]) -> Iterator[subprocess.Popen[str]]:
    """A process with that version's code."""
    argv = [sys.executable, "-P", __file__, "--worker", json.dumps(about)]
    env = {**os.environ, "PYTHONPATH": str(root)}
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, cwd=root, env=env, stdin=pipe, stdout=pipe, text=True) as worker:
        yield worker


def _asked(worker: subprocess.Popen[str], number: int) -> float:
    assert worker.stdin is not None and worker.stdout is not None
    print(number, file=worker.stdin, flush=True)
    return float(worker.stdout.readline())


def _work(about: dict[str, Any]) -> None:
    """Seconds of one start for each line that is read."""
    provider: Any
    if "socket" in about:
        from providers.docker.options import open_docker
        from providers.machines.base import Endpoint

        endpoint = Endpoint(about["node"], "localhost", local=True, options={"socket": about["socket"]})
        provider = open_docker({}, machines=[endpoint])
    else:
        from providers.process.provider import ProcessProvider

        provider = ProcessProvider(Path(about["folders"][about["name"]]))
    for line in sys.stdin:
        spec = _spec(f"{about['name']}{int(line)}-main1-0-g1", about)
        begin = time.time()
        provider.create(spec)
        seconds = time.time() - begin if "socket" in about else _said(provider, spec.id) - begin
        provider.remove(spec.id)
        print(seconds, flush=True)


def _spec(kernel: str, about: dict[str, Any]) -> Any:
    """Versions from before sessions had a user of their own know no `uid`."""
    from providers.base import KernelSpec, Labels

    labels = Labels("bench", "lab", "Session/p/s", 1, "d", "main1", about.get("node", "here"))
    own: dict[str, Any] = {"uid": UID} if "uid" in {field.name for field in fields(KernelSpec)} else {}
    command = IDLE if "socket" in about else CLOCK
    return KernelSpec(kernel, labels, command, {}, image=about.get("image", ""), **own)


def _said(provider: Any, kernel: str) -> float:
    while not (text := b"".join(provider.logs(kernel)).strip()):
        time.sleep(0.002)
    return float(text)


if __name__ == "__main__":
    main()
