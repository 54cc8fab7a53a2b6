"""A part of a GPU counts when it was seen to hold: on doubles of the driver that hold, and that do not."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from providers.gpu import shares
from providers.gpu.enforcement import (
    EnforcementVerdict,
    ExpectedInstance,
    TrialPart,
    parse_facts,
    parse_means,
)
from providers.gpu.enforcement_rules import judge_part
from providers.gpu.gpu_share import GpuShare
from providers.gpu.node import enforcement_check, hami, mps
from providers.gpu.node.enforcement_check import HOLDER
from providers.machines.local import LocalMachine
from schemas.problems.errors.node import MachineRefused
from tests.providers.gpu.standin import bin_, build, install_smi

__all__ = ["bin_"]
GPU, OTHER = "GPU-aaaa", "GPU-bbbb"
GIB = 1 << 30
MEMORY = 2 * GIB
LIMITS = {
    "mps": {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=2048M"},
    "hami": {"CUDA_DEVICE_SM_LIMIT": "25", "CUDA_DEVICE_MEMORY_LIMIT_0": "2048m"},
}


@pytest.fixture
def place(bin_: Path, monkeypatch: pytest.MonkeyPatch) -> shares.ShareHost:
    """A node with a GPU whose driver and HAMi-core hold what they are told."""
    install_smi(bin_, GPU)
    build(bin_, "libcuda.c", "libcuda.so.1")
    library = build(bin_, "libvgpu.c", "libvgpu.so")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(bin_))
    monkeypatch.setattr(hami, "LOCK", str(bin_ / "vgpulock"))  # Tests beside this one make the machine's.
    root, hami_root = str(bin_ / "mps"), str(bin_ / "hami")
    return shares.ShareHost(None, "docker", "n1", root=root, hami_root=hami_root, libraries=(str(library),))


def part(means: str, gpu: str = GPU, *, shared: bool = False) -> TrialPart:
    return TrialPart(gpu, MEMORY, 250, LIMITS[means], shared)


def tried(place: shares.ShareHost, means: str, *parts: TrialPart) -> EnforcementVerdict:
    parts = parts or (part(means),)
    facts = shares.try_part(place, means, parts)
    return judge_part(means, next((one for one in parts if one.gpu == facts.gpu), parts[0]), facts)


def left_behind(place: shares.ShareHost) -> list[str]:
    """Holders, daemons and caches."""
    found = [f"{gpu}: {each}" for gpu, each in mps.status({"root": place.root}).items() if any(each.values())]
    kernels = Path(place.hami_root) / "kernels"
    return found + (sorted(os.listdir(kernels)) if kernels.is_dir() else [])


@pytest.mark.parametrize(
    ("means", "seen"),
    [
        ("mps", "2.1 GiB were refused under a limit of 2.0 GiB; 25 of 100 multiprocessors were had"),
        ("hami", "its limit on compute is a rate, which was not tried"),
    ],
)
def test_limits_that_hold_are_seen_to(place: shares.ShareHost, means: str, seen: str) -> None:
    verdict = tried(place, means)
    assert verdict.outcome == "held", verdict
    assert seen in verdict.why
    assert left_behind(place) == []
    assert not os.path.lexists(hami.LOCK)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is several users")
@pytest.mark.parametrize(
    ("options", "said"),
    [([], "two users are served side by side"), (["-DONE_USER"], "a second user's processes wait")],
)
def test_a_second_user_is_served_or_waits(
    place: shares.ShareHost, bin_: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], said: str
) -> None:
    build(bin_, "libcuda.c", "libcuda.so.1", *options)
    # Who is served may be slow to begin; who waits waits for ever.
    monkeypatch.setattr(enforcement_check, "PATIENCE", 2 if options else 120)
    verdict = tried(place, "mps")
    assert (verdict.outcome, said in verdict.why) == ("held", True), verdict
    assert left_behind(place) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has folders that its sessions' users cannot enter")
@pytest.mark.parametrize("means", ["mps", "hami"])
def test_a_part_in_a_folder_of_roots_own_is_tried_as_sessions_have_it(
    place: shares.ShareHost, bin_: Path, means: str
) -> None:
    private = bin_ / "private"
    private.mkdir(mode=0o700)
    library = private / "libvgpu.so"
    library.write_bytes((bin_ / "libvgpu.so").read_bytes())
    hidden = dataclasses.replace(
        place, root=str(private / "mps"), hami_root=str(private / "hami"), libraries=(str(library),)
    )
    verdict = tried(hidden, means)
    assert verdict.outcome == "held", verdict
    assert left_behind(hidden) == []
    assert not os.path.ismount("/mnt")


def test_a_preloaded_library_that_notices_nothing_is_found_out(place: shares.ShareHost, bin_: Path) -> None:
    build(bin_, "libvgpu.c", "libvgpu.so", "-DBLIND")
    verdict = tried(place, "hami")
    assert verdict.outcome == "failed"
    said = "2.1 GiB could be allocated under a limit of 2.0 GiB, and 8.0 GiB were shown (cuMemAlloc_v2)"
    assert verdict.why == said
    assert left_behind(place) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_no_library_of_a_node_is_loaded_with_roots_rights(place: shares.ShareHost, bin_: Path) -> None:
    told = bin_ / "told"
    told.touch()
    told.chmod(0o666)
    build(bin_, "libvgpu.c", "libvgpu.so", f'-DTELLS="{told}"')
    assert tried(place, "hami").outcome == "held"
    assert set(told.read_text().split()) == {str(shares.NOBODY)}


def test_who_cannot_become_root_cannot_hold_up_a_check(place: shares.ShareHost) -> None:
    tried(place, "mps")
    assert (Path(place.root) / "check.lock").stat().st_mode & 0o777 == 0o600


def test_over_a_connection_it_is_the_same(place: shares.ShareHost) -> None:
    far = dataclasses.replace(place, machine=LocalMachine("n1"))
    assert tried(far, "hami").outcome == tried(far, "mps").outcome == "held"
    assert left_behind(place) == []


def test_what_the_runtime_looks_up_must_be_held_too(place: shares.ShareHost, bin_: Path) -> None:
    build(bin_, "libvgpu.c", "libvgpu.so", "-DBY_NAME_ONLY")
    verdict = tried(place, "hami")
    assert verdict.outcome == "failed"
    assert verdict.why.endswith("(cuGetProcAddress)")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["-DLOOSE"], "2.1 GiB could be allocated under a limit of 2.0 GiB, and 8.0 GiB were shown"),
        (["-DTIGHT"], "512 MiB of 2.0 GiB could not be allocated: error 2"),
        (["-DODD"], "an allocation beyond 2.0 GiB ended with error 1"),
        (["-DBROKEN=999"], "cuInit: error 999, CUDA_ERROR_OF_THE_DOUBLE"),
    ],
)
def test_what_does_not_hold_says_how(
    place: shares.ShareHost, bin_: Path, options: list[str], why: str
) -> None:
    build(bin_, "libcuda.c", "libcuda.so.1", *options)
    verdict = tried(place, "mps")
    assert (verdict.outcome, why in verdict.why) == ("failed", True), verdict
    assert left_behind(place) == []


def test_a_driver_that_hangs_has_failed_and_nothing_waits_for_it(
    place: shares.ShareHost, bin_: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(bin_, "libcuda.c", "libcuda.so.1", "-DHANGS")
    monkeypatch.setattr(enforcement_check, "SECONDS", 2)
    verdict = tried(place, "mps")
    assert verdict.outcome == "failed"
    assert "did not answer within 2 s" in verdict.why
    assert left_behind(place) == []


def test_a_daemon_that_does_not_start_has_failed(place: shares.ShareHost, bin_: Path) -> None:
    log = bin_ / "mps" / GPU / "log"
    log.mkdir(parents=True)
    (log / "broken").touch()
    verdict = tried(place, "mps")
    assert verdict.outcome == "failed"
    assert "nvidia-cuda-mps-control does not start" in verdict.why
    assert left_behind(place) == []


def test_a_driver_that_is_not_there_has_failed(place: shares.ShareHost, bin_: Path) -> None:
    (bin_ / "libcuda.so.1").unlink()
    assert "libcuda.so.1" in tried(place, "hami").why


def test_a_gpu_on_which_somebody_computes_is_left_alone(place: shares.ShareHost, bin_: Path) -> None:
    (bin_ / "computing").write_text(f"{GPU}, 4711\n")
    verdict = tried(place, "mps")
    assert verdict == EnforcementVerdict("untested", f"process 4711 computes on {GPU}")
    assert not (bin_ / "mps" / GPU).exists()
    (bin_ / "gpus").write_text(f"{GPU}\n{OTHER}\n")
    verdict = tried(place, "mps", part("mps"), part("mps", OTHER))
    assert verdict.outcome == "held"
    assert sorted(os.listdir(bin_ / "mps")) == [OTHER, "check.lock"]


def test_a_server_of_mps_without_clients_computes_nothing(place: shares.ShareHost, bin_: Path) -> None:
    with subprocess.Popen([sys.executable, str(bin_ / "nvidia-cuda-mps-server")]) as server:
        (bin_ / "computing").write_text(f"{GPU}, {server.pid}\n")
        try:
            assert tried(place, "mps").outcome == "held"
        finally:
            server.kill()


def test_why_a_library_was_not_preloaded_is_said(place: shares.ShareHost, bin_: Path) -> None:
    (bin_ / "libvgpu.so").write_bytes(b"ELF")
    verdict = tried(place, "hami")
    assert verdict.outcome == "failed"
    assert "the process said: ERROR: ld.so: object" in verdict.why


def test_too_little_free_memory_is_no_limit_that_held(place: shares.ShareHost, bin_: Path) -> None:
    (bin_ / "free").write_text("2100")
    assert tried(place, "mps") == EnforcementVerdict("untested", f"{GPU} has 2100 MiB free")


def test_beside_sharers_it_is_one_more_of_them(place: shares.ShareHost, bin_: Path) -> None:
    (bin_ / "computing").write_text(f"{GPU}, 4711\n")
    shared = part("mps", shared=True)
    assert "shared by something else than MPS" in tried(place, "mps", shared).why
    share = GpuShare("mps", {GPU: 500}, {GPU: 4 * GIB})
    shares.prepare(place, "session", share)
    before = mps.status({"root": place.root})[GPU]
    assert tried(place, "mps", shared).outcome == "held"
    assert mps.status({"root": place.root})[GPU] == before
    assert set(before["holders"]) == {"session"}


def test_one_check_at_a_time(place: shares.ShareHost) -> None:
    with enforcement_check._alone(Path(place.root) / "check.lock"):
        assert tried(place, "mps") == EnforcementVerdict("untested", "another check is running there")
    assert tried(place, "mps").outcome == "held"


def test_what_a_killed_check_left_goes_with_the_next(place: shares.ShareHost) -> None:
    order = {"root": place.root, "gpu": OTHER, "kernel": HOLDER, "percent": 5, "memory": GIB, "shm": "host"}
    assert mps.hold(order)["pid"]
    tried(place, "mps")
    assert left_behind(place) == []


@pytest.mark.parametrize(
    ("instance", "outcome"),
    [
        (ExpectedInstance("1g.1gb", (GIB * 3 // 4, GIB), 14), "held"),
        (ExpectedInstance("1g.1gb", (GIB * 3 // 4, GIB), None), "held"),
        (ExpectedInstance("1g.1gb", (GIB * 3 // 4, GIB), 16), "failed"),
        (ExpectedInstance("2g.2gb", (GIB * 3 // 2, 2 * GIB), 14), "failed"),
    ],
)
def test_an_instance_is_what_its_profile_says(
    place: shares.ShareHost, bin_: Path, instance: ExpectedInstance, outcome: str
) -> None:
    build(bin_, "libcuda.c", "libcuda.so.1", "-DSLICE")
    assert tried(place, "mig", TrialPart("MIG-a", GIB, instance=instance)).outcome == outcome


def test_the_version_is_another_one_after_any_change(place: shares.ShareHost, bin_: Path) -> None:
    def versions() -> Mapping[str, str]:
        return dict(shares.available_means(place).versions)

    first = versions()
    assert versions() == first
    assert first["hami"].startswith(f"driver 580.159.03, {bin_}/libvgpu.so of ")
    os.utime(bin_ / "libvgpu.so", ns=(1, 1))
    second = versions()
    assert second["hami"] != first["hami"]
    assert second["mps"] == first["mps"]
    (bin_ / "driver").write_text("581.1")
    assert not set(versions().values()) & {*first.values(), *second.values()}


SEEN = {"cuda": 13000, "multiprocessors": 100, "total": 8 * GIB}


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        "held",
        {"part": 5},
        {"gpu": GPU, "whole": {**SEEN, "total": "8GiB"}},
        {"gpu": GPU, "whole": {**SEEN, "multiprocessors": True}},
        {"gpu": GPU, "whole": {**SEEN, "total": 2**80}},
        {"gpu": GPU, "whole": {**SEEN, "total": -1}},
        {"gpu": GPU, "whole": {**SEEN, "total": 1.5}},
        {"gpu": GPU, "part": {**SEEN, "ways": {str(at): {"within": 0, "beyond": 2} for at in range(9)}}},
        {"gpu": GPU, "part": {**SEEN, "ways": {"a": {"within": 0}}}},
        {"problem": "x" * 100_000},
    ],
)
def test_answers_of_a_node_that_somebody_took_over_are_refused(answer: object) -> None:
    with pytest.raises(MachineRefused) as error:
        parse_facts("n1", answer)
    assert len(error.value.message) < 1000


def test_what_a_node_can_use_is_checked_as_well() -> None:
    for answer in (
        None,
        {"missing": {"magic": ""}},
        {"missing": {"mps": "x" * 5000}},
        {"missing": {"mps": 1}},
    ):
        with pytest.raises(MachineRefused):
            parse_means("n1", answer)


def test_nothing_that_a_node_says_moves_the_cursor() -> None:
    assert parse_facts("n1", {"problem": "a\x1b[2J\nb"}).problem == "a?[2J?b"


def test_an_answer_without_allocations_is_no_limit_that_held() -> None:
    facts = parse_facts("n1", {"gpu": GPU, "whole": SEEN, "part": SEEN})
    assert judge_part("hami", part("hami"), facts).outcome == "failed"
    assert judge_part("hami", part("hami"), parse_facts("n1", {"gpu": GPU})).outcome == "untested"


def test_multiprocessors_must_fit_the_part() -> None:
    ways = {"cuMemAlloc_v2": {"within": 0, "beyond": 2}}

    def outcome(had: int) -> str:
        seen = {**SEEN, "multiprocessors": had, "ways": ways}
        facts = parse_facts("n1", json.loads(json.dumps({"gpu": GPU, "whole": SEEN, "part": seen})))
        return judge_part("mps", part("mps"), facts).outcome

    assert [outcome(had) for had in (100, 50, 31, 30, 25, 20, 19, 0)] == [
        "failed", "failed", "failed", "held", "held", "held", "failed", "failed",
    ]  # fmt: skip
