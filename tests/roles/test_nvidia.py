"""The NVIDIA roles on a booted node, against stand-ins for packages: versions, pins, upgrade, roll-back, and
everything that must be loud. One node goes through all of it, in this order."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.roles.nvidia_site import BRANCH, NEW, OLD, Site
from tests.roles.role_site import fine, refused

pytestmark = [pytest.mark.xdist_group("nspawn-nvidia"), pytest.mark.timeout(1800)]
DRIVER = {"nvidia-kernel-open-dkms", "nvidia-driver-cuda", "nvidia-persistenced", "libnvidia-ml1", "libcuda1"}
SPEC = "/var/run/cdi/nvidia.yaml"


def profile(version: str, toolkit: str = "1.17.4") -> dict[str, Any]:
    """Everything, with the second GPU divided and the first one shared."""
    return {
        "nvidiaDriver": {"version": version, "moduleOptions": {"NVreg_RestrictProfilingToAdminUsers": "0"}},
        "nvidiaFabricmanager": {"config": {"FABRIC_MODE": "1"}},
        "nvidiaContainerToolkit": {"version": toolkit, "mode": "cdi"},
        "gds": {
            "version": "1.11.1.6", "nvidiaFs": "2.22.3", "acs": "any", "supported": ["nvme"],
            "cufile": {"properties.max_direct_io_size_kb": "16384", "logging.level": "ERROR"},
        },
        "mig": {"layouts": [{"gpus": [1], "instances": {"1g.10gb": 7}}]},
        "mps": {"gpus": [0], "daemons": "standing"},
    }  # fmt: skip


def cdi(site: Site) -> tuple[set[str], str]:
    """The devices that the specification names, and the whole of it."""
    text = site.node.must(f"cat {SPEC}")
    return {device["name"] for device in yaml.safe_load(text)["devices"]}, text


def driver_is(site: Site, version: str) -> None:
    """Packages, loaded module, libraries, and everything that must follow them."""
    found = site.versions()
    assert {found[name] for name in found if name in DRIVER} == {version}
    assert f"  {version}  " in site.node.must("cat /proc/driver/nvidia/version")
    assert "GPU 0" in site.node.must("nvidia-smi -L")
    assert version in site.node.must("nv-fabricmanager --version")
    assert site.node.must("systemctl is-active nvidia-fabricmanager").strip() == "active"
    assert f"libnvidia-ml.so.{version}" in cdi(site)[1]


def test_a_fresh_node_is_checked_converged_and_then_left_alone(site: Site) -> None:
    checked = fine(site.check(profile(OLD)))
    assert {"nvidia_driver", "packages", "mig", "gds", "mps"} <= {change.role for change in checked.changed}
    assert site.versions() == {}
    assert site.node.must("ls /etc/apt/preferences.d") == ""

    first = fine(site.provision(profile(OLD)))
    assert not first.rebooted
    driver_is(site, OLD)
    assert cdi(site)[0] == {"0", *(f"1:{number}" for number in range(7)), "all"}
    settings = json.loads(site.node.must("cat /etc/cufile.json"))
    assert settings["properties"]["max_direct_io_size_kb"] == 16384
    assert settings["properties"]["allow_compat_mode"] is False
    assert "FABRIC_MODE=1" in site.node.must("cat /usr/share/nvidia/nvswitch/fabricmanager.cfg")
    runtimes = json.loads(site.node.must("cat /etc/docker/daemon.json"))["runtimes"]
    assert set(runtimes) == {"nvidia"}

    second = fine(site.provision(profile(OLD)))
    assert second.changed == ()
    assert site.drift(profile(OLD)) == []


def test_no_upgrade_moves_the_driver(site: Site) -> None:
    held = set(site.node.must("apt-mark showhold").split())
    assert held >= DRIVER | {"nvidia-fabricmanager", "nvidia-container-toolkit", "nvidia-fs"}
    site.node.must("apt-get update -qq && apt-get -y -qq dist-upgrade", timeout=600)
    driver_is(site, OLD)
    site.node.must("apt-mark unhold nvidia-driver-cuda libnvidia-ml1 libcuda1")
    site.node.must("apt-get -y -qq dist-upgrade", timeout=600)
    assert site.versions()["nvidia-driver-cuda"] == OLD
    assert f"Candidate: {OLD}-1" in site.node.must("apt-cache policy nvidia-driver-cuda")


def test_a_driver_in_use_is_not_replaced(site: Site) -> None:
    holder = site.node.must("sh -c 'exec 7</dev/nvidia0; exec sleep 3600' >/dev/null 2>&1 & echo $!").strip()
    try:
        refused(site.provision({"nvidiaDriver": {"version": NEW}}), f"{holder} sleep", "Drain the node first")
    finally:
        site.node.must(f"kill {holder}")
    assert site.versions()["nvidia-driver-cuda"] == OLD


def test_a_version_that_nobody_offers_is_refused_with_those_there_are(site: Site) -> None:
    missing = "580.99.99"
    refused(site.provision({"nvidiaDriver": {"version": missing}}), missing, f"{NEW}-1", "repositories")
    assert site.versions()["nvidia-driver-cuda"] == OLD


def test_an_upgrade_says_why_it_must_reboot_and_does(site: Site) -> None:
    wanted = profile(NEW, "1.18.0")
    stopped = site.provision({"nvidiaDriver": wanted["nvidiaDriver"]}, reboot=False)
    why = f"the loaded NVIDIA module is {OLD}, the installed one {NEW}"
    refused(stopped, "nvidia_driver", why)
    assert "mismatch" in site.node.run("nvidia-smi -L").stdout

    done = fine(site.provision(wanted))
    assert done.rebooted
    driver_is(site, NEW)
    assert "RestrictProfilingToAdminUsers: 0" in site.node.must("cat /proc/driver/nvidia/params")
    assert cdi(site)[0] == {"0", *(f"1:{number}" for number in range(7)), "all"}
    site.node.must("/usr/local/lib/bai/mps_standing check 0")
    units = site.node.must("systemctl list-unit-files --no-legend '*cdi-refresh*'").split()
    assert "nvidia-cdi-refresh.path" in units
    assert "bai-cdi-refresh.path" not in units


def test_what_was_changed_by_hand_is_seen_and_repaired(site: Site) -> None:
    whole = profile(NEW, "1.18.0")
    wanted = {name: whole[name] for name in ("nvidiaDriver", "nvidiaContainerToolkit")}
    site.node.must(
        f"rm /etc/apt/preferences.d/bai-nvidia-driver.pref && apt-get install -y -qq --allow-downgrades "
        f"--allow-change-held-packages nvidia-persistenced={OLD}-1 && sed -i s/{NEW}/{OLD}/g {SPEC}",
        timeout=600,
    )
    assert "package nvidia-persistenced" in site.drift(whole)
    repaired = fine(site.provision(wanted))
    assert not repaired.rebooted
    driver_is(site, NEW)


def test_gpus_in_use_are_not_divided_anew(site: Site) -> None:
    other = {"mig": {"layouts": [{"gpus": [1], "instances": {"3g.40gb": 2}}]}}
    site.node.must("touch /run/fake-nvidia/busy")
    try:
        refused(site.provision(other), "In use by another client", "Drain the node first")
    finally:
        site.node.must("rm /run/fake-nvidia/busy")
    assert cdi(site)[0] >= {"1:6"}
    fine(site.provision(other))
    assert cdi(site)[0] == {"0", "1:0", "1:1", "all"}


def test_compatibility_mode_is_refused_unless_it_is_declared(site: Site) -> None:
    site.node.must("rm -r /run/fake-nvidia/module/nvidia_fs")
    site.node.must("while umount /sys/module 2>/dev/null; do :; done")  # no module is loaded any more
    quiet = {"version": "1.11.1.6", "acs": "any"}
    refused(site.provision({"gds": quiet}), "compatibility mode", "allowCompatMode")
    fine(site.provision({"gds": {**quiet, "allowCompatMode": True}}))


def test_rolled_back_to_a_branch_whose_packages_are_called_otherwise(site: Site) -> None:
    wanted = {
        "nvidiaDriver": {"version": BRANCH},
        "nvidiaFabricmanager": {},
        "nvidiaContainerToolkit": {"version": "1.17.4"},
        "rdma": {"peerMemory": "none", "nccl": {"NCCL_IB_HCA": "=mlx5_0"}},
        "mig": {"layouts": [{"enabled": False}]},
    }
    done = fine(site.provision(wanted))
    assert done.rebooted
    driver_is(site, BRANCH)
    found = site.versions()
    assert {"nvidia-kernel-dkms", "nvidia-smi", "nvidia-cuda-mps", "nvidia-fabricmanager-550"} <= set(found)
    assert {"nvidia-driver-cuda", "nvidia-kernel-open-dkms", "nvidia-fabricmanager"}.isdisjoint(found)
    assert "Open" not in site.node.must("cat /proc/driver/nvidia/version")
    assert found["nvidia-container-toolkit"] == "1.17.4"
    assert cdi(site)[0] == {"0", "1", "all"}
    assert "=mlx5_0" in site.node.must("cat /etc/nccl.conf")
    assert site.node.must("systemctl show --property=DefaultLimitMEMLOCK --value").strip() == "infinity"
    assert fine(site.provision({"rdma": wanted["rdma"]})).changed == ()
