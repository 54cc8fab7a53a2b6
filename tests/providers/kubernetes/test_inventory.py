"""What an import makes of a cluster's objects."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from providers.base import Labels
from providers.kernel_names import kernel_id
from providers.kubernetes.inventory.cluster import ImportedCluster, ImportOptions, import_cluster
from providers.kubernetes.inventory.read import ClusterObjects
from providers.kubernetes.inventory.session import AdoptablePod
from providers.kubernetes.objects import labels as own
from providers.kubernetes.objects.claim import claim_names
from providers.kubernetes.observe.pods import is_ours, parse_pod
from schemas.kinds.parts.kubernetes import Kubernetes
from schemas.loading.documents import kind_of
from tests.harness.work import instructions, instructions_per_pair
from tests.providers.kubernetes.specs import gpu, node, resource_slice
from tests.providers.kubernetes.strangers import claimed, stranger

H100 = {"productName": "NVIDIA H100 80GB HBM3"}
MOST = 0.2
"""Instructions for each pair of pods or nodes."""


def imported(
    *pods: dict[str, Any], store: str = "", namespace: str = "team-{project}", **objects: Any
) -> ImportedCluster:
    given: dict[str, Any] = {
        "nodes": (node("n0"), node("n1")),
        "namespaces": ({"metadata": {"name": "team-a"}}, {"metadata": {"name": "kube-system"}}),
        "slices": (resource_slice(gpu(0, **H100), gpu(1, **H100)),),
        **objects,
    }
    options = ImportOptions("prod", Kubernetes(namespace=namespace), store=store)
    return import_cluster(ClusterObjects(pods=pods, **given), options)


def session(*pods: dict[str, Any], **objects: Any) -> AdoptablePod:
    found = imported(*pods, **objects)
    assert not found.refused, found.refused
    return found.pods[0]


def why_not(pod: dict[str, Any], **objects: Any) -> str:
    found = imported(pod, **objects)
    assert not found.pods
    (why,) = found.refused.values()
    return "; ".join(why)


def test_a_pod_as_a_session() -> None:
    pod = stranger(
        env=[
            {"name": "EPOCHS", "value": "10"},
            {"name": "OUT", "value": "/data/$(EPOCHS)/$$(EPOCHS)"},
            {"name": "DB", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}},
        ],
        args=["train $(EPOCHS) $(date) $$HOME"],
        ports=[{"containerPort": 8080}, {"containerPort": 53, "protocol": "UDP", "name": "dns"}],
        workingDir="/work",
        securityContext={"readOnlyRootFilesystem": True, "runAsUser": 1500, "runAsGroup": 1501},
        restartPolicy="OnFailure",
        activeDeadlineSeconds=3600,
        metadata={"labels": {"team": "blue", "app.kubernetes.io/name": "x"}},
    )
    pod["spec"]["volumes"].append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}})
    pod["spec"]["containers"][0]["volumeMounts"].append({"name": "shm", "mountPath": "/dev/shm"})
    found = session(pod, store="vault")
    assert found.document == {
        "apiVersion": "bai/v1",
        "kind": "Session",
        "metadata": {
            "name": "train",
            "project": "a",
            "labels": {"app.kubernetes.io/name": "x", "team": "blue"},
        },
        "spec": {
            "type": "batch",
            "resourceGroup": "nvidia-h100-80gb-hbm3",
            "image": "registry.example/tool:2",
            "resources": {"cpu": "1500m", "memory": "2GiB", "shm": "1GiB"},
            "command": ["sh", "-c", "train 10 $(date) $HOME"],
            "workdir": "/work",
            "env": {"EPOCHS": "10", "OUT": "/data/10/$(EPOCHS)"},
            "secrets": [{"env": "DB", "from": "vault/db.password"}],
            "ports": [
                {"name": "tcp-8080", "port": 8080, "protocol": "tcp"},
                {"name": "dns", "port": 53, "protocol": "udp"},
            ],
            "timeout": "1h",
            "restart": {"policy": "on-failure"},
            "stop": {"grace": "30s"},
            "container": {"user": "1500:1501", "readOnlyRoot": True},
        },
    }
    assert (found.node, found.held.cpu_milli, found.held.memory) == ("n0", 1500, 2 * 2**30)
    assert "its command becomes arguments of the image's entrypoint" in found.notes


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({"restartPolicy": "Always"}, "inference"),
        ({"restartPolicy": "Never"}, "batch"),
        ({"restartPolicy": "Always", "tty": True, "stdin": True}, "interactive"),
    ],
)
def test_what_kind_of_session(changed: dict[str, Any], kind: str) -> None:
    assert session(stranger(**changed)).document["spec"]["type"] == kind


def test_devices_of_claims() -> None:
    pod, made = claimed()
    found = session(pod, claims=(made,))
    assert found.held.devices == (("GPU-1", "cuda.device"),)
    assert found.document["spec"]["resources"]["cuda.device"] == 1
    # The scheduler itself makes a claim for an extended resource, where a class stands for it.
    extended = {"resourceClaimName": "train-gpus-x", "requestMappings": [{"resourceName": "nvidia.com/gpu"}]}
    pod = stranger(
        resources={"limits": {"nvidia.com/gpu": "1"}}, status={"extendedResourceClaimStatus": extended}
    )
    assert session(pod, claims=(made,)).held.devices == (("GPU-1", "cuda.device"),)
    assert claim_names(pod) == ["train-gpus-x"]


def test_mig_devices_of_claims() -> None:
    part = {**gpu(2), "name": "mig-0"}
    part["attributes"] = {
        "type": {"string": "mig"}, "uuid": {"string": "MIG-9"}, "profile": {"string": "1g.10gb"},
        "parentUUID": {"string": "GPU-1"},
    }  # fmt: skip
    pod, made = claimed()
    made["status"]["allocation"]["devices"]["results"][0]["device"] = "mig-0"
    found = session(pod, claims=(made,), slices=(resource_slice(gpu(1, **H100), part),))
    assert found.held.devices == (("MIG-9", "cuda.mig.1g.10gb"),)


def test_claims_that_are_no_sessions() -> None:
    pod, made = claimed()
    assert "its claim train-gpus-x has no devices" in why_not(pod)
    shared = copy.deepcopy(made)
    shared["status"]["reservedFor"].append({"resource": "pods", "name": "y", "uid": "y"})
    assert "is not its own alone" in why_not(pod, claims=(shared,))
    assert "has parts of devices" in why_not(pod, claims=(claimed(shareID="s")[1],))
    assert "has parts of devices" in why_not(pod, claims=(claimed(adminAccess=True)[1],))
    unknown = copy.deepcopy(made)
    unknown["status"]["allocation"]["devices"]["results"][0]["device"] = "gpu-77"
    assert "gpu-77, which is no GPU that its node publishes" in why_not(pod, claims=(unknown,))
    configured = copy.deepcopy(made)
    configured["status"]["allocation"]["devices"]["config"] = [{"source": "FromClaim", "opaque": {}}]
    assert "configures its driver" in why_not(pod, claims=(configured,))
    elsewhere = stranger(**{**pod["spec"], "nodeName": "n1"}, status=pod["status"])
    del elsewhere["spec"]["containers"][1:]
    assert "no GPU that its node publishes" in why_not(elsewhere, claims=(made,))


OWNER = {"kind": "ReplicaSet", "name": "web", "controller": True}
OBSTACLES = [
    ({"metadata": {"ownerReferences": [OWNER]}}, "ReplicaSet web owns it and would make it again"),
    ({"metadata": {"ownerReferences": [{"kind": "Thing", "name": "t"}]}}, "Thing t owns it"),
    ({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}}, "a file on its node makes it"),
    ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, "it is being deleted"),
    ({"metadata": {"labels": {"app.kubernetes.io/managed-by": "Helm"}}}, "Helm manages it"),
    ({"metadata": {"labels": {"app.kubernetes.io/managed-by": "bai"}}}, "bai manages it"),
    ({"metadata": {"labels": {"bai.dev/project": "b"}}}, "it carries labels of bai's already"),
    ({"metadata": {"annotations": {own.LABELS: "{}"}}}, "it carries labels of bai's already"),
    ({"status": {"phase": "Pending"}}, "it has not started"),
    ({"containers": [{"name": "a"}, {"name": "b"}]}, "it has 2 containers"),
    ({"initContainers": [{"name": "a"}]}, "it has init containers"),
    ({"hostNetwork": True}, "it has its node's own (hostNetwork)"),
    ({"hostPID": True}, "it has its node's own (hostPID)"),
    ({"serviceAccountName": "operator"}, "it is somebody in the cluster (service account operator)"),
    ({"nodeName": "gone"}, "its node gone is not imported"),
    ({"volumes": [{"name": "d", "hostPath": {"path": "/"}}]}, "it has the volume d (hostPath)"),
    ({"volumes": [{"name": "d", "persistentVolumeClaim": {}}]}, "the volume d (persistentVolumeClaim)"),
    ({"volumes": [{"name": "d", "emptyDir": {}}]}, "it has the volume d (emptyDir)"),
    ({"volumes": [{"name": "kube-api-access-x", "hostPath": {}}]}, "it has the volume kube-api-access-x"),
    ({"securityContext": {"privileged": True}}, "it is privileged"),
    ({"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}, "capabilities of root (SYS_ADMIN)"),
    ({"ports": [{"containerPort": 1, "hostPort": 80}]}, "it has port 80 of its node"),
    ({"volumeDevices": [{"name": "d"}]}, "it has block devices"),
    ({"resources": {"limits": {"nvidia.com/gpu": "2"}}}, "which nvidia.com/gpu it has, its device plugin"),
    ({"resources": {"limits": {"hugepages-2Mi": "2Mi"}}}, "which hugepages-2Mi it has"),
    ({"resources": {"limits": {"memory": "1"}}}, "spec.resources.memory"),
    ({"env": [{"name": "A-B", "value": "1"}]}, "spec.env.A-B: 'A-B' is not the name"),
    ({"envFrom": [{"secretRef": {"name": "s"}}]}, "it takes all variables of the secret s"),
    ({"env": [{"name": "IP", "valueFrom": {"fieldRef": {}}}]}, "IP is set by a fieldRef"),
    ({"env": [{"name": "P", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}, "--secrets-from"),
    ({"env": [{"name": "API_KEY", "value": "hush"}]}, "API_KEY is called like a secret"),
    ({"env": [{"name": "HF_TOKEN", "value": "hush"}]}, "HF_TOKEN is called like a secret"),
    ({"args": ["$(WEB_SERVICE_HOST)"]}, "its command refers to $(WEB_SERVICE_HOST)"),
]


@pytest.mark.parametrize(("changed", "why"), OBSTACLES, ids=[why for _, why in OBSTACLES])
def test_pods_that_stay_what_they_are(changed: dict[str, Any], why: str) -> None:
    assert why in why_not(stranger(**copy.deepcopy(changed)))


def test_a_variable_of_a_secret_in_a_command_is_no_text() -> None:
    source = {"secretKeyRef": {"name": "s", "key": "k"}}
    pod = stranger(env=[{"name": "low", "valueFrom": source}], args=["$(low)"])
    assert "its command refers to $(low)" in why_not(pod, store="vault")
    plain = stranger(env=[{"name": "TOKENIZERS_PARALLELISM", "value": "false"}, {"name": "TOKEN"}])
    assert session(plain).document["spec"]["env"] == {"TOKENIZERS_PARALLELISM": "false", "TOKEN": ""}


def test_names_that_sessions_cannot_have() -> None:
    names = ("a.b", "a-b", "x" * 70, "x" * 71)
    made = [each.identity[1] for each in imported(*map(stranger, names)).pods]
    assert len(set(made)) == len(names) and all(len(name) <= 63 for name in made)
    assert "a-b" in made and not any("." in name for name in made)


def test_pods_elsewhere_and_ended_ones() -> None:
    kube, other = stranger("dns"), stranger("other")
    kube["metadata"]["namespace"], other["metadata"]["namespace"] = "kube-system", "web"
    found = imported(kube, other, stranger("over", status={"phase": "Succeeded"}))
    assert (found.pods, dict(found.refused), found.elsewhere) == ((), {}, 2)
    one = imported(stranger(), other, namespace="team-a")
    assert [each.identity for each in one.pods] == [("team-a", "train")] and one.elsewhere == 1


def test_groups_of_nodes() -> None:
    plane = node("cp", taints=[{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}])
    kept = node("n1", taints=[{"key": "nvidia.com/gpu", "effect": "NoSchedule"}])
    kept["metadata"]["labels"] = {
        "nvidia.com/gpu.product": "L40S", "nvidia.com/gpu.count": "8", "kubernetes.io/hostname": "n1",
        "feature.node.kubernetes.io/cpu": "x", "topology.kubernetes.io/zone": "z1", "rack": "r7",
    }  # fmt: skip
    found = imported(nodes=(plane, node("n0"), kept, node("n2"), node("x" * 64)))
    specs = {one["metadata"]["name"]: one["spec"] for one in found.nodes}
    labels = {"nvidia.com/gpu.product": "L40S", "rack": "r7", "topology.kubernetes.io/zone": "z1"}
    assert specs == {
        "n0": {"resourceGroup": "nvidia-h100-80gb-hbm3"},
        "n1": {"resourceGroup": "l40s", "labels": labels},
        "n2": {"resourceGroup": "cpu"},
    }
    assert list(found.left_out) == ["cp", "x" * 64]
    assert found.notes == ("nodes with the taint nvidia.com/gpu take sessions: their documents name them",)
    groups = [one["metadata"]["name"] for one in found.cluster if kind_of(one) == "ResourceGroup"]
    assert groups == ["cpu", "l40s", "nvidia-h100-80gb-hbm3"]
    options = ImportOptions("prod", Kubernetes(), group_by="rack")
    by_rack = import_cluster(ClusterObjects(nodes=(kept, node("n2"))), options)
    assert dict(by_rack.context.groups) == {"n1": "r7", "n2": "other"}


def test_quotas() -> None:
    hard = {
        "requests.cpu": "40", "limits.cpu": "80", "requests.memory": "1Ti", "requests.nvidia.com/gpu": "8",
        "gpu.nvidia.com.deviceclass.resource.k8s.io/devices": "6", "pods": "20", "services": "3",
    }  # fmt: skip
    quotas = [
        {"metadata": {"name": "all", "namespace": "team-a"}, "spec": {"hard": hard}},
        {"metadata": {"name": "some", "namespace": "team-a"}, "spec": {"scopes": ["BestEffort"]}},
        {"metadata": {"name": "theirs", "namespace": "web"}, "spec": {"hard": hard}},
        {"metadata": {"name": "none", "namespace": "team-a"}, "spec": {"hard": {"services": "1"}}},
    ]
    found = imported(quotas=quotas)
    project, quota = found.tenancy
    assert project["metadata"] == {"name": "a"}
    assert quota["metadata"] == {"name": "a-all"} and quota["spec"] == {
        "subject": {"project": "a"},
        "total": {"cpu": 40, "memory": "1TiB", "cuda.device": 6},
        "concurrentSessions": 20,
    }
    assert found.notes == (
        "quota team-a/all is imported without limits.cpu, services",
        "quota team-a/none is imported without services",
        "quota team-a/some is left out: it counts only some pods, by scopes",
    )


def test_an_adopted_pod_is_a_kernel_of_its_session_and_of_no_other() -> None:
    marks = Labels("repo", "prod", "Session/a/train", 1, "d", "main1", "n0")
    pod = stranger(
        metadata={"labels": own.adopted(marks), "annotations": {own.LABELS: own.to_annotation(marks)}}
    )
    pod["status"]["containerStatuses"] = [
        {"name": "app", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
    ]
    options = Kubernetes(namespace="team-{project}")
    found = parse_pod(pod)
    assert is_ours(pod, options) and found is not None
    assert found.kernel.id == kernel_id("repo", "prod", "Session/a/train", "main1", 1) != "train"
    assert (found.kernel.state, found.kernel.image, found.kernel.memory) == (
        "running", "registry.example/tool:2", 2 * 2**30,
    )  # fmt: skip
    for other in ("another", kernel_id("repo", "prod", "Session/a/other", "main1", 1)):
        pod["metadata"]["labels"][own.KERNEL] = other
        assert not is_ours(pod, options)


def test_nothing_is_done_for_each_pair() -> None:
    def work(size: int) -> int:
        pods = [stranger(f"{'x' * 60}-{number:04}") for number in range(size)]
        for number, pod in enumerate(pods):
            pod["spec"]["nodeName"] = f"n{number:04}"
        nodes = [node(f"n{number:04}") for number in range(size)]
        slices = [resource_slice(gpu(1, **H100), node=f"n{number:04}") for number in range(size)]
        return instructions(lambda: imported(*pods, nodes=nodes, slices=slices))

    assert instructions_per_pair(work, 32) < MOST
