"""Three bare machines, from nothing but SSH to sessions that run; and all that happens to them afterwards.

The machines are the same for all tests, which find them as the one before left them: converged.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.integration.bare_metal import THING, Site, waves
from tests.lab.bare_metal_lab import why_not
from tests.lab.cache import LabUnavailable
from tests.waiting import until

pytestmark = [pytest.mark.xdist_group("nspawn-provisioning"), pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if reason := why_not():
        pytest.skip(f"bare-metal lab: {reason}")
    try:
        site = Site(tmp_path_factory.mktemp("bare"))
    except LabUnavailable as error:
        pytest.skip(f"bare-metal lab: {error}")
    yield site
    site.close()


@pytest.fixture(scope="module")
def first(bare: Site) -> str:
    """What the first apply says."""
    return bare.apply()


@pytest.fixture
def site(bare: Site, first: str) -> Site:
    assert first
    for node in bare.nodes.values():  # A test that failed may have left it dead.
        node.start()
        node.wait()
    return bare


def test_bare_machines_run_sessions_after_one_apply(bare: Site, first: str) -> None:
    """One machine alone, then the others, then what runs on them: one command."""
    assert waves(first) == [["node1"], ["node2", "node3"]]
    until(lambda: bare.sessions()["everywhere"]["phase"] == "TERMINATED")
    until(lambda: bare.sessions()["sum-up"]["phase"] == "TERMINATED")
    assert bare.user.bai("logs", "sum-up") == "500500\n"
    assert bare.sessions()["everywhere"]["result"] == "success"
    assert bare.user.bai("exec", "shell", "--", "echo", "here") == "here\n"
    assert sorted(name.split("-")[0] for names in bare.containers().values() for name in names) == [
        "hello",
        "shell",
    ]
    for node in bare.nodes.values():
        assert node.must("sysctl -n net.core.somaxconn vm.swappiness").split() == ["4096", "1"]
        assert node.must("cat /opt/thing") == "2\n"
        assert node.must(f"apt-mark showhold {THING}") == f"{THING}\n"
    asked = {path.split("/")[1] for path in bare.lab.lab.mirror.asked}
    assert asked - {"debian-security"} == {"debian"}, "security updates come now and then"


def test_a_second_run_changes_nothing(site: Site) -> None:
    """The plan does not ask Ansible, and the roles find nothing to do, in check mode and for real: on the
    node that was first, and on one of those that were provisioned side by side."""
    before = site.runs()
    site.must_be_clean()
    assert site.runs() == before
    provisioner, targets = site.provisioner()
    with ThreadPoolExecutor() as pool:
        for result in pool.map(provisioner.provision, (targets["node1"], targets["node2"])):
            assert (result.ok, result.changed, result.rebooted) == (True, (), False), result
    result = provisioner.check([targets["node3"]])["node3"]
    assert (result.ok, result.changed) == (True, ()), result
    site.must_be_clean()


def test_what_was_changed_by_hand_is_shown_and_repaired(site: Site) -> None:
    node = site.nodes["node2"]
    limits = node.must("ls /etc/security/limits.d/*bai*").split()[0]
    meant = node.must(f"cat {limits}")
    node.must(f"apt-get -qq install -y --allow-downgrades --allow-change-held-packages {THING}=1.0-1")
    node.must("sysctl -w net.core.somaxconn=128")
    node.must(f"echo '* soft core 0' >>{limits}")
    said = site.plan()
    assert "Node/node2" in said
    assert all(f"Node/{other}" not in said for other in ("node1", "node3"))
    for what in (THING, "net.core.somaxconn", limits):
        assert what in said, said
    site.apply("--no-check")
    assert node.must("cat /opt/thing") == "2\n"
    assert node.must("sysctl -n net.core.somaxconn") == "4096\n"
    assert node.must(f"cat {limits}") == meant
    site.must_be_clean()


def test_a_node_that_dies_in_a_wave_stops_it(site: Site) -> None:
    """What runs on the others stays up, nothing more is begun, and the next apply goes on."""
    running = {name for name, each in site.sessions().items() if each["phase"] == "RUNNING"}

    def change(spec: dict[str, dict[str, dict[str, str]]]) -> None:
        spec["base"]["sysctls"]["net.ipv4.tcp_keepalive_time"] = "600"

    site.edit_profile(change)
    hit = ""
    with site.applying() as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if not hit and line.startswith("Node/") and "sealed" not in line and ": changed " in line:
                hit = line.split("/")[1].split(":")[0]
                site.nodes[hit].kill()
        said = "".join(lines)
        assert process.wait(60) == 1, said
    assert hit, said
    others = [name for name in site.nodes if name != hit]
    assert all(f"Node/{other}: changed" not in said for other in others), said
    for other in others:
        assert site.nodes[other].must("systemctl is-active docker") == "active\n"
        assert site.nodes[other].must("sysctl -n net.ipv4.tcp_keepalive_time") != "600\n"
    site.nodes[hit].start()
    site.nodes[hit].wait()
    site.apply("--no-check")
    for node in site.nodes.values():
        assert node.must("sysctl -n net.ipv4.tcp_keepalive_time") == "600\n"
    until(lambda: running <= {name for name, each in site.sessions().items() if each["phase"] == "RUNNING"})
    site.must_be_clean()


def test_a_node_is_the_same_after_a_reboot(site: Site) -> None:
    node = site.nodes["node2"]
    node.reboot()
    assert node.must("sysctl -n net.core.somaxconn vm.swappiness").split() == ["4096", "1"]
    assert "Node/node2" not in site.plan()
    site.apply()
    site.must_be_clean()
