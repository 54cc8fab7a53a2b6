"""What a container may write to its own files, on real engines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from providers.base import Limit
from providers.docker.options import open_docker
from schemas.problems.errors.kernel import KernelRefused
from tests.lab.cache import LabUnavailable
from tests.lab.docker import Engines
from tests.providers.docker.conftest import Open
from tests.providers.docker.specs import LABELS, kernel

pytestmark = pytest.mark.xdist_group("docker")
ID = "s-main1-0-g1"
MIB = 1 << 20


def test_an_engine_that_cannot_limit_it_says_so_and_starts_the_kernel(on_engines: Open) -> None:
    provider = on_engines()
    found = provider.capabilities()
    if Limit.SCRATCH in found.limits:
        pytest.skip("this engine can limit what containers write")
    assert "without a limit" in found.limits_missing[Limit.SCRATCH]
    assert "scratch" not in found.in_place
    made = provider.create(replace(kernel(), scratch=64 * MIB))
    assert (made.id, made.state, made.scratch) == (ID, "running", 0)
    provider.remove(ID)


def test_an_engine_on_xfs_without_quotas_refuses_in_words_and_nothing_is_left(engines: Engines) -> None:
    """It does not tell before: a limit that is asked for and cannot be held is no session without one."""
    try:
        engine = engines.private("--storage-driver=overlay2", xfs=True)
    except LabUnavailable as error:
        pytest.skip(str(error))
    there = replace(kernel(), labels=replace(LABELS, node=engine.name))
    provider = open_docker({}, machines=[engine.endpoint()])
    try:
        assert Limit.SCRATCH in provider.capabilities().limits
        with pytest.raises(KernelRefused, match="pquota"):
            provider.create(replace(there, scratch=64 * MIB))
        assert provider.observe().kernels == ()
        assert provider.create(there).state == "running"
        provider.remove(ID)
    finally:
        provider.close()
        engine.close()
