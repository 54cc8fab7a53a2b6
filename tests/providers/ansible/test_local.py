"""This machine as a node: without SSH, and never rebooted. Its own /var/lib stays as it is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from providers.ansible import roles_path

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from providers.ansible import open_provisioner
from providers.machines.base import Endpoint
from providers.provisioning import ProvisionTarget
folder = Path(sys.argv[2])
provisioner = open_provisioner(folder / "state", str, roles=folder / "roles")
endpoint = Endpoint("me", "localhost", local=True)
for reboot in (True, False):
    values = {"noted_path": str(folder / "note"), "noted_reboot": reboot}
    target = ProvisionTarget("me", endpoint, "p", ("noted",), values, fingerprint="f")
    result = provisioner.provision(target)
    print(result.ok, result.rebooted, result.failed)
    seen = provisioner.observe([target])
    print(seen[0]["me"].converged("f"))
(folder / "note").write_text("other")
print(provisioner.observe([target])[0]["me"].deviations[0].what == f"file {folder / 'note'}")
"""


def may_hide_folders() -> bool:
    if os.geteuid() or shutil.which("unshare") is None or not Path("/usr/bin/python3").exists():
        return False
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not may_hide_folders(), reason="root, mount namespaces and /usr/bin/python3 are needed")
def test_this_machine_is_provisioned_and_never_rebooted(tmp_path: Path) -> None:
    shutil.copytree(Path(__file__).parent / "roles", tmp_path / "roles")
    shutil.copy(roles_path() / "site.yml", tmp_path / "roles")
    program = [sys.executable, "-c", PROGRAM, str(ROOT), str(tmp_path)]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /var/lib && exec "$@"', "sh", *program],
        capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=600,
    )  # fmt: skip
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "False False A reboot is needed and not allowed: this machine itself is never rebooted;"
        " noted: the test wants it",
        "False",
        "True False ",
        "True",
        "True",
    ]
    assert (tmp_path / "note").read_text() == "other"
