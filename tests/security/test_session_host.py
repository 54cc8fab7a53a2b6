"""A hostile session that wants to be root outside of its sandbox, or to read what only root may."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from providers.base import Mount, RestartRule
from providers.process import procfs, sandbox
from providers.process.provider import ProcessProvider
from schemas.errors import KernelRefused
from tests.providers.process.kernels import UID, ended, output, script, spec
from tests.waiting import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(sandbox.problem()), reason=sandbox.problem() or "there is a sandbox"),
]
PATTERN = "/proc/sys/kernel/core_pattern"
NESTED = "unshare --user --map-root-user --mount --pid --fork"
SETTINGS = (
    PATTERN,
    "/proc/sys/kernel/modprobe",
    "/proc/sys/kernel/hotplug",
    "/proc/sys/vm/panic_on_oom",
    "/proc/sys/fs/binfmt_misc/register",
    "/proc/sysrq-trigger",
    "/proc/irq/default_smp_affinity",
)


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[ProcessProvider]:
    made = ProcessProvider(tmp_path / "process")
    yield made
    for kernel in made.observe().kernels:
        made.remove(kernel.id)


def _said(provider: ProcessProvider, text: str) -> bytes:
    kernel = provider.create(script(text))
    ended(provider, kernel.id)
    return output(provider, kernel.id)


@pytest.mark.parametrize("path", [path for path in SETTINGS if os.path.exists(path)])
def test_no_setting_of_the_machine_is_opened_for_writing(provider: ProcessProvider, path: str) -> None:
    said = _said(provider, f"( : >> {path} ) 2>/dev/null && echo WRITABLE; echo over")
    assert said == b"over\n"


@pytest.mark.parametrize(
    "way",
    [
        f"cat {PATTERN} > /tmp/p; cat /tmp/p > {PATTERN}",
        f"exec 7< {PATTERN}; echo $V > /proc/self/fd/7",
        f"echo $V > /proc/1/root{PATTERN}",
        "cd /proc/sys/kernel && echo $V > ./core_pattern",
        f"mount -o remount,rw /proc/sys && echo $V > {PATTERN}",
        f"umount /proc/sys && echo $V > {PATTERN}",
        f"umount -l /proc && mount -t proc proc /proc && echo $V > {PATTERN}",
        "mkdir /tmp/p && mount -t proc proc /tmp/p && echo $V > /tmp/p/sys/kernel/core_pattern",
        f"{NESTED} --mount-proc sh -c 'echo $V > {PATTERN}'",
        f"{NESTED} sh -c 'mkdir /tmp/q; mount -t proc q /tmp/q && echo $V > /tmp/q/{PATTERN[6:]}'",
        f"{NESTED} sh -c 'mount -o remount,bind,rw /proc/sys; echo $V > {PATTERN}'",
        f"{NESTED} sh -c 'umount /proc/sys; echo $V > {PATTERN}'",
        f"nsenter -t 1 -m sh -c 'echo $V > {PATTERN}'",
        "sysctl -w kernel.core_pattern=$V",
    ],
)  # fmt: skip
def test_the_program_that_gets_cores_stays_the_machines(provider: ProcessProvider, way: str) -> None:
    """A pipe there is started by the kernel as root outside; what is written here is what stood there."""
    said = _said(provider, f'export V="$(cat {PATTERN})"; ( {way} ) 2>/dev/null && echo CHANGED; echo over')
    assert said == b"over\n"


def test_memory_and_keys_of_the_machine_are_not_shown(provider: ProcessProvider) -> None:
    paths = [path for path in sandbox.HIDDEN if os.path.exists(path)]
    assert "/proc/kcore" in paths or "/proc/keys" in paths
    lines = [f"test -d {path} && ls -A {path}; test -f {path} && head -c 1 {path}" for path in paths]
    unmasked = f"umount {paths[0]} 2>/dev/null && echo UNMASKED"
    assert _said(provider, f"{'; '.join(lines)}; {unmasked}; echo over") == b"over\n"


LOADED = """
#include <fcntl.h>
#include <stdlib.h>
__attribute__((constructor)) static void owned(void) { open(getenv("OWNED"), O_CREAT | O_WRONLY, 0600); }
int cap_init(void) { return 0; }
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler for the hostile library")
@pytest.mark.parametrize("means", ["env", "secret_env"])
@pytest.mark.parametrize("name", ["LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH"])
def test_a_library_of_a_session_is_not_loaded_outside(
    provider: ProcessProvider, tmp_path: Path, name: str, means: str
) -> None:
    """What starts the sandbox is a program of the machine's, and the loader heeds its environment."""
    place = tmp_path / "hostile"
    place.mkdir()
    tmp_path.chmod(0o755)
    library = place / "libcap.so.2"
    flags = ["-shared", "-fPIC", "-w", "-x", "c", "-", "-o", str(library)]
    subprocess.run(["cc", *flags], input=LOADED.encode(), check=True)
    place.chmod(0o777)
    value = str(place) if name == "LD_LIBRARY_PATH" else str(library)
    kernel = provider.create(script("echo over", **{means: {name: value, "OWNED": f"{place}/owned"}}))
    ended(provider, kernel.id)
    assert output(provider, kernel.id).endswith(b"over\n")
    assert not (place / "owned").exists()


def test_of_etc_only_what_programs_need_is_there(provider: ProcessProvider) -> None:
    said = _said(provider, "ls -A /etc; cat /etc/shadow /etc/gshadow /etc/sudoers /etc/crontab 2>/dev/null")
    names = said.decode().split()
    assert {"passwd", "group"} <= set(names)
    assert not {name for name in names if name.startswith(("shadow", "gshadow", "sudoers", "cron", "bai"))}
    assert b"PRIVATE KEY" not in _read_below(provider, "/etc")


def _read_below(provider: ProcessProvider, folder: str) -> bytes:
    kernel = provider.create(script(f"grep -rl 'PRIVATE KEY' {folder} 2>/dev/null | head", name="s-read-g1"))
    ended(provider, kernel.id)
    return output(provider, kernel.id)


# Whom a session is.

WHO = "id -u; id -g; grep -E '^(CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp):' /proc/self/status"
NOBODYS = {"CapInh": "0" * 16, "CapPrm": "0" * 16, "CapEff": "0" * 16, "NoNewPrivs": "1", "Seccomp": "2"}


def _identity(said: bytes) -> tuple[list[str], dict[str, str]]:
    first, second, *rest = said.decode().splitlines()
    return [first, second], {line.split(":")[0]: line.split()[1] for line in rest}


def test_a_session_is_its_projects_user_without_power(provider: ProcessProvider) -> None:
    ids, status = _identity(_said(provider, WHO))
    expected = str(os.geteuid() or UID)
    assert ids == [expected, str(os.getegid() if os.geteuid() else UID)]
    assert NOBODYS.items() <= status.items()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: others are who they are")
def test_the_machine_sees_that_user_too(provider: ProcessProvider) -> None:
    kernel = provider.create(script("umask 0; echo x > f; echo up; sleep 300", groups=(4343,)))
    until(lambda: b"up" in output(provider, kernel.id), "it runs")
    record = provider.root.read(kernel.id)
    assert record is not None
    made = (record.folder / "scratch" / "f").stat()
    assert (made.st_uid, made.st_gid) == (UID, UID)
    below = [record.state["inner"], *procfs.descendants(int(record.state["inner"]))]
    for pid in below:
        status = procfs.fields(Path(f"/proc/{pid}/status").read_text())
        assert set(status["Uid"].split()) == {str(UID)} and status["Groups"].split() == ["4343"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: others are who they are")
def test_without_a_user_of_its_own_nothing_starts(provider: ProcessProvider) -> None:
    with pytest.raises(KernelRefused, match="no user"):
        provider.create(script("true", uid=None))
    assert provider.observe().kernels == ()


@pytest.mark.parametrize("uid", [0, 1, 999])
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: others are who they are")
def test_users_of_the_system_are_refused(provider: ProcessProvider, uid: int) -> None:
    with pytest.raises(KernelRefused, match="user"):
        provider.create(script("true", uid=uid))


CALLS = """
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def refused(name, *words):
    if libc[name](*words) >= 0 or ctypes.get_errno() not in (1, 38):
        print(name, ctypes.get_errno())
refused("unshare", 0x10000000)
refused("unshare", 0x00020000)
refused("mount", b"none", b"/tmp", b"tmpfs", 0, None)
refused("umount2", b"/proc", 2)
refused("setns", 0, 0)
refused("syscall", ctypes.c_long(321), 0, None, 0)           # bpf
refused("syscall", ctypes.c_long(298), None, 0, -1, -1, 0)   # perf_event_open
refused("syscall", ctypes.c_long(425), 8, None)              # io_uring_setup
refused("syscall", ctypes.c_long(250), 0, 0, 0, 0, 0)        # keyctl
refused("syscall", ctypes.c_long(323), 0)                    # userfaultfd
refused("syscall", ctypes.c_long(435), None, 0)              # clone3
refused("syscall", ctypes.c_long(56), ctypes.c_long(0x10000011), 0, 0, 0, 0)  # clone, CLONE_NEWUSER
refused("syscall", ctypes.c_long(0x40000000 | 272), 0x10000000)   # unshare, as of x32
for family in (38, 40, 38 | 1 << 32):
    refused("syscall", ctypes.c_long(41), ctypes.c_long(family), 5, 0)
print("over")
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers of system calls are x86_64's")
@pytest.mark.parametrize("way", ["main process", "bai exec"])
def test_what_reaches_deep_into_the_kernel_is_refused(
    provider: ProcessProvider, capfd: pytest.CaptureFixture[str], way: str
) -> None:
    command = ("/usr/bin/python3", "-c", CALLS)
    if way == "main process":
        kernel = provider.create(spec(*command))
        ended(provider, kernel.id)
        assert output(provider, kernel.id) == b"over\n"
    else:
        kernel = provider.create(script("sleep 300"))
        provider.execute(kernel.id, command)
        assert capfd.readouterr().out == "over\n"


def test_memory_may_be_bound_to_numa_nodes(provider: ProcessProvider) -> None:
    text = "import ctypes; print(ctypes.CDLL(None).syscall(238, 0, None, 0))"  # set_mempolicy
    kernel = provider.create(spec("/usr/bin/python3", "-c", text))
    ended(provider, kernel.id)
    assert output(provider, kernel.id) == b"0\n"


def _disk() -> str:
    found = (path for path in sorted(Path("/dev").iterdir()) if path.is_block_device())
    return str(next(found, ""))


@pytest.mark.skipif(not _disk(), reason="this machine shows no disk")
def test_a_disk_is_no_device_of_a_session(provider: ProcessProvider) -> None:
    kernel = provider.create(script(f"ls {_disk()} /dev/full; echo over", devices=(_disk(), "/dev/full")))
    ended(provider, kernel.id)
    assert _disk().encode() + b"\n" not in output(provider, kernel.id)
    assert output(provider, kernel.id).endswith(b"/dev/full\nover\n")


def test_the_folder_of_mig_devices_is_shown_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"/dev/nvidiactl": stat.S_IFCHR, "/dev/nvidia-caps": stat.S_IFDIR, "/dev/mapper": stat.S_IFDIR}

    def found(path: str) -> os.stat_result:
        if path not in there:
            raise FileNotFoundError(path)
        return os.stat_result((there[path], *(0,) * 9))

    monkeypatch.setattr(sandbox, "os", SimpleNamespace(stat=found))
    nodes = sandbox.device_nodes(("MIG-1234", "/dev/mapper"))
    assert nodes == ["/dev/nvidiactl", "/dev/nvidia-caps"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, whose rights a path would be followed with")
def test_a_link_in_its_files_makes_no_folder_outside(provider: ProcessProvider, tmp_path: Path) -> None:
    """Where a volume goes, the session puts a link before it is started again."""
    (tmp_path / "root" / "data").mkdir(parents=True)
    outside = tmp_path / "outside"
    outside.mkdir()
    volume = Mount(str(tmp_path / "root" / "data"), "/home/work/way/data", root=str(tmp_path / "root"))
    text = f"rm -rf way; umount way/data 2>/dev/null; mv way old; ln -s /oldroot{outside} way; echo x; exit 1"
    kernel = provider.create(script(text, mounts=(volume,), restart=RestartRule("on-failure", 2)))
    ended(provider, kernel.id)
    assert list(outside.iterdir()) == []


def test_programs_find_what_they_need_of_proc_and_etc(provider: ProcessProvider) -> None:
    kernel = provider.create(
        spec("/bin/sh", "-c", "cat /proc/meminfo /proc/cpuinfo /proc/sys/kernel/ostype /etc/passwd")
    )
    assert ended(provider, kernel.id).exit_code == 0
