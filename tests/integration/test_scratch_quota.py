"""Scratch folders of native sessions under project quotas, in a virtual machine whose kernel has them."""

from __future__ import annotations

import json

import pytest

from tests.lab.cache import LabUnavailable
from tests.lab.fixtures import put_repository
from tests.lab.guest import Guest
from tests.lab.projects import disk, put_bubblewrap

pytestmark = [pytest.mark.vm, pytest.mark.slow, pytest.mark.xdist_group("vm")]
__all__ = ["disk"]
MIB = 1 << 20


def test_a_session_writes_no_more_than_its_scratch(disk: tuple[Guest, str]) -> None:
    guest, root = disk
    try:
        put_bubblewrap(guest)
    except LabUnavailable as error:
        pytest.skip(str(error))
    repository = put_repository(guest)
    words = ["python3", "tests/integration/scratch_scenario.py", root]
    code, output = guest.run(words, cwd=repository, timeout=300)
    assert code == 0, output
    found = json.loads(output.splitlines()[-1])
    assert found["held"], "the file system holds the limit, and nothing is counted"
    assert found["first"] == [8 * MIB, True]
    assert found["apart"], "who has no limit has a project of its own, too"
    assert found["raised"] == [32 * MIB, 32 * MIB, True]
    assert found["limited_later"] == 20 * MIB
    assert found["after_crash"] == [32 * MIB, True]
    stopped, said = found["files"]
    assert stopped == 3 and "stopped at" in said, "empty files are limited, too"
    left, told = found["leaving"]
    assert left == 0, told
    assert "CHANGED" not in told and told.count("refused") == 13, told
    assert told.count("True True") == 6, told
