"""A kernel's spec as the objects of a cluster."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from providers.base import File, KernelSpec, Labels, Mount, Network, Published, RestartRule
from providers.gpu.gpu_share import GpuShare
from providers.kubernetes.objects import labels as own
from providers.kubernetes.objects.claim import allocation_status, claim_manifest, class_configs, holds_exactly
from providers.kubernetes.objects.names import PodRef
from providers.kubernetes.objects.pod import beside, given_name, pod_manifest, service_manifest
from providers.kubernetes.observe.devices import devices_of
from providers.kubernetes.observe.pods import is_ours, parse_pod
from schemas.kinds.parts.kubernetes import Kubernetes
from schemas.problems.errors.kernel import KernelRefused
from tests.providers.kubernetes.specs import ID, LABELS, UID, forged, gpu, kernel, pod, resource_slice

REF = PodRef("bai", ID)
OPTIONS = Kubernetes()


def made(spec: KernelSpec, options: Kubernetes = OPTIONS, *, claims: int = 0) -> Any:
    return pod_manifest(spec, REF, options, "given", claims=claims)


def container(spec: KernelSpec) -> Any:
    (found,) = made(spec)["spec"]["containers"]
    return found


def expanded(text: str) -> str:
    """As the kubelet expands commands and variables (third_party/forked/golang/expansion), with no variables
    set: `$$` is `$`, `$(NAME)` stays."""
    said, at = "", 0
    while at < len(text):
        if text[at] == "$" and text[at + 1 : at + 2] == "$":
            said, at = said + "$", at + 2
        elif text[at] == "$" and text[at + 1 : at + 2] == "(" and ")" in text[at:]:
            raise AssertionError(f"{text} has a reference")
        else:
            said, at = said + text[at], at + 1
    return said


@given(st.text("$()A{ ", max_size=12))
def test_text_reaches_the_kernel_as_it_was_written(text: str) -> None:
    found = container(kernel(ID, "echo", text, env={"X": text}))
    assert [expanded(word) for word in found["args"]] == ["echo", text]
    assert [expanded(each["value"]) for each in found["env"] if each["name"] == "X"] == [text]


def test_secrets_are_in_the_secret_alone() -> None:
    spec = kernel(
        env={"PLAIN": "a", "PASSWORD": "overridden"}, secret_env={"PASSWORD": "hunter2"},
        files=(File("a.xml", "<x/>", "TOPOLOGY"),),
    )  # fmt: skip
    body = made(spec)
    assert "hunter2" not in json.dumps(body) and "overridden" not in json.dumps(body)
    assert given_name(body) == "given" and given_name(made(kernel())) == ""
    body["metadata"]["uid"] = "u"
    things = dict(beside(spec, body))
    assert things["secrets"]["stringData"] == {"PASSWORD": "hunter2"}
    assert things["configmaps"]["data"] == {"a.xml": "<x/>"} and "hunter2" not in str(things["configmaps"])
    for each in things.values():
        assert each["metadata"]["name"] == "given" and each["metadata"]["ownerReferences"][0]["uid"] == "u"
    variables = {each["name"]: each.get("value") for each in container(spec)["env"]}
    assert variables["TOPOLOGY"] == "/run/bai/a.xml" and len(variables) == len(container(spec)["env"])
    assert PodRef("n", "x").new_given() != PodRef("n", "x").new_given()


@pytest.mark.parametrize(
    ("fields", "uid", "gid", "groups"),
    [
        ({"uid": None}, 65534, 65534, None),
        ({}, UID, UID, None),
        ({"groups": (7, 5, UID)}, UID, UID, [5, 7]),
        ({"user": "1000"}, 1000, 1000, None),
        ({"user": "1000:50", "groups": (50, 60)}, 1000, 50, [60]),
        ({"user": "root"}, 0, 0, None),
        ({"user": "0:0"}, 0, 0, None),
    ],
)
def test_whom_a_kernel_runs_as(fields: dict[str, Any], uid: int, gid: int, groups: Any) -> None:
    found = made(kernel(**fields))["spec"]["securityContext"]
    assert (found["runAsUser"], found["runAsGroup"], found["fsGroup"]) == (uid, gid, gid)
    assert found["runAsNonRoot"] is (uid != 0) and found.get("supplementalGroups") == groups
    assert found["seccompProfile"] == {"type": "RuntimeDefault"}


def test_pods_are_restricted() -> None:
    """As the pod security standard `restricted` has it."""
    spec = kernel(capabilities=("CAP_SYS_PTRACE",), read_only_root=True)
    body = made(spec)["spec"]
    context = body["containers"][0]["securityContext"]
    assert context["allowPrivilegeEscalation"] is False and context["capabilities"] == {"drop": ["ALL"]}
    assert context["readOnlyRootFilesystem"] and "privileged" not in context
    assert body["automountServiceAccountToken"] is False and not {"hostNetwork", "hostPID", "hostIPC"} & set(
        body
    )
    assert {"name": "tmp", "mountPath": "/tmp"} in body["containers"][0]["volumeMounts"]
    as_root = made(kernel(user="root", capabilities=("SYS_PTRACE",)))["spec"]["containers"][0]
    assert as_root["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["SYS_PTRACE"]}
    assert body["schedulerName"] == "bai" and "nodeName" not in body


def test_requests_are_limits() -> None:
    found = container(kernel(cpus=(2, 3, 9), memory=2**30, scratch=2**20))["resources"]
    assert found["requests"] == found["limits"]
    assert found["limits"] == {"cpu": "3", "memory": str(2**30), "ephemeral-storage": str(2**20)}
    assert container(kernel(cpu_milli=250))["resources"]["limits"] == {"cpu": "250m"}
    assert container(kernel())["resources"]["limits"] == {}
    body = made(kernel(), claims=2)["spec"]
    assert body["resourceClaims"] == [
        {"name": "devices-1", "resourceClaimName": "given"},
        {"name": "devices-2", "resourceClaimName": "given-2"},
    ]  # fmt: skip
    names = [{"name": "devices-1"}, {"name": "devices-2"}]
    assert body["containers"][0]["resources"]["claims"] == names


def test_huge_pages_are_asked_for_and_mounted() -> None:
    both = {"hugepages-1Gi": 2 << 30, "hugepages-2Mi": 6 << 20}
    spec = kernel(memory=2**30, hugepages=both)
    found = container(spec)["resources"]
    assert found["requests"] == found["limits"] == {
        "memory": str(2**30), "hugepages-1Gi": str(2 << 30), "hugepages-2Mi": str(6 << 20),
    }  # fmt: skip
    body = made(spec)["spec"]
    volumes = {each["name"]: each.get("emptyDir") for each in body["volumes"]}
    assert volumes["hugepages-2mi"] == {"medium": "HugePages-2Mi"}
    assert volumes["hugepages-1gi"] == {"medium": "HugePages-1Gi"}
    at = {each["name"]: each["mountPath"] for each in body["containers"][0]["volumeMounts"]}
    assert (at["hugepages-2mi"], at["hugepages-1gi"]) == ("/dev/hugepages", "/dev/hugepages-1Gi")
    alone = made(kernel(memory=2**30, hugepages={"hugepages-1Gi": 2 << 30}))["spec"]
    assert {"name": "hugepages-1gi", "mountPath": "/dev/hugepages"} in alone["containers"][0]["volumeMounts"]
    assert "hugepages" not in json.dumps(made(kernel(hugepages={"hugepages-2Mi": 0}))["spec"]["volumes"])
    theirs = kernel(hugepages=both, mounts=(Mount("/data", "/dev/hugepages", claim="c"),))
    mounted = [each["name"] for each in container(theirs)["volumeMounts"]]
    assert "hugepages-2mi" not in mounted and "hugepages-1gi" in mounted


def test_volumes() -> None:
    body = made(kernel(shm=2**20, scratch=2**30))["spec"]
    volumes = {each["name"]: each for each in body["volumes"]}
    assert volumes["shm"]["emptyDir"] == {"medium": "Memory", "sizeLimit": str(2**20)}
    assert volumes["home"]["emptyDir"] == {"sizeLimit": str(2**30)}
    at = {each["mountPath"]: each["name"] for each in body["containers"][0]["volumeMounts"]}
    assert at == {"/home/work": "home", "/dev/shm": "shm"}


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"image": ""}, "no image"),
        ({"ulimits": {"nofile": (1, 2), "memlock": (-1, -1)}}, "memlock, nofile"),
        ({"share": GpuShare("mps", {})}, "parts of GPUs"),
        ({"user": "alice"}, "by number"),
        ({"mounts": (Mount("/d/x", "/x"),)}, "not under the root of a storage host"),
        ({"mounts": (Mount("/d/x", "/x", root="/d"),)}, "hostPathRoots of the cluster have no folder"),
        ({"network": Network(published=(Published(80, 8080),))}, "no port at their node's address"),
    ],
)
def test_what_pods_cannot_have_is_refused(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(KernelRefused, match=why):
        made(kernel(**fields))


def test_times_restarts_and_options() -> None:
    spec = kernel(timeout=0.3, stop_grace=0.0, restart=RestartRule("on-failure", 3), tty=True)
    options = Kubernetes.model_validate(
        {"imagePullSecrets": ["pull"], "runtimeClass": "nvidia", "priorityClass": "research"}
    )
    body = made(spec, options)
    assert body["spec"]["activeDeadlineSeconds"] == body["spec"]["terminationGracePeriodSeconds"] == 1
    assert body["spec"]["restartPolicy"] == "OnFailure"
    assert body["metadata"]["annotations"]["bai.dev/max-restarts"] == "3"
    assert body["spec"]["imagePullSecrets"] == [{"name": "pull"}]
    assert body["spec"]["runtimeClassName"] == "nvidia" and body["spec"]["priorityClassName"] == "research"
    assert "priorityClassName" not in made(spec)["spec"]
    assert body["spec"]["containers"][0]["tty"] and "activeDeadlineSeconds" not in made(kernel())["spec"]
    plain = made(kernel(restart=RestartRule("always")))
    assert "bai.dev/max-restarts" not in plain["metadata"]["annotations"]
    stays = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "karpenter.sh/do-not-disrupt": "true"}
    assert plain["metadata"]["annotations"].items() >= stays.items()


def test_a_stop_signal_of_its_own_is_sent_by_a_hook() -> None:
    def about(signal: str) -> tuple[int, Any]:
        body = made(kernel(stop_signal=signal, stop_grace=30.0))["spec"]
        return body["terminationGracePeriodSeconds"], body["containers"][0].get("lifecycle")

    assert about("SIGTERM") == (30, None) and about("SIGKILL") == (1, None)
    grace, hook = about("SIGUSR2")
    assert grace == 30 and hook["preStop"]["exec"]["command"][-2:] == ["sh", "USR2"]


def test_members_of_a_session_have_one_zone() -> None:
    body = made(
        kernel(network=Network("overlay", "bai-p-s")), Kubernetes.model_validate({"clusterDomain": "c.test"})
    )
    assert body["spec"]["subdomain"] == body["metadata"]["labels"]["bai.dev/network"] == "bai-p-s"
    assert body["spec"]["dnsConfig"] == {"searches": ["bai-p-s.bai.svc.c.test"]}
    service = service_manifest("bai-p-s", "bai", {"uid": "u"})["spec"]
    assert service["clusterIP"] == "None" and service["publishNotReadyAddresses"]
    assert service["selector"] == {"bai.dev/network": "bai-p-s"}


_TEXT = st.text(max_size=30)


@given(st.builds(Labels, _TEXT, _TEXT, _TEXT, st.integers(0, 2**53 - 1), _TEXT, _TEXT, _TEXT, st.booleans(),
                 _TEXT, _TEXT, _TEXT))  # fmt: skip
def test_labels_come_back_as_they_were(labels: Labels) -> None:
    assert own.from_annotation({"annotations": {own.LABELS: own.to_annotation(labels)}}) == labels
    for name, value in own.selectable(labels, labels.node).items():
        assert own._fits(value), name


@pytest.mark.parametrize(
    "annotation",
    [
        "", "null", "[]", "3", '"x"', "{}", "{", forged(generation=-1), forged(generation="1"),
        forged(generation=True),
        forged(generation=2**53), forged(generation=1.5), forged(protected=1), forged(protected=None),
        forged(repo=None), forged(kernel=3), forged(document={}), forged(node=["n0"]),
        json.dumps({name: value for name, value in asdict(LABELS).items() if name != "commit"}),
    ],
)  # fmt: skip
def test_labels_that_bai_does_not_write_are_none(annotation: str) -> None:
    found = pod(metadata={"annotations": {own.LABELS: annotation}})
    assert own.from_annotation(found["metadata"]) is None
    assert parse_pod(found) is None and not is_ours(found, OPTIONS)


def test_only_where_bai_makes_pods_are_they_believed() -> None:
    per_project = Kubernetes(namespace="team-{project}")
    assert is_ours(pod(), OPTIONS) and not is_ours(pod(metadata={"namespace": "other"}), OPTIONS)
    assert not is_ours(pod(metadata={"labels": {"app.kubernetes.io/managed-by": "Helm"}}), OPTIONS)
    assert not is_ours(pod(metadata={"labels": None}), OPTIONS)
    assert not is_ours(pod(metadata={"annotations": None}), OPTIONS)
    assert is_ours(pod(metadata={"namespace": "team-p"}), per_project) and not is_ours(pod(), per_project)
    another = replace(LABELS, resource="Session/q/s")
    assert not is_ours(pod(labels=another, metadata={"namespace": "team-p"}), per_project)
    for odd in ("", "x", "Session//", "a/b/c/d/e"):
        assert not is_ours(pod(labels=replace(LABELS, resource=odd)), per_project)


def test_a_claim_names_its_devices() -> None:
    bare = {"name": "gpu-9"}
    devices = devices_of([resource_slice(gpu(1), gpu(2, uuid=None), bare)])
    body = claim_manifest(REF, devices, ["gpu.nvidia.com"] * 3, {"uid": "u", "name": ID})
    assert body["metadata"]["labels"]["bai.dev/kernel"] == ID
    requests = [each["exactly"] for each in body["spec"]["devices"]["requests"]]
    said = [each["selectors"][0]["cel"]["expression"] for each in requests]
    assert 'attributes["gpu.nvidia.com"].uuid == "GPU-1"' in said[0] and '"0000:02:00.0"' in said[1]
    assert said[2] == 'device.driver == "gpu.nvidia.com"'
    assert "resource.kubernetes.io/delete-protection" in body["metadata"]["finalizers"]
    opaque = {"driver": "gpu.nvidia.com", "parameters": {"a": 1}}
    configs = class_configs([{"spec": {"config": [{"opaque": opaque}, {}]}}, {"spec": None}, {}])
    status = allocation_status(devices, {"metadata": {"name": ID, "uid": "u"}}, "n0", configs)
    assert status["allocation"]["devices"]["config"] == [
        {"source": "FromClass", "requests": [], "opaque": opaque}
    ]
    assert status["reservedFor"] == [{"resource": "pods", "name": ID, "uid": "u"}]
    (term,) = status["allocation"]["nodeSelector"]["nodeSelectorTerms"]
    assert term["matchFields"] == [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]
    given_away = {**body, "status": status}
    assert holds_exactly(given_away, devices, "u") is True
    assert holds_exactly(given_away, devices, "another") is False
    assert holds_exactly(given_away, devices[:1], "u") is False
    assert holds_exactly(body, devices, "u") is None


@pytest.mark.parametrize(
    "namespace", ["", "Bai", "a_b", "-a", "a-", "a/b", "{project}-{project}", "x" * 64, "{user}", "a\n"]
)
def test_a_namespace_that_cannot_be_one_is_refused(namespace: str) -> None:
    with pytest.raises(ValidationError):
        Kubernetes(namespace=namespace)


def test_each_project_may_have_its_own_namespace() -> None:
    assert Kubernetes(namespace="team-{project}").namespace_of("p") == "team-p"
    assert Kubernetes().namespace_of("p") == "bai"
    assert Kubernetes().options_set == {}
