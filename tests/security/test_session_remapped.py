"""Sessions on an engine whose containers are in a user namespace (`userns-remap`): root of a container is an
ordinary user of its node, and so is the project's user. What `userns: host` gives up."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from providers.base import KernelSpec, Mount, SshLogin
from providers.docker.options import open_docker
from providers.docker.provider import DockerProvider
from schemas.problems.errors.kernel import KernelRefused
from tests.integration.gang import Gangs
from tests.lab.cache import LabUnavailable
from tests.lab.derived import ran_in
from tests.lab.docker import FIRST_REMAPPED, IMAGE, Engine, Engines
from tests.providers.docker import specs
from tests.providers.docker.specs import LABELS
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("docker")
ID = "s-main1-0-g1"
UID = 10_000
"""The project's user, one of those that the engine's user namespace has."""
OUTSIDE = FIRST_REMAPPED + UID
OTHER = 4300
"""Linux user of another project."""


@pytest.fixture(scope="module")
def remapped(engines: Engines) -> Iterator[Engine]:
    try:
        engine = engines.private(remapped=True)
    except LabUnavailable as error:
        pytest.skip(f"docker lab: {error}")
    yield engine
    engine.close()


@pytest.fixture
def engine(remapped: Engine) -> Iterator[Engine]:
    yield remapped
    remapped.wipe()


@pytest.fixture
def provider(engine: Engine) -> Iterator[DockerProvider]:
    opened = open_docker({}, machines=[engine.endpoint()])
    yield opened
    opened.close()


@pytest.fixture
def exempt(engine: Engine) -> Iterator[DockerProvider]:
    """Its containers leave the engine's user namespace."""
    opened = open_docker({"userns": "host"}, machines=[engine.endpoint()])
    yield opened
    opened.close()


def kernel(engine: Engine, text: str = "sleep 1000", **fields: Any) -> KernelSpec:
    labels = replace(LABELS, node=engine.name)
    return specs.script(text, labels=labels, **{"uid": UID, **fields})


def said(provider: DockerProvider, spec: KernelSpec) -> list[str]:
    provider.create(spec)
    until(lambda: [each.state for each in provider.observe().kernels] == ["exited"])
    lines = b"".join(provider.logs(ID)).decode().splitlines()
    provider.remove(ID)
    return lines


def numbers(engine: Engine) -> dict[str, set[int]]:
    """Users and groups of the container's main process, as the node knows them."""
    pid = engine.inspect(ID)["State"]["Pid"]
    lines = (line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {name: set(map(int, words)) for name, *words in lines if name in ("Uid:", "Gid:", "Groups:")}


@pytest.fixture
def volume(tmp_path: Path) -> Mount:
    """With a file of root's, and one of another project's."""
    folder = tmp_path / "volume"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    for name, owner in (("root", 0), ("other", OTHER)):
        (folder / name).write_text(f"{name}'s\n")
        (folder / name).chmod(0o600)
        os.chown(folder / name, owner, owner)
    return Mount(str(folder), "/data", root=str(tmp_path))


# root


def test_root_of_a_container_is_an_ordinary_user_outside(provider: DockerProvider, engine: Engine) -> None:
    provider.create(kernel(engine, "id -u; sleep 1000", user="root"))
    assert numbers(engine) == {name: {FIRST_REMAPPED} for name in ("Uid:", "Gid:", "Groups:")}
    until(lambda: b"".join(provider.logs(ID)) == b"0\n")


@pytest.mark.parametrize("capabilities", [(), ("SYS_ADMIN",)])
def test_it_does_not_say_which_program_gets_cores(
    provider: DockerProvider, engine: Engine, capabilities: tuple[str, ...]
) -> None:
    """Also where it takes away what the engine has mounted over it."""
    file = "/proc/sys/kernel/core_pattern"
    before = Path(file).read_text()
    text = f"exec 2>&1; umount /proc/sys; cat {file} > /tmp/now; cat /tmp/now > {file} && echo WRITTEN"
    lines = said(provider, kernel(engine, text, user="root", capabilities=capabilities))
    assert lines and "WRITTEN" not in lines
    assert ("Permission denied" if capabilities else "Read-only file system") in lines[-1]
    assert Path(file).read_text() == before


READ = "for name in root other; do cat /data/$name; echo x >> /data/$name; chown 0 /data/$name; done"


def test_it_neither_reads_nor_writes_what_others_have_in_a_volume(
    provider: DockerProvider, engine: Engine, volume: Mount
) -> None:
    lines = said(provider, kernel(engine, f"({READ}) 2>&1", user="root", mounts=(volume,)))
    assert len(lines) == 6
    assert all("Permission denied" in line or "not permitted" in line for line in lines)
    for name, owner in (("root", 0), ("other", OTHER)):
        file = Path(volume.source, name)
        assert (file.read_text(), file.stat().st_uid) == (f"{name}'s\n", owner)


def test_without_the_namespace_it_is_root_again(
    exempt: DockerProvider, engine: Engine, volume: Mount
) -> None:
    spec = kernel(engine, "cat /data/root /data/other; sleep 1000", user="root", mounts=(volume,))
    exempt.create(spec)
    assert numbers(engine)["Uid:"] == {0}
    until(lambda: b"".join(exempt.logs(ID)).split(b"\n") == [b"root's", b"other's", b""])


# the project's user


WHO = "id -u; id -G; id -un; cd; pwd; touch mine && stat -c %u mine; touch /data/mine; stat -c %u /data/mine"


def test_the_projects_user_is_another_one_outside(
    provider: DockerProvider, engine: Engine, tmp_path: Path
) -> None:
    mount = Mount(f"{tmp_path}/new", "/data", root=str(tmp_path))
    lines = said(provider, kernel(engine, WHO, groups=(4400,), mounts=(mount,)))
    assert lines == [str(UID), f"{UID} 4400", "work", "/home/work", str(UID), str(UID)]
    assert {each.stat().st_uid for each in (tmp_path / "new", tmp_path / "new/mine")} == {OUTSIDE}
    provider.create(kernel(engine))
    assert numbers(engine) == {name: {OUTSIDE} for name in ("Uid:", "Gid:")} | {"Groups:": {OUTSIDE}}


def test_without_the_namespace_it_is_itself(exempt: DockerProvider, engine: Engine, tmp_path: Path) -> None:
    """Its home is in memory: engines would give a folder to a user of the namespace."""
    mount = Mount(f"{tmp_path}/new", "/data", root=str(tmp_path))
    for uid in (UID, specs.UID):
        lines = said(exempt, kernel(engine, WHO, uid=uid, groups=(4400,), mounts=(mount,)))
        assert lines == [str(uid), f"{uid} 4400", "work", "/home/work", str(uid), str(uid)]
        assert {each.stat().st_uid for each in (tmp_path / "new", tmp_path / "new/mine")} == {uid}
        (tmp_path / "new/mine").unlink()
        (tmp_path / "new").rmdir()
    exempt.create(kernel(engine))
    assert numbers(engine)["Uid:"] == {UID}


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"uid": specs.UID}, f"user {specs.UID}"),
        ({"uid": specs.UID, "read_only_root": True}, f"user {specs.UID}"),
        ({"uid": OUTSIDE}, f"user {OUTSIDE}"),
        ({"user": "70000"}, "user 70000"),
        ({"user": "user", "uid": specs.UID}, f"group {specs.UID}"),
        ({"user": "root:70000"}, "group 70000"),
        ({"groups": (4400, OUTSIDE)}, f"group {OUTSIDE}"),
    ],
)
def test_numbers_that_the_namespace_lacks_are_refused(
    provider: DockerProvider, engine: Engine, tmp_path: Path, fields: dict[str, Any], what: str
) -> None:
    """Before anything is made."""
    mount = Mount(f"{tmp_path}/new", "/data", root=str(tmp_path))
    with pytest.raises(KernelRefused, match=f"user namespace has no {what}") as refused:
        provider.create(kernel(engine, mounts=(mount,), **fields))
    assert "sessionUids" in refused.value.hint
    assert engine.docker("ps", "-a", "--format", "{{.Names}}") == "" and not (tmp_path / "new").exists()


def test_a_new_folder_belongs_to_no_number_that_may_be_another_projects(
    provider: DockerProvider, engine: Engine, tmp_path: Path
) -> None:
    """A number beyond the namespace is not moved by what the namespace moves its own by."""
    mount = Mount(f"{tmp_path}/new", "/data", root=str(tmp_path))
    provider.create(kernel(engine, user="root", uid=specs.UID, mounts=(mount,)))
    assert (tmp_path / "new").stat().st_uid == specs.UID


@pytest.mark.parametrize(
    "loose", ["chmod 666 /etc/group", "chown 1000 /etc/group", f"chown {UID} /etc", "chmod 777 /etc"]
)
def test_an_image_whose_list_of_groups_others_can_write_is_refused(
    provider: DockerProvider, exempt: DockerProvider, engine: Engine, loose: str
) -> None:
    image = ran_in(engine, "loose", loose)
    for each in (provider, exempt):
        with pytest.raises(KernelRefused, match="could become a member of any group"):
            each.create(kernel(engine, image=image))
    assert engine.docker("ps", "-aq") == ""


def test_who_has_the_number_of_the_namespaces_root_is_refused_outside_of_it(
    exempt: DockerProvider, engine: Engine
) -> None:
    """Files of images belong to it."""
    with pytest.raises(KernelRefused, match="could become a member of any group"):
        exempt.create(kernel(engine, uid=FIRST_REMAPPED))
    assert engine.docker("ps", "-aq") == ""


def test_what_it_is_given_is_roots_inside_and_can_be_changed_by_nobody(
    provider: DockerProvider, engine: Engine
) -> None:
    """SSH takes settings from root only, and an open key from whoever is not its owner."""
    login = SshLogin(2200, (), "session-key:x", "22" * 32)
    files = "/run/bai/entry /run/bai/secrets /run/bai/ssh/config /run/bai/ssh/key"
    text = f"stat -c %u {files}; echo $TOKEN; (echo x >> /run/bai/entry) 2>&1"
    for user, capabilities in (("", ()), ("root", ("SYS_ADMIN",))):
        spec = kernel(engine, text, user=user, capabilities=capabilities)
        lines = said(provider, replace(spec, login=login, secret_env={"TOKEN": "to'ken"}))
        owners = [line for line in lines if line.isdigit()]
        assert owners == ["0", "0", "0", "65533"] and "to'ken" in lines
        assert "Read-only file system" in lines[-1] or "Permission denied" in lines[-1]


# plans


VOLUME = """\
apiVersion: bai/v1
kind: StorageHost
metadata: {{name: disk}}
spec: {{root: {0}, node: {1}}}
---
apiVersion: bai/v1
kind: Volume
metadata: {{name: data, project: p}}
spec: {{uid: {2}}}
"""


def lab(folder: Path, engine: Engine, docker: str = "network: auto") -> Gangs:
    folder.mkdir()
    made = Gangs(folder, [engine], docker)
    base = folder / "base.yaml"
    text = base.read_text().replace("{name: default}\nspec: {}", "{name: default}\nspec: {allowRoot: true}")
    base.write_text(text.replace("{name: p}\nspec: {}", f"{{name: p}}\nspec: {{uid: {UID}}}"))
    return made


@pytest.mark.parametrize(
    ("docker", "warned"), [("network: auto", False), ("network: auto, userns: host", True)]
)
def test_a_plan_warns_of_root_that_is_the_nodes(
    engine: Engine, tmp_path: Path, docker: str, warned: bool
) -> None:
    gangs = lab(tmp_path / "repository", engine, docker)
    gangs.write("a", f"image: {IMAGE}\ncommand: [sleep, inf]\ncontainer: {{user: root}}\n")
    [action] = [each for each in gangs.plan().actions if each.id == "Session/p/a"]
    assert [f"root of the kernel of {engine.name}" in each for each in action.warnings] == [True] * warned
    gangs.close()


def test_a_volume_that_is_given_to_the_user_outside_is_written(engine: Engine, tmp_path: Path) -> None:
    gangs = lab(tmp_path / "repository", engine)
    (tmp_path / "disk").mkdir()
    (gangs.folder / "volume.yaml").write_text(VOLUME.format(tmp_path / "disk", engine.name, OUTSIDE))
    gangs.write(
        "a",
        f"image: {IMAGE}\ntype: batch\ncommand: [sh, -c, 'echo mine > /data/file']\n"
        "mounts: [{volume: data, path: /data}]\n",
    )
    gangs.done()
    assert gangs.until("a", "TERMINATED").result == "success", gangs.logs("a")
    file = tmp_path / "disk/p/data/file"
    assert (file.read_text(), file.stat().st_uid) == ("mine\n", OUTSIDE)
    gangs.close()
