"""Real runs over booted machines: check, converge, reboot, verify, seal, drift, and what may come between."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from providers.ansible.node_lock import NodeLock
from providers.condition.reasons import provision_reasons
from providers.machines.connections import connect
from providers.provisioning import HostResult, ProvisionEvent
from schemas.problems.errors.provisioning import NodeBusy
from tests.harness.processes import having
from tests.lab.nspawn import Node
from tests.providers.ansible.conftest import SECRET, Work
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("nspawn-nodes")
PATIENCE = 120.0
ASLEEP = "Wait as long as it is told to"
ALL = ("greeting", "restless", "secretive")


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No process, no scratch folder, no secret in what is kept."""
    scratch = Path(tempfile.mkdtemp(prefix="w-", dir="/tmp"))
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    yield
    assert having(str(scratch)) == {}
    assert list(scratch.iterdir()) == []
    scratch.rmdir()
    kept = [path for path in (tmp_path / "state").rglob("*") if path.is_file()]
    assert [path for path in kept if SECRET.encode() in path.read_bytes()] == []


@pytest.fixture
def fresh(work: Work) -> Iterator[Node]:
    """A node that nobody has touched."""
    node = work.nodes.fresh(1)[0]
    yield node
    connect(node.endpoint()).close()
    node.close()


def files_of(result: HostResult) -> list[str]:
    return [f"{change.role}: {change.task}" for change in result.changed]


def test_from_bare_to_sealed_and_back_from_drift(work: Work, fresh: Node) -> None:
    one, other = work.target(fresh, *ALL), work.target(work.nodes(1)[0], *ALL)
    provisioner = work.provisioner

    foreseen = provisioner.check([one, other])
    assert foreseen[one.node].ok and foreseen[other.node].ok
    assert "greeting: Write the greeting" in files_of(foreseen[one.node])
    assert foreseen[one.node].changed[0].diff == "/etc/bai-greeting\n+hello {{ world }}"
    assert foreseen[one.node].reboot_needed == ("restless: generation 1 counts after a boot only",)
    assert not foreseen[one.node].rebooted
    assert fresh.run("test -e /etc/bai-greeting").returncode
    assert fresh.boots() == 0

    told: list[ProvisionEvent] = []
    result = provisioner.provision(one, told.append)
    assert result.failed == ""
    assert (result.ok, result.rebooted, fresh.boots()) == (True, True, 1)
    assert fresh.must("cat /etc/bai-greeting") == "hello {{ world }}\n"
    assert fresh.must("cat /etc/bai-token") == f"{SECRET}\n"
    assert [event.what for event in told if event.what in ("start", "reboot", "sealed", "end")] == [
        "start", "reboot", "sealed", "end",
    ]  # fmt: skip
    assert ("changed", "Write the greeting") in [(event.what, event.task) for event in told]
    assert SECRET not in repr(told)
    assert SECRET not in repr(result)
    assert result.artefacts is not None
    assert {path.name for path in result.artefacts.iterdir()} == {
        "hosts.yml", "log", "events.jsonl", "results.json",
    }  # fmt: skip
    assert provisioner.observe([one])[0][one.node].converged("f1")

    one = work.target(fresh, "greeting", "restless")
    again = provisioner.provision(one)
    assert (again.ok, again.changed, again.rebooted) == (True, (), False)

    fresh.must("echo other >/etc/bai-greeting; chmod 0640 /etc/sysctl.d/90-bai-test.conf; apt-mark hold bash")
    seen = provisioner.observe([one])[0][one.node]
    assert [deviation.what for deviation in seen.deviations] == [
        "file /etc/bai-greeting", "file /etc/sysctl.d/90-bai-test.conf mode", "hold of bash",
    ]  # fmt: skip
    assert str(seen.deviations[2]) == "hold of bash is held, sealed not held"
    fresh.must("apt-mark unhold bash")
    repaired = provisioner.provision(one)
    assert files_of(repaired) == [
        "greeting: Write the greeting", "greeting: Set how eagerly memory is swapped",
        "greeting: Note that it changed",
    ]  # fmt: skip
    assert provisioner.observe([one])[0][one.node].converged("f1")
    assert SECRET not in work.kept()

    wrong = provisioner.provision(replace(one, variables={**one.variables, "greeting_expected": "another"}))
    assert wrong.failed == "greeting: It says what was meant: the greeting is hello {{ world }}"
    seen = provisioner.observe([one])[0][one.node]
    assert provision_reasons(seen, profile="p", fingerprint="f1", document={}) == (
        "its last provisioning did not come to its end",
    )


def test_one_that_may_not_reboot_fails_and_says_why(work: Work, fresh: Node) -> None:
    one = replace(work.target(fresh, "restless"), reboot_allowed=False)
    result = work.provisioner.provision(one)
    assert not result.ok
    assert "reboots are not allowed; restless: generation 1 counts after a boot only" in result.failed
    assert fresh.boots() == 0
    assert work.provisioner.observe([one])[0][one.node].stamp is None


def is_free(node: Node) -> bool:
    """Whether nobody provisions it."""
    try:
        with NodeLock(connect(node.endpoint()), grace=0):
            return True
    except NodeBusy:
        return False


def asleep(event: ProvisionEvent) -> bool:
    return event.what == "task" and event.task == ASLEEP


def test_a_node_that_dies_in_the_middle_is_unreachable(work: Work, fresh: Node) -> None:
    one = work.target(fresh, "secretive", secretive_seconds=600)

    def tell(event: ProvisionEvent) -> None:
        if asleep(event):
            until(lambda: "sleep 600" in fresh.run("ps -eo args").stdout)
            fresh.kill()

    result = work.provisioner.provision(one, tell)
    assert not result.ok
    assert result.unreachable
    fresh.start()
    fresh.wait()
    # Whoever was not reached a moment ago is left alone for a while.
    until(lambda: one.node in work.provisioner.observe([one])[0])
    assert work.provisioner.observe([one])[0][one.node].stamp is None


def test_a_connection_that_is_cut_is_made_again(work: Work, fresh: Node) -> None:
    """Every one of the node's, bai's own among them, in the middle of a task."""
    cut: list[str] = []

    def tell(event: ProvisionEvent) -> None:
        if asleep(event) and not cut:
            until(lambda: "sleep 600" in fresh.run("ps -eo args").stdout)
            fresh.must("touch /run/long-enough")  # The second time it need not wait.
            ended = fresh.run("pkill -KILL -f '^sshd: root@'")
            assert ended.returncode == 0, ended
            cut.append(event.task)

    result = work.provisioner.provision(work.target(fresh, "secretive", secretive_seconds=600), tell)
    assert (result.ok, result.failed, cut) == (True, "", [ASLEEP])


def test_it_is_stopped_and_nobody_else_comes_in_between(work: Work, fresh: Node) -> None:
    one = work.target(fresh, "secretive", secretive_seconds=600)
    stopped = threading.Event()
    seconds: list[HostResult] = []

    def tell(event: ProvisionEvent) -> None:
        if asleep(event):
            seconds.append(work.provisioner.provision(one))
            stopped.set()

    result = work.provisioner.provision(one, tell, stopped.is_set)
    assert (result.ok, result.failed) == (False, "stopped")
    assert "is being provisioned by somebody else" in seconds[0].failed
    assert not seconds[0].unreachable
    assert is_free(fresh)


KILLED = """
import json
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from providers.ansible import open_provisioner
from providers.machines.base import Endpoint
from providers.provisioning import ProvisionTarget
from schemas.kinds.cluster import Ssh
ssh = Ssh.model_validate_json(sys.argv[4])
secret = json.loads(sys.argv[5]).__getitem__
endpoint = Endpoint("n", sys.argv[3], ssh=ssh, secret=secret)
values, secrets = {"secretive_seconds": 600}, {"secretive_token": "env/T"}
target = ProvisionTarget("n", endpoint, "p", ("secretive",), values, secrets)
tell = lambda event: print(event.what, event.task, flush=True)
folder = Path(sys.argv[2])
open_provisioner(folder / "killed", lambda _: "x1y2z3", roles=folder / "roles").provision(target, tell)
"""


def test_nothing_goes_on_when_bai_is_killed(work: Work, fresh: Node) -> None:
    root = str(Path(__file__).resolve().parents[3])
    endpoint = fresh.endpoint()
    ssh = endpoint.ssh.model_dump_json(by_alias=True, exclude_none=True)
    secrets = {
        name: endpoint.secret(name) for name in (endpoint.ssh.key_from, endpoint.ssh.known_hosts_from) if name
    }
    bai = subprocess.Popen(
        [sys.executable, "-c", KILLED, root, str(work.folder), fresh.address, ssh, json.dumps(secrets)],
        stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
        env={**os.environ, "TMPDIR": str(tempfile.gettempdir())},
    )  # fmt: skip
    assert bai.stdout is not None
    for line in bai.stdout:
        if ASLEEP in line:
            break
    place = tempfile.gettempdir()
    assert having(place)
    bai.kill()
    bai.wait(PATIENCE)
    bai.stdout.close()
    until(lambda: not having(place) and not os.listdir(place))
    until(lambda: is_free(fresh))


def test_two_at_the_same_time_one_of_them_as_another_user_through_a_jump_host(work: Work) -> None:
    gate, node = work.nodes(2)
    way = {"user": "admin", "sudo": True, "jump": f"admin@{gate.address}"}
    far = work.target(node, "greeting", ssh=way, fingerprint="f2")
    near = work.target(gate, "greeting", fingerprint="f2")
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(work.provisioner.provision, (far, near)))
    assert [(result.node, result.failed) for result in results] == [(node.name, ""), (gate.name, "")]
    assert node.must("stat -c %U /etc/bai-greeting /var/lib/bai/seal.json").split() == ["root", "root"]
    assert all(each.converged("f2") for each in work.provisioner.observe([far, near])[0].values())


def test_what_cannot_be_reached_is_said_for_each(
    work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = work.nodes(1)[0]
    good = work.target(node, "greeting")
    unknown = replace(work.target(node, "greeting", ssh={"knownHostsFrom": None}), node="unknown")
    unknown = replace(unknown, endpoint=replace(unknown.endpoint, name="unknown"))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text("Host odd\n  ProxyJump a:b\n")
    wrong = replace(good, node="wrong", endpoint=replace(good.endpoint, name="wrong", address="odd"))
    other = work.nodes(2)[1]
    ubuntu = replace(work.target(other, "greeting"), os="ubuntu-24.04")
    found = work.provisioner.check([good, unknown, wrong, ubuntu])
    assert {name: (each.ok, each.unreachable) for name, each in found.items()} == {
        node.name: (True, False), other.name: (False, False),
        "unknown": (False, True), "wrong": (False, True),
    }  # fmt: skip
    assert found[other.name].failed == (
        "It is the system that its profile is for: its profile is for ubuntu-24.04, and it is debian-12"
    )
    assert "ost key" in found["unknown"].failed
    assert "SSH settings" in found["wrong"].failed
    result = work.provisioner.provision(unknown)
    assert result.unreachable
    assert "known hosts" in result.failed
