"""A booted Debian with systemd, asked over SSH."""

from __future__ import annotations

import pytest

from providers.health import ExpectedNode
from providers.health.query import query_facts
from providers.health.rules import judge
from providers.machines.connections import connect
from tests.lab.nspawn import Nodes

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.xdist_group("nspawn-nodes")]
UNIT = "[Service]\\nExecStart=/bin/sleep infinity\\n"


def test_units_mounts_and_packages_of_a_booted_node(nodes: Nodes) -> None:
    [node] = nodes.fresh(1)
    try:
        machine = connect(node.endpoint())
        expected = ExpectedNode(engine="docker", mounts=("/wanted",))
        node.must(f"printf '{UNIT}' > /etc/systemd/system/docker.service && systemctl start docker")
        seen = query_facts(machine)
        assert seen.units["docker"] == "active"
        assert "nvidia-fabricmanager" not in seen.units, "what is not installed is not told"
        assert seen.disks and seen.software.running and not seen.pci
        assert {one.code for one in judge(seen, expected)} & {"engine-down", "mount-missing"} == {
            "mount-missing"
        }
        node.must("echo 'server:/data /data nfs4 defaults,_netdev 0 0' >> /etc/fstab")
        node.must("systemctl stop docker; touch /run/reboot-required")
        found = {(one.code, one.device) for one in judge(query_facts(machine), expected)}
        assert found >= {
            ("engine-down", ""),
            ("mount-missing", "/data"),
            ("mount-missing", "/wanted"),
            ("reboot-required", ""),
        }  # fmt: skip
    finally:
        node.close()
