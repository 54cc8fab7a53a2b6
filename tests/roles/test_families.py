"""Files of roles as they would be on nodes of another family: rendered by Ansible with the facts of Rocky
Linux 9, which no node of the lab can be. What dnf does with them is not tried."""

from __future__ import annotations

import configparser
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from bai.web.apps.proxy.engine import find_engine
from providers.ansible import roles_path
from schemas.profile import NodeProfileSpec
from schemas.profile.variables import role_variables

ROCKY = {
    "os_family": "RedHat", "distribution": "Rocky", "distribution_version": "9.4", "nodename": "n1",
    "distribution_major_version": "9", "pkg_mgr": "dnf", "kernel": "5.14.0-427.13.1.el9_4.x86_64",
}  # fmt: skip
JAMMY = {
    **ROCKY, "os_family": "Debian", "distribution": "Ubuntu", "distribution_version": "22.04",
    "pkg_mgr": "apt",
}  # fmt: skip
PROFILE = {
    "repositories": {
        "yum": [{"name": "cuda", "baseurl": "http://mirror/cuda", "gpgKey": "KEY", "priority": 10}],
        "proxy": "http://proxy:3128",
    },
    "base": {
        "packages": {"tmux": "3.2a-5.el9"}, "hold": ["glibc"], "unattendedUpgrades": "security",
        "kernel": {"version": "5.14.0-427.13.1.el9_4.x86_64"}, "timeServers": ["10.0.0.1"], "iommu": "pt",
    },
    "docker": {"version": "27.3.1", "memlockUnlimited": True},
    "storageClient": {
        "lustre": "2.15.5", "mounts": [{"type": "lustre", "source": "m@o2ib:/fs", "path": "/fs"}],
    },
    "monitoring": {"nodeExporter": {"version": "1.8.2", "port": 9100, "options": ["--collector.systemd"]}},
    "controlPlane": {
        "bai": {
            "version": "0.9.1", "repository": "ssh://git@git.example/c.git", "watchdog": "30s",
            "api": {"listen": "fd00::1"}, "options": ["--mode", "approve"],
        },
        "postgresql": {"version": "15"}, "registry": {"version": "2.8.2", "package": "docker-distribution"},
    },
    "mirror": {"pypi": ["numpy==2.1.0"], "registry": {"version": "2.8.2"}},
    "appProxy": {
        "version": "2.11.7", "url": "https://*.apps.example:8443", "listen": "fd00::1", "port": 8443,
        "email": 'a"b@bai.example', "permissionPort": 8499,
    },
}  # fmt: skip
NAMES = [
    "base_wanted",
    "base_kernel_wanted",
    "base_words",
    "docker_wanted",
    "docker_settings",
    "storage_client_wanted",
    "monitoring_exporters",
    "control_plane_wanted",
    "control_plane_state",
    "mirror_wanted",
    "app_proxy_wanted",
]
FILES = {
    "yum.repo": ("repositories", "yum.repo.j2"),
    "automatic.conf": ("base", "automatic.conf.j2"),
    "chrony.conf": ("base", "chrony.conf.j2"),
    "bai.service": ("control_plane", "bai.service.j2"),
    "bai.env": ("control_plane", "bai.env.j2"),
    "registry.service": ("control_plane", "registry.service.j2"),
    "mirror-registry.service": ("mirror", "registry.service.j2"),
    "exporter.conf": ("monitoring", "unit.conf.j2"),
    "apps.json": ("app_proxy", "caddy.json.j2"),
    "bai-apps.service": ("app_proxy", "bai-apps.service.j2"),
}


def rendered(folder: Path, facts: dict[str, str], sections: dict[str, Any]) -> dict[str, Any]:
    """Variables by name, and files by name as texts."""
    system = "rhel-9" if facts["os_family"] == "RedHat" else "ubuntu-22.04"
    spec = NodeProfileSpec.model_validate({"os": system, **sections})
    values = {name: value for part in role_variables(spec).values() for name, value in part.items()}
    roles, family = roles_path(), facts["os_family"].lower()
    tasks: list[dict[str, Any]] = [{"ansible.builtin.set_fact": {**facts, "cacheable": True}}]
    for role in spec.roles:
        found = [roles / role / "vars" / f"{name}.yml" for name in ("main", family)]
        tasks += [{"ansible.builtin.include_vars": str(file)} for file in found if file.exists()]
    for name, (role, source) in FILES.items():
        to = {"src": str(roles / role / "templates" / source), "dest": str(folder / name)}
        items = {"repositories": "repositories_yum", "monitoring": "monitoring_exporters"}
        loop = {"loop": f"{{{{ {items[role]} }}}}"} if role in items else {}
        if role in spec.roles and not (source == "yum.repo.j2" and family != "redhat"):
            tasks.append({"ansible.builtin.template": to, **loop})
    told = {name: f"{{{{ {name} }}}}" for name in NAMES if name.rsplit("_", 1)[0].startswith(spec.roles)}
    tasks.append(
        {
            "ansible.builtin.copy": {"content": "{{ told | to_json }}", "dest": str(folder / "told")},
            "vars": {"told": told},
        }
    )
    play = [
        {"hosts": "localhost", "connection": "local", "gather_facts": False, "vars": values, "tasks": tasks}
    ]
    (folder / "play.yml").write_text(yaml.safe_dump(play))
    program = Path(sys.executable).with_name("ansible-playbook")
    environment = {
        **os.environ,
        "ANSIBLE_LOCAL_TEMP": str(folder / "t"),
        "ANSIBLE_HOME": str(folder / "h"),
        "ANSIBLE_REMOTE_TEMP": str(folder / "r"),
    }
    done = subprocess.run(
        [str(program), "-i", "localhost,", "-e", f"ansible_python_interpreter={sys.executable}", "play.yml"],
        env=environment, cwd=folder, check=False, text=True, capture_output=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads((folder / "told").read_text())
    return told | {name: (folder / name).read_text() for name in FILES if (folder / name).exists()}


@pytest.fixture(scope="module")
def rocky(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return rendered(tmp_path_factory.mktemp("rocky"), ROCKY, PROFILE)


def settings(text: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=False, allow_no_value=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text)
    return parser


def test_sources_and_upgrades(rocky: dict[str, Any]) -> None:
    source = settings(rocky["yum.repo"])["bai-cuda"]
    assert (source["baseurl"], source["gpgcheck"], source["priority"]) == ("http://mirror/cuda", "1", "10")
    assert source["gpgkey"] == "file:///etc/pki/rpm-gpg/RPM-GPG-KEY-bai-cuda"
    assert source["proxy"] == "http://proxy:3128"
    upgrades = settings(rocky["automatic.conf"])
    assert upgrades["commands"]["reboot"] == "never"
    assert {"nvidia*", "kernel*", "docker*", "glibc", "tmux"} <= set(upgrades["base"]["exclude"].split())
    assert "server 10.0.0.1 iburst" in rocky["chrony.conf"]


def test_packages_are_called_as_there(rocky: dict[str, Any]) -> None:
    assert rocky["base_kernel_wanted"] == {
        "kernel": "5.14.0-427.13.1.el9_4", "kernel-devel": "5.14.0-427.13.1.el9_4",
    }  # fmt: skip
    assert rocky["base_wanted"] == {"tmux": "3.2a-5.el9", "chrony": None, "dnf-automatic": None}
    assert rocky["base_words"] == ["intel_iommu=on", "iommu=pt"]
    assert rocky["docker_wanted"] == {"docker-ce": "27.3.1", "docker-ce-cli": "27.3.1", "containerd.io": None}
    assert rocky["docker_settings"]["features"] == {"cdi": True}
    assert rocky["storage_client_wanted"] == {"lustre-client": "2.15.5", "kmod-lustre-client": "2.15.5"}
    assert rocky["monitoring_exporters"][0]["unit"] == "node_exporter"
    assert rocky["control_plane_wanted"]["docker-distribution"] == "2.8.2"
    assert "python3.11" in rocky["control_plane_wanted"]


def test_services(rocky: dict[str, Any]) -> None:
    service = settings(rocky["bai.service"])["Service"]
    assert (service["Type"], service["WatchdogSec"], service["ProtectSystem"]) == ("notify", "30", "strict")
    assert service["ExecStart"].split()[2:] == [
        "serve",
        "--remote",
        "${BAI_REMOTE}",
        "--ref",
        "${BAI_REF}",
        "--listen",
        "${BAI_LISTEN}",
        "$BAI_OPTIONS",
    ]
    environment = dict(line.split("=", 1) for line in rocky["bai.env"].splitlines()[1:])
    assert environment["BAI_REMOTE"] == "ssh://git@git.example/c.git"
    assert (environment["BAI_LISTEN"], environment["BAI_REF"]) == ("[fd00::1]:8080", "main")
    assert environment["BAI_OPTIONS"] == "--interval 60s --mode approve"
    assert settings(rocky["registry.service"])["Service"]["ExecStart"].startswith("/usr/bin/registry serve")
    assert settings(rocky["mirror-registry.service"])["Service"]["ReadWritePaths"] == "/srv/mirror/registry"
    exporter = settings(rocky["exporter.conf"])["Service"]["ExecStart"]
    assert exporter.split()[0] == "/usr/bin/node_exporter" and exporter.endswith("--collector.systemd")


def test_the_proxy_of_apps_has_what_caddy_runs_with(rocky: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "apps.json").write_text(rocky["apps.json"].replace("/var/lib/bai-apps", str(tmp_path)))
    done = subprocess.run(
        [str(find_engine(None)), "validate", "--config", "apps.json"], cwd=tmp_path, check=False,
        env={"HOME": str(tmp_path)}, text=True, capture_output=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(rocky["apps.json"])["apps"]
    servers, automation = found["http"]["servers"], found["tls"]["automation"]
    assert servers["apps"]["listen"] == ["[fd00::1]:8443"]
    assert servers["permission"]["listen"] == ["127.0.0.1:8499"]
    assert automation["on_demand"]["permission"]["endpoint"] == "http://127.0.0.1:8499/certificate"
    [policy] = automation["policies"]
    [issuer] = policy["issuers"]
    assert (policy["subjects"], issuer["email"]) == (["*.apps.example"], 'a"b@bai.example')
    assert issuer["challenges"]["tls-alpn"] == {"alternate_port": 8443}
    service = settings(rocky["bai-apps.service"])["Service"]
    assert service["ExecStart"] == "/opt/bai-apps/2.11.7/bin/caddy run --config /etc/bai/apps.json"


def test_ubuntu_22_04_takes_a_newer_python(tmp_path: Path) -> None:
    found = rendered(tmp_path, JAMMY, {"controlPlane": PROFILE["controlPlane"]})
    assert {"python3.11", "python3.11-venv", "postgresql-15"} <= set(found["control_plane_wanted"])


def test_every_play_of_the_roles_can_be_read() -> None:
    program = Path(sys.executable).with_name("ansible-playbook")
    done = subprocess.run(
        [str(program), "--syntax-check", "-i", "localhost,", str(roles_path() / "site.yml")],
        check=False, text=True, capture_output=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
