"""How plans connect containers: which network, which ports, and that nothing of it changes under what
runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from providers.base import Capabilities, KernelSpec, Published
from providers.fake import FakeProvider
from reconciler.plan.network.kernel_connections import kernel_addresses
from reconciler.values.encoding.plan_json import dump_plan, load_plan
from reconciler.values.plan import Plan
from tests.reconciler.lab import BASE, Lab, action, session

APART = "cluster: {mode: multi-node, roles: {main: 1, sub: 1}}, resources: {cpu: 5, memory: 1GiB}"
"""Two containers of which only one fits on a node."""
PAIR = "cluster: {roles: {main: 1, sub: 1}}"


class Engines(FakeProvider):
    """Where networks can span what `overlays` says."""

    overlays: dict[str, str]
    no_overlay: dict[str, str]

    def capabilities(self) -> Capabilities:
        return replace(super().capabilities(), overlays=self.overlays, no_overlay=self.no_overlay)


def made(folder: Path, docker: str = "", *, swarm: bool = False, networks: str = "") -> Lab:
    lab = Lab(folder, nodes=2)
    lab.provider = Engines(lab.world)
    lab.provider.overlays = {"n1": "s", "n2": "s"} if swarm else {}
    lab.provider.no_overlay = {} if swarm else {"n1": "is in no swarm", "n2": "is in no swarm"}
    options = f", docker: {{{docker}}}" if docker else ""
    options += f", networks: {{{networks}}}" if networks else ""
    lab.write({"base": BASE.replace("{provider: fake}", f"{{provider: docker{options}}}")})
    nodes = (lab.folder / "nodes.yaml").read_text()
    for n in (1, 2):
        nodes = nodes.replace(f"name: n{n}}}\nspec:", f"name: n{n}}}\nspec:\n  address: 10.0.0.{n}")
    lab.write({"nodes": nodes})
    return lab


def image(name: str, spec: str = "") -> str:
    return session(name, "image: 'i:1'" + (f", {spec}" if spec else ""))


def specs(plan: Plan, name: str = "a") -> tuple[KernelSpec, ...]:
    after = action(plan, f"Session/p/{name}").after
    assert after is not None
    return after.specs


def test_one_container_has_the_engines_network(tmp_path: Path) -> None:
    lab = made(tmp_path)
    lab.write({"a": image("a", "ports: [{name: web-ui, port: 8080}]")})
    (spec,) = specs(lab.plan())
    assert (spec.network.mode, spec.network.published, spec.login) == ("default", (), None)
    assert spec.env["BAI_PORT_WEB_UI"] == "8080"
    assert not lab.converge().changes


def test_containers_on_one_node_have_a_bridge_of_their_own(tmp_path: Path) -> None:
    lab = made(tmp_path)
    lab.write({"a": image("a", PAIR), "b": image("b", PAIR)})
    main, sub = specs(lab.plan())
    assert (main.network.mode, main.network.aliases, sub.network.aliases) == ("bridge", ("main1",), ("sub1",))
    assert main.network.name == sub.network.name != specs(lab.plan(), "b")[0].network.name
    assert main.id.endswith(main.network.name.removeprefix("bai-a"))
    assert (main.env["MASTER_ADDR"], main.env["BAI_CLUSTER_ADDRESSES"]) == ("main1", "main1=main1,sub1=sub1")
    assert main.login is not None and [(p.host, p.port) for p in main.login.peers] == [
        ("main1", 2200),
        ("sub1", 2200),
    ]
    assert not lab.converge().changes


def test_over_nodes_a_swarm_gives_an_overlay(tmp_path: Path) -> None:
    lab = made(tmp_path, swarm=True)
    lab.write({"a": image("a", APART)})
    main, sub = specs(lab.plan())
    assert main.labels.node != sub.labels.node
    assert (main.network.mode, main.network.hosts, sub.env["MASTER_ADDR"]) == ("overlay", {}, "main1")
    assert main.env["OMPI_MCA_btl_tcp_if_include"] == main.env["GLOO_SOCKET_IFNAME"] == "eth0"
    assert action(lab.plan(), "Session/p/a").warnings == ()


@pytest.mark.parametrize("docker", ["", "network: host"])
def test_over_nodes_without_a_swarm_ports_of_the_nodes_are_given(tmp_path: Path, docker: str) -> None:
    lab = made(tmp_path, docker)
    lab.write({"a": image("a", APART + ", ports: [{name: http, port: 8080}]"), "b": image("b")})
    plan = lab.plan()
    main, sub = specs(plan)
    node = {"n1": "10.0.0.1", "n2": "10.0.0.2"}
    assert main.network.mode == "host" and main.network.published == ()
    assert main.network.hosts == {"main1": node[main.labels.node], "sub1": node[sub.labels.node]}
    assert sub.env["MASTER_ADDR"] == node[main.labels.node]
    assert 20_000 <= int(sub.env["MASTER_PORT"]) < 30_000
    assert main.env["BAI_PORT_HTTP"] == "8080" and main.env["BACKENDAI_SERVICE_PORTS"] == "http:8080"
    assert sub.login is not None and sub.login.peers[1].port == sub.login.port >= 20_000
    assert main.env["OMPI_MCA_btl_tcp_if_include"] == "10.0.0.0/30"
    said = action(plan, "Session/p/a").warnings
    assert any("is in no swarm" in warning for warning in said) == (not docker)
    assert specs(load_plan(dump_plan(plan))) == specs(plan)
    assert not lab.converge().changes


def test_no_port_is_given_twice(tmp_path: Path) -> None:
    lab = made(tmp_path, "network: host, ports: 20000-20011")
    spread = APART.replace("cpu: 5", "cpu: 1") + ", ports: [{name: http, port: 8080}]"
    base = (lab.folder / "base.yaml").read_text()
    lab.write(
        {"base": base.replace("name: default}\nspec: {}", "name: default}\nspec: {selection: dispersed}")}
    )
    lab.write({name: image(name, spread) for name in "abc"})
    held: dict[tuple[str, int], str] = {}
    plan = lab.plan()
    for name in "abc":
        placement = action(plan, f"Session/p/{name}").after
        assert placement is not None and placement.placement is not None
        for part in placement.placement.kernels:
            assert part.network == "host"
            for port in part.ports:
                assert held.setdefault((part.node, port.on), name) == name
    lab.apply(plan)
    lab.write({"d": image("d", spread)})
    side = action(lab.plan(), "Session/p/d").after
    assert side is not None and side.placement is not None
    for part in side.placement.kernels:
        for port in part.ports:
            assert (part.node, port.on) not in held


def test_what_runs_keeps_its_network(tmp_path: Path) -> None:
    lab = made(tmp_path)
    lab.write({"a": image("a", APART)})
    before = specs(lab.plan())
    lab.apply()
    lab.provider.overlays = {"n1": "s", "n2": "s"}  # type: ignore[attr-defined]
    lab.world.vanish(lab.kernel("a", "sub1"))
    (again,) = specs(lab.plan())
    assert again == before[1]
    lab.apply()
    lab.lose_store()
    lab.apply()
    (part, other) = lab.store.recorded("here")["Session/p/a"].placement.kernels  # type: ignore[union-attr]
    assert (part.network, other.network) == ("host", "host") and part.ports


def test_a_new_generation_is_connected_anew(tmp_path: Path) -> None:
    lab = made(tmp_path)
    lab.write({"a": image("a", APART)})
    lab.apply()
    lab.provider.overlays = {"n1": "s", "n2": "s"}  # type: ignore[attr-defined]
    main, _ = specs(lab.plan(anew=("Session/p/a",)))
    assert (main.network.mode, main.labels.generation) == ("overlay", 2)


def test_a_cluster_that_demands_an_overlay_waits_for_it(tmp_path: Path) -> None:
    lab = made(tmp_path, "network: overlay")
    lab.write({"a": image("a", APART), "b": image("b", PAIR)})
    plan = lab.plan()
    (wait,) = plan.waits
    assert (wait.session, wait.reasons[0].code) == ("Session/p/a", "no-overlay")
    assert "n1: is in no swarm" in wait.reasons[0].message
    assert specs(plan, "b")[0].network.mode == "bridge"
    lab.provider.overlays = {"n1": "s", "n2": "t"}  # type: ignore[attr-defined]
    assert "different swarms" in lab.plan().waits[0].reasons[0].message


def test_published_ports_are_the_main_containers(tmp_path: Path) -> None:
    lab = made(tmp_path)
    http, dns = (
        "{name: http, port: 8080, publish: true}",
        "{name: dns, port: 53, protocol: udp, publish: true}",
    )
    ports = f"ports: [{http}, {dns}]"
    lab.write({"a": image("a", f"{ports}, {PAIR}, placement: {{nodes: [n1]}}")})
    main, sub = specs(lab.plan())
    first, second = main.network.published
    assert (first, second.port, second.udp) == (Published(8080, 8080), 53, True)
    assert 20_000 <= second.on < 30_000 and sub.network.published == ()
    lab.apply()
    lab.write({"b": image("b", f"{ports}, placement: {{nodes: [n1]}}")})
    (other,) = specs(lab.plan(), "b")
    assert {one.on for one in other.network.published}.isdisjoint({first.on, second.on})
    assert other.env["BAI_PORT_HTTP"] == "8080"


def test_the_data_network_is_where_containers_meet(tmp_path: Path) -> None:
    lab = made(tmp_path, "network: host", networks="data: {cidr: 10.9.0.0/24}, fabric: {interfaces: [ib0]}")
    lab.write({"a": image("a", APART.replace("1GiB", "1GiB, cuda.device: 1"))})
    assert any("not on the data network" in each for each in action(lab.plan(), "Session/p/a").warnings)
    nodes = (lab.folder / "nodes.yaml").read_text()
    for n in (1, 2):
        nodes = nodes.replace(f"address: 10.0.0.{n}", f"address: 10.0.0.{n}\n  dataAddress: 10.9.0.{n}")
    lab.write({"nodes": nodes})
    main, _ = specs(lab.plan())
    assert sorted(main.network.hosts.values()) == ["10.9.0.1", "10.9.0.2"]
    assert main.env["OMPI_MCA_btl_tcp_if_include"] == "10.9.0.0/24"
    assert main.env["NCCL_SOCKET_IFNAME"] == "=ib0"
    assert action(lab.plan(), "Session/p/a").warnings == ()


@pytest.mark.parametrize(("rdma", "mode"), [("false", "overlay"), ("true", "host")])
def test_where_gpus_talk_by_rdma_no_overlay_is_in_between(tmp_path: Path, rdma: str, mode: str) -> None:
    lab = made(tmp_path, swarm=True, networks=f"fabric: {{rdma: {rdma}}}")
    lab.write({"a": image("a", APART.replace("1GiB", "1GiB, cuda.device: 1"))})
    assert specs(lab.plan())[0].network.mode == mode
    assert action(lab.plan(), "Session/p/a").warnings == ()


def test_an_address_that_only_the_node_knows_is_said(tmp_path: Path) -> None:
    lab = made(tmp_path, "network: host")
    nodes = (lab.folder / "nodes.yaml").read_text().replace("address: 10.0.0.1", "address: localhost")
    lab.write({"nodes": nodes, "a": image("a", APART)})
    assert any("give it a dataAddress" in each for each in action(lab.plan(), "Session/p/a").warnings)


def test_keys_stay_out_of_plans(tmp_path: Path) -> None:
    lab = made(tmp_path)
    lab.write({"a": image("a", PAIR)})
    plan = lab.plan()
    (main, _) = specs(plan)
    assert main.login is not None and main.login.seed == ""
    assert '"seed"' not in dump_plan(plan)
    assert lab.apply(plan).ok
    handed = lab.world.kernels[main.id].spec
    assert handed.login is not None and len(bytes.fromhex(handed.login.seed)) == 32
    for text in ((lab.state).read_bytes(), repr(handed).encode()):
        assert handed.login.seed.encode() not in text


def pods(folder: Path) -> Lab:
    lab = made(folder)
    lab.write({"base": BASE.replace("{provider: fake}", "{provider: kubernetes}")})
    return lab


def test_pods_have_names_of_their_session(tmp_path: Path) -> None:
    """On one node as on several: each pod reaches every other one."""
    lab = pods(tmp_path)
    lab.write({"a": image("a", APART.replace("1GiB", "1GiB, cuda.device: 1")), "b": image("b", PAIR)})
    plan = lab.plan()
    for name in "ab":
        main, sub = specs(plan, name)
        assert main.network.name and main.network.name == sub.network.name
        assert (main.network.mode, main.network.aliases, sub.network.aliases) == (
            "pods",
            ("main1",),
            ("sub1",),
        )
        assert (main.network.hosts, main.network.published, main.login) == ({}, (), None)
        assert sub.env["MASTER_ADDR"] == "main1"
        assert action(plan, f"Session/p/{name}").warnings == ()
    assert specs(plan)[0].env["NCCL_SOCKET_IFNAME"] == "=eth0"


def test_a_pod_alone_has_the_pods_network_and_no_name(tmp_path: Path) -> None:
    lab = pods(tmp_path)
    lab.write({"a": image("a")})
    (spec,) = specs(lab.plan())
    assert (spec.network.mode, spec.network.name, spec.network.aliases) == ("pods", "", ())


def test_other_providers_are_told_nothing_of_networks(tmp_path: Path) -> None:
    lab = Lab(tmp_path, nodes=2)
    lab.write({"a": session("a", APART)})
    plan = lab.plan()
    assert all(spec.network.mode == "default" and spec.login is None for spec in specs(plan))
    after = action(plan, "Session/p/a").after
    assert after is not None and after.placement is not None
    assert kernel_addresses(lab.desired(), after.placement) == {}
