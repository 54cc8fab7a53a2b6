"""Runs the tests, or a part of them, again and again beside busy loops, and says how often each one failed.

    make test-flaky N=3 LOAD=4      # all that use engines, nodes or processes
    make test-flaky N=10 LOAD=4 ARGS="tests/integration -k docker"

They run side by side as in `make test`, which has installed what they need. Ends with 1 when any test failed
in any run. What failed ones said is kept, one file per run.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.harness.order import REAL  # noqa: E402

SIDE_BY_SIDE = ("-n", str(3 * (os.cpu_count() or 1)), "--dist", "loadgroup", "--timeout", "900")


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """That many processes that do nothing but compute."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for each in loops:
            each.kill()
            each.wait()


def once(folder: Path, number: int, arguments: Sequence[str]) -> tuple[set[str], set[str]]:
    """Names of the tests that ran, and of those that failed."""
    report = folder / f"run{number}.xml"
    words = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *SIDE_BY_SIDE, *arguments]
    environment = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
    with (folder / f"run{number}.log").open("w") as log:
        subprocess.run(
            words, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False
        )
    if not report.exists():
        return set(), {f"(run {number} came to no end: see {folder / f'run{number}.log'})"}
    ran, failed = set(), set()
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        ran.add(name)
        if case.find("failure") is not None or case.find("error") is not None:
            failed.add(name)
    return ran, failed


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-n", "--runs", type=int, default=10)
    parser.add_argument("-l", "--load", type=int, default=4, help="busy loops beside the tests")
    parser.add_argument("arguments", nargs="*", default=["-m", REAL], help="of pytest, after --")
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bai-flaky-"))
    ran: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    with busy(chosen.load):
        for number in range(1, chosen.runs + 1):
            began = time.monotonic()
            here, wrong = once(folder, number, chosen.arguments)
            ran.update(here)
            failed.update(wrong)
            spent = time.monotonic() - began
            print(f"run {number}: {len(here)} tests, {len(wrong)} failed, {spent:.0f} s", flush=True)
            for name in sorted(wrong):
                print(f"    {name}", flush=True)
    for name, count in failed.most_common():
        print(f"{count:4d} of {max(ran[name], count):4d}  {name}")
    total = sum(ran.values())
    print(f"{len(failed)} of {len(ran)} tests failed at least once in {total} executions; logs: {folder}")
    return 1 if failed or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
