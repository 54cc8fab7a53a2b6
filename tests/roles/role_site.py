"""A booted node, and profiles carried out on it by the real provisioner: what all tests of roles share.

A test module names its kind of site as `Site`; the fixture `site` then gives one to all of its tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from providers.ansible import open_provisioner
from providers.machines.connections import connect
from providers.provisioning import HostResult, ProvisionTarget
from schemas.profile import NodeProfileSpec
from schemas.profile.variables import role_variables, secret_references
from tests.harness.labs import spent
from tests.lab.nspawn import Node, Nodes

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


class RoleSite:
    """`provision({"base": {...}})` brings the node to a profile with these sections."""

    reboots: ClassVar[bool] = False
    """Whether it may be restarted when a role needs it."""

    def __init__(self, nodes: Nodes, folder: Path) -> None:
        self.nodes, self.state = nodes, folder
        [self.node] = nodes.fresh(1)
        self.provisioner = open_provisioner(folder, self.secret)

    def repositories(self) -> dict[str, Any]:
        """Where its packages come from, unless the sections say otherwise."""
        raise NotImplementedError

    def secret(self, reference: str) -> str:
        """What a profile's reference stands for."""
        raise AssertionError(f"nobody said what {reference} is")

    def debian(self) -> list[dict[str, Any]]:
        """Debian's own packages, as a profile names them."""
        return [
            {
                "name": each.name, "uri": f"{self.nodes.mirror.url}/{each.name}", "suites": list(each.suites),
                "components": ["main"], "keyring": KEYRING,
            }
            for each in self.nodes.mirror.archives
        ]  # fmt: skip

    def target(self, sections: Mapping[str, Any], *, reboot: bool | None = None) -> ProvisionTarget:
        document = {"os": "debian-12", "repositories": self.repositories(), **sections}
        spec = NodeProfileSpec.model_validate(document)
        values = {name: value for part in role_variables(spec).values() for name, value in part.items()}
        return ProvisionTarget(
            self.node.name, self.node.endpoint(), "p", spec.roles, values, secret_references(spec),
            document=document, fingerprint="f", os=spec.os, reboot_timeout=300,
            reboot_allowed=self.reboots if reboot is None else reboot,
        )  # fmt: skip

    def check(self, sections: Mapping[str, Any]) -> HostResult:
        with spent("provisioning"):
            return self.provisioner.check([self.target(sections)])[self.node.name]

    def provision(self, sections: Mapping[str, Any], *, reboot: bool | None = None) -> HostResult:
        with spent("provisioning"):
            return self.provisioner.provision(self.target(sections, reboot=reboot))

    def drift(self, sections: Mapping[str, Any]) -> list[str]:
        """What is not as it was sealed."""
        conditions, unreached = self.provisioner.observe([self.target(sections)])
        assert not unreached
        return [found.what for found in conditions[self.node.name].deviations]

    def close(self) -> None:
        shut(self.node)


def shut(node: Node) -> None:
    """Nobody is connected to it any more, and it is gone."""
    connect(node.endpoint()).close()
    node.close()


def fine(result: HostResult) -> HostResult:
    assert result.ok, result.failed
    return result


def refused(result: HostResult, *words: str) -> None:
    assert not result.ok
    for word in words:
        assert word in result.failed
