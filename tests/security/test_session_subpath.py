"""A session that may write to a volume puts a link where a `subPath` is mounted: at the first start, between
the check and the mount, and before a restart. Whatever it does, what is mounted lies in the volume."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from providers.base import KernelSpec, Mount, Observed, RestartRule
from providers.docker.container import create, subpaths
from providers.docker.options import open_docker
from providers.docker.provider import DockerProvider
from providers.machines.connections import close_connections, connect
from providers.process import launch
from providers.process.provider import ProcessProvider
from providers.process.sandbox import bubblewrap
from providers.storage import pins
from providers.storage.node import pins as node_pins
from providers.storage.node.mounts import read_mounts
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.kernel import KernelRefused
from tests.lab.cache import kept
from tests.lab.docker import IMAGE, Engine, Engines, image_tar
from tests.lab.nspawn import Node, Nodes
from tests.lab.sshd import SshdNodes, why_not
from tests.providers.docker.specs import kernel as ordinary
from tests.providers.process import kernels as native
from tests.waiting import until

on_docker = pytest.mark.xdist_group("docker")
KERNEL = "s-main1-0-g1"
_EXCHANGE = 2


def kernel(*words: str, **fields: Any) -> KernelSpec:
    """Root of its image, who can do most to a volume."""
    return ordinary(*words, **{"user": "root", **fields})


@dataclass
class Host:
    """A storage host's root with one volume, and what no session may see."""

    root: Path
    private: Path

    @property
    def volume(self) -> Path:
        return self.root / "p" / "data"

    @property
    def work(self) -> Path:
        return self.volume / "work"

    def whole(self, target: str = "/vol") -> Mount:
        return Mount(str(self.volume), target, root=str(self.root))

    def sub(self, path: str = "work", target: str = "/data") -> Mount:
        return Mount(str(self.volume / path), target, root=str(self.root), sub_path=path)

    def swap(self, target: str | Path = "") -> None:
        """What a session with the whole volume may do at any time."""
        self.work.rename(self.volume / "aside")
        self.work.symlink_to(target or self.private)

    def untouched(self) -> bool:
        return [each.name for each in self.private.iterdir()] == ["secret"] and not self._told()

    def _told(self) -> list[Path]:
        """Files of the volume that have what is private."""
        files = (each for each in self.volume.rglob("*") if not each.is_symlink() and each.is_file())
        return [each for each in files if "PRIVATE" in each.read_text()]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    made = Host(tmp_path / "disk", tmp_path / "private")
    made.work.mkdir(parents=True)
    made.private.mkdir()
    (made.private / "secret").write_text("PRIVATE")
    return made


def _held() -> list[str]:
    """What is held for engines on this machine."""
    return [each.point for each in read_mounts() if each.point.startswith(pins.PLACE)]


@dataclass
class Lab:
    engine: Engine
    provider: DockerProvider
    before: list[str] = field(default_factory=_held)
    """Engines that are no more may have left some."""

    def seen(self, name: str = KERNEL) -> Observed:
        """A slow engine may show nothing for a moment."""

        def look() -> Observed | None:
            return next((each for each in self.provider.observe().kernels if each.id == name), None)

        return until(look, f"{name} is seen")

    def settled(self, name: str = KERNEL) -> Observed:
        """It has ended for good, or the engine would not start it again."""

        def over() -> Observed | None:
            found = self.seen(name)
            return found if found.state in ("exited", "lost") else None

        return until(over, f"{name} has ended")

    def left(self) -> tuple[list[str], list[str]]:
        """Volumes of the engine, and what is held for it on this machine."""
        held = [point for point in _held() if point not in self.before]
        return self.engine.docker("volume", "ls", "-q").split(), held


@pytest.fixture
def docker(engines: Engines) -> Iterator[Lab]:
    (engine,) = engines(1)
    provider = open_docker({}, machines=[engine.endpoint()])
    yield Lab(engine, provider)
    for each in provider.observe().kernels:
        provider.remove(each.id)
    provider.close()
    engine.wipe()


ROB = "cat /data/secret > /vol/loot; echo planted > /data/planted; echo robbed; exit 0"


def robber(host: Host, swap: str, sub: str = "work", **fields: Any) -> KernelSpec:
    """It has both mounts; in its first life it swaps, in its second it looks at what it got."""
    text = f"if [ -e /vol/swapped ]; then {ROB}; fi; touch /vol/swapped; {swap}; exit 1"
    rule = fields.pop("restart", RestartRule("on-failure", 2))
    return kernel(KERNEL, "sh", "-c", text, mounts=(host.whole(), host.sub(sub)), restart=rule, **fields)


SWAPS: dict[str, tuple[str, str]] = {
    "absolute": ("work", "mv /vol/work /vol/aside; ln -s {private} /vol/work"),
    "leading-up": ("work", "mv /vol/work /vol/aside; ln -s ../../../private /vol/work"),
    "chain": (
        "work",
        "mv /vol/work /vol/aside; ln -s 2 /vol/work; ln -s 3 /vol/2; ln -s ../../../private /vol/3",
    ),
    "upper-step": ("a/b/c", "mv /vol/a/b /vol/aside; ln -s {private}/.. /vol/a/b"),
    "magic": ("work", "mv /vol/work /vol/aside; ln -s /proc/self/root{private} /vol/work"),
    "of-another": ("work", "mv /vol/work /vol/aside; ln -s /proc/1/root{private} /vol/work"),
}


@on_docker
@pytest.mark.parametrize("policy", ["on-failure", "always"])
@pytest.mark.parametrize("name", SWAPS)
def test_a_restart_mounts_no_link_that_was_put_there(docker: Lab, host: Host, name: str, policy: Any) -> None:
    sub, swap = SWAPS[name]
    if name == "upper-step":  # What the last step leads to, once the one before is a link.
        (host.private.parent / "c").symlink_to(host.private)
    rule = RestartRule(policy, 2)
    docker.provider.create(robber(host, swap.format(private=host.private), sub, restart=rule))
    found = docker.settled()
    assert host.untouched(), found


@on_docker
def test_a_link_that_another_session_puts_there(docker: Lab, host: Host) -> None:
    """Who mounts the folder has done nothing; it is restarted without end."""
    life = "cat /data/secret; touch /data/was-here; until [ -e /data/go ]; do sleep 0.05; done; exit 1"
    rule = RestartRule("always")
    docker.provider.create(kernel(KERNEL, "sh", "-c", life, mounts=(host.sub(),), restart=rule))
    until((host.work / "was-here").exists)
    text = f"mv /vol/work /vol/aside; ln -s {host.private} /vol/work; touch /vol/aside/go"
    other = "t-main1-0-g1"
    docker.provider.create(kernel(other, "sh", "-c", text, mounts=(host.whole(),)))
    docker.settled(other)
    until(lambda: docker.seen().restarts or docker.seen().state == "lost", "it was started again")
    docker.provider.stop(KERNEL, grace=0)
    assert host.untouched()
    assert b"PRIVATE" not in b"".join(docker.provider.logs(KERNEL))


@on_docker
def test_a_link_put_there_while_the_engine_is_down(docker: Lab, host: Host) -> None:
    """The engine starts its containers again by itself, without asking anybody."""
    text = "touch /vol/alive; if [ -L /vol/work ]; then " + ROB + "; fi; sleep 1000"
    mounts = (host.whole(), host.sub())
    docker.provider.create(kernel(KERNEL, "sh", "-c", text, mounts=mounts, restart=RestartRule("always")))
    until((host.volume / "alive").exists)
    docker.engine.kill(15)
    (host.volume / "alive").unlink()
    host.swap()
    docker.engine.start()
    docker.engine.wait()
    until(lambda: (host.volume / "alive").exists() or docker.seen().state == "lost", "it was started again")
    assert host.untouched()


@on_docker
def test_a_link_put_there_by_exchange(docker: Lab, host: Host) -> None:
    """renameat2 swaps the folder and the link in one step: the path is there at every moment."""
    text = "touch /vol/ready; until [ -e /vol/swapped ]; do sleep 0.05; done; exit 1"
    text = f"if [ -e /vol/swapped ]; then {ROB}; fi; {text}"
    mounts = (host.whole(), host.sub())
    rule = RestartRule("on-failure", 2)
    docker.provider.create(kernel(KERNEL, "sh", "-c", text, mounts=mounts, restart=rule))
    until((host.volume / "ready").exists)
    link = host.volume / "link"
    link.symlink_to(host.private)
    call = ctypes.CDLL(None, use_errno=True).renameat2
    assert call(-100, os.fsencode(link), -100, os.fsencode(host.work), _EXCHANGE) == 0
    (host.volume / "swapped").touch()
    docker.settled()
    assert host.work.is_symlink() and host.untouched()


@on_docker
def test_copying_out_of_a_kernel_that_ended_follows_nothing(docker: Lab, host: Host) -> None:
    """Engines mount volumes for that, too."""
    docker.provider.create(kernel(KERNEL, "true", mounts=(host.sub(),)))
    docker.settled()
    host.swap()
    try:
        copied = b"".join(docker.provider.copy_out(KERNEL, "/data/"))
    except BaiError as error:
        copied = str(error).encode()
    assert b"PRIVATE" not in copied


@on_docker
@pytest.mark.parametrize("moment", ["checked", "create", "start"])
def test_a_link_swapped_in_at_the_first_start(
    docker: Lab, host: Host, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the check, before the container is made, and before it is started."""
    engine = docker.provider.engine("n1")
    check, call = create._check_mounts, engine.call

    def checked(*words: Any) -> None:
        check(*words)
        if moment == "checked":
            host.swap()

    def called(method: str, path: str, **given: Any) -> Any:
        if method == "POST" and path.endswith(f"/{moment}"):
            host.swap()
        return call(method, path, **given)

    monkeypatch.setattr(create, "_check_mounts", checked)
    monkeypatch.setattr(engine, "call", called)
    spec = kernel(KERNEL, "sh", "-c", ROB, mounts=(host.whole(), host.sub()))
    try:
        docker.provider.create(spec)
    except KernelRefused:
        assert docker.left() == ([], [])
    else:
        docker.settled()
    assert host.work.is_symlink() and host.untouched()


@on_docker
def test_making_it_twice_holds_the_same_folder(docker: Lab, host: Host) -> None:
    """An apply that was killed makes it again, when the session has swapped already."""
    text = "if [ -e /vol/go ]; then " + ROB + "; fi; until [ -e /vol/go ]; do sleep 0.05; done; exit 1"
    rule = RestartRule("on-failure", 2)
    spec = kernel(KERNEL, "sh", "-c", text, mounts=(host.whole(), host.sub()), restart=rule)
    docker.provider.create(spec)
    host.swap()
    assert docker.provider.create(spec).state == "running"
    (host.volume / "go").touch()
    docker.settled()
    assert host.untouched()


@on_docker
def test_an_ordinary_restart_finds_what_it_wrote(docker: Lab, host: Host) -> None:
    text = "if [ -e /data/x ]; then cat /data/x; exit 0; fi; echo mine > /data/x; exit 1"
    rule = RestartRule("on-failure", 2)
    mounts = (host.sub("new/deep"), replace(host.sub("new/deep", "/read"), read_only=True))
    docker.provider.create(kernel(KERNEL, "sh", "-c", text, mounts=mounts, restart=rule))
    assert docker.settled().exit_code == 0
    assert b"mine" in b"".join(docker.provider.logs(KERNEL))
    assert (host.volume / "new/deep/x").read_text() == "mine\n"
    docker.provider.remove(KERNEL)
    assert (host.volume / "new/deep/x").read_text() == "mine\n"
    assert docker.left() == ([], [])


@on_docker
def test_nothing_is_deleted_when_the_engine_was_killed(docker: Lab, host: Host) -> None:
    """It does not know any more what it had mounted."""
    (host.work / "kept").write_text("x")
    mounts = (host.sub(), host.sub("other", "/other"))
    docker.provider.create(kernel(mounts=mounts))
    docker.engine.restart()
    docker.engine.docker("start", KERNEL)
    docker.engine.restart()
    docker.provider.remove(KERNEL)
    assert docker.left() == ([], [])
    assert (host.work / "kept").read_text() == "x" and (host.volume / "other").is_dir()


@on_docker
def test_what_a_kill_left_goes_with_the_next_removal(
    docker: Lab, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*words: object) -> None:
        raise SystemExit

    docker.provider.create(kernel(mounts=(host.sub(),)))
    monkeypatch.setattr(subpaths, "release", killed)
    with pytest.raises(SystemExit):
        docker.provider.remove(KERNEL)
    assert docker.left() != ([], [])
    monkeypatch.undo()
    docker.provider.remove(KERNEL)
    assert docker.left() == ([], [])
    assert host.work.is_dir()


@on_docker
def test_what_a_container_removed_by_hand_left_goes_too(docker: Lab, host: Host) -> None:
    (host.work / "kept").write_text("x")
    docker.provider.create(kernel(mounts=(host.sub(),)))
    docker.engine.docker("rm", "-f", "-v", KERNEL)
    docker.provider.remove(KERNEL)
    assert docker.left() == ([], []) and (host.work / "kept").exists()


@on_docker
def test_a_subpath_through_another_file_system(docker: Lab, host: Host) -> None:
    """What is mounted inside a volume is mounted for the session, and stays when it goes. Mounts of a real
    machine are shared with each other."""
    root = str(host.root)
    disk = host.volume / "disk"
    disk.mkdir()
    for words in (["--bind", root, root], ["--make-shared", root], ["-t", "tmpfs", "disk", str(disk)]):
        subprocess.run(["mount", *words], check=True)
    try:
        (disk / "in").mkdir()
        docker.provider.create(kernel(KERNEL, "sh", "-c", "echo > /data/x", mounts=(host.sub("disk/in"),)))
        docker.settled()
        docker.provider.remove(KERNEL)
        assert (disk / "in" / "x").exists()
    finally:
        subprocess.run(["umount", "--lazy", root], check=True)


@on_docker
def test_an_older_engine_without_root_mounts_no_subpath(
    docker: Lab, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would follow links at the first start as well, so that no restart policy makes it safe."""

    def refused(*words: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    if docker.provider.engine("n1").since(*subpaths.SINCE):
        pytest.skip("this engine needs no root for it")
    monkeypatch.setattr(node_pins, "_mount", refused)
    with pytest.raises(KernelRefused, match="follows links in a subPath, and only root can hold"):
        docker.provider.create(kernel(mounts=(host.sub(),)))
    docker.provider.create(kernel(mounts=(host.whole(),)))
    assert docker.seen().state == "running" and docker.left() == ([], [])


@on_docker
def test_a_node_that_does_not_see_what_is_held_runs_nothing(
    engines: Engines, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over SSH into another view of the file system than the engine's: an empty folder would be worse than
    none. Engines that hold nothing in place do not mind."""
    if reason := why_not():
        pytest.skip(f"ssh lab: {reason}")
    (engine,) = engines(1)
    nodes = SshdNodes(engines.spaces)
    server = nodes.on(engine.name, engine.namespace, engine.address)
    monkeypatch.setenv("HOME", str(nodes.home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    provider = open_docker({"socket": engine.socket}, machines=[server.endpoint()])
    lab = Lab(engine, provider)
    with nodes.inside():
        try:
            swap = f"mv /vol/work /vol/aside; ln -s {host.private} /vol/work"
            if provider.engine("n1").since(*subpaths.SINCE):
                provider.create(robber(host, swap))
                lab.settled()
            else:
                with pytest.raises(KernelRefused, match="bind source path does not exist"):
                    provider.create(robber(host, swap))
            provider.remove(KERNEL)
            assert host.untouched() and lab.left() == ([], [])
        finally:
            provider.close()
            server.kill()
            engine.wipe()


ON_NODE = Host(Path("/srv/disk"), Path("/srv/private"))


@pytest.fixture
def machine(nodes: Nodes) -> Iterator[tuple[Node, DockerProvider]]:
    """A booted node with Debian's engine, reached over SSH by a user who may use sudo."""
    (node,) = nodes.fresh()
    node.must("apt-get -qq update && apt-get -qq install -y docker.io", timeout=600)
    node.must(f"mkdir -p {ON_NODE.work} {ON_NODE.private}; echo PRIVATE > {ON_NODE.private}/secret")
    with nodes.inside():
        endpoint = node.endpoint(user="admin", sudo=True)
        connect(endpoint).put("/root/image.tar", kept("docker-image-1.tar", image_tar).read_bytes())
        node.must(f"docker import -c 'ENV PATH=/bin:/usr/bin' /root/image.tar {IMAGE}")
        provider = open_docker({}, machines=[endpoint])
        yield node, provider
        provider.close()
        close_connections()
    node.close()


@pytest.mark.xdist_group("nspawn-nodes")
def test_a_booted_node_over_ssh(machine: tuple[Node, DockerProvider]) -> None:
    node, provider = machine
    lab = Lab(Engine(node.name, "", "", Path(), node.nodes.spaces), provider)

    def on(spec: KernelSpec) -> KernelSpec:
        return replace(spec, labels=replace(spec.labels, node=node.name))

    swap = f"mv /vol/work /vol/aside; ln -s {ON_NODE.private} /vol/work"
    provider.create(on(robber(ON_NODE, swap)))
    lab.settled()
    assert node.must(f"ls {ON_NODE.private}") == "secret\n"
    assert node.run(f"grep -r PRIVATE {ON_NODE.volume}/aside {ON_NODE.volume}/loot").stdout == ""
    provider.remove(KERNEL)
    assert pins.PLACE not in node.must("cat /proc/1/mountinfo")
    assert node.must(f"cat {ON_NODE.volume}/aside/planted") == "planted\n"
    # After a restart of the node the engine finds nothing where the folder was held, and starts nothing.
    again = kernel(KERNEL, mounts=(ON_NODE.sub("aside"),), restart=RestartRule("always"))
    provider.create(on(again))
    node.must(f"mv {ON_NODE.volume}/aside {ON_NODE.volume}/b; ln -s {ON_NODE.private} {ON_NODE.volume}/aside")
    node.reboot()
    assert lab.settled().state == "lost"
    provider.remove(KERNEL)
    assert node.must(f"ls {ON_NODE.private}") == "secret\n"
    assert node.must(f"cat {ON_NODE.volume}/b/planted") == "planted\n"


# native sessions


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[ProcessProvider]:
    if bubblewrap.sandbox_problem():
        pytest.skip(f"no sandbox here: {bubblewrap.sandbox_problem()}")
    made = ProcessProvider(tmp_path / "process")
    yield made
    for each in made.observe().kernels:
        made.remove(each.id)


@pytest.mark.parametrize("name", SWAPS)
def test_a_native_session_started_again(processes: ProcessProvider, host: Host, name: str) -> None:
    sub, swap = SWAPS[name]
    if name == "upper-step":
        (host.private.parent / "c").symlink_to(host.private)
    text = f"touch /vol/swapped; {swap.format(private=host.private)}; exit 1"
    text = f"if [ -e /vol/swapped ]; then {ROB}; fi; {text}"
    mounts = (host.whole(), host.sub(sub))
    spec = native.script(text, mounts=mounts, restart=RestartRule("on-failure", 1))
    processes.create(spec)
    native.ended(processes, spec.id)
    assert host.untouched()


def test_a_native_session_with_a_link_swapped_in_after_the_check(
    processes: ProcessProvider, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = launch.start_kernel

    def swapped(*words: Any) -> str:
        host.swap()
        return start(*words)

    monkeypatch.setattr(launch, "start_kernel", swapped)
    spec = native.script(ROB, mounts=(host.whole(), host.sub()))
    try:
        processes.create(spec)
        native.ended(processes, spec.id)
    except BaiError:
        pass
    assert host.work.is_symlink() and host.untouched()


def test_a_native_session_with_a_link_at_its_first_start(processes: ProcessProvider, host: Host) -> None:
    host.swap()
    with pytest.raises(KernelRefused, match="p/data/work is a link"):
        processes.create(native.script(ROB, mounts=(host.sub(),)))
    assert host.untouched()


def test_what_a_native_session_mounts_is_written_down_to_be_opened_anew(
    processes: ProcessProvider, host: Host
) -> None:
    spec = native.spec(mounts=(host.sub(),))
    processes.create(spec)
    record = processes.root.read(spec.id)
    assert record is not None
    [mount] = record.spec.mounts
    assert mount.beneath == (str(host.root), "p/data/work") and mount.volume == str(host.volume)
