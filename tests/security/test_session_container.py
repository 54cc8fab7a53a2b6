"""Who may write documents and make images wants to be root in a container, or another project's user."""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from providers.base import KernelSpec, Mount, RestartRule
from providers.docker.container import layer
from providers.docker.options import open_docker
from providers.docker.provider import DockerProvider
from schemas.loading.loader import load_directory
from schemas.problems.errors.kernel import KernelRefused
from schemas.problems.errors.repository import InvalidRepository
from tests.lab.derived import derived, ran_in
from tests.lab.docker import Engine, Engines
from tests.providers.docker.specs import UID, kernel, script
from tests.waiting import until

on_docker = pytest.mark.xdist_group("docker")
ID = "s-main1-0-g1"
OTHER = 4300
"""Linux user of another project, as the plan knows it."""


@pytest.fixture
def engine(engines: Engines) -> Iterator[Engine]:
    (found,) = engines(1)
    yield found
    found.wipe()


@pytest.fixture
def provider(engine: Engine) -> Iterator[DockerProvider]:
    opened = open_docker({}, machines=[engine.endpoint()])
    yield opened
    opened.close()


def said(provider: DockerProvider, spec: KernelSpec) -> list[str]:
    provider.create(spec)
    until(lambda: [each.state for each in provider.observe().kernels] == ["exited"])
    lines = b"".join(provider.logs(ID)).decode().splitlines()
    provider.remove(ID)
    return lines


# images


@on_docker
@pytest.mark.parametrize("word", [str(OTHER), f"{OTHER}:{OTHER}", "them", "1900000001"])
def test_an_image_that_names_another_projects_user_is_refused(
    provider: DockerProvider, engine: Engine, word: str
) -> None:
    users = f"root:x:0:0::/root:/bin/sh\nthem:x:{OTHER}:{OTHER}::/:/bin/sh\n"
    image = derived(engine, "them", f"USER {word}", files={"/etc/passwd": users})
    with pytest.raises(KernelRefused, match="another project's"):
        provider.create(kernel(image=image, others=str(OTHER)))
    assert engine.docker("ps", "-aq") == ""


@on_docker
@pytest.mark.parametrize("name", ["toor", "them"])
def test_a_name_of_the_image_is_judged_by_its_number(
    provider: DockerProvider, engine: Engine, name: str
) -> None:
    users = f"root:x:0:0::/root:/bin/sh\ntoor:x:0:0::/:/bin/sh\nthem:x:{OTHER}:{OTHER}::/:/bin/sh\n"
    image = derived(engine, "names", files={"/etc/passwd": users})
    with pytest.raises(KernelRefused, match=f"user {name}"):
        provider.create(kernel(image=image, user=name, others=f"{OTHER}-4310"))


@on_docker
def test_a_name_that_means_root_is_the_projects_user(provider: DockerProvider, engine: Engine) -> None:
    image = derived(engine, "toor", "USER toor", files={"/etc/passwd": "toor:x:0:0::/:/bin/sh\n"})
    assert said(provider, script("id -u", image=image)) == [str(UID)]


@on_docker
def test_a_list_of_users_that_lies_gives_no_group(provider: DockerProvider, engine: Engine) -> None:
    """Engines take groups from the image's lists: by membership, and by names that are numbers."""
    files = {
        "/etc/passwd": f"me:x:{UID}:{OTHER}::/:/bin/sh\nuser:x:1000:{OTHER}::/:/bin/sh\n",
        "/etc/group": f"root:x:0:me,user\nthem:x:{OTHER}:me,user\n4400:x:{OTHER}:\n",
    }
    image = derived(engine, "lies", files=files)
    for groups, given in (((), str(UID)), ((4400,), f"{UID} 4400")):
        assert said(provider, script("id -G", image=image, groups=groups)) == [given]
        spec = script("id -G", image=image, user="user", groups=groups, others=str(OTHER))
        assert said(provider, spec) == [given]


# groups


EXCHANGE = f"""
id -G
for name in 4400 {UID}; do echo "$name:x:0:" >> /etc/group; done
mv /etc/group /etc/old && cp /etc/new /etc/group
mv /a/b /a/old && cp /etc/new /a/b
exit 1
"""
"""What a session does to be a member of group 0 when its engine starts it again: a group whose name is the
number of one that it was given, or of its project's. `/etc/new` is such a list."""
LIE = f"printf '4400:x:0:\\n{UID}:x:0:\\n'"
LOOSE = {
    "the list": "chmod 666 /etc/group",
    "the list's group": "chmod 664 /etc/group",
    "the list's owner": "chown 1000 /etc/group",
    "the folder": f"chmod 777 /etc; {LIE} > /etc/new",
    "the sticky folder": f"chown 1000 /etc/group; chmod 1777 /etc; {LIE} > /etc/new",
    "the folder's owner": f"chown 1000 /etc; {LIE} > /etc/new",
    "a link of the list": "mkdir -m 777 /a; mv /etc/group /a/b; ln -s ../a/c /etc/group; ln -s b /a/c;"
    f" {LIE} > /etc/new",
    "a link to nothing": "rm /etc/group; ln -s /tmp/group /etc/group",
    "a link to memory": "rm /etc/group; ln -s /dev/shm/group /etc/group",
}


@pytest.fixture
def without_layers(provider: DockerProvider) -> DockerProvider:
    """As one whose login on the node is not root."""
    for each in provider.engines.values():
        each.can_write_layers = False
    return provider


@on_docker
@pytest.mark.parametrize("user", ["", "user"])
@pytest.mark.parametrize("how", LOOSE)
def test_what_a_session_writes_to_the_list_of_groups_makes_it_no_member(
    provider: DockerProvider, engine: Engine, how: str, user: str
) -> None:
    image = ran_in(engine, "loose", LOOSE[how])
    rule = RestartRule("on-failure", max=1)
    spec = script(EXCHANGE, image=image, user=user, groups=(4400,), restart=rule)
    provider.create(spec)
    until(lambda: engine.inspect(ID)["RestartCount"] == 1)
    until(lambda: engine.inspect(ID)["State"]["Status"] == "exited")
    said = b"".join(provider.logs(ID)).decode().splitlines()
    assert [line for line in said if line[:1].isdigit()] == [f"{UID} 4400"] * 2


@on_docker
@pytest.mark.parametrize("how", LOOSE)
def test_without_layers_such_an_image_is_refused(
    without_layers: DockerProvider, engine: Engine, how: str
) -> None:
    image = ran_in(engine, "loose", LOOSE[how])
    for user in ("", "user"):
        with pytest.raises(KernelRefused) as refused:
            without_layers.create(script(EXCHANGE, image=image, user=user, groups=(4400,)))
        assert "could become a member of any group" in str(refused.value)
        assert image in str(refused.value) or "mounted at /dev would be" in str(refused.value)
    assert engine.docker("ps", "-aq") == ""


@on_docker
@pytest.mark.parametrize("how", ["the list", "the list's owner", "the folder", "a link of the list"])
def test_engines_do_take_groups_from_such_an_image(engine: Engine, how: str) -> None:
    """Else nothing of this would have to be refused. With the user that a provider would have given."""
    image = ran_in(engine, "loose", LOOSE[how])
    engine.docker(
        "run", "-d", "--name", "them", "--network", "none", "--user", f"1000:{UID}", "--group-add", "4400",
        "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--restart", "on-failure:1",
        image, "sh", "-c", EXCHANGE,
    )  # fmt: skip
    until(lambda: engine.inspect("them")["RestartCount"] == 1)
    until(lambda: engine.inspect("them")["State"]["Status"] == "exited")
    first, second = (line for line in engine.docker("logs", "them").splitlines() if line[0].isdigit())
    assert "0" not in first.split() and "0" in second.split()


@on_docker
def test_what_a_session_writes_to_the_list_of_users_changes_nothing(
    provider: DockerProvider, engine: Engine
) -> None:
    image = ran_in(engine, "users", "chmod 666 /etc/passwd")
    lies = f"for name in 1000 {UID} user; do echo $name:x:0:0::/:/bin/sh; done"
    text = f"id -u; id -G; ({lies}) > /etc/passwd; exit 1"
    rule = RestartRule("on-failure", max=1)
    provider.create(script(text, image=image, user="user", groups=(4400,), restart=rule))
    until(lambda: engine.inspect(ID)["RestartCount"] == 1)
    until(lambda: engine.inspect(ID)["State"]["Status"] == "exited")
    assert b"".join(provider.logs(ID)).decode().splitlines() == ["1000", f"{UID} 4400"] * 2


LIES = {
    "white space": " 4400:x:0:\n",
    "large": "a:x:7:\n" * 200_000 + "4400:x:0:\n",
    "short": "4400:x\n",
    "digits": "4400:x:04400:\n",
    "the project's": f"{UID}:x:0:\n",
}


@on_docker
@pytest.mark.parametrize("text", LIES.values(), ids=LIES)
def test_a_list_of_groups_that_lies_gives_none(provider: DockerProvider, engine: Engine, text: str) -> None:
    image = derived(engine, "lying", files={"/etc/group": text})
    for user in ("", "user"):
        spec = script("id -G", image=image, user=user, groups=(4400,))
        assert said(provider, spec) == [f"{UID} 4400"]


@on_docker
@pytest.mark.parametrize("text", LIES.values(), ids=LIES)
@pytest.mark.parametrize("fixed", [False, True])
def test_without_layers_a_list_that_lies_is_refused(
    without_layers: DockerProvider, engine: Engine, text: str, fixed: bool
) -> None:
    image = derived(engine, "lying", files={"/etc/group": text})
    spec = kernel(image=image, user="user", groups=(4400,), read_only_root=fixed)
    with pytest.raises(KernelRefused, match=r"is another one|is too large"):
        without_layers.create(spec)
    assert engine.docker("ps", "-aq") == ""


@on_docker
@pytest.mark.parametrize(
    ("script", "target"),
    [
        ("true", "/etc"),
        ("true", "/etc/group"),
        ("true", "/srv/../etc/"),
        ("ln -s /etc /data", "/data"),
        ("mkdir /a; ln -s .. /a/b", "/a/b/etc"),
        ("rm -r /home; ln -s / /home; ln -s etc /work", "/data"),
    ],
)
def test_no_volume_lies_where_engines_look_for_groups(
    provider: DockerProvider, engine: Engine, tmp_path: Path, script: str, target: str
) -> None:
    image = ran_in(engine, "over", script)
    mount = Mount(f"{tmp_path}/v", target, root=str(tmp_path))
    with pytest.raises(KernelRefused, match="mounted at"):
        provider.create(kernel(image=image, mounts=(mount,)))
    assert not (tmp_path / "v").exists()


@on_docker
def test_without_layers_it_may_lie_elsewhere(
    without_layers: DockerProvider, engine: Engine, tmp_path: Path
) -> None:
    image = ran_in(engine, "over", "rm /etc/group; mkdir /a; ln -s /a/b/group /etc/group")
    mount = Mount(f"{tmp_path}/v", "/a", root=str(tmp_path))
    with pytest.raises(KernelRefused, match="mounted at /a would be"):
        without_layers.create(kernel(image=image, mounts=(mount,)))


@on_docker
def test_no_volume_of_an_image_lies_there(provider: DockerProvider, engine: Engine) -> None:
    for script_of_root, place in (("true", "/etc"), ("rm -rf /data; ln -s /etc /data", "/data")):
        ran_in(engine, "before", script_of_root)
        engine.docker("create", "--name", "derive", "bai-lab-before:1", "true")
        engine.docker("commit", "-c", f'VOLUME ["{place}"]', "derive", "bai-lab-volume:1")
        engine.docker("rm", "-f", "derive")
        with pytest.raises(KernelRefused, match=f"mounted at {place} would be"):
            provider.create(kernel(image="bai-lab-volume:1"))


@on_docker
def test_no_memory_lies_there(provider: DockerProvider, engine: Engine) -> None:
    image = ran_in(engine, "memory", "rm -rf /tmp; ln -s /etc /tmp")
    with pytest.raises(KernelRefused, match="mounted at /tmp would be"):
        provider.create(kernel(image=image, read_only_root=True))
    image = ran_in(engine, "memory", "rm -rf /home; mkdir /home; ln -s /etc /home/work")
    with pytest.raises(KernelRefused, match="mounted at /home/work would be"):
        provider.create(kernel(image=image, read_only_root=True))
    assert said(provider, script("id -G", image=image)) == [str(UID)]


@on_docker
def test_a_list_of_groups_behind_roots_own_links_is_as_good(
    without_layers: DockerProvider, engine: Engine
) -> None:
    make = "mkdir -p /nix/store; mv /etc/group /nix/store; ln -s ../nix/store/group /etc/group"
    image = ran_in(engine, "nix", make)
    assert said(without_layers, script("id -G", image=image, groups=(4400,))) == [f"{UID} 4400"]
    lying = ran_in(engine, "nix", f"{make}; echo 4400:x:0: >> /etc/group")
    with pytest.raises(KernelRefused, match="named 4400"):
        without_layers.create(kernel(image=lying, groups=(4400,)))
    for none in (ran_in(engine, "none", "rm /etc/group"), "bai-lab:1"):
        assert said(without_layers, script("id -G", image=none, groups=(4400,))) == [f"{UID} 4400"]


@on_docker
def test_an_images_own_groups_keep_their_names(provider: DockerProvider, engine: Engine) -> None:
    files = {"/etc/group": "root:x:0:\nuser:x:1000:\nstaff:x:50:user\n4400:x:0:\n"}
    image = derived(engine, "named", "USER user", files=files)
    assert said(provider, script("cat /etc/group", image=image)) == [
        "root:x:0:", "user:x:1000:", "staff:x:50:user",
    ]  # fmt: skip


@on_docker
def test_no_program_of_the_image_gives_more_rights(provider: DockerProvider) -> None:
    """Whatever bits it has: there is nothing to be had, and no way to it."""
    text = "grep -E '^(Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs)' /proc/self/status"
    found = dict(line.split(":\t") for line in said(provider, script(text, capabilities=("SYS_PTRACE",))))
    assert found.pop("NoNewPrivs") == "1"
    assert set(found.values()) == {"0" * 16} and len(found) == 5
    found = dict(line.split(":\t") for line in said(provider, script(text, user="root")))
    assert found["NoNewPrivs"] == "1"
    assert int(found["CapBnd"], 16) == sum(1 << n for n in (0, 1, 3, 4, 5, 6, 7, 10, 18))


SETTINGS = (
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/vm/panic_on_oom",
    "/proc/sysrq-trigger",
    "/proc/irq/default_smp_affinity",
    "/sys/kernel/uevent_helper",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/fs/cgroup/cgroup.procs",
    "/sys/fs/cgroup/cgroup.subtree_control",
    "/sys/fs/cgroup/cpu/release_agent",
)
HIDDEN = (
    *("acpi", "asound", "interrupts", "kcore", "keys", "latency_stats", "sched_debug", "scsi"),
    *("timer_list", "timer_stats"),
)
HIDDEN_OF_SYS = (
    *("devices/virtual/powercap", "firmware", "fs/selinux", "kernel/debug", "kernel/security"),
    "kernel/tracing",
)
REGAINED = (
    "umount {path}; umount -l /proc; mount -t proc proc /proc",
    "mount -o remount,rw {path}; mount -o remount,bind,rw {path}",
    "mkdir -p /tmp/p; mount -t proc proc /tmp/p; mount -t sysfs sys /tmp/p; mount --bind / /tmp/p",
    "unshare -Urm sh -c 'umount {path}; mount -t proc proc /proc'",
    "chmod 666 {path}; chown 0:0 {path}",
    "mknod /tmp/disk b 254 0; mknod /tmp/memory c 1 1; cat /tmp/disk /tmp/memory",
)


@on_docker
@pytest.mark.parametrize("user", ["", "root"])
def test_the_machine_is_neither_changed_nor_looked_into(provider: DockerProvider, user: str) -> None:
    """Also not by a root that is allowed, which is root of the node's kernel where the engine has no user
    namespaces: a pipe in core_pattern would be a program that the kernel starts outside."""
    hidden = [*(f"/proc/{name}" for name in HIDDEN), *(f"/sys/{name}" for name in HIDDEN_OF_SYS)]
    written = [f"( : >> {path} ) && echo WRITABLE {path}" for path in SETTINGS if os.path.exists(path)]
    read = [
        f"test -d {path} && ls -A {path}; test -f {path} && head -c 1 {path}"
        for path in hidden
        if os.path.exists(path)
    ]
    assert len(written) > 4 and len(read) > 4
    ways = [way.format(path=path) for way in REGAINED for path in ("/proc/sys", "/proc/kcore")]
    text = "\n".join((*written, *read, *(f"({way}) && echo REGAINED" for way in ways), *written, *read))
    assert said(provider, script(f"exec 2>/dev/null\n{text}\necho over", user=user)) == ["over"]


@on_docker
def test_no_variable_asks_a_runtime_for_devices(provider: DockerProvider, engine: Engine) -> None:
    """Vendors' runtimes make the device nodes that variables of an image or a document name."""
    asked = ("NVIDIA_IMEX_CHANNELS", "NVIDIA_MOFED", "NVIDIA_NVSWITCH", "HABANA_VISIBLE_DEVICES")
    image = derived(engine, "asks", *(f"ENV {name}=all" for name in asked))
    env = {"NVIDIA_MIG_CONFIG_DEVICES": "all", "NVIDIA_GDS": "enabled", "AMD_VISIBLE_DEVICES": "all"}
    provider.create(replace(script("sleep 1000", image=image), env={"MINE": "all", **env}))
    found = json.loads(engine.docker("inspect", "--format", "{{json .Config.Env}}", ID))
    variables = dict(line.split("=", 1) for line in found)
    assert variables["MINE"] == "all"
    assert {variables[name] for name in (*asked, *env)} == {"", "none", "void"}


@on_docker
@pytest.mark.parametrize("link", ["/home", "/data"])
def test_no_folder_of_a_volume_is_given_away(
    provider: DockerProvider, engine: Engine, tmp_path: Path, link: str
) -> None:
    """Where the home is made, the image has a link into a volume, or the volume's place is a link to it."""
    theirs = tmp_path / "shared" / "work"
    theirs.mkdir(parents=True)
    os.chown(theirs, OTHER, OTHER)
    os.chmod(tmp_path / "shared", 0o755)
    make = "rm -rf /home; ln -s /data /home" if link == "/home" else "ln -s /home /data"
    image = ran_in(engine, "link", make)
    mount = Mount(f"{tmp_path}/shared", "/data", root=str(tmp_path))
    spec = script("cd; touch here; id -u", image=image, mounts=(mount,))
    assert said(provider, spec) == [str(UID)]
    assert (theirs.stat().st_uid, list(theirs.iterdir())) == (OTHER, [])
    assert (tmp_path / "shared").stat().st_uid == 0
    plain = replace(spec, mounts=())
    assert said(provider, plain)[-1] == str(UID)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: who else makes no homes outside of engines")
def test_no_folder_is_taken_for_a_layer_that_is_not_roots(tmp_path: Path) -> None:
    """Whoever answers for an engine names the folder in which root makes homes: what he may change himself is
    none, and neither is where his links lead."""
    real = tmp_path / "overlay2" / "id" / "diff"
    real.mkdir(parents=True)
    theirs = tmp_path / "overlay2" / "theirs" / "diff"
    theirs.mkdir(parents=True)
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / "overlay2").symlink_to(tmp_path / "overlay2")
    os.chown(theirs, OTHER, OTHER)
    deep = tmp_path / "other" / "overlay2" / "id" / "diff"
    deep.mkdir(parents=True)
    os.chown(deep.parent.parent, OTHER, OTHER)
    with tarfile.open(tmp_path / "homes", "w") as archive:
        archive.add(deep.parent.parent, "home", recursive=False)

    def code(upper: str) -> int:
        with (tmp_path / "homes").open("rb") as stream:
            return subprocess.run(
                ["sh", "-c", layer.UNPACK, "sh", upper], stdin=stream, check=False
            ).returncode

    bad = (
        f"{tmp_path}/link/overlay2/id/diff",
        f"{real}/../diff",
        f"{real}/",
        str(theirs),
        str(deep),
        "overlay2/id/diff",
        "",
        str(tmp_path),
    )
    assert {code(upper) for upper in bad} == {layer.NOT_OURS}
    assert not any(list(folder.iterdir()) for folder in (real, theirs, deep))
    assert code(str(real)) == 0 and (real / "home").stat().st_uid == OTHER


@on_docker
def test_volumes_of_others_cannot_be_written(provider: DockerProvider, tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir(mode=0o700)
    os.chown(folder, OTHER, OTHER)
    mount = Mount(str(folder), "/data", root=str(tmp_path))
    tries = "echo x > /data/x; ls /data; chmod 777 /data; chown $(id -u) /data"
    text = f"({tries}) 2>&1 | grep -c -i -E 'denied|not permitted'"
    assert said(provider, script(text, mounts=(mount,))) == ["4"]
    assert list(folder.iterdir()) == []


@on_docker
def test_a_container_without_a_project_is_refused(provider: DockerProvider) -> None:
    for uid in (None, 0, 33):
        with pytest.raises(KernelRefused, match="no user that it may run as"):
            provider.create(kernel(uid=uid))


# documents


BASE = """
apiVersion: bai/v1
kind: Cluster
metadata: {name: c}
spec: {provider: %s}
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {name: g}
spec: {%s}
---
apiVersion: bai/v1
kind: Project
metadata: {name: mine}
spec: {uid: 4200}
---
apiVersion: bai/v1
kind: Project
metadata: {name: theirs}
spec: {uid: 4300}
---
apiVersion: bai/v1
kind: Project
metadata: {name: drawn}
---
apiVersion: bai/v1
kind: StorageHost
metadata: {name: h}
spec: {root: /srv}
---
apiVersion: bai/v1
kind: Volume
metadata: {name: v, project: theirs}
spec: {uid: 4301, gid: 4302}
"""
SESSION = """apiVersion: bai/v1
kind: Session
metadata: {name: s, project: mine}
spec:
  image: registry.example/x:1
  command: [sleep, inf]
  container:
    user: "%s"
"""


def refused(folder: Path, user: str, group: str = "", provider: str = "docker", more: str = "") -> str:
    """What is said about it last, with its place; empty when it is accepted. `more`: of the container, and
    other documents."""
    (folder / "base.yaml").write_text(BASE % (provider, group))
    (folder / "s.yaml").write_text(SESSION % user + more)
    try:
        load_directory(folder)
    except InvalidRepository as error:
        problem = error.problems[-1]
        return f"{problem.place.line}:{problem.place.column} {problem.message}"
    return ""


@pytest.mark.parametrize("user", ["root", "0", "00", "0:0", "root:root", "root:4200", "4200:0", "user:root"])
def test_root_is_refused_unless_the_group_allows_it(tmp_path: Path, user: str) -> None:
    assert refused(tmp_path, user) == f"8:11 {user} is root, which ResourceGroup/g does not allow"
    assert refused(tmp_path, user, "allowRoot: true") == ""
    if not user.partition(":")[0].strip("0").replace("root", ""):
        assert "never root" in refused(tmp_path, user, "allowRoot: true", "process")


@pytest.mark.parametrize("user", ["4300", "4301", "user:4302", "5000:4300", "4302:4200"])
def test_another_projects_numbers_are_refused(tmp_path: Path, user: str) -> None:
    assert "is of Project/theirs" in refused(tmp_path, user, "allowRoot: true")


@pytest.mark.parametrize("user", ["1", "999", "5000:44", "user:33"])
def test_users_of_the_system_are_refused(tmp_path: Path, user: str) -> None:
    assert "one of the system's" in refused(tmp_path, user, "allowRoot: true")


def test_numbers_of_projects_are_nobody_elses(tmp_path: Path) -> None:
    assert "may be another project's" in refused(tmp_path, "1900000000")
    assert "system's" in refused(tmp_path, str(2**32))
    for fine in ("4200", "4200:4200", "5000", "5000:5001", "user", "user:staff"):
        assert refused(tmp_path, fine) == ""


@pytest.mark.parametrize("name", ["ALL", "SYS_ADMIN", "CAP_SYS_MODULE", "DAC_READ_SEARCH", "MKNOD", "BPF"])
def test_capabilities_that_make_root_of_the_node(tmp_path: Path, name: str) -> None:
    """`allowRoot` alone does not give them: root that has SYS_ADMIN writes the node's core_pattern."""
    plain, more = name.removeprefix("CAP_"), f"    capabilities: [SYS_PTRACE, {name}]\n"
    said = refused(tmp_path, "root", "allowRoot: true", more=more)
    assert said == f"9:32 {plain} can make it root of its node, which ResourceGroup/g does not allow"
    assert refused(tmp_path, "root", f"allowRoot: true, allowCapabilities: [{plain}]", more=more) == ""


@pytest.mark.parametrize("name", ["ALL", "SYS_ADMIN", "CAP_SYS_MODULE", "MKNOD", "NET_RAW", "SYS_PTRACE"])
@pytest.mark.parametrize("kind", ["Cluster", "Node"])
def test_options_of_engines_give_no_capability(tmp_path: Path, kind: str, name: str) -> None:
    """A session that is root would have it past `allowCapabilities` and past a policy that forbids them."""
    options = f"docker: {{capabilities: [CHOWN, {name}]}}"
    if kind == "Cluster":
        base = BASE.replace("{provider: %s}", f"{{provider: %s, {options}}}")
        line, column = 4, "spec: {provider: docker, docker: {capabilities: [CHOWN, "
    else:
        node = f"apiVersion: bai/v1\nkind: Node\nmetadata: {{name: n}}\nspec: {{{options}}}\n"
        base, line, column = node + "---" + BASE, 4, "spec: {docker: {capabilities: [CHOWN, "
    (tmp_path / "base.yaml").write_text(base.lstrip() % ("docker", "allowRoot: true"))
    (tmp_path / "s.yaml").write_text(SESSION % "root")
    with pytest.raises(InvalidRepository) as refused:
        load_directory(tmp_path)
    (problem,) = refused.value.problems
    assert (problem.place.line, problem.place.column) == (line, len(column) + 1)
    assert f"{name.removeprefix('CAP_')} is none of those that root of a container has" in problem.message


VOLUME = """---
apiVersion: bai/v1
kind: Volume
metadata: {name: w, %s}
spec: {%s}
"""


@pytest.mark.parametrize(
    ("gid", "project"), [(4301, "project: mine"), (4302, "project: mine"), (4300, ""), (4302, "")]
)
def test_a_volume_makes_nobody_a_member_of_anothers_group(tmp_path: Path, gid: int, project: str) -> None:
    mounted = "  mounts: [{volume: w, path: /w}]\n" + VOLUME
    said = refused(tmp_path, "user", more=mounted % (project, f"gid: {gid}"))
    assert said.startswith("9:21 who mounts Volume/")
    assert f"would be in its group {gid}, which is of Project/theirs" in said
    assert refused(tmp_path, "user", more=mounted % (project, "gid: 5000")) == ""


@pytest.mark.parametrize("user", ["4301", "user:4302"])
def test_a_volume_of_ones_own_makes_no_number_ones_own(tmp_path: Path, user: str) -> None:
    for claim in ("uid: 4301", "gid: 4302", "uid: 4302, gid: 4301"):
        assert "is of Project/theirs" in refused(tmp_path, user, more=VOLUME % ("project: mine", claim))


def test_projects_and_volumes_of_others_have_no_number_in_common(tmp_path: Path) -> None:
    other = "---\napiVersion: bai/v1\nkind: Project\nmetadata: {name: new}\nspec: {uid: %s}\n"
    assert "4301 is the user of Project/new" in refused(tmp_path, "user", more=other % 4301)
    assert refused(tmp_path, "user", more=other % 5001) == ""
    for field in ("uid", "gid"):
        said = refused(tmp_path, "user", more=VOLUME % ("project: mine", f"{field}: 4300"))
        assert said.endswith("4300 is the user of Project/theirs")
