"""The roles that need no GPU, on a booted node with Debian's own packages: converged, left alone, drifted,
repaired, and refused where verification finds otherwise. One node goes through all of it, in this order."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.roles.machine_site import Site
from tests.roles.role_site import fine, refused

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("nspawn-machine"), pytest.mark.timeout(1800)]
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE+3yQeIgNEFeXTE+QOhRs0xSGVYIGiQLtjW4rCFqgMy alice"
ROLES = {"repositories", "base", "docker", "storage_client", "monitoring"}


def profile() -> dict[str, Any]:
    """What a node needs below its GPUs."""
    return {
        "base": {
            "packages": {"bai-tool": "1.0", "less": None}, "hold": ["less"], "timezone": "Europe/Berlin",
            "unattendedUpgrades": "security", "disableNouveau": True, "cpuGovernor": "performance",
            "users": [{"name": "alice", "groups": ["ops"], "keys": [KEY], "sudo": True}],
            "limits": [{"item": "memlock", "value": "unlimited"}],
            "sysctls": {"net.core.somaxconn": "8192", "vm.swappiness": "1"},
            "numaBalancing": False, "tmpfs": [{"path": "/scratch", "size": "16MiB"}],
        },
        "docker": {
            "package": "docker.io", "version": "20.10.24", "users": ["alice"], "logSize": "10MiB",
            "insecureRegistries": ["registry.example:5000"], "addressPools": [{"base": "10.200.0.0/16"}],
        },
        "storageClient": {
            "mounts": [
                {
                    "type": "tmpfs", "source": "fast", "path": "/data/fast", "options": ["size=16m"],
                    "writable": True,
                }
            ]
        },
        "monitoring": {
            "nodeExporter": {"version": "1.5.0", "port": 9100},
            "dcgm": "4.2.3", "dcgmExporter": {"version": "4.1.0", "port": 9400}, "profiling": True,
        },
    }  # fmt: skip


def test_a_fresh_node_is_checked_converged_and_then_left_alone(site: Site) -> None:
    before = site.node.must("ls /etc /etc/apt/sources.list* ; dpkg -l | wc -l")
    checked = fine(site.check(profile()))
    assert {change.role for change in checked.changed} >= ROLES
    assert site.node.must("ls /etc /etc/apt/sources.list* ; dpkg -l | wc -l") == before

    assert fine(site.provision(profile())).reboot_needed == ()
    assert fine(site.provision(profile())).changed == ()
    assert site.drift(profile()) == []


def test_packages_come_from_the_declared_sources_alone(site: Site) -> None:
    asked = set(site.node.must("apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages'").split())
    declared = {source["uri"] for source in site.repositories()["apt"]}
    assert {uri.rstrip("/").replace("file:/", "file:///", 1) for uri in asked} == declared
    assert "bai-tool" in site.node.must("apt-mark showhold")
    assert "less" in site.node.must("apt-mark showhold")
    site.node.must("apt-get -y -qq dist-upgrade", timeout=600)
    assert site.node.must("cat /usr/share/bai-tool") == "1.0-1"


def test_the_system_is_as_declared(site: Site) -> None:
    must = site.node.must
    assert must("sysctl -n net.core.somaxconn vm.swappiness kernel.numa_balancing").split()[:2] == [
        "8192",
        "1",
    ]
    assert must("systemctl show --property=DefaultLimitMEMLOCK --value").strip() == "infinity"
    assert "blacklist nouveau" in must("cat /etc/modprobe.d/bai-nouveau.conf")
    assert must("sudo -u alice sudo -n id -u").strip() == "0"
    assert must("cat /home/alice/.ssh/authorized_keys").strip() == KEY
    assert {"ops", "docker"} <= set(must("id -nG alice").split())
    assert must("readlink /etc/localtime").strip().endswith("Europe/Berlin")
    assert must("findmnt -n -o FSTYPE --mountpoint /scratch").strip() == "tmpfs"
    settings = json.loads(must("cat /etc/docker/daemon.json"))
    assert settings["exec-opts"] == ["native.cgroupdriver=cgroupfs"]
    assert settings["log-opts"] == {"max-size": str(10 * 2**20)}
    assert "DCGM_FI_PROF_SM_ACTIVE" in must(
        "python3 -c \"import urllib.request as u; print(u.urlopen('http://127.0.0.1:9400/metrics').read())\""
    )


def test_whatever_drifts_is_seen_and_repaired(site: Site) -> None:
    """Settings of daemon.json that others wrote stay, and ours of an earlier profile go."""
    must = site.node.must
    must(
        "python3 -c \"import json; p = '/etc/docker/daemon.json'; d = json.load(open(p)); "
        "d['runtimes'] = {'nvidia': {'path': '/usr/bin/true'}}; json.dump(d, open(p, 'w'))\""
    )
    must("sysctl -q -w net.core.somaxconn=99")
    must("sed -i s/8192/77/ /etc/sysctl.d/99-zz-bai.conf")
    by_hand = "apt-get -y -qq install --allow-change-held-packages"
    must(f"{by_hand} -o Dir::Etc::PreferencesParts=/none bai-tool=2.0-1")
    must("umount /data/fast && systemctl -q stop prometheus-node-exporter")
    must(
        f"echo 'deb [trusted=yes] {site.repository.file_uri} stable main' >/etc/apt/sources.list.d/stray.list"
    )
    found = "\n".join(sorted(site.drift(profile())))
    for word in (
        "net.core.somaxconn",
        "99-zz-bai.conf",
        "bai-tool",
        "/data/fast",
        "prometheus-node-exporter",
    ):
        assert word in found

    repaired = fine(site.provision(profile()))
    assert {change.role for change in repaired.changed} >= {
        "repositories",
        "base",
        "storage_client",
        "monitoring",
    }
    assert site.drift(profile()) == []
    assert must("sysctl -n net.core.somaxconn").strip() == "8192"
    assert must("cat /usr/share/bai-tool") == "1.0-1"
    assert must("ls /etc/apt/sources.list.d").split().count("stray.list.bai.disabled") == 1


def test_a_version_that_nobody_offers_is_refused_and_what_is_declared_no_longer_is_released(
    site: Site,
) -> None:
    refused(site.provision({"base": {"packages": {"bai-tool": "3.0"}}}), "bai-tool", "3.0", "2.0-1")
    fine(site.provision({"base": {"packages": {"bai-tool": "2.0"}}}))
    assert site.node.must("cat /usr/share/bai-tool") == "2.0-1"
    assert "less" not in site.node.must("apt-mark showhold").split()
    assert site.node.must("systemctl show --property=DefaultLimitMEMLOCK --value").strip() != "infinity"


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"storageClient": {"mounts": [
            {"type": "tmpfs", "source": "x", "path": "/data/x", "options": ["ro"], "writable": True}]}},
         ["storage_client", "/data/x"]),
        ({"storageClient": {"mounts": [
            {"type": "tmpfs", "source": "y", "path": "/data/y", "marker": "datasets"}]}},
         ["datasets"]),
        ({"monitoring": {"nodeExporter": {"version": "1.5.0", "port": 9100, "options": ["--no-such-flag"]}}},
         ["Ask the exporters for metrics"]),
        ({"base": {"kernelParameters": ["iommu=pt"]}}, ["iommu=pt"]),
    ],
    ids=["read-only", "wrong-file-system", "no-metrics", "command-line"],
)  # fmt: skip
def test_verification_finds_what_is_not_as_meant(
    site: Site, sections: dict[str, Any], words: list[str]
) -> None:
    refused(site.provision(sections), *words)
