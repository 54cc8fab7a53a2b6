"""What ResourceQuotas leave to bai's pods, and what LimitRanges allow one of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from providers.foreign_use import OutsideQuota
from providers.kubernetes.api.reflector import Key, View
from providers.kubernetes.observe.devices import DeviceIndex, devices_of
from providers.kubernetes.observe.ledger import HeldClaim, parse_claim
from providers.kubernetes.observe.limit_ranges import outside_ranges, parse_limit_range
from providers.kubernetes.observe.namespace_limits import SeenLimits
from providers.kubernetes.observe.pods import OwnPod, parse_pod
from providers.kubernetes.observe.quotas import (
    NamespaceQuota,
    outside_quotas,
    parse_quota,
    unplanned_parts,
)
from schemas.kinds.parts.kubernetes import Kubernetes as Options
from tests.providers.kubernetes.specs import MIB, claim, gpu, pod, resource_slice

DEVICES = {each.key: each for each in devices_of([resource_slice(gpu(0), gpu(1), gpu(2, type="mig"))])}
GPUS = "gpu.nvidia.com.deviceclass.resource.k8s.io/devices"


def quota(used: dict[str, str] | None = None, namespace: str = "bai", **more: Any) -> NamespaceQuota:
    hard = more.pop("hard", {"requests.cpu": "4", "requests.memory": "1Gi", "pods": "5", GPUS: "2"})
    return parse_quota({
        "metadata": {"name": "q", "namespace": namespace}, "spec": {"hard": hard, **more},
        "status": {"hard": hard, "used": used or {}},
    })  # fmt: skip


def own(phase: str = "Running") -> dict[Key, OwnPod]:
    asked = {"cpu": "1500m", "memory": "64Mi"}
    main = {"name": "main", "image": "i", "resources": {"requests": asked, "limits": asked}}
    found = parse_pod(pod(phase, {"running": {}}, spec={"containers": [main]}))
    assert found is not None
    return {("bai", found.kernel.id): found}


def claims(*found: dict[str, Any]) -> list[HeldClaim]:
    return [one for one in map(parse_claim, found) if one is not None]


def left(found: NamespaceQuota, pods: dict[Key, OwnPod], *held: dict[str, Any]) -> OutsideQuota:
    (one,) = outside_quotas([found], pods, claims(*held), DEVICES, Options(namespace="bai"))
    return one


def test_what_is_not_of_bais_pods_is_of_others() -> None:
    used = {"requests.cpu": "2", "requests.memory": "100Mi", "pods": "3", GPUS: "2"}
    found = left(quota(used), own(), claim("mine", "gpu-0", "gpu-2", namespace="bai", owner="u1"))
    assert (found.name, found.project) == ("ResourceQuota/bai/q", "")
    assert found.hard == {"cpu": 4000, "mem": 1024 * MIB, "pods": 5, "cuda.device": 2}
    assert found.others == {"cpu": 500, "mem": 36 * MIB, "pods": 2, "cuda.device": 1}


def test_what_bais_pods_have_is_theirs_while_no_driver_publishes_it() -> None:
    mine = claim("mine", "gpu-0", "gpu-0-mig-1g10gb-0-1", namespace="bai", owner="u1")
    found = outside_quotas([quota({GPUS: "1"})], own(), claims(mine), {}, Options(namespace="bai"))
    assert [each.others["cuda.device"] for each in found] == [0]


def test_huge_pages_of_quotas_are_counted() -> None:
    hard = {"requests.hugepages-2Mi": "64Mi", "hugepages-1Gi": "4Gi"}
    pods = own()
    ((key, mine),) = pods.items()
    pods[key] = replace(mine, charged={**(mine.charged or {}), "hugepages-2Mi": 6 * MIB})
    found = left(quota({"requests.hugepages-2Mi": "10Mi", "hugepages-1Gi": "1Gi"}, hard=hard), pods)
    assert found.hard == {"hugepages-2Mi": 64 * MIB, "hugepages-1Gi": 4096 * MIB}
    assert found.others == {"hugepages-2Mi": 4 * MIB, "hugepages-1Gi": 1024 * MIB}


def test_pods_that_have_ended_count_no_more() -> None:
    assert left(quota({"pods": "1"}), own("Succeeded")).others["pods"] == 1
    assert left(quota({}), own()).others["pods"] == 0, "the controller has not counted it yet"


def test_a_claim_elsewhere_that_names_a_pod_of_bais_is_not_bais() -> None:
    found = left(quota({GPUS: "1"}), own(), claim("x", "gpu-0", namespace="z", owner="u1"))
    assert found.others["cuda.device"] == 1


@pytest.mark.parametrize(("namespace", "project"), [("team-vision", "vision"), ("team-", ""), ("bai", "")])
def test_whose_it_is(namespace: str, project: str) -> None:
    options = Options(namespace="team-{project}")
    (found,) = outside_quotas([quota(namespace=namespace)], {}, (), {}, options)
    assert found.project == project


def test_of_several_names_of_one_amount_the_one_with_the_least_left_counts() -> None:
    hard = {"requests.cpu": "4", "limits.cpu": "8", "cpu": "5"}
    found = quota({"requests.cpu": "1", "limits.cpu": "7", "cpu": "1"}, hard=hard)
    assert (found.hard, found.used) == ({"cpu": 8000}, {"cpu": 7000})


def test_what_is_no_part_of_plans_is_said() -> None:
    seen = [
        quota(hard={"services": "1", "pods": "1"}, namespace="a"),
        quota(scopes=["Terminating"], namespace="b"),
        quota(scopes=["NotBestEffort"], namespace="c"),
        quota(scopeSelector={"matchExpressions": []}, namespace="d"),
    ]
    assert unplanned_parts(seen) == [
        "ResourceQuota a/q limits also services, which plans do not count",
        "ResourceQuota b/q counts some pods only, by scopes, and is no part of plans",
        "ResourceQuota d/q counts some pods only, by scopes, and is no part of plans",
    ]
    kept = outside_quotas(seen, {}, (), {}, Options(namespace="bai"))
    assert [one.name for one in kept] == ["ResourceQuota/a/q", "ResourceQuota/c/q"]
    many = unplanned_parts([seen[1]] * 9)
    assert len(many) == 6 and many[-1].startswith("4 more")


def test_who_may_not_see_them_is_told() -> None:
    none: View[Any] = View({}, 0)
    assert SeenLimits(none, none).cautions == []
    (said,) = SeenLimits(None, none).cautions
    assert said.startswith("ResourceQuotas may not be seen") and "rbac.yaml" in said
    (said,) = SeenLimits(None, None).cautions
    assert said.startswith("ResourceQuotas and LimitRanges may not")
    assert SeenLimits(None, None).outside({}, (), DeviceIndex(()), Options()) == ()


def test_of_a_limit_range_the_tighter_bound_counts() -> None:
    limits = [
        {"type": "Container", "max": {"cpu": "4", "memory": "2Gi"}, "min": {"cpu": "100m"}},
        {"type": "Pod", "max": {"cpu": "2", "nvidia.com/gpu": "1"}, "min": {"cpu": "200m"}},
        {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}},
        {"type": "Container", "default": {"cpu": "1"}},
    ]
    metadata = {"name": "r", "namespace": "team-vision"}
    found = parse_limit_range({"metadata": metadata, "spec": {"limits": limits}})
    empty = parse_limit_range({"metadata": metadata, "spec": {"limits": limits[2:]}})
    (one,) = outside_ranges([found, empty], Options(namespace="team-{project}"))
    assert (one.name, one.project) == ("LimitRange/team-vision/r", "vision")
    assert (one.most, one.least) == ({"cpu": 2000, "mem": 2048 * MIB}, {"cpu": 200})
