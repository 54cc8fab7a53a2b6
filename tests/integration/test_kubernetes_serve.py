"""`bai serve` in a real cluster, as docs/kubernetes-server.md installs it: by its chart, from its image, as
its service account; what is pushed runs, also after the leader's pod is gone."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.examples.guide import script
from tests.harness.ports import free_port
from tests.integration.kubernetes_documents import cluster_documents
from tests.integration.test_kubernetes_cluster import HOLDS, SESSION
from tests.lab import recipe_image
from tests.lab.cache import LabUnavailable
from tests.lab.git_http import PASSWORD as GIT_PASSWORD
from tests.lab.git_http import USER, GitHttp
from tests.lab.helm import Helm
from tests.lab.kubernetes.api import CORE, ApiError
from tests.lab.kubernetes.lab import Kubernetes
from tests.lab.postgres import PASSWORD, Server
from tests.lab.wheels import ROOT
from tests.reconciler.gitops.repositories import git
from tests.waiting import until

pytestmark = [pytest.mark.xdist_group("kubernetes-serve"), pytest.mark.campaign]
PAGE = ROOT / "docs" / "kubernetes-server.md"
SYSTEM, SESSIONS = "bai-system", "bai"
PODS = f"{CORE}/namespaces/{SYSTEM}/pods"
APP_PROXY = """---
apiVersion: bai/v1
kind: AppProxy
metadata: {name: apps}
spec: {url: "https://*.apps.example"}
"""
SECRETS = {
    "store-password": PASSWORD, "git-user": USER, "git-password": GIT_PASSWORD,
    "webhook-secret": "canary-2f9a",
}  # fmt: skip


@dataclass
class Site:
    """Who follows the page: `folder` is a checkout with their files, `work` the cluster's repository."""

    kubernetes: Kubernetes
    folder: Path
    work: Path
    environment: dict[str, str]

    def follow(self, text: str, left_out: tuple[str, ...] = ()) -> str:
        """Type what the page says."""
        done = subprocess.run(
            ["bash", "-c", script(text, left_out)], cwd=self.folder, env=self.environment, text=True,
            stdin=subprocess.DEVNULL, capture_output=True, timeout=600, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{self.state()}"
        return done.stdout

    def push(self, name: str) -> None:
        spec = HOLDS.format(resources="cpu: 100m, memory: 16MiB").lstrip("\n")
        (self.work / f"{name}.yaml").write_text(SESSION.format(name=name) + spec)
        push(self.work)

    def pods(self, namespace: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.kubernetes.api.get(f"{CORE}/namespaces/{namespace}/pods")["items"]
        return found

    def sessions(self) -> dict[str, dict[str, Any]]:
        """Pods of sessions that run."""
        return {
            pod["metadata"]["labels"]["bai.dev/session"]: pod
            for pod in self.pods(SESSIONS)
            if pod["status"].get("phase") == "Running"
        }

    def leader(self) -> str:
        """The pod that leads; empty while none does."""
        for pod in self.pods(SYSTEM):
            name = pod["metadata"]["name"]
            with contextlib.suppress(ApiError):
                self.kubernetes.api.call("GET", f"{PODS}/{name}:8080/proxy/readyz", text=True)
                return str(name)
        return ""

    def until_runs(self, *names: str) -> None:
        until(lambda: set(names) <= set(self.sessions()), lambda: f"{names} run: {self.state()}", pause=0.5)

    def state(self) -> str:
        kubectl = self.kubernetes.kubectl
        words = ("-n", SYSTEM, "logs", "-l", "app.kubernetes.io/name=bai", "--prefix", "--tail=40")
        events = ("get", "events", "-A", "-o", "custom-columns=:.involvedObject.name,:.message")
        parts = [kubectl("get", "pods", "-A", "-o", "wide"), kubectl(*events)]
        with contextlib.suppress(AssertionError):
            parts.append(kubectl(*words))
        return "\n".join(parts)


def push(work: Path) -> None:
    git(work, "add", "--all")
    git(work, "commit", "--quiet", "--message", "Change")
    git(work, "push", "--quiet", "origin", "HEAD:main")


@pytest.fixture
def site(kubernetes: Kubernetes, postgres: Server, helm: Helm, tmp_path: Path) -> Iterator[Site]:
    try:
        image = recipe_image.archive()
    except LabUnavailable as error:
        pytest.skip(f"the image's recipe: {error}")
    for node in kubernetes.pair():
        node.take(image)
    folder, work = tmp_path / "checkout", tmp_path / "work"
    folder.mkdir()
    (folder / "deploy").symlink_to(ROOT / "deploy")
    for name, content in SECRETS.items():
        (folder / name).write_text(content)
    programs = f"{kubernetes.programs}:{ROOT}/.venv/bin:{helm.environment['PATH']}"
    environment = {"PATH": programs, "HOME": str(tmp_path), "KUBECONFIG": str(kubernetes.kubeconfig)}
    url = postgres.database()
    with contextlib.ExitStack() as stack:
        forge = stack.enter_context(GitHttp(tmp_path / "forge"))
        remote = forge.repository("cluster")
        store = stack.enter_context(kubernetes.shown(postgres.port))
        (folder / "values.yaml").write_text(
            values()
            .replace('registry.example/bai, tag: "0.1.0"', recipe_image.IMAGE.replace(":", ', tag: "') + '"')
            .replace("https://git.example", f"http://{stack.enter_context(kubernetes.shown(forge.port))}")
            .replace("db.example/bai", f"{store}/{url.partition('?')[0].rpartition('/')[2]}")
        )
        git(tmp_path, "clone", "--quiet", forge.with_password(remote), str(work))
        (work / "lab.yaml").write_text(cluster_documents(SESSIONS) + APP_PROXY)
        push(work)
        try:
            yield Site(kubernetes, folder, work, environment)
        finally:
            remove(kubernetes)
    postgres.drop(url)


def values() -> str:
    """The page's file of values."""
    found = re.search(r"```yaml\n(image: .*?)```", PAGE.read_text(), re.DOTALL)
    assert found
    return found[1]


def remove(kubernetes: Kubernetes) -> None:
    """Whatever a test that failed has left: first what makes pods, or they are made anew."""
    kubernetes.kubectl("delete", "clusterrole,clusterrolebinding", f"{SYSTEM}-bai", "--ignore-not-found")
    if kubernetes.api.find(f"{CORE}/namespaces/{SYSTEM}"):
        kubernetes.kubectl("-n", SYSTEM, "delete", "deployments", "--all", "--cascade=foreground")
    for namespace in (SYSTEM, SESSIONS):
        if kubernetes.api.find(f"{CORE}/namespaces/{namespace}"):
            kubernetes.api.clear(f"{CORE}/namespaces/{namespace}/pods?gracePeriodSeconds=1")
            kubernetes.kubectl("delete", "namespace", namespace)


def answer_of_apps(site: Site) -> str:
    """Of Caddy in one of the pods, for an address that no app has."""
    try:
        found = site.kubernetes.api.call(
            "GET", f"{CORE}/namespaces/{SYSTEM}/services/bai-apps:apps/proxy/", text=True
        )
    except ApiError as error:
        return str(error)
    return str(found)


def test_installed_as_the_page_says_and_without_its_leader(site: Site) -> None:
    install, _, rest = PAGE.read_text().partition("### Without Helm")
    port = str(free_port())
    before, _, steps = install.partition("## Install it")
    assert "podman build" in before, "which the image of the lab is made by, too"
    said = site.follow(
        steps.replace("8080:8080", f"{port}:8080").replace("127.0.0.1:8080", f"127.0.0.1:{port}")
    )
    assert said.count("1/1     Running") == 2 and '"leads":' in said, said
    api = site.kubernetes.api
    deployment = api.get(f"/apis/apps/v1/namespaces/{SYSTEM}/deployments/bai")
    assert deployment["status"]["readyReplicas"] == 2

    until(lambda: "No app has this address" in answer_of_apps(site), lambda: answer_of_apps(site), pause=0.5)

    site.push("first")
    site.until_runs("first")
    pod = site.sessions()["first"]
    assert pod["spec"]["schedulerName"] == "bai" and pod["spec"]["nodeName"] in ("n0", "n1")
    begun = pod["metadata"]["uid"]

    words = ("-n", SYSTEM, "get", "deployments,pods,configmaps,events", "-o", "yaml")
    told = site.kubernetes.kubectl(*words) + site.state()
    assert not [
        name for name in ("store-password", "git-password", "webhook-secret") if SECRETS[name] in told
    ]

    leader = until(site.leader, lambda: f"somebody leads: {site.state()}", pause=0.2)
    api.delete(f"{PODS}/{leader}")
    until(lambda: site.leader() not in ("", leader), lambda: f"another one leads: {site.state()}", pause=0.2)
    site.push("second")
    site.until_runs("first", "second")
    assert site.sessions()["first"]["metadata"]["uid"] == begun, "it was not made again"
    api.until(
        f"/apis/apps/v1/namespaces/{SYSTEM}/deployments/bai",
        lambda found: found["status"].get("readyReplicas") == 2,
        "two are ready again",
    )

    site.follow(rest.partition("## Take it away")[2])
    until(lambda: not site.pods(SYSTEM), "bai's pods are gone")
    assert set(site.sessions()) == {"first", "second"}, "sessions go on without bai"
    assert os.path.exists(site.folder / "token")
