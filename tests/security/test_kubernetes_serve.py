"""`bai serve` in a cluster: what its manifests tell, what its pods may do, and who reaches them. The lab
enforces no network policies: that they hold is the cluster's to do."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.lab.helm import Helm
from tests.lab.kubernetes.api import CORE, Api, ApiError, kubeconfig
from tests.lab.kubernetes.lab import Kubernetes
from tests.lab.wheels import ROOT
from tests.test_chart import PLAIN, VARIED, only
from tests.waiting import until

SYSTEM = "bai-system"
CANARY = "canary-7d1f"
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
in_the_lab = pytest.mark.xdist_group("kubernetes-sessions")


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("git", "remote", f"https://ada:{CANARY}@git.example/cluster.git"),
        ("git", "remote", f"https://:{CANARY}@git.example/cluster.git"),
        ("store", "url", f"postgresql://bai:{CANARY}@db.example/bai"),
        ("store", "url", f"postgresql://bai@db.example/bai?password={CANARY}"),
        ("store", "url", f"postgresql://bai@db.example/bai?sslmode=require&sslpassword={CANARY}"),
    ],
)
def test_a_password_among_the_values_reaches_no_manifest(
    helm: Helm, part: str, name: str, value: str
) -> None:
    done = helm.template({**PLAIN, part: {**PLAIN[part], name: value}})
    assert done.returncode == 1 and f"{part}.{name} has a password in it" in done.stderr, done.stderr
    assert CANARY not in done.stdout + done.stderr


def test_the_chart_makes_no_secret(helm: Helm) -> None:
    for values in (PLAIN, VARIED):
        assert "Secret" not in {each["kind"] for each in helm.rendered(values)}


def test_bai_is_not_installed_where_sessions_are(helm: Helm) -> None:
    """Who may make pods there could mount its secrets, and be its service account."""
    done = helm.template(PLAIN, namespace="bai")
    assert done.returncode == 1 and "the release's own namespace" in done.stderr


def test_sessions_are_kept_from_the_api_where_policies_count(helm: Helm) -> None:
    """Tokens guard it, too; but sessions have nothing to ask there, and could try."""
    documents = helm.rendered({**PLAIN, "sessions": {"namespaces": ["one", "two"]}})
    policy = only(documents, "NetworkPolicy")["spec"]
    labels = only(documents, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    (rule,) = policy["ingress"]
    (peer,) = rule["from"]
    (expression,) = peer["namespaceSelector"]["matchExpressions"]
    assert expression == {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["one", "two"]}


@pytest.fixture
def system(kubernetes: Kubernetes) -> Iterator[Kubernetes]:
    """With the namespaces of bai and of its sessions, both as restricted as can be."""
    names = (SYSTEM, "bai", "team-one", "team-two")
    for name in names:
        kubernetes.api.create(f"{CORE}/namespaces", {"metadata": {"name": name, "labels": RESTRICTED}})
    yield kubernetes
    kubernetes.kubectl("delete", "clusterrole,clusterrolebinding", f"{SYSTEM}-bai", "--ignore-not-found")
    kubernetes.kubectl("delete", "namespace", *names)


@in_the_lab
@pytest.mark.parametrize("values", [PLAIN, VARIED], ids=["plain", "varied"])
def test_its_pods_are_admitted_as_restricted_ones(
    system: Kubernetes, helm: Helm, tmp_path: Path, values: dict[str, Any]
) -> None:
    """The API server itself knows each field, and takes all of it."""
    documents = helm.rendered(values)
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all(documents))
    words = ("apply", "--dry-run=server", "--validate=strict", "-f", str(tmp_path / "all.yaml"))
    said = system.kubectl(*words)
    assert len(said.splitlines()) == len(documents), said

    template = only(documents, "Deployment")["spec"]["template"]
    pod = {
        "metadata": {"generateName": "bai-"},
        "spec": {**template["spec"], "serviceAccountName": "default"},
    }
    pods = f"{CORE}/namespaces/{SYSTEM}/pods?dryRun=All"
    system.api.until(
        f"{CORE}/namespaces/{SYSTEM}/serviceaccounts/default", lambda _: True, "pods may be made"
    )
    system.api.create(pods, pod)
    looser = copy.deepcopy(pod)
    looser["spec"]["containers"][0]["securityContext"]["capabilities"] = {}
    with pytest.raises(ApiError, match="violates PodSecurity"):
        system.api.create(pods, looser)
    (container,) = template["spec"]["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(template["spec"])


@in_the_lab
def test_its_account_reads_no_secret_and_makes_pods_only_where_sessions_are(system: Kubernetes) -> None:
    """As the plain manifests grant it."""
    documents = yaml.safe_load_all((ROOT / "deploy" / "kubernetes" / "serve.yaml").read_text())
    granting = [each for each in documents if "Role" in each["kind"] or each["kind"] == "ServiceAccount"]
    file = system.folder / "granting.yaml"
    file.write_text(yaml.safe_dump_all(granting))
    system.kubectl("apply", "-f", str(file))
    plane = system.control_plane
    user = {"token": system.token_of(SYSTEM, "bai")}
    bai = Api(kubeconfig(plane.folder / "bai.kubeconfig", plane.url, plane.authority.certificate, user))
    system.api.until(f"{CORE}/namespaces/bai/serviceaccounts/default", lambda _: True, "pods may be made")
    security = {
        "runAsNonRoot": True, "runAsUser": 1000, "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"},
    }  # fmt: skip
    container = {"name": "main", "image": "bai-lab:1", "securityContext": security}
    pod = {"metadata": {"name": "try"}, "spec": {"containers": [container]}}

    def allowed() -> Any:
        try:
            return bai.create(f"{CORE}/namespaces/bai/pods?dryRun=All", pod)
        except ApiError as error:
            if error.status != 403:
                raise
            return None

    until(allowed, "the API server has seen what it is granted", pause=0.1)
    refused = [
        ("POST", f"{CORE}/namespaces/{SYSTEM}/pods?dryRun=All"),
        ("POST", f"{CORE}/namespaces/default/pods?dryRun=All"),
        ("GET", f"{CORE}/namespaces/{SYSTEM}/secrets"),
        ("GET", f"{CORE}/namespaces/bai/secrets"),
        ("GET", f"{CORE}/secrets"),
        ("GET", f"{CORE}/namespaces/{SYSTEM}/configmaps"),
        ("DELETE", f"{CORE}/namespaces/bai"),
    ]
    for method, path in refused:
        with pytest.raises(ApiError, match="403"):
            bai.call(method, path, pod if method == "POST" else None)
