"""Which packages the roles ask for on every system, read from their own files by Ansible, without a node."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from providers.ansible import roles_path

KERNEL = {"Debian": "6.8.0-45-generic", "RedHat": "5.14.0-427.13.1.el9_4.x86_64"}
NAMES = ("nvidia_driver_known_packages", "nvidia_driver_any_packages", "nvidia_fabricmanager_known_package")
OF_UBUNTU = ["libnvidia-cfg1", "libnvidia-compute", "libnvidia-decode", "libnvidia-encode", "libnvidia-extra"]


def wanted(distribution: str, version: str, flavour: str | None, build: str = "dkms") -> dict[str, Any]:
    family = "RedHat" if distribution == "Rocky" else "Debian"
    facts = {"os_family": family, "distribution": distribution, "kernel": KERNEL[family]}
    return {
        "given": facts, "nvidia_driver_version": version, "nvidia_driver_flavour": flavour,
        "nvidia_driver_build": build, "nvidia_driver_packages": [], "nvidia_fabricmanager_version": version,
    }  # fmt: skip


CASES = {
    "debian": wanted("Debian", "580.95.05", None),
    "debian-old": wanted("Debian", "550.90.07", None),
    "ubuntu": wanted("Ubuntu", "580.95.05", "open"),
    "ubuntu-new": wanted("Ubuntu", "590.44.01", "open"),
    "ubuntu-ready": wanted("Ubuntu", "580.95.05", "open", "precompiled"),
    "rocky": wanted("Rocky", "580.95.05", None),
    "rocky-old": wanted("Rocky", "550.90.07", None),
    "rocky-ready": wanted("Rocky", "580.95.05", "proprietary", "precompiled"),
}


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Case → variable → value; one run of Ansible, with a host per case."""
    folder = tmp_path_factory.mktemp("names")
    files = [roles_path() / f"{role}/vars" for role in ("nvidia_driver", "nvidia_fabricmanager")]
    loads = [
        {"ansible.builtin.include_vars": f"{each}/{name}.yml"}
        for each in files
        for name in ("{{ ansible_facts.os_family | lower }}", "main")
    ]
    rhel = {"stream": "{{ nvidia_driver_stream | default('') }}"}
    shown = {**{name: f"{{{{ {name} }}}}" for name in NAMES}, **rhel}
    write = {"dest": f"{folder}/{{{{ inventory_hostname }}}}.json", "content": "{{ shown | to_json }}"}
    play = {
        "hosts": "all",
        "gather_facts": False,
        "vars": {"ansible_facts": "{{ given }}", "shown": shown},
        "tasks": [*loads, {"ansible.builtin.copy": {**write, "mode": "0644"}}],
    }
    (folder / "play.json").write_text(json.dumps([play]))
    python = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    hosts = {name: {**values, **python} for name, values in CASES.items()}
    (folder / "hosts.json").write_text(json.dumps({"all": {"hosts": hosts}}))
    own = {"ANSIBLE_HOME": str(folder), "ANSIBLE_LOCAL_TEMP": str(folder), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        [sys.executable, "-m", "ansible", "playbook", "-i", "hosts.json", "play.json"], cwd=folder,
        capture_output=True, check=False, text=True, stdin=subprocess.DEVNULL, timeout=600,
        env={**os.environ, **own},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return {name: json.loads((folder / f"{name}.json").read_text()) for name in CASES}


def names(asked: dict[str, Any]) -> set[str]:
    return set(asked["nvidia_driver_known_packages"]) | set(asked["nvidia_driver_any_packages"])


def test_debian(asked: dict[str, dict[str, Any]]) -> None:
    new = {"nvidia-kernel-open-dkms", "nvidia-driver-cuda", "nvidia-persistenced"}
    assert names(asked["debian"]) == new
    old = {"nvidia-kernel-dkms", "nvidia-smi", "libcuda1", "libnvidia-ml1", "nvidia-cuda-mps"}
    assert names(asked["debian-old"]) == old | {"nvidia-persistenced"}


def test_ubuntu(asked: dict[str, dict[str, Any]]) -> None:
    def of(suffix: str) -> set[str]:
        return {f"{name}{suffix}" for name in OF_UBUNTU}

    tools = {"nvidia-utils-580", "nvidia-compute-utils-580"}
    assert names(asked["ubuntu"]) == of("-580") | tools | {"nvidia-dkms-580-open"}
    assert names(asked["ubuntu-new"]) == of("") | {
        "nvidia-dkms-open",
        "nvidia-persistenced",
        "nvidia-modprobe",
    }
    ready = names(asked["ubuntu-ready"])
    assert ready >= of("-580-server") | {f"linux-modules-nvidia-580-server-open-{KERNEL['Debian']}"}
    assert not [name for name in ready if "dkms" in name]


def test_red_hat(asked: dict[str, dict[str, Any]]) -> None:
    user = {"nvidia-driver-cuda", "nvidia-persistenced"}
    assert (names(asked["rocky"]), asked["rocky"]["stream"]) == (user | {"kmod-nvidia-open-dkms"}, "580-open")
    old = asked["rocky-old"]
    assert (names(old), old["stream"]) == (user | {"kmod-nvidia-latest-dkms"}, "550-dkms")
    ready = asked["rocky-ready"]
    assert ready["stream"] == "580"
    assert names(ready) == user | {"kmod-nvidia-580.95.05-5.14.0-427.13.1"}


def test_the_fabric_manager_is_called_as_its_branch_demands(asked: dict[str, dict[str, Any]]) -> None:
    found = {name: values["nvidia_fabricmanager_known_package"] for name, values in asked.items()}
    assert found["debian"] == found["ubuntu-new"] == found["rocky"] == "nvidia-fabricmanager"
    assert found["debian-old"] == "nvidia-fabricmanager-550"
    assert found["rocky-old"] == "nvidia-fabric-manager"
