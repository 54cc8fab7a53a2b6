"""Variables that follow from how kernels are connected."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.environment.network_variables import NetworkFacts, network_variables, port_variables
from planner.model.types import KernelPlacement, PortGrant

HOSTS = {"main1": "10.0.0.5", "sub1": "10.0.0.9"}


def test_ports_are_told_as_they_are_served() -> None:
    held = {"main1": (PortGrant("web-ui", 8080, 20_007),)}
    ports = {"web-ui": 8080, "other": 9000}
    on_host = port_variables(NetworkFacts("host", ports=held), "main1", ports)
    assert on_host == {"BAI_PORT_WEB_UI": "20007", "BAI_PORT_OTHER": "9000"}
    published = port_variables(NetworkFacts("default", ports=held), "main1", ports)
    assert published["BAI_PORT_WEB_UI"] == "8080"


@pytest.mark.parametrize(
    ("addresses", "include"),
    [
        (("10.0.0.5", "10.0.0.9"), "10.0.0.0/28"),
        (("10.1.0.1", "10.200.0.1"), "10.0.0.0/8"),
        (("10.0.0.1",), "10.0.0.1/32"),
        (("10.0.0.1", "192.168.0.1"), ""),
        (("gpu-1", "10.0.0.1"), ""),
        (("fd00::1", "fd00::2"), ""),
        ((), ""),
    ],
)
def test_one_network_holds_all_addresses(addresses: tuple[str, ...], include: str) -> None:
    facts = NetworkFacts("host", addresses={f"k{n}": each for n, each in enumerate(addresses)})
    values = network_variables(facts, gpus=False)
    assert values.get("OMPI_MCA_btl_tcp_if_include", "") == include
    assert ("OMPI_MCA_btl_tcp_if_exclude" in values) == (not include)
    assert "NCCL_SOCKET_IFNAME" not in values


def test_named_interfaces_win() -> None:
    facts = NetworkFacts("host", addresses=HOSTS, data=("bond0",), cidr="10.0.0.0/24", fabric=("ib0", "ib1"))
    values = network_variables(facts, gpus=True)
    assert values["OMPI_MCA_btl_tcp_if_include"] == values["GLOO_SOCKET_IFNAME"] == "bond0"
    assert values["NCCL_SOCKET_IFNAME"] == "=ib0,ib1"
    assert "NCCL_SOCKET_IFNAME" not in network_variables(facts, gpus=False)


def test_what_leads_outside_an_overlay_is_left_alone() -> None:
    values = network_variables(NetworkFacts("overlay", login=True), gpus=True)
    assert values["NCCL_SOCKET_IFNAME"] == "=eth0"
    assert values["OMPI_MCA_oob_tcp_if_include"] == "eth0"
    assert values["OMPI_MCA_plm_rsh_agent"] == "ssh -F /run/bai/ssh/config"
    assert network_variables(NetworkFacts("bridge"), gpus=True) == {}
    assert network_variables(NetworkFacts(), gpus=True) == {}


def test_a_port_is_served_where_it_was_given_on_the_nodes_own_network_only() -> None:
    kernel = KernelPlacement("main1", "n1", (), 0, (), 0, ports=(PortGrant("web", 8080, 31_000),))
    on_host = replace(kernel, network="host")
    assert [on_host.listening(port) for port in (8080, 9000)] == [31_000, 9000]
    assert replace(kernel, network="bridge").listening(8080) == 8080
