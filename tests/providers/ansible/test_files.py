"""What a run is given: configuration that ssh and Ansible read as it is meant."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from providers.ansible import files
from providers.machines.base import Endpoint
from providers.machines.ssh.route import ssh_route, user_config
from providers.provisioning import ProvisionTarget
from schemas.kinds.cluster import Ssh

values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text()),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
    max_leaves=10,
)


class Loader(yaml.SafeLoader):
    """Reads `!unsafe` as Ansible does: as a text that is no template."""


Loader.add_constructor("!unsafe", lambda loader, node: loader.construct_scalar(node))


def target(
    name: str = "n1", *, roles: tuple[str, ...] = (), variables: Any = None, **ssh: Any
) -> ProvisionTarget:
    return ProvisionTarget(
        name, Endpoint(name, "10.0.0.1", ssh=Ssh(**ssh), secret="the {}".format), "p", roles, variables or {}
    )


def written(tmp_path: Path, one: ProvisionTarget, **secrets: str) -> dict[str, Any]:
    """All that a run over one node is given: the hosts, the secrets, the configurations as text."""
    folder, scratch = tmp_path / "run", tmp_path / "scratch"
    folder.mkdir()
    scratch.mkdir()
    ways = {} if one.endpoint.local else {one.node: ssh_route(one.endpoint, user_config())}
    inventory = files.Inventory([one], ways, {one.node: secrets})
    files.write_run_files(folder, scratch, inventory, roles=tmp_path, forks=7)
    found: dict[str, Any] = {name: (scratch / name).read_text() for name in ("ansible.cfg", "ssh_config")}
    for name, path in (("hosts", folder), ("secrets", scratch / "secrets")):
        found[name] = yaml.load((path / "hosts.yml").read_text(), Loader)["all"]["hosts"][one.node]
    return found


def ssh_says(tmp_path: Path, alias: str) -> dict[str, str]:
    """What ssh itself makes of the configuration."""
    if shutil.which("ssh") is None:
        pytest.skip("there is no ssh here")
    done = subprocess.run(
        ["ssh", "-F", str(tmp_path / "scratch" / "ssh_config"), "-G", alias],
        capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)


def test_ssh_goes_where_bai_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    one = target(
        user="admin", port=2222, keyFrom="lab/key", jump="root@gate:2200,inner", connectTimeout="7s",
        knownHostsFrom="lab/hosts", sudo=True,
    )  # fmt: skip
    found = written(tmp_path, one)
    assert found["hosts"]["ansible_host"] == "n1.hop2.bai"
    assert found["hosts"]["ansible_become"] is True
    node, inner, gate = (ssh_says(tmp_path, f"n1.hop{at}.bai") for at in (2, 1, 0))
    assert (node["hostname"], node["port"], node["user"]) == ("10.0.0.1", "2222", "admin")
    key = Path(node["identityfile"])
    assert key.read_text() == "the lab/key\n" and key.stat().st_mode & 0o777 == 0o600
    assert key.parent == tmp_path / "scratch"
    assert node["stricthostkeychecking"] in ("true", "yes")
    first, *_, own = node["userknownhostsfile"].split()
    assert first == f"{tmp_path}/.ssh/known_hosts" and Path(own).read_text() == "the lab/hosts\n"
    assert node["globalknownhostsfile"] == "/dev/null"
    assert (node["connecttimeout"], node["batchmode"], node["proxyjump"]) == ("7", "yes", "n1.hop1.bai")
    assert (inner["hostname"], inner["proxyjump"]) == ("inner", "n1.hop0.bai")
    assert (gate["hostname"], gate["port"], gate["user"]) == ("gate", "2200", "root")
    assert "proxyjump" not in gate


def test_the_users_own_ssh_settings_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text(
        "Host 10.0.0.1\n  Port 2201\n  StrictHostKeyChecking accept-new\n"
    )
    (tmp_path / ".ssh" / "id_ed25519").write_text("")
    written(tmp_path, target())
    node = ssh_says(tmp_path, "n1.hop0.bai")
    assert (node["port"], node["stricthostkeychecking"]) == ("2201", "accept-new")
    assert node["identityfile"] == str(tmp_path / ".ssh" / "id_ed25519")


def test_this_machine_is_reached_without_ssh(tmp_path: Path) -> None:
    one = ProvisionTarget("me", Endpoint("me", "localhost", local=True), "p", (), {})
    found = written(tmp_path, one)["hosts"]
    assert found["ansible_connection"] == "local"
    assert found["bai_local"] is True
    assert "ansible_host" not in found


def test_secrets_stand_in_a_file_of_their_own(tmp_path: Path) -> None:
    found = written(tmp_path, target(), base_password="open {{ sesame }}")
    assert found["secrets"] == {"base_password": "open {{ sesame }}"}
    assert "sesame" not in "".join(path.read_text() for path in (tmp_path / "run").iterdir())
    for path in (tmp_path / "scratch").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0


def test_only_roles_that_can_be_verified_are(tmp_path: Path) -> None:
    (tmp_path / "a" / "tasks").mkdir(parents=True)
    (tmp_path / "a" / "tasks" / "verify.yml").write_text("---\n")
    found = written(tmp_path, target(roles=("a", "b")))["hosts"]
    assert (found["bai_roles"], found["bai_verified"]) == (["a", "b"], ["a"])


@example({"k" * 1100: None})  # YAML has keys that long only with a question mark
@given(values)
def test_no_value_is_read_otherwise(value: Any) -> None:
    text = files._yaml_value(value)
    assert "\n" not in text
    assert yaml.load(f"x: {text}", Loader) == {"x": value}


@pytest.mark.parametrize("text", ["{{ lookup('pipe', 'id') }}", "{% raw %}", "{# c #}", "a {{"])
def test_no_value_is_a_template(text: str) -> None:
    assert files._yaml_value({"a": [text]}).count("!unsafe") == 1
