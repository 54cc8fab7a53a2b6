"""What tenacity costs who repeats a call, against a loop of one's own: to import, and for each call.

    python -m benchmarks.retries --runs 15

Importing is measured as CPU time and memory of fresh interpreters that have loaded what they need anyway,
with and without tenacity in turn; a call is one that succeeds at once, which most do.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.results import parser_of, show
from benchmarks.startup import ROOT

LOADED = {
    "who writes to the store": "import reconciler.store.store, reconciler.store.database.sqlite",
    "who reaches a node": "import providers.machines.ssh.route, paramiko",
    "who asks a registry": "import requests",
    "the supervisor of one container": "import providers.process.supervision.supervisor",
}
CALLS = 20_000
WRITES = 300


MEMORY = "\nprint(open('/proc/self/statm').read().split()[1])"


def once(code: str) -> tuple[float, float]:
    """CPU milliseconds and resident MiB of one interpreter."""
    with subprocess.Popen([sys.executable, "-c", code + MEMORY], cwd=ROOT, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        pages = int(child.stdout.read())
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    return (usage.ru_utime + usage.ru_stime) * 1000, pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def measure_import(code: str, runs: int) -> dict[str, float]:
    without, beside = [], []
    for number in range(runs + 1):
        pair = once(code), once(f"{code}\nimport tenacity")
        if number:
            without.append(pair[0])
            beside.append(pair[1])
    medians = [
        [statistics.median(each[at] for each in found) for at in (0, 1)] for found in (without, beside)
    ]
    return {
        "cpuMs": round(medians[0][0], 1),
        "withTenacityMs": round(medians[1][0], 1),
        "ratio": round(medians[1][0] / medians[0][0], 2),
        "moreMiB": round(medians[1][1] - medians[0][1], 1),
    }


def microseconds(do: Callable[[], object], times: int) -> float:
    begin = time.process_time()
    for _ in range(times):
        do()
    return round((time.process_time() - begin) / times * 1e6, 2)


def measure_calls() -> dict[str, float]:
    from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_chain, wait_fixed

    def call() -> int:
        return 1

    def own() -> int:
        for pause in (0.2, 0.8, None):
            try:
                return call()
            except OSError:
                if pause is None:
                    raise
                time.sleep(pause)
        raise AssertionError

    def library() -> int:
        retrying = Retrying(
            retry=retry_if_exception_type(OSError),
            stop=stop_after_attempt(3),
            wait=wait_chain(wait_fixed(0.2), wait_fixed(0.8)),
            reraise=True,
        )
        return retrying(call)

    return {"own": microseconds(own, CALLS), "tenacity": microseconds(library, CALLS)}


def measure_writes() -> float:
    """CPU microseconds of one write to a store in a file."""
    from reconciler.store.database.address import StoreAddress
    from reconciler.store.store import Store

    with (
        tempfile.TemporaryDirectory() as folder,
        Store.open(StoreAddress.parse(str(Path(folder) / "store.db"))) as store,
    ):
        return microseconds(lambda: store.set_meta("key", "value"), WRITES)


def main() -> None:
    parser = parser_of("retries", __doc__)
    parser.add_argument("--runs", type=int, default=15)
    chosen = parser.parse_args()
    show(
        {
            "version": "bai.benchmark.retries/v1",
            "runs": chosen.runs,
            "import": {name: measure_import(code, chosen.runs) for name, code in LOADED.items()},
            "callMicroseconds": measure_calls(),
            "storeWriteMicroseconds": measure_writes(),
        },
        chosen.json,
    )


if __name__ == "__main__":
    main()
