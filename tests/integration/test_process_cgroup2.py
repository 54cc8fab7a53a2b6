"""The process provider on control groups version 2, in a virtual machine that has them alone."""

from __future__ import annotations

import json

import pytest

from tests.lab.fixtures import Boot, put_repository

pytestmark = [pytest.mark.vm, pytest.mark.slow, pytest.mark.xdist_group("vm")]
SCENARIO = "tests/providers/process/scenario.py"
TESTS = [f"tests/providers/process/test_{name}.py" for name in ("limits", "lifecycle", "user_scope")]
CHOICE = "read_back or fork_bomb or quota or update_changes or refuses or scope"

FEW_IMPORTS = ["-p", "no:cacheprovider", "--confcutdir", "tests/providers/process"]
"""The fixtures of every lab, and Hypothesis, are two thirds of what collecting takes in there."""


def test_the_life_of_kernels_with_every_limit(vm: Boot) -> None:
    guest = vm(numa=2)
    repository = put_repository(guest)
    code, output = guest.run(["python3", SCENARIO, "/tmp/state", "groups"], cwd=repository, timeout=300)
    assert code == 0, output
    found = json.loads(output.splitlines()[-1])
    assert found["versions"] == [2]
    assert set(found["missing"]) == {
        "filesystem-isolation",
        "devices",
        "gpu-fraction",
        "hugepages",
        "scratch",
    }
    assert found["memory"] and found["pids"] and found["cpus"]
    listing = guest.run(["sh", "-c", "ls -d /sys/fs/cgroup/bai-* 2>/dev/null; ls /tmp/state/kernels"])[1]
    assert listing.strip() == ""


def test_the_providers_own_tests(vm: Boot) -> None:
    guest = vm(numa=2)
    repository = put_repository(guest)
    words = ["python3", "-m", "pytest", "-q", "-x", *FEW_IMPORTS, *TESTS, "-k", CHOICE]
    environment = {"BAI_LAB": "off", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    code, output = guest.run(words, cwd=repository, timeout=600, env=environment)
    assert code == 0, output
    assert " passed" in output, output


def test_memory_is_bound_to_the_node_asked_for(vm: Boot) -> None:
    guest = vm(numa=2)
    repository = put_repository(guest)
    code, output = guest.run(["python3", "-c", BIND], cwd=repository, timeout=300)
    assert code == 0, output
    assert json.loads(output.splitlines()[-1]) == {"first": [1], "second": [0], "missing": False}


BIND = """
import json, sys
from pathlib import Path
from dataclasses import replace
sys.path.insert(0, ".")
from providers.base import KernelSpec, Labels, Limit
from providers.process.provider import ProcessProvider
provider = ProcessProvider(Path("/tmp/bind"), sandbox=False)
labels = Labels("repo", "here", "Session/p/s", 1, "digest", "main1", "node")
spec = KernelSpec("bind", labels, ("sleep", "300"), {}, memory_nodes=(1,), uid=200_000)
first = provider.create(spec).memory_nodes
second = provider.update("bind", replace(spec, memory_nodes=(0,))).memory_nodes
provider.remove("bind")
missing = Limit.MEMSET in provider.capabilities().limits_missing
print(json.dumps({"first": first, "second": second, "missing": missing}))
"""
