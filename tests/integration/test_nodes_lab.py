"""The lab of booted machines keeps what it promises to the tests that provision them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from providers.machines.connections import close_connections, connect
from tests.lab import spaces
from tests.lab.nspawn import Node, Nodes
from tests.lab.packages import Package, Repository
from tests.waiting import until

TOP = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.xdist_group("nspawn-nodes")


@pytest.fixture
def node(nodes: Nodes) -> Iterator[Node]:
    yield nodes(1)[0]
    close_connections()


def test_a_node_is_a_booted_machine(node: Node) -> None:
    assert node.must("systemctl is-system-running") == "running\n"
    assert node.must("hostname") == f"{node.name}\n"
    for user, sudo in (("root", False), ("admin", True)):
        done = connect(node.endpoint(user=user, sudo=sudo)).run(["id", "-u"])
        assert (done.code, done.out) == (0, b"0\n"), done.err


def test_values_of_the_kernel_are_the_nodes_own(node: Node) -> None:
    """Nothing of this machine changes, whatever a role sets there."""
    with open("/proc/sys/vm/swappiness") as file:
        before = file.read()
    node.must("sysctl -w vm.swappiness=7 net.core.somaxconn=1234")
    assert node.must("sysctl -n vm.swappiness net.core.somaxconn") == "7\n1234\n"
    with open("/proc/sys/vm/swappiness") as file:
        assert file.read() == before


def test_it_comes_back_with_what_it_had_written(nodes: Nodes) -> None:
    (node,) = nodes.fresh()
    try:
        boot = node.must("cat /proc/sys/kernel/random/boot_id")
        node.must("echo kept >/root/kept; sync")
        node.reboot()
        assert node.must("cat /root/kept") == "kept\n"
        assert node.must("cat /proc/sys/kernel/random/boot_id") != boot
        node.kill()
        assert not node.greets()
        assert node.run("true").returncode == 255
        node.start()
        node.wait()
        assert node.must("cat /root/kept") == "kept\n"
    finally:
        node.close()


def test_a_run_with_process_numbers_of_its_own_leaves_the_labs_of_others() -> None:
    """As in a container, or below `unshare`, that shares the folder of labs."""
    lab = spaces.Spaces()
    try:
        sweeps = "from tests.lab import spaces\nwith spaces.sweeping(): print(spaces.base())"
        alone = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", sweeps]
        swept = subprocess.run(alone, cwd=TOP, check=True, capture_output=True, text=True)
        assert swept.stdout == f"{lab.folder.parent}\n"
        assert (lab.folder / "owner.json").exists()
        assert (Path("/run/netns") / lab.switch).exists()
    finally:
        lab.close()


_HOLDER = """
import time
from tests.lab import spaces
from tests.lab.nspawn import Nodes
nodes = Nodes()
nodes(2)
print(nodes.folder, flush=True)
time.sleep(1000)
"""


def test_nothing_is_left_of_a_lab_whose_process_was_killed(nodes_lab: Nodes) -> None:
    """Its machines end with it; its files and networks go before the next lab is made."""
    with subprocess.Popen([sys.executable, "-c", _HOLDER], stdout=subprocess.PIPE, cwd=TOP) as holder:
        assert holder.stdout is not None
        folder = Path(holder.stdout.readline().decode().strip())
        pids = {pid: spaces.started(pid) for pid in spaces._members(folder.name)}
        owner = (folder / "owner.json").read_text()
        holder.kill()
    assert len(pids) > 2
    until(lambda: not [pid for pid, began in pids.items() if began and spaces.started(pid) == began])
    with spaces.sweeping():
        if folder.exists():  # Another lab may have the name by now.
            assert (folder / "owner.json").read_text() != owner
        else:
            assert f"{folder}/" not in Path("/proc/self/mounts").read_text()
            assert not spaces.groups(folder.name)
            assert not list(Path("/run/netns").glob(f"{folder.name}-*"))
    assert nodes_lab(1)[0].greets()


def test_packages_of_debian_and_of_the_lab(nodes: Nodes, node: Node) -> None:
    repository = Repository(nodes.shared / "self-test")
    versions = [Package("lab-thing", f"{n}.0-1", files={"/opt/thing": f"{n}\n"}) for n in (1, 2)]
    repository.add(*versions)
    repository.publish()
    for uri in (repository.file_uri, repository.serve(nodes.mirror)):
        line = repository.line(uri).strip()
        node.must(f"echo '{line}' >/etc/apt/sources.list.d/lab.list && apt-get -qq update")
        node.must("apt-get -qq install -y lab-thing")
        assert node.must("cat /opt/thing") == "2\n"
        node.must("apt-get -qq install -y --allow-downgrades lab-thing=1.0-1")
        assert node.must("cat /opt/thing") == "1\n"
        node.must("apt-get -qq purge -y lab-thing")
    node.must("rm /etc/apt/sources.list.d/lab.list && apt-get -qq update")
    node.must("apt-get -qq install -y tree && tree --version")
