"""What GNU's OpenMP makes of a session's environment: it is loaded into a program that then starts others, as
PyTorch is, whose loaders of data are such processes."""

from __future__ import annotations

import ctypes.util
import json
import os
from typing import Any

import pytest

from tests.bai.conftest import Repo
from tests.waiting import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        len(os.sched_getaffinity(0)) < 2, reason="threads are bound apart on two cores or more"
    ),
    pytest.mark.skipif(
        ctypes.util.find_library("gomp") is None, reason="GNU's OpenMP (Debian package libgomp1) is not here"
    ),
]
PROGRAM = """
import ctypes, json, multiprocessing, os
def cpus(_=None):
    return len(os.sched_getaffinity(0))
before = cpus()
gomp = ctypes.CDLL("libgomp.so.1")
with multiprocessing.get_context("fork").Pool(2) as pool:
    workers = pool.map(cpus, range(2))
print(json.dumps({
    "before": before, "main": cpus(), "workers": workers,
    "threads": gomp.omp_get_max_threads(), "places": gomp.omp_get_num_places(),
}))
"""


def ran(repo: Repo, extra: str = "", **fields: Any) -> dict[str, Any]:
    """What the program found, as a session with two cores of its own."""
    repo.session("loader", "python3", "-c", PROGRAM, kind="batch", cpu="2", extra=extra)
    repo.ok("apply", "--yes")
    until(lambda: repo.ok("get", "sessions", "--format", "json").json["items"][0]["phase"] == "TERMINATED")
    found: dict[str, Any] = json.loads(repo.ok("logs", "loader").out)
    return found


def test_a_program_that_loads_openmp_keeps_its_cores_and_so_do_the_processes_it_starts(repo: Repo) -> None:
    found = ran(repo)
    assert found["before"] >= 2
    assert found["main"] == found["before"]
    assert found["workers"] == [found["before"]] * 2
    assert (found["threads"], found["places"]) == (2, 0)


def test_threads_are_bound_where_the_session_asks_for_it(repo: Repo) -> None:
    found = ran(repo, "  threads: {bind: close}\n")
    assert (found["threads"], found["places"], found["main"]) == (2, 2, 1)
