"""Bare machines, for a cluster that begins with nothing but SSH.

Nodes are called node1, node2, ... The machine reaches node number n by SSH at 127.0.3.n, as root, with the
key in the lab's folder. Nodes reach each other at 10.213.0.n+1, and at 10.213.0.1 Debian's packages (port
3142) and a registry of images (port 5000) with `bai-lab:1`. Nothing listens anywhere else.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tests.lab.cache import kept
from tests.lab.docker import IMAGE, image_tar
from tests.lab.nspawn import Node, Nodes
from tests.lab.nspawn import why_not as why_no_nodes
from tests.lab.registry import LabRegistry
from tests.lab.registry import start as start_registry
from tests.lab.relay import Relay
from tests.lab.spaces import what_lacks

REGISTRY_PORT = 5000


class BareMetalLab:
    """`folder` becomes a link to the lab's own; `whole` as of `Nodes`. Needs root. Raises LabUnavailable,
    FileExistsError."""

    def __init__(self, folder: Path, count: int = 3, *, port: int = 2222, whole: bool = False) -> None:
        self.port = port
        self.folder = folder
        self.nodes: list[Node] = []
        self._relays: list[Relay] = []
        self.registry: LabRegistry | None = None
        self.lab = Nodes(whole=whole)
        try:
            folder.symlink_to(self.lab.folder)
            self.registry = self._images()
            self.nodes = self.lab(count)
            for number, node in enumerate(self.nodes, 1):
                self._reach(node, f"127.0.3.{number}")
        except BaseException:
            self.close()
            raise

    def _images(self) -> LabRegistry:
        listen = f"{self.lab.address}:{REGISTRY_PORT}"
        registry = start_registry(namespace=self.lab.client, listen=listen)
        registry.push(IMAGE, layers=(kept("docker-image-1.tar", image_tar).read_bytes(),), single=True)
        return registry

    def _reach(self, node: Node, address: str) -> None:
        self._relays.append(Relay((address, self.port), self.lab.client, (node.address, 22)))
        with self.lab.known_hosts.open("a") as file:
            file.write(f"[{address}]:{self.port} {self.lab.host_key.with_suffix('.pub').read_text()}")

    def close(self) -> None:
        """Everything goes."""
        for relay in self._relays:
            relay.close()
        if self.registry is not None:
            self.registry.close()
        if self.folder.is_symlink():
            self.folder.unlink()
        self.lab.close()


def why_not() -> str:
    """Why there can be no such lab here; empty when there can."""
    return why_no_nodes() or what_lacks("docker-registry", "curl", "busybox")


@contextlib.contextmanager
def bare_metal_lab(folder: Path, count: int = 3, *, port: int = 2222) -> Iterator[BareMetalLab]:
    """For people, who try other packages than tests do."""
    lab = BareMetalLab(folder, count, port=port, whole=True)
    try:
        yield lab
    finally:
        lab.close()
