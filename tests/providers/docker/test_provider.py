"""The provider on real engines: what is asked is what the kernel and the engine say."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from pathlib import Path

import pytest

from providers.base import File, KernelSpec, Limit, Mount, RestartRule
from providers.docker.container.runtime_files import FOLDERS
from schemas.problems.errors.kernel import KernelRefused
from schemas.problems.errors.provider import ProviderError
from schemas.problems.errors.store import LeaseLost
from tests.lab.docker import Engines
from tests.providers.docker.cgroups import limits
from tests.providers.docker.conftest import Open
from tests.providers.docker.specs import LABELS, kernel, script
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("docker")
ID = "s-main1-0-g1"
MIB = 2**20


def ended(provider: object, name: str = ID) -> bool:
    return any(seen.id == name and seen.state == "exited" for seen in provider.observe().kernels)  # type: ignore[attr-defined]


def test_every_limit_is_what_the_kernel_says(on_engines: Open, engines: Engines) -> None:
    provider = on_engines()
    last = max(os.sched_getaffinity(0))
    spec = kernel(cpus=(last,), memory_nodes=(0,), memory=64 * MIB, pids=77, shm=8 * MIB)
    seen = provider.create(spec)
    wanted = {"cpus": (last,), "memory_nodes": (0,), "memory": 64 * MIB, "pids": 77}
    assert limits(engines(1)[0], ID) == wanted
    assert {name: getattr(seen, name) for name in wanted} == wanted
    assert engines(1)[0].docker("exec", ID, "df", "-k", "/dev/shm").split()[-5] == "8192"


def test_a_running_kernel_gets_other_limits_and_labels(on_engines: Open, engines: Engines) -> None:
    provider = on_engines()
    engine = engines(1)[0]
    before = provider.create(kernel(cpus=(0,), memory=64 * MIB, pids=50))
    labels = replace(LABELS, generation=2, digest="d2", document='{"kind":"Session","spec":{}}')
    spec = kernel(cpus=(1,), memory=128 * MIB, pids=60, labels=labels)
    after = provider.update(ID, spec)
    assert (after.labels, after.cpus, after.memory, after.pids) == (labels, (1,), 128 * MIB, 60)
    assert (after.pid, after.started) == (before.pid, before.started)
    found = limits(engine, ID)
    assert (found["cpus"], found["memory"], found["pids"]) == ((1,), 128 * MIB, 60)
    assert on_engines().observe().kernels[0].labels == labels
    again = replace(spec, labels=replace(labels, digest="d3"), cpus=(), cpu_milli=500)
    assert provider.update(ID, again).labels.digest == "d3"
    assert limits(engine, ID)["cpus"] == tuple(sorted(os.sched_getaffinity(0)))
    assert len(engine.docker("volume", "ls", "-q").split()) == 1
    provider.remove(ID)
    assert engine.docker("volume", "ls", "-q") == ""
    assert provider.create(kernel()).labels == LABELS


def test_memory_below_what_is_used_is_refused_and_changes_nothing(on_engines: Open) -> None:
    provider = on_engines()
    provider.create(
        script("head -c 40000000 /dev/zero > /dev/shm/x; sleep 1000", memory=80 * MIB, shm=60 * MIB)
    )
    until(lambda: (next(provider.usage()).memory or 0) > 35 * MIB)
    with pytest.raises(KernelRefused):
        provider.update(ID, kernel(memory=8 * MIB))
    assert provider.observe().kernels[0].state == "running"


def test_an_image_that_is_not_there_is_refused(on_engines: Open) -> None:
    provider = on_engines()
    with pytest.raises(ProviderError, match=r"nothere:1"):
        provider.create(kernel(image="nothere:1"))
    with pytest.raises(KernelRefused, match="no image"):
        provider.create(kernel(image=""))
    assert provider.observe().kernels == ()


def test_a_cpu_that_is_not_there_is_refused(on_engines: Open) -> None:
    provider = on_engines()
    with pytest.raises(KernelRefused, match="4000"):
        provider.create(kernel(cpus=(4000,)))
    assert provider.observe().kernels == ()


def test_what_is_stopped_is_not_restarted(on_engines: Open) -> None:
    provider = on_engines()
    provider.create(kernel(restart=RestartRule("always")))
    assert provider.stop(ID, grace=0).state == "exited"
    assert provider.observe().kernels[0].reason == "stopped"


def test_nothing_more_is_allowed_than_documented(on_engines: Open, engines: Engines) -> None:
    provider = on_engines()
    provider.create(kernel(read_only_root=True, user="1000:1000"))
    engine = engines(1)[0]
    # Its filter of system calls comes at last, after its engine has said that it is started.
    until(lambda: engine.docker("exec", ID, "cat", "/proc/1/comm") == "sleep\n", "it is the command")
    status = engine.docker("exec", ID, "cat", "/proc/1/status")
    found = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert found["NoNewPrivs"] == "1" and found["Seccomp"] == "2"
    assert found["CapEff"] == "0" * 16 and found["Uid"].split()[0] == "1000"
    assert int(found["CapBnd"], 16) == 0
    with pytest.raises(AssertionError, match="Read-only file system"):
        engine.docker("exec", "-u", "0", ID, "touch", "/new")
    engine.docker("exec", ID, "touch", "/tmp/new")


def test_secrets_are_in_the_command_and_nowhere_else(on_engines: Open, engines: Engines) -> None:
    provider = on_engines()
    engine = engines(1)[0]
    password = "it's; $HOME\n"
    text = 'cat $TOPOLOGY; printf %s "$PASSWORD" | sha256sum'
    spec = script(
        text,
        secret_env={"PASSWORD": password},
        files=(File("a.xml", "<system/>", "TOPOLOGY"),),
        user="1000",
    )
    provider.create(spec)
    until(lambda: ended(provider))
    assert (
        b"".join(provider.logs(ID))
        == f"<system/>{hashlib.sha256(password.encode()).hexdigest()}  -\n".encode()
    )
    whole = engine.inspect(ID)
    assert "it's" not in str(whole)
    (bind,) = (mount for mount in whole["Mounts"] if not mount["Destination"].startswith("/etc/"))
    assert (bind["Destination"], bind["RW"], bind["Propagation"]) == ("/run/bai", False, "rprivate")
    assert os.path.exists(bind["Source"])
    assert os.stat(os.path.dirname(bind["Source"])).st_mode & 0o077 == 0
    provider.remove(ID)
    assert not os.path.exists(bind["Source"])


def test_a_refused_kernel_leaves_no_secrets(on_engines: Open) -> None:
    provider = on_engines()
    with pytest.raises(ProviderError):
        provider.create(kernel(image="nothere:1", secret_env={"A": "b"}))
    with pytest.raises(KernelRefused):
        provider.create(kernel("s-main1-1-g1", "/no/such/program", secret_env={"A": "b"}, cpus=(4000,)))
    assert not any(list(Path(folder).glob("s-main1-*")) for folder in FOLDERS)


def test_secrets_on_a_disk_are_refused(on_engines: Open, tmp_path: Path) -> None:
    provider = on_engines(state=str(tmp_path / "state"))
    with pytest.raises(KernelRefused, match="not in memory"):
        provider.create(kernel(secret_env={"A": "b"}))
    assert provider.observe().kernels == ()


def test_a_mounted_folder_is_made_under_its_root_and_links_are_not_followed(
    on_engines: Open, tmp_path: Path
) -> None:
    provider = on_engines()
    root = str(tmp_path)
    mount = Mount(f"{root}/team/data", "/data", root=root)
    provider.create(script("echo hi > /data/x; sleep 1000", mounts=(mount,)))
    until((tmp_path / "team/data/x").exists)
    provider.remove(ID)
    (tmp_path / "away").symlink_to("/etc")
    with pytest.raises(KernelRefused, match="link"):
        provider.create(kernel(mounts=(Mount(f"{root}/away", "/data", root=root),)))
    provider.create(kernel(mounts=(replace(mount, read_only=True),)))
    assert provider.observe().kernels[0].state == "running"


def test_use_is_measured(on_engines: Open) -> None:
    provider = on_engines()
    provider.create(script("while :; do :; done", memory=64 * MIB))
    until(lambda: (next(provider.usage()).cpu_seconds or 0) > 0.2)
    (use,) = provider.usage()
    assert use.kernel == ID and use.memory_limit == 64 * MIB
    assert use.memory is not None and 0 < use.memory < 64 * MIB and use.pids == 1
    assert use.network_in is not None and use.gpus == {}


def test_what_the_engine_can_enforce(on_engines: Open) -> None:
    found = on_engines().capabilities()
    assert {
        Limit.CPUSET,
        Limit.MEMSET,
        Limit.MEMORY,
        Limit.PIDS,
        Limit.DEVICES,
        Limit.FILESYSTEM,
    } <= found.limits
    assert {"cpus", "memory", "labels"} <= found.in_place


def placed(name: str, *cpus: int, milli: int = 0, node: str = "n1") -> KernelSpec:
    """A kernel whose label says whether its cores are its own."""
    placement = f'{{"cpus":[{",".join(map(str, cpus))}]}}'
    labels = replace(LABELS, node=node, kernel=name, placement=placement)
    return kernel(f"{name}-main1-0-g1", cpus=cpus, cpu_milli=milli, labels=labels, memory=32 * MIB)


def test_who_shares_is_kept_off_cores_that_are_somebodys_alone(on_engines: Open, engines: Engines) -> None:
    provider, engine = on_engines(), engines(1)[0]
    everybody = tuple(sorted(os.sched_getaffinity(0)))
    mine, rest = everybody[-1], everybody[:-1]

    def cores(name: str) -> tuple[int, ...]:
        found: tuple[int, ...] = limits(engine, f"{name}-main1-0-g1")["cpus"]
        return found

    provider.create(placed("early", milli=500))
    assert cores("early") == everybody
    provider.create(placed("alone", mine))
    assert (cores("alone"), cores("early")) == ((mine,), rest)
    other = on_engines()
    other.create(placed("late", milli=500))
    assert cores("late") == rest
    with pytest.raises(ProviderError):
        other.create(replace(placed("refused", *rest), image="nothere:1"))
    other.remove("alone-main1-0-g1")
    assert (cores("early"), cores("late")) == (everybody, everybody)
    other.update("late-main1-0-g1", placed("late", mine))
    assert (cores("early"), cores("late")) == (rest, (mine,))


def test_who_lost_the_lease_takes_nothing_away_from_who_has_it(on_engines: Open, engines: Engines) -> None:
    """Somebody else made the kernel anew, under the same name, while this one stood still."""
    provider, other = on_engines(), on_engines()

    def meanwhile() -> None:
        engines(1)[0].docker("rm", "-f", ID)
        other.create(kernel())
        raise LeaseLost(cluster="here", token=1)

    with pytest.raises(LeaseLost):
        provider.create(kernel(), meanwhile)
    (seen,) = provider.observe().kernels
    assert (seen.id, seen.state) == (ID, "running")
