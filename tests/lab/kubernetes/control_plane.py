"""etcd, the API server, scheduler, controller manager and cluster DNS, in a network namespace of the lab.

Nodes reach the API server at 10.213.0.1:6443 and names of the cluster at 10.213.0.1:53; pods reach the API
server at its Service's address, too. The test process and what it starts reach it at a port of the loopback.
Connections are refused while it is down.
"""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path

import yaml

from tests.harness.ports import free_port
from tests.lab.cache import command
from tests.lab.kubernetes.api import Api, kubeconfig
from tests.lab.kubernetes.daemon import Daemon
from tests.lab.kubernetes.pki import Authority, signing_keys
from tests.lab.relay import Relay
from tests.lab.spaces import Spaces, within

PORT = 6443
SERVICES, SERVICE = "10.215.0.0/24", "10.215.0.1"
"""Addresses of Services, and the API server's own, which is the first of them."""
DOMAIN = "cluster.local"
_ETCD = "http://127.0.0.1:2379"
_COREFILE = """.:53 {{
    bind {address}
    errors
    kubernetes {domain} in-addr.arpa {{
        kubeconfig {kubeconfig} lab
        ttl 1
    }}
}}
"""
_WITHOUT = (
    "node-ipam-controller", "node-route-controller", "service-lb-controller",
    "cloud-node-lifecycle-controller",
)  # fmt: skip
"""Controllers for what this lab does by itself, or does not have."""


class ControlPlane:
    """`start` brings it up; `kubeconfig` has all rights. Parts can be ended and started one by one.
    Raises NotUp."""

    def __init__(self, spaces: Spaces, programs: Path, node_grace: int) -> None:
        self.spaces, self.programs, self.node_grace = spaces, programs, node_grace
        self.folder = spaces.folder / "control-plane"
        self.folder.mkdir()
        self.namespace, self.address = spaces.add()
        _routes(self.namespace)
        command(["ip", "-n", self.namespace, "address", "add", f"{SERVICE}/32", "dev", "lo"])
        self.authority = Authority(self.folder / "pki")
        self._token = secrets.token_urlsafe(24)
        self._signing, self._signed = signing_keys(self.folder)
        self.port = free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self.kubeconfig = self._kubeconfig("admin", self.url)
        self.inner_kubeconfig = self._kubeconfig("inner", f"https://{self.address}:{PORT}")
        """The same rights, for programs on the lab's network."""
        self.etcd = self._daemon("etcd", self._etcd())
        self.api_server = self._daemon("kube-apiserver", self._api_server())
        self.scheduler = self._daemon("kube-scheduler", self._scheduler())
        self.controller_manager = self._daemon("kube-controller-manager", self._controller_manager())
        self.dns = self._daemon("coredns", self._dns())
        self._relays: list[Relay] = []
        self.api = Api(self.kubeconfig)

    @property
    def daemons(self) -> tuple[Daemon, ...]:
        """In the order in which they start."""
        return (self.etcd, self.api_server, self.scheduler, self.controller_manager, self.dns)

    def start(self, *, scheduler: bool = True) -> None:
        """All of it; nothing happens to what runs."""
        self.etcd.start()
        self.start_api_server()
        if scheduler:
            self.scheduler.start()
        self.controller_manager.start()
        self.dns.start()

    def start_api_server(self) -> None:
        self.api_server.start()
        if not self._relays:
            server = self.address, PORT
            self._relays.append(Relay(("127.0.0.1", self.port), self.namespace, server))
            self._relays.append(Relay((SERVICE, 443), self.namespace, server, at=self.namespace))
        self.api_server.wait(self.api.ready)

    def stop_api_server(self) -> None:
        """As an administrator does it; what runs on nodes runs on."""
        self._refuse()
        self.api_server.stop()

    def kill_api_server(self) -> None:
        self._refuse()
        self.api_server.kill()

    def snapshot(self, folder: Path) -> None:
        """Copy what etcd keeps, for `restore`. It is killed for a moment: asked to end, it waits for its
        clients first."""
        self.etcd.kill()
        shutil.copytree(self.folder / "etcd", folder)
        self.etcd.start()
        self.start_api_server()

    def restore(self, folder: Path) -> None:
        """Back to an older state, as administrators do from a backup: whoever has seen what came after it has
        seen what never was."""
        scheduler = self.scheduler.runs()
        self.stop()
        shutil.rmtree(self.folder / "etcd")
        shutil.copytree(folder, self.folder / "etcd")
        self.start(scheduler=scheduler)

    def stop(self) -> None:
        self._refuse()
        for daemon in reversed(self.daemons):
            daemon.stop()

    def kill(self) -> None:
        self._refuse()
        for daemon in reversed(self.daemons):
            daemon.kill()

    def _refuse(self) -> None:
        while self._relays:
            self._relays.pop().close()

    def _daemon(self, name: str, words: list[str]) -> Daemon:
        argv = [str(self.programs / name), *words]
        return Daemon(name, argv, self.folder / f"{name}.log", within(self.namespace, []))

    def _kubeconfig(self, name: str, server: str) -> Path:
        path = self.folder / f"{name}.kubeconfig"
        return kubeconfig(path, server, self.authority.certificate, {"token": self._token})

    def _etcd(self) -> list[str]:
        peers = "http://127.0.0.1:2380"
        return [
            "--name=lab", f"--data-dir={self.folder}/etcd", "--unsafe-no-fsync",
            f"--listen-client-urls={_ETCD}", f"--advertise-client-urls={_ETCD}",
            f"--listen-peer-urls={peers}", f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=lab={peers}",
        ]  # fmt: skip

    def _api_server(self) -> list[str]:
        tokens = self.folder / "tokens.csv"
        tokens.touch(mode=0o600)
        tokens.write_text(f'{self._token},admin,admin,"system:masters"\n')
        hosts = (self.address, SERVICE, "127.0.0.1", "localhost", f"kubernetes.default.svc.{DOMAIN}")
        server = self.authority.issue("kube-apiserver", hosts=hosts)
        client = self.authority.issue("kube-apiserver-kubelet-client", "system:masters")
        return [
            f"--etcd-servers={_ETCD}", f"--bind-address={self.address}", f"--secure-port={PORT}",
            f"--advertise-address={self.address}", f"--service-cluster-ip-range={SERVICES}",
            f"--tls-cert-file={server.certificate}", f"--tls-private-key-file={server.key}",
            f"--client-ca-file={self.authority.certificate}", f"--token-auth-file={tokens}",
            f"--kubelet-client-certificate={client.certificate}", f"--kubelet-client-key={client.key}",
            f"--kubelet-certificate-authority={self.authority.certificate}",
            "--kubelet-preferred-address-types=InternalIP",
            f"--service-account-issuer=https://kubernetes.default.svc.{DOMAIN}",
            f"--service-account-key-file={self._signed}",
            f"--service-account-signing-key-file={self._signing}",
            "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true", "--enable-priority-and-fairness=false", "--max-requests-inflight=4000",
            "--max-mutating-requests-inflight=2000", "--shutdown-watch-termination-grace-period=1s",
            "--delete-collection-workers=8",
        ]  # fmt: skip

    def _scheduler(self) -> list[str]:
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(self.inner_kubeconfig), "qps": 1000, "burst": 2000},
        }
        file = self.folder / "scheduler.yaml"
        file.write_text(yaml.safe_dump(config))
        return [f"--config={file}", "--bind-address=127.0.0.1", "--secure-port=0"]

    def _controller_manager(self) -> list[str]:
        without = ",".join(f"-{name}" for name in _WITHOUT)
        return [
            f"--kubeconfig={self.inner_kubeconfig}", "--leader-elect=false", "--bind-address=127.0.0.1",
            "--secure-port=0", "--kube-api-qps=500", "--kube-api-burst=1000", f"--controllers=*,{without}",
            f"--service-account-private-key-file={self._signing}",
            f"--root-ca-file={self.authority.certificate}", "--node-monitor-period=2s",
            f"--node-monitor-grace-period={self.node_grace}s",
        ]  # fmt: skip

    def _dns(self) -> list[str]:
        file = self.folder / "Corefile"
        words = {"address": self.address, "domain": DOMAIN, "kubeconfig": self.inner_kubeconfig}
        file.write_text(_COREFILE.format(**words))
        return ["-conf", str(file)]


def _routes(namespace: str) -> None:
    """It passes packets on between nodes, whose pods have addresses of their own."""
    names = ("ip_forward=1", "conf.all.send_redirects=0", "conf.default.send_redirects=0")
    words = [f"net.ipv4.{name}" for name in names]
    for word in words:
        name, _, value = word.partition("=")
        file = "/proc/sys/" + name.replace(".", "/")
        command(within(namespace, ["sh", "-c", f"echo {value} > {file}"]))
