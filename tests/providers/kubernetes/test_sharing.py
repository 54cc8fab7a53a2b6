"""Claims that several kernels use, as values; and what is said of parts of GPUs before a plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from providers.gpu.gpu_share import GpuShare
from providers.kubernetes.capabilities import fraction_obstacles
from providers.kubernetes.objects.labels import SHARING
from providers.kubernetes.objects.names import PodRef
from providers.kubernetes.objects.sharing import (
    SharingRule,
    is_shared_name,
    new_shared_name,
    rule_of,
    rule_of_claim,
    shared_manifest,
    shared_prefix,
)
from providers.kubernetes.observe.devices import DeviceIndex, devices_of
from providers.kubernetes.observe.foreign import foreign_uses
from providers.kubernetes.observe.ledger import parse_claim, parse_pending
from providers.kubernetes.observe.nodes import parse_node
from schemas.kinds.parts.kubernetes import Kubernetes as Options
from schemas.loading.loader import load_directory
from schemas.problems.errors.repository import InvalidRepository
from tests.providers.kubernetes.specs import claim, gpu, node, resource_slice

POD = {"apiVersion": "v1", "kind": "Pod", "name": "s-main1-0-g1", "uid": "u1"}


def index(*devices: dict[str, Any]) -> DeviceIndex:
    return DeviceIndex(devices_of([resource_slice(*devices)]))


def shared(namespace: str, *users: str, label: str = "mps-500") -> dict[str, Any]:
    made = claim("shared", "gpu-1", namespace=namespace)
    made["metadata"]["labels"] = {SHARING: label}
    made["metadata"]["ownerReferences"] = [{"kind": "Pod", "name": each, "uid": each} for each in users]
    return made


def test_what_bais_kernels_share_is_no_use_of_others_and_elsewhere_it_is() -> None:
    there = parse_node(node())
    assert there is not None
    for namespace, users, used in (
        ("bai", ("gone", "u1"), ()), ("bai", ("gone",), ("GPU-1",)), ("others", ("u1",), ("GPU-1",)),
    ):  # fmt: skip
        held = parse_claim(shared(namespace, *users))
        assert held is not None
        holders = {key: (held,) for key in held.devices}
        uses = foreign_uses([there], [], index(gpu(1)), holders, frozenset({("bai", "u1")}))
        assert sum((use.devices for use in uses), ()) == used


@pytest.mark.parametrize("label", ["", "mps", "mps-x", "hami-500", "mps-12345", "mps-500-1", "none-٣"])
def test_a_label_that_bai_never_writes_makes_no_claim_shared(label: str) -> None:
    assert rule_of_claim(shared("bai", "u1", label=label)) is None
    held = parse_claim(shared("bai", "u1", label=label))
    assert held is not None and held.rule is None and not held.users


def test_one_that_is_being_made_is_no_claim_that_a_scheduler_decides_about() -> None:
    made = shared("bai", "u1")
    del made["status"]
    assert parse_pending(made, Options()) is None
    made["metadata"]["namespace"] = "others"
    assert parse_pending(made, Options()) is not None


def test_a_claim_says_what_its_driver_is_to_hold_everybody_to() -> None:
    (device,) = index(gpu(1)).all
    rule = rule_of(GpuShare("mps", {"GPU-1": 250}, most=250))
    body = shared_manifest(PodRef("bai", "shared"), device, "gpu.nvidia.com", rule, POD)
    assert body["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "bai", SHARING: "mps-250"}
    assert rule_of_claim(body) == rule
    assert body["spec"]["devices"]["config"][0]["opaque"] == {
        "driver": "gpu.nvidia.com",
        "parameters": {
            "apiVersion": "resource.nvidia.com/v1beta1",
            "kind": "GpuConfig",
            "sharing": {
                "mpsConfig": {
                    "defaultActiveThreadPercentage": 25,
                    "defaultPinnedDeviceMemoryLimit": "20480Mi",
                    "multiUser": True,
                },
                "strategy": "MPS",
            },
        },
    }
    loose = shared_manifest(PodRef("bai", "shared"), device, "gpu.nvidia.com", rule_of(None), POD)
    assert loose["spec"]["devices"]["config"] == []


def test_names_tell_what_is_shared_how_and_are_no_pods_own() -> None:
    one, two = index(gpu(1), gpu(2)).all
    rules = SharingRule("mps", 500), SharingRule("mps"), SharingRule("none")
    assert len({shared_prefix(device, rule) for device in (one, two) for rule in rules}) == 6
    name = new_shared_name(shared_prefix(one, rules[0]))
    assert is_shared_name(name) and name != new_shared_name(shared_prefix(one, rules[0]))
    for own in (PodRef("bai", "shared-0123456789ab-g1").new_given(), "shared-x", f"{name}-2", f"x{name}"):
        assert not is_shared_name(own)


def test_nodes_say_why_they_have_no_mps() -> None:
    several = {**gpu(1), "allowMultipleAllocations": True}
    for options, devices, why in (
        (Options(mps=True), index(gpu(1)), ""),
        (Options(), index(gpu(1)), "MPSSupport"),
        (Options(mps=True, namespace="team-{project}"), index(gpu(1)), "within one namespace"),
        (Options(mps=True), index(), "publishes GPUs"),
        (Options(mps=True), index(several), "ConsumableShares"),
    ):
        said = fraction_obstacles(devices, options, ["n0"])["n0"]
        assert (why in said["mps"]) if why else said["mps"] == ""
        assert said["hami"]


DOCUMENTS = """apiVersion: bai/v1
kind: Cluster
metadata: {{name: c}}
spec: {{provider: kubernetes, kubernetes: {{{options}}}}}
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {{name: g}}
spec: {{fractional: {{{rule}}}}}
---
apiVersion: bai/v1
kind: Project
metadata: {{name: p}}
spec: {{}}
---
apiVersion: bai/v1
kind: Session
metadata: {{name: s, project: p}}
spec: {{image: i, resourceGroup: g, resources: {{cpu: 1, memory: 1GiB, {asked}}}}}
"""


@pytest.mark.parametrize(
    ("options", "rule", "asked", "said"),
    [
        ("", "", "cuda.shares: 0.5", ""),
        ("mps: true", "enforcement: mps", "cuda.shares: 0.5", ""),
        ("mps: true", "enforcement: mps, largest: 0.5", "cuda.shares: 0.5", ""),
        ("mps: true", "enforcement: mps, largest: 0.5", "cuda.shares: 0.6", "a larger part of a GPU"),
        ("mps: true", "largest: 0.5, sharesPerDevice: 4", "cuda.shares: 3", "ask for at most 2"),
        ("", "enforcement: mps", "cuda.shares: 0.5", "`mps: true` in `spec.kubernetes`"),
        ("mps: true", "enforcement: hami", "cuda.shares: 0.5", "demands hami"),
        ("namespace: 'team-{project}'", "", "cuda.shares: 0.5", "within one namespace"),
        ("", "", "rocm.shares: 0.5", "whole devices"),
    ],
)
def test_what_is_asked_for_is_judged_before_a_plan(
    tmp_path: Path, options: str, rule: str, asked: str, said: str
) -> None:
    (tmp_path / "all.yaml").write_text(DOCUMENTS.format(options=options, rule=rule, asked=asked))
    if not said:
        load_directory(tmp_path)
        return
    with pytest.raises(InvalidRepository) as raised:
        load_directory(tmp_path)
    (problem,) = raised.value.problems
    assert said in str(problem)
