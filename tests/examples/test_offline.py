"""Every example is valid, in normal form, and plans; declared hardware gives exact places."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from schemas.hardware.model import Hardware
from tests.examples.conftest import OWNERS
from tests.examples.user import EXAMPLES, User

DECLARED = ("clusters/dgx-h100", "clusters/mixed", "sessions/gpu")
CONTAINERS = ("clusters/images", "clusters/docker-lab", "clusters/bare-metal-lab")
"""Declared hardware of a provider that is not asked."""
PROFILES = ("profiles", "clusters/bare-metal-lab")
"""Documents of nodes that nobody reaches, and what they are to be made."""
REAL = ("quickstart", "sessions/here", "clusters/kubernetes-lab")
"""Applied for real in test_quickstart.py, test_sessions.py and test_kubernetes_lab.py."""


def declared(name: str) -> Any:
    return pytest.mark.parametrize("user", [name], indirect=True)


def sessions(folder: Path) -> set[str]:
    documents = (
        d for path in folder.rglob("*.yaml") for d in yaml.safe_load_all(path.read_text(encoding="utf-8"))
    )
    return {
        f"Session/{d['metadata']['project']}/{d['metadata']['name']}"
        for d in documents
        if d["kind"] == "Session"
    }


def kernels(plan: dict[str, Any], session: str) -> list[dict[str, Any]]:
    after = next(action["after"] for action in plan["actions"] if action["id"] == session)
    placed: list[dict[str, Any]] = (after["placement"] or {}).get("kernels", [])
    return placed


def waits(plan: dict[str, Any]) -> dict[str, list[str]]:
    return {wait["session"]: [reason["code"] for reason in wait["reasons"]] for wait in plan["waits"]}


def numa_of_devices(kernel: dict[str, Any], hardware: str) -> set[int | None]:
    machine = Hardware.model_validate(json.loads((EXAMPLES / hardware).read_text(encoding="utf-8")))
    gpus = {gpu.id: gpu.numa_node for gpu in machine.gpus}
    return {gpus[device["id"]] for device in kernel["devices"]}


def test_every_file_belongs_to_a_tested_example() -> None:
    # tests/bai replays the traces, test_apps.py has the apps, and test_services.py the services.
    tested = (*DECLARED, *CONTAINERS, *PROFILES, *REAL, "traces", "sessions/apps", "sessions/services")
    known = tuple(EXAMPLES / name for name in tested)
    files = [path for path in EXAMPLES.rglob("*.yaml") if not any(parent in known for parent in path.parents)]
    assert files == [OWNERS]


@pytest.mark.parametrize("user", DECLARED + CONTAINERS + PROFILES + REAL, indirect=True)
def test_valid_and_in_normal_form(user: User) -> None:
    user.bai("validate")
    user.bai("fmt", "--check")


@pytest.mark.parametrize("user", DECLARED + CONTAINERS, indirect=True)
def test_every_session_is_placed_or_explained(user: User) -> None:
    plan = user.plan("--offline")
    placed = {a["id"] for a in plan["actions"] if a["id"].startswith("Session/") and kernels(plan, a["id"])}
    waiting = waits(plan)
    assert placed | set(waiting) == sessions(user.folder)
    assert placed & set(waiting) == set()
    assert all(waiting.values())
    again = user.plan("--offline")
    assert [kernels(again, session) for session in sorted(placed)] == [
        kernels(plan, s) for s in sorted(placed)
    ]


@pytest.mark.parametrize("user", DECLARED, indirect=True)
def test_nothing_is_given_twice(user: User) -> None:
    plan = user.plan("--offline")
    taken: set[tuple[str, str]] = set()
    for action in plan["actions"]:
        for kernel in ((action["after"] or {}).get("placement") or {}).get("kernels", []):
            whole = [device["id"] for device in kernel["devices"] if device["milli"] == 1000]
            mine = {(kernel["node"], str(thing)) for thing in [*kernel["cpus"], *whole]}
            assert not mine & taken
            taken |= mine


@declared("clusters/dgx-h100")
def test_dgx(user: User) -> None:
    plan = user.plan("--offline")
    hardware = "clusters/dgx-h100/hardware/dgx-h100.json"
    pretrain = kernels(plan, "Session/language/pretrain")
    assert len({kernel["node"] for kernel in pretrain}) == 8
    assert all(len(kernel["devices"]) == 8 and len(kernel["cpus"]) == 192 for kernel in pretrain)
    reserved = {0, 1, 56, 57, 112, 113, 168, 169}
    assert not any(reserved & set(kernel["cpus"]) for kernel in pretrain)
    (finetune,) = kernels(plan, "Session/vision/finetune")
    assert len(numa_of_devices(finetune, hardware)) == 1
    assert finetune["memory_nodes"] == sorted(
        node for node in numa_of_devices(finetune, hardware) if node is not None
    )
    assert len({kernel["node"] for kernel in kernels(plan, "Session/vision/sweep")}) == 1
    (bench,) = kernels(plan, "Session/language/inference-bench")
    assert bench["node"] == "dgx-16"
    assert numa_of_devices(bench, hardware) == {0, 1}
    assert waits(plan) == {"Session/vision/ablation": ["quota"]}


@declared("clusters/mixed")
def test_mixed(user: User) -> None:
    plan = user.plan("--offline")
    (train,) = kernels(plan, "Session/shared/train")
    assert len(numa_of_devices(train, "clusters/mixed/hardware/dgx-a100.json")) == 1
    chat = kernels(plan, "Session/shared/chat")
    assert [device["milli"] for kernel in chat for device in kernel["devices"]] == [500, 500]
    (embed,) = kernels(plan, "Session/shared/embed")
    assert [device["milli"] for device in embed["devices"]] == [300]
    (preprocess,) = kernels(plan, "Session/shared/preprocess")
    assert preprocess["node"] == "cpu-1"
    assert preprocess["memory_nodes"] == [0, 1]
    assert waits(plan) == {"Session/shared/index": ["dependency"]}


@declared("sessions/gpu")
def test_gpu_features(user: User) -> None:
    plan = user.plan("--offline")
    assert waits(plan) == {}
    hardware = "sessions/gpu/hardware/dgx-h100.json"
    (spread,) = kernels(plan, "Session/examples/interleaving")
    assert numa_of_devices(spread, hardware) == {0, 1}
    (whole,) = kernels(plan, "Session/examples/whole")
    assert len(numa_of_devices(whole, hardware)) == 1
    assert len({kernel["node"] for kernel in kernels(plan, "Session/examples/gang")}) == 2
    (designated,) = kernels(plan, "Session/examples/designated")
    assert designated["node"] == "gpu-4"


@declared("clusters/images")
def test_images(user: User) -> None:
    plan = user.plan("--offline")
    nodes = {session: kernels(plan, session)[0]["node"] for session in sorted(sessions(user.folder))}
    assert nodes["Session/vision/preprocess"] == "arm-1"
    assert nodes["Session/vision/notebook"].startswith("gpu-")
    (notebook,) = kernels(plan, "Session/vision/notebook")
    assert notebook["memory"] == 4 << 30
    assert "pytorch" in user.bai("images")
