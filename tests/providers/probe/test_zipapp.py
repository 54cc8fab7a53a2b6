"""The collector as one file, run as on a cluster node: no packages, no repository, any Python."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from providers.probe import parse, probe_local, zipapp
from schemas.problems.errors.repository import CannotRead
from tests.lab.sysfs import Sysfs


def run(tmp_path: Path, *arguments: str, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    app = tmp_path / "probe.pyz"
    app.write_bytes(zipapp.build())
    return subprocess.run(
        [python, "-I", "-S", str(app), *arguments],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"]},
        text=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=120,
    )


def test_it_says_what_the_local_probe_says(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert parse(done.stdout) == probe_local()


def test_the_local_probe_says_what_the_kernel_says() -> None:
    found = probe_local()
    cpus = {cpu for node in found.numa_nodes for cpu in node.cpus}
    assert os.sched_getaffinity(0) <= cpus
    assert found.hostname == os.uname().nodename
    assert found.architecture == os.uname().machine
    assert sum(node.memory for node in found.numa_nodes) > 0


def test_the_same_sources_give_the_same_bytes() -> None:
    first = zipapp.build()
    zipapp.build.cache_clear()
    assert zipapp.build() == first


def test_it_reads_a_copied_tree(tmp_path: Path) -> None:
    sysfs = Sysfs(tmp_path / "copy", cpus="0-1")
    sysfs.node(0, "0", 1, "10 20")
    sysfs.node(1, "1", 1, "20 10")
    done = run(tmp_path, "--root", str(sysfs.root))
    assert [node.distances for node in parse(done.stdout).numa_nodes] == [{1: 20}, {0: 20}]


def test_what_is_no_machine_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = run(tmp_path, "--root", str(tmp_path / "empty"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert "no CPU is listed" in done.stderr


def _oldest() -> str | None:
    """A Python 3.8, 3.9 or 3.10 that starts."""
    for minor in (8, 9, 10):
        candidates = [
            shutil.which(f"python3.{minor}"),
            *Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python3"),
        ]
        for found in filter(None, candidates):
            asked = subprocess.run(
                [found, "--version"], capture_output=True, check=False, stdin=subprocess.DEVNULL
            )
            if asked.returncode == 0:
                return str(found)
    return None


def test_an_older_python_runs_it(tmp_path: Path) -> None:
    python = _oldest()
    if python is None:
        pytest.skip("no Python 3.8, 3.9 or 3.10 on this machine")
    done = run(tmp_path, python=python)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == json.loads(run(tmp_path).stdout)


@pytest.mark.parametrize("output", ["", "Permission denied", "{}", '{"numaNodes": [], "gpus": 3}', "[]"])
def test_other_output_is_refused_in_words(output: str) -> None:
    with pytest.raises(CannotRead, match="the output of gpu-017"):
        parse(output, source="gpu-017")
