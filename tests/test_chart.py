"""The Helm chart of deploy/helm: what it takes and refuses, and that it grants what rbac.yaml does."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from bai import __version__
from tests.bai.conftest import Repo
from tests.lab.helm import CHART, Helm
from tests.lab.wheels import ROOT

PLAIN: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "helm" / "plain-values.yaml").read_text())
VARIED: dict[str, Any] = {
    "image": {
        "repository": "registry.example:5000/ops/bai", "digest": f"sha256:{'a' * 64}",
        "pullSecrets": ["pull"],
    },
    "replicas": 3,
    "git": {
        "remote": "ssh://git@git.example/cluster.git", "ref": "main", "path": "clusters/prod",
        "secret": "key", "trustConfigMap": "trust",
    },
    "store": {
        "url": "postgresql://bai@db.example/bai?sslmode=verify-full", "secret": "store", "caConfigMap": "ca",
    },
    "mode": "approve",
    "extraArgs": ["--interval=1m", "--trusted-proxy=10.1.0.0/16"],
    "access": {"tokens": [{"name": "ada", "sha256": "0" * 64, "role": "admin"}], "anonymous": "viewer"},
    "webhook": {"secret": "hook"},
    "secretStores": {
        "documents": [
            {
                "apiVersion": "bai/v1", "kind": "SecretStore", "metadata": {"name": "operations"},
                "spec": {"infrastructure": True, "entries": ["HARBOR"], "environment": {}},
            }
        ],
        "environmentSecret": "variables",
    },
    "sessions": {"namespaces": ["team-one", "team-two"], "createNamespaces": False},
    "service": {"annotations": {"example/a": "b"}},
    "apps": {
        "enabled": True, "publicUrl": "https://bai.example", "tlsSecret": "apps-tls",
        "service": {"type": "LoadBalancer", "annotations": {"example/e": "f"}},
        "from": [{"ipBlock": {"cidr": "192.0.2.0/24"}}],
    },
    "networkPolicy": {
        "from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}],
        "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}],
    },
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"key": "bai.dev/node", "operator": "Exists"}],
    "podAnnotations": {"example/c": "d"},
    "priorityClassName": "system-cluster-critical",
}  # fmt: skip


def only(documents: Iterable[dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = [each for each in documents if each["kind"] == kind]
    return found


def rules(documents: Iterable[dict[str, Any]], kind: str) -> list[set[tuple[str, str, str]]]:
    """Of each role of that kind: API group, resource and verb."""
    return [
        {
            (group, resource, verb)
            for rule in each["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }
        for each in documents
        if each["kind"] == kind
    ]


@pytest.mark.parametrize("values", [PLAIN, VARIED], ids=["plain", "varied"])
def test_the_chart_grants_what_the_manifest_of_permissions_does(helm: Helm, values: dict[str, Any]) -> None:
    """Of which a test shows that it suffices and is used."""
    theirs = list(yaml.safe_load_all((ROOT / "deploy" / "kubernetes" / "rbac.yaml").read_text()))
    ours = helm.rendered(values)
    namespaces = values.get("sessions", {}).get("namespaces", ["bai"])
    assert rules(ours, "ClusterRole") == rules(theirs, "ClusterRole")
    assert rules(ours, "Role") == rules(theirs, "Role") * len(namespaces)
    bindings = [
        each for each in ours if each["kind"].endswith("RoleBinding") or each["kind"] == "ClusterRoleBinding"
    ]
    account = {"kind": "ServiceAccount", "name": "bai", "namespace": "bai-system"}
    assert [each["subjects"] for each in bindings] == [[account]] * (1 + len(namespaces))
    assert {each["metadata"].get("namespace") for each in bindings} == {None, *namespaces}
    assert not [
        rule
        for each in ours
        for rule in each.get("rules", ())
        if set(rule) != {"apiGroups", "resources", "verbs"}
    ]


def test_the_chart_lets_bai_ask_for_nodes_where_its_values_say_so(helm: Helm) -> None:
    base, more = (
        list(yaml.safe_load_all((ROOT / "deploy" / "kubernetes" / f"{name}.yaml").read_text()))
        for name in ("rbac", "node-requests")
    )
    ours = helm.rendered({**PLAIN, "sessions": {"nodeRequests": True}})
    for kind in ("ClusterRole", "Role"):
        (given,), (first,), (second,) = rules(ours, kind), rules(base, kind), rules(more, kind)
        assert given == first | second


def test_what_is_asked_for_is_in_the_pod(helm: Helm) -> None:
    pod = only(helm.rendered(VARIED), "Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == f"registry.example:5000/ops/bai@sha256:{'a' * 64}"
    assert {
        "--remote=ssh://git@git.example/cluster.git", "--ref=main", "--path=clusters/prod", "--mode=approve",
        "--webhook-secret=file:/etc/bai/webhook/secret", "--interval=1m", "--trusted-proxy=10.1.0.0/16",
        "--apps-listen=0.0.0.0:8443", "--apps-tls=/etc/bai/apps/tls.crt,/etc/bai/apps/tls.key",
        "--public-url=https://bai.example",
    } < set(container["args"])  # fmt: skip
    variables = {each["name"]: each.get("value") for each in container["env"]}
    assert variables == {
        "BAI_STATE": "postgresql://bai@db.example/bai?sslmode=verify-full"
        "&passwordFrom=file:/etc/bai/store/password&sslrootcert=/etc/bai/store-ca/ca.crt",
        "BAI_SECRET_STORES": "/etc/bai/configuration/secret-stores.yaml",
        "BAI_TRUST": "/etc/bai/trust/trust.yaml",
        "BAI_GIT_KEY": "/etc/bai/git/ssh-privatekey",
        "BAI_GIT_KNOWN_HOSTS": "/etc/bai/git/known_hosts",
    }
    mounted = {each["name"] for each in container["volumeMounts"]}
    assert mounted == {each["name"] for each in pod["volumes"]}
    assert mounted == {"scratch", "configuration", "store", "store-ca", "trust", "git", "webhook", "apps-tls"}


def test_apps_have_a_service_of_their_own(helm: Helm) -> None:
    documents = helm.rendered(VARIED)
    of_api, of_apps = [each for each in documents if each["kind"] == "Service"]
    if of_api["metadata"]["name"] != "bai":
        of_api, of_apps = of_apps, of_api
    assert (of_apps["metadata"]["name"], of_apps["spec"]["type"]) == ("bai-apps", "LoadBalancer")
    assert of_apps["spec"]["ports"] == [{"name": "apps", "port": 443, "targetPort": "apps"}]
    assert of_apps["spec"]["selector"] == of_api["spec"]["selector"]
    (container,) = only(documents, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert {"name": "apps", "containerPort": 8443} in container["ports"]
    _, let_in = only(documents, "NetworkPolicy")["spec"]["ingress"]
    assert let_in == {"ports": [{"protocol": "TCP", "port": "apps"}], "from": VARIED["apps"]["from"]}
    assert not [each for each in documents if each["kind"] == "Ingress"]


def test_an_ingress_may_end_tls_of_apps(helm: Helm) -> None:
    ingress = {"host": "*.apps.example", "className": "nginx", "tlsSecret": "wildcard"}
    apps = {"enabled": True, "publicUrl": "https://bai.example", "ingress": ingress}
    documents = helm.rendered({**PLAIN, "apps": apps})
    spec = only(documents, "Ingress")["spec"]
    assert spec["tls"] == [{"hosts": ["*.apps.example"], "secretName": "wildcard"}]
    (rule,) = spec["rules"]
    assert rule["host"] == "*.apps.example" and spec["ingressClassName"] == "nginx"
    (path,) = rule["http"]["paths"]
    assert path["backend"] == {"service": {"name": "bai-apps", "port": {"name": "apps"}}}
    (container,) = only(documents, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert "--apps-tls=off" in container["args"]
    assert only(documents, "NetworkPolicy")["spec"]["ingress"][1] == {
        "ports": [{"protocol": "TCP", "port": "apps"}]
    }


@pytest.mark.parametrize("values", [PLAIN, VARIED], ids=["plain", "varied"])
def test_bai_takes_the_words_and_files_of_the_chart(
    helm: Helm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, values: dict[str, Any]
) -> None:
    documents = helm.rendered(values)
    files = only(documents, "ConfigMap")["data"]
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (container,) = only(documents, "Deployment")["spec"]["template"]["spec"]["containers"]
    words = [word.replace("/etc/bai/configuration", str(tmp_path)) for word in container["args"]]
    monkeypatch.chdir(tmp_path)
    for name in os.environ.keys() - {"PATH"}:
        monkeypatch.delenv(name)
    Repo(tmp_path, {"HOME": str(tmp_path)}).ok(*words, "--check")
    from reconciler.sources.owner_stores import load_owner_stores

    load_owner_stores(tmp_path / "secret-stores.yaml", [], final=True)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"image": {}}, "image.repository: where the image"),
        ({"git": {}}, "git.remote: the address of the repository"),
        ({"store": {}}, "store.url: a PostgreSQL store"),
        ({"store": {"url": "sqlite:///x"}}, "store.url: Does not match pattern"),
        ({"replica": 3}, "Additional property replica is not allowed"),
        ({"git": {**PLAIN["git"], "password": "x"}}, "Additional property password is not allowed"),
        ({"replicas": "many"}, "replicas: Invalid type. Expected: integer, given: string"),
        ({"replicas": 0}, "replicas: Must be greater than or equal to 1"),
        ({"mode": "auot"}, 'mode must be one of the following: "auto", "approve", "observe"'),
        ({"access": {"tokens": [{"name": "a", "token": "x", "role": "admin"}]}}, "sha256 is required"),
        ({"apps": {"enabled": True}}, "apps.publicUrl: where browsers log in"),
        (
            {
                "apps": {
                    "enabled": True,
                    "publicUrl": "https://bai.example",
                    "tlsSecret": "a",
                    "ingress": {"host": "*.apps.example"},
                }
            },
            "give it to apps.ingress.tlsSecret",
        ),
        ({"apps": {"ingress": {"host": "apps.example"}}}, "apps.ingress.host: Does not match pattern"),
        ({"sessions": {"namespaces": []}}, "sessions.namespaces: Array must have at least 1 items"),
        ({"sessions": {"namespaces": ["bai-system"]}}, "bai-system is the release's own namespace"),
    ],
)
def test_what_makes_no_sense_is_refused(helm: Helm, change: dict[str, Any], words: str) -> None:
    done = helm.template({**PLAIN, **change})
    assert done.returncode == 1 and words in done.stderr, done.stderr


def test_without_values_it_says_what_is_missing(helm: Helm) -> None:
    done = helm.template({})
    assert done.returncode == 1
    assert "image.repository: " in done.stderr or "git.remote: " in done.stderr, done.stderr


def test_the_image_has_what_apps_need() -> None:
    """`--apps-listen` of the chart's pods: Caddy, and what its questions are read with."""
    locked = (ROOT / "requirements" / "server.txt").read_text()
    assert "\ncaddy-bin==" in locked and "\nhttptools==" in locked


def test_the_chart_is_in_order(helm: Helm) -> None:
    """Its schema knows each value that values.yaml has, and no other."""
    done = helm.run("lint", "--strict", str(CHART), "--values", str(ROOT / "deploy/helm/plain-values.yaml"))
    assert done.returncode == 0 and "0 chart(s) failed" in done.stdout, done.stdout
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert about["version"] == about["appVersion"] == __version__
    schema = json.loads((CHART / "values.schema.json").read_text())
    known = schema["properties"]
    given = yaml.safe_load((CHART / "values.yaml").read_text())
    assert set(given) == set(known) - {"global"}
    for name, value in given.items():
        if known[name].get("properties") and name != "access":
            assert set(value) == set(known[name]["properties"]), name


@pytest.mark.usefixtures("helm")
def test_the_plain_manifest_is_what_the_chart_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    manifests = importlib.import_module("manifests")
    assert manifests.MANIFEST.read_text() == manifests.manifest(), "run `make manifests`"
