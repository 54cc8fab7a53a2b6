"""A hostile session that wants to be root outside of its sandbox, or to read what only root may."""

from __future__ import annotations

import ctypes
import os
import shutil
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from providers import masked_paths
from providers.base import Mount, RestartRule
from providers.process.linux import procfs
from providers.process.provider import ProcessProvider
from providers.process.sandbox import bubblewrap, etc, seccomp
from schemas.problems.errors.kernel import KernelRefused
from tests.lab import huge_pages
from tests.providers.process.kernels import UID, ended, output, script, spec
from tests.waiting import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        bool(bubblewrap.sandbox_problem()), reason=bubblewrap.sandbox_problem() or "there is a sandbox"
    ),
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
    "/proc/irq/*/smp_affinity",
    "/proc/bus/pci/*/*",
    "/proc/fs/*/*",
    "/proc/fs/*/*/*",
    "/sys/kernel/uevent_helper",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/fs/cgroup/cgroup.procs",
    "/sys/fs/cgroup/cgroup.subtree_control",
    "/sys/fs/cgroup/*/cgroup.procs",
    "/sys/fs/cgroup/*/cgroup.subtree_control",
    "/sys/fs/cgroup/*/release_agent",
)
"""As patterns, of which each machine has some."""
MASKED = (
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
    "/sys/fs/selinux",
    "/sys/kernel/debug",
    "/sys/kernel/security",
    "/sys/kernel/tracing",
)
"""What Moby, containerd and Podman mask. Written out here: from the product's own list a name can be lost."""


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


def test_no_setting_of_the_machine_is_opened_for_writing(provider: ProcessProvider) -> None:
    opened = '( : >> "$each" ) 2>/dev/null && echo "$each"'
    said = _said(
        provider, f'for each in {" ".join(SETTINGS)}; do test -e "$each" && {opened}; done; echo over'
    )
    assert said == b"over\n"


MOUNTED = """
import glob, os, sys
for path in sorted(path for pattern in sys.argv[1:] for path in glob.glob(pattern)):
    try:
        if not os.statvfs(path).f_flag & os.ST_RDONLY:
            print(path)
    except FileNotFoundError:  # A group of others, or a device, that has just gone.
        pass
print("over")
"""


def test_settings_of_the_machine_lie_on_read_only_mounts(provider: ProcessProvider) -> None:
    """Whoever they belong to: control groups, for one, may be given to an ordinary user."""
    kernel = provider.create(spec("/usr/bin/python3", "-c", MOUNTED, *SETTINGS))
    ended(provider, kernel.id)
    assert output(provider, kernel.id) == b"over\n"


def test_in_proc_and_sys_only_watching_pressure_takes_writing(provider: ProcessProvider) -> None:
    """Who writes to /proc/pressure is told of pressure; processes are the session's own."""
    ours = "-path '/proc/[0-9]*' -prune"
    find = f"find /proc /sys {ours} -o '(' -type f -o -type d ')' -writable -print 2>/dev/null"
    *writable, last = _said(provider, f"{find}; echo over").decode().splitlines()
    assert last == "over"
    # In place of a file that is masked there is /dev/null.
    assert [path for path in writable if path not in MASKED and not path.startswith("/proc/pressure/")] == []


NESTED_WAYS = (
    f"{NESTED} --mount-proc sh -c 'echo $V > {PATTERN}'",
    f"{NESTED} sh -c 'mkdir /tmp/q; mount -t proc q /tmp/q && echo $V > /tmp/q/{PATTERN[6:]}'",
    f"{NESTED} sh -c 'mount -o remount,bind,rw /proc/sys; echo $V > {PATTERN}'",
    f"{NESTED} sh -c 'umount /proc/sys; echo $V > {PATTERN}'",
)


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
        *NESTED_WAYS,
        f"nsenter -t 1 -m sh -c 'echo $V > {PATTERN}'",
        "sysctl -w kernel.core_pattern=$V",
    ],
)  # fmt: skip
def test_the_program_that_gets_cores_stays_the_machines(provider: ProcessProvider, way: str) -> None:
    """A pipe there is started by the kernel as root outside; what is written here is what stood there."""
    said = _said(provider, f'export V="$(cat {PATTERN})"; ( {way} ) 2>/dev/null && echo CHANGED; echo over')
    assert said == b"over\n"


# The walls behind the filter of system calls, which needs libseccomp: without one, every session may be root
# of namespaces that are nested in its sandbox's, and may mount there.

UNFILTERED = "grep '^Seccomp:' /proc/self/status"


@pytest.fixture
def unfiltered(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Sessions have no filter; what they see by `UNFILTERED` then."""
    if procfs.fields(Path("/proc/self/status").read_text())["Seccomp"] != "0":
        pytest.skip("the tests themselves run under a filter of system calls")
    monkeypatch.setattr(seccomp, "put_filter", lambda *_: "")
    return b"Seccomp:\t0\n"


@pytest.mark.parametrize("way", NESTED_WAYS)
def test_without_a_filter_it_stays_the_machines_too(
    provider: ProcessProvider, unfiltered: bytes, way: str
) -> None:
    attack = f'export V="$(cat {PATTERN})"; ( {way} ) 2>/dev/null && echo CHANGED'
    assert _said(provider, f"{UNFILTERED}; {attack}; echo over") == unfiltered + b"over\n"


MASK = next((path for path in MASKED if os.path.isfile(path)), "/proc/keys")


@pytest.mark.parametrize(
    "way",
    [
        "umount /proc/sys",
        f"umount -l {MASK}",
        "umount -l /proc",
        "umount -l /sys",
        "mount -o remount,bind,rw /proc/sys",
        "mount -o remount,bind,rw /sys",
        "mount -t proc q /tmp/q",
        "mount --bind /proc /tmp/q",
        "mount --bind /sys /tmp/q",
        "mount --bind / /tmp/q",
        "mount --move /proc /tmp/q",
        f"mount --move {MASK} /tmp/f",
        "mount --rbind /proc /tmp/q && umount -l /tmp/q/sys",
        f"mount --rbind / /tmp/q && umount -l /tmp/q{MASK}",
        "mount --rbind /proc /tmp/q && mount -o remount,bind,rw /tmp/q/sys",
    ],
)
def test_a_nested_namespace_uncovers_nothing(provider: ProcessProvider, unfiltered: bytes, way: str) -> None:
    attack = f"mkdir /tmp/q; : > /tmp/f; {NESTED} sh -c '{way}' 2>/dev/null && echo UNCOVERED"
    assert _said(provider, f"{UNFILTERED}; {attack}; echo over") == unfiltered + b"over\n"


@pytest.mark.parametrize(
    "way",
    [
        "mount -t sysfs q /tmp/q",
        "mount -t cgroup2 q /tmp/q && echo 1 > /tmp/q/cgroup.procs",
        "mount -t cgroup -o $H q /tmp/q && echo /tmp/f > /tmp/q/release_agent",
        "mount -t cgroup -o $H q /tmp/q && echo 1 > /tmp/q/notify_on_release",
        "mount -t cgroup -o $H q /tmp/q && echo a > /tmp/q/devices.allow",
    ],
)
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: of others, a session may own its control group")
def test_a_nested_namespace_sets_nothing_of_control_groups(
    provider: ProcessProvider, unfiltered: bytes, way: str
) -> None:
    """Each hierarchy can be mounted there, and belongs to root. A release_agent is a program that the kernel
    starts as root outside (CVE-2022-0492)."""
    one = f'H=$each {NESTED} --net --cgroup sh -c "$W" 2>/dev/null && echo "CHANGED $each"'
    every = "none $(cut -d: -f2 /proc/self/cgroup)"
    attack = f"mkdir /tmp/q; export W='{way}'; for each in {every}; do {one}; done"
    assert _said(provider, f"{UNFILTERED}; {attack}; echo over") == unfiltered + b"over\n"


BY_HANDLE = """
import ctypes, os, sys
scratch = os.open("/home/work", os.O_RDONLY)
handle = bytes.fromhex(sys.argv[1])
found = ctypes.CDLL(None).open_by_handle_at(scratch, handle, os.O_RDONLY | os.O_DIRECTORY)
print("over" if found < 0 else os.listdir(found))
"""


def _handle(path: Path) -> str:
    """By which open_by_handle_at(2) finds a folder, whatever lies on the way to it."""
    held = ctypes.create_string_buffer(struct.pack("Ii", 128, 0), 136)
    words = (-100, os.fsencode(path), held, ctypes.byref(ctypes.c_int()), 0)
    if ctypes.CDLL(None, use_errno=True).name_to_handle_at(*words):
        pytest.skip(f"no file handles here: {os.strerror(ctypes.get_errno())}")
    return held.raw[: 8 + int(struct.unpack_from("I", held)[0])].hex()


@pytest.mark.parametrize("nested", ["", NESTED])
def test_no_handle_of_a_file_leads_out(
    provider: ProcessProvider, tmp_path: Path, unfiltered: bytes, nested: str
) -> None:
    """Its scratch folder lies on a file system of the machine's; a handle can be guessed."""
    kernel = provider.create(
        script(
            f'{UNFILTERED}; {nested} /usr/bin/python3 -c "$BY_HANDLE" {_handle(tmp_path)}',
            env={"BY_HANDLE": BY_HANDLE},
        )
    )
    ended(provider, kernel.id)
    assert output(provider, kernel.id) == unfiltered + b"over\n"


SEEN = """
for each in $PATHS; do
    if test -d $each; then
        within="$(stat -f -c %T $each; ls -A $each || echo SHUT)"
        test "$within" = tmpfs || echo "SHOWN $each: $within"
        ( : > $each/new ) 2>/dev/null && echo "WRITABLE $each"
    else
        test -c $each && test -z "$(head -c 1 $each 2>/dev/null)" || echo "SHOWN $each"
    fi
    umount $each 2>/dev/null && echo "UNMASKED $each"
done
echo over
"""


def test_memory_and_keys_of_the_machine_are_not_shown(provider: ProcessProvider) -> None:
    assert set(MASKED) <= set(masked_paths.MASKED)
    paths = [path for path in MASKED if os.path.exists(path)]
    assert "/proc/kcore" in paths or "/proc/keys" in paths
    assert _said(provider, f"PATHS='{' '.join(paths)}'; {SEEN}") == b"over\n"


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


def _outside() -> str:
    """A name in the machine's /etc that anybody may read there, and no session."""
    shown = {name.partition("/")[0] for name in (*etc.shown_entries(), *etc.USERS)}
    files = (path for path in sorted(Path("/etc").iterdir()) if path.name not in shown and path.is_file())
    return next((path.name for path in files if path.stat().st_mode & stat.S_IROTH), "")


BELOW = (
    "for each in {0}; do for up in . .. ../.. ../../..; do cat $each/$up/etc/$N && exit; done; done; false"
)
NESTED_ETC_WAYS = (
    f"{NESTED} sh -c 'mount --bind / /tmp/q && cat /tmp/q/etc/$N'",
    f"{NESTED} sh -c 'mount --bind /etc/.. /tmp/q && cat /tmp/q/etc/$N'",
    f"{NESTED} sh -c 'umount -l /etc; cat /etc/$N'",
    f"{NESTED} sh -c 'umount -l /; cat /etc/$N'",
    f"{NESTED} sh -c 'mount --rbind / /tmp/q && pivot_root /tmp/q /tmp/q/tmp; cat /tmp/etc/$N'",
    f"{NESTED} sh -c 'chroot /home/work/../.. cat /etc/$N'",
)


def _reached(way: str) -> str:
    return (
        f"mkdir /tmp/q; for N in shadow {_outside()}; do export N; ( {way} ) >/dev/null 2>&1 && echo $N; done"
    )


@pytest.mark.skipif(not _outside(), reason="this machine shows all of its /etc to sessions")
@pytest.mark.parametrize(
    "way",
    [
        "cat /etc/$N",
        "cat /proc/1/root/etc/$N",
        "cat /oldroot/etc/$N || cat /newroot/etc/$N",
        BELOW.format("/proc/[0-9]*/cwd /proc/[0-9]*/root"),
        BELOW.format("/proc/[0-9]*/fd/*"),
        "cd /home/work && ln -s ../../../../../../../etc way && cat way/$N",
        *NESTED_ETC_WAYS,
        "nsenter -t 1 -m cat /etc/$N",
    ],
)
def test_no_way_leads_to_the_rest_of_etc(provider: ProcessProvider, way: str) -> None:
    """Of what anybody may read outside, it is not the rights of files that keep a session."""
    assert _said(provider, f"{_reached(way)}; echo over") == b"over\n"


@pytest.mark.skipif(not _outside(), reason="this machine shows all of its /etc to sessions")
@pytest.mark.parametrize("way", NESTED_ETC_WAYS)
def test_without_a_filter_no_way_leads_there_either(
    provider: ProcessProvider, unfiltered: bytes, way: str
) -> None:
    assert _said(provider, f"{UNFILTERED}; {_reached(way)}; echo over") == unfiltered + b"over\n"


def _read_below(provider: ProcessProvider, folder: str) -> bytes:
    kernel = provider.create(script(f"grep -rl 'PRIVATE KEY' {folder} 2>/dev/null | head", name="s-read-g1"))
    ended(provider, kernel.id)
    return output(provider, kernel.id)


# Whom a session is.

WHO = "id -u; id -g; grep -E '^(CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp):' /proc/self/status"
SETS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
NOBODYS = {**dict.fromkeys(SETS, "0" * 16), "NoNewPrivs": "1", "Seccomp": "2"}


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
refused("syscall", ctypes.c_long(9), None, ctypes.c_long(2 << 20), 3, 0x40022, -1, ctypes.c_long(0))
refused("syscall", ctypes.c_long(319), b"x", 4)              # memfd_create, MFD_HUGETLB
refused("syscall", ctypes.c_long(29), 0, ctypes.c_long(2 << 20), 0o4600)  # shmget, SHM_HUGETLB
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


PAGES = """
import mmap
ordinary = mmap.mmap(-1, 4 << 20)
try:
    mmap.mmap(-1, 4 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000)[0] = 1
    print("taken", flush=True)
except OSError as error:
    print("refused", error.errno, flush=True)
"""
"""Takes huge pages: without a file system, a limit on locked memory, or a right to anything."""


@pytest.mark.skipif(bool(huge_pages.why_not()), reason=huge_pages.why_not() or "there are huge pages")
def test_no_session_takes_pages_that_are_set_aside_for_others(provider: ProcessProvider) -> None:
    with huge_pages.set_aside(4):
        outside = subprocess.run([sys.executable, "-c", PAGES], capture_output=True, text=True, check=True)
        assert outside.stdout == "taken\n", "whoever is no session of bai's takes them"
        kernel = provider.create(spec("/usr/bin/python3", "-c", PAGES))
        ended(provider, kernel.id)
        assert output(provider, kernel.id) == b"refused 1\n"
        assert huge_pages.free() >= 4


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

    monkeypatch.setattr(bubblewrap, "os", SimpleNamespace(stat=found))
    nodes = bubblewrap.device_nodes(("MIG-1234", "/dev/mapper"))
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
