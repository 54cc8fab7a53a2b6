"""Nodes are provisioned side by side from the first moment on."""

from __future__ import annotations

import subprocess
import sys

TWO_AT_ONCE = """
import importlib.metadata, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from providers.ansible.run import init_runner

real, reached = importlib.metadata.entry_points, threading.Event()

def slow(**chosen):
    if chosen.get("group") == "ansible_runner.plugins":
        reached.set()
        time.sleep(1)
    return real(**chosen)

def second():
    reached.wait()
    init_runner()
    return type(sys.modules["ansible_runner"].plugins).__name__

importlib.metadata.entry_points = slow
with ThreadPoolExecutor(2) as pool:
    other = pool.submit(second)
    pool.submit(init_runner).result()
    print(other.result())
"""


def test_a_library_that_another_thread_is_importing_is_waited_for() -> None:
    done = subprocess.run(
        [sys.executable, "-c", TWO_AT_ONCE],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "dict\n", done.stderr
