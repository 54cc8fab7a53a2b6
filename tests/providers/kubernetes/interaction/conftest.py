"""Pods of one container on a real cluster, and clients of their API server."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from providers.kubernetes.api.access import find_access
from providers.kubernetes.api.client import ApiClient
from providers.kubernetes.objects.names import CONTAINER, PodRef, namespaced
from tests.harness.ports import free_port
from tests.lab.docker import IMAGE
from tests.lab.kubernetes.control_plane import PORT
from tests.lab.kubernetes.lab import Kubernetes
from tests.lab.relay import Relay
from tests.providers.kubernetes.specs import SLEEP


class Pods:
    """In a namespace of the test's own; with a client of all rights."""

    def __init__(self, lab: Kubernetes, namespace: str) -> None:
        self.lab = lab
        self.namespace = namespace
        self.kubeconfig = lab.kubeconfig
        self.client = client_of(lab.kubeconfig)

    def create(
        self, script: str = SLEEP, name: str = "main1", restart: str = "Never", **container: Any
    ) -> PodRef:
        """One that runs a shell script; it need not run yet."""
        spec = {
            "nodeName": "n1", "restartPolicy": restart, "terminationGracePeriodSeconds": 1,
            "containers": [{"name": CONTAINER, "image": IMAGE, "command": ["sh", "-c", script], **container}],
        }  # fmt: skip
        path = namespaced("pods", self.namespace)
        self.lab.api.create(path, {"metadata": {"name": name}, "spec": spec})
        return PodRef(self.namespace, name)

    def run(self, script: str = SLEEP, name: str = "main1", **fields: Any) -> PodRef:
        """The same, running or ended."""
        pod = self.create(script, name, **fields)
        self.lab.begun(self.namespace, name)
        return pod

    def ended(self, name: str = "ended") -> PodRef:
        """One that has ended, and whose pod says so."""
        pod = self.create("exit 0", name)
        self.lab.api.until(
            pod.path, lambda found: found["status"].get("phase") == "Succeeded", f"{name} ends"
        )
        return pod

    def said(self, pod: PodRef, *command: str) -> str:
        """What a command in it says, by somebody else's means."""
        return self.lab.kubectl("exec", "-n", pod.namespace, pod.name, "--", *command)

    def let_go(self, pod: PodRef, path: str) -> None:
        """Make the file that its main process waits for, with which the command that makes it may end."""
        with contextlib.suppress(AssertionError):
            self.said(pod, "touch", path)

    def account(self, name: str, *rules: dict[str, Any]) -> ApiClient:
        """Somebody who may only do this here."""
        return client_of(self.lab.account(self.namespace, name, rules))


def threads(*names: str) -> int:
    """How many threads of these names there are; the lab has some of its own for each connection."""
    return sum(thread.name in names for thread in threading.enumerate())


def client_of(kubeconfig: Path) -> ApiClient:
    return ApiClient(find_access("", {"KUBECONFIG": str(kubeconfig)}))


@pytest.fixture
def pods(kubernetes: Kubernetes, kube_namespace: str) -> Iterator[Pods]:
    kubernetes.pair()
    made = Pods(kubernetes, kube_namespace)
    yield made
    made.client.close()


class Line:
    """The way to an API server, which can be cut."""

    def __init__(self, lab: Kubernetes, kubeconfig: Path) -> None:
        self._plane = lab.control_plane
        self._port = free_port()
        config = yaml.safe_load(lab.kubeconfig.read_text())
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{self._port}"
        kubeconfig.write_text(yaml.safe_dump(config))
        self.kubeconfig = kubeconfig
        self.client = client_of(kubeconfig)
        self.mend()

    def mend(self) -> None:
        plane = self._plane
        self._relay = Relay(("127.0.0.1", self._port), plane.namespace, (plane.address, PORT))

    def cut(self) -> None:
        """At once, and in the midst of whatever is under way."""
        self._relay.close()


@pytest.fixture
def line(pods: Pods, tmp_path: Path) -> Iterator[Line]:
    made = Line(pods.lab, tmp_path / "kubeconfig")
    yield made
    made.client.close()
    made.cut()
