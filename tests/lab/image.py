"""The guest's kernel, initial RAM disk and root file system.

Kernel: Debian's cloud kernel, downloaded as a package and unpacked, never installed. Root: busybox and this
very Python
with the packages the tests need, as an ext4 image made without mounting anything.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import os
import re
import shutil
import stat
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.lab import agent
from tests.lab.cache import LabUnavailable, command, folder, kept, tool

if TYPE_CHECKING:
    from tests.lab.guest import Guest

_META = "linux-image-cloud-amd64"
_MODULES = (
    "virtio_ring",
    "virtio",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "virtio_console",
    "virtio_blk",
)
"""In the order of their dependencies."""
_LOADABLE = ("loop", "crc32c_generic", "xfs", "quota_v2", "nfsd", "nfsv4")
"""What a test may load into a guest, with what these need: see `loadable`."""
_WANTED = ("bai", "pytest", "hypothesis", "pytest-xdist")
_UNWANTED = {"numpy", "mypy", "ruff"}
_STDLIB_LEFT_OUT = {
    "test",
    "idlelib",
    "tkinter",
    "turtledemo",
    "ensurepip",
    "site-packages",
    "dist-packages",
    "__pycache__",
    "lib2to3",
}
_VERSION = "2"
_KEPT_SECONDS = 7 * 24 * 3600

_INITRD = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /root
/bin/busybox mount -t devtmpfs dev /dev
for module in MODULES; do /bin/busybox insmod /$module.ko || exit 1; done
while [ ! -b /dev/vda ]; do /bin/busybox usleep 20000; done
/bin/busybox mount -t ext4 -o ro /dev/vda /root
exec /bin/busybox switch_root /root /init
"""
_INIT = """#!/bin/busybox sh
export PATH=/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /dev/pts
mount -t tmpfs shm /dev/shm
mount -t devpts pts /dev/pts
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
if grep -q cgroup_no_v1=all /proc/cmdline; then
  mount -t cgroup2 cgroup2 /sys/fs/cgroup
  echo "+cpu +cpuset +memory +pids +io" > /sys/fs/cgroup/cgroup.subtree_control
else
  mount -t tmpfs cgroups /sys/fs/cgroup
  for name in cpu cpuset memory pids freezer devices; do
    mkdir /sys/fs/cgroup/$name
    mount -t cgroup -o $name cgroup /sys/fs/cgroup/$name
  done
fi
ip link set lo up
hostname guest
exec PYTHON -B /agent.py
"""


class Kernel(NamedTuple):
    image: Path
    initrd: Path


def kernel() -> Kernel:
    """Fetched on first use; raises LabUnavailable."""
    busybox = tool("busybox")
    key = hashlib.sha256(repr((_VERSION, _INITRD, _MODULES, _LOADABLE)).encode()).hexdigest()[:16]
    path = kept(f"kernel-{key}", lambda draft: _fetch_kernel(draft, busybox))
    return Kernel(path / "vmlinuz", path / "initrd")


def _fetch_kernel(draft: Path, busybox: str) -> None:
    draft.mkdir()
    package = _newest_package()
    command(["apt-get", "-o", "APT::Sandbox::User=root", "download", package], cwd=draft)
    (archive,) = draft.glob("*.deb")
    command(["dpkg-deb", "-x", str(archive), str(draft / "unpacked")])
    archive.unlink()
    shutil.copy(next((draft / "unpacked" / "boot").glob("vmlinuz-*")), draft / "vmlinuz")
    files = {f"{name}.ko": next((draft / "unpacked").rglob(f"{name}.ko")).read_bytes() for name in _MODULES}
    files["init"] = _INITRD.replace("MODULES", " ".join(_MODULES)).encode()
    files["bin/busybox"] = Path(busybox).read_bytes()
    (draft / "initrd").write_bytes(cpio(files))
    _keep_loadable(draft)
    shutil.rmtree(draft / "unpacked")


def _keep_loadable(draft: Path) -> None:
    """In the order in which they are loaded, numbered."""
    files = {path.stem: path for path in (draft / "unpacked").rglob("*.ko")}
    order: list[str] = []

    def add(name: str) -> None:
        path = files.get(name) or files.get(name.replace("_", "-"))
        if path is None or name in order:
            return
        for needed in re.findall(rb"\0depends=([^\0]*)\0", path.read_bytes())[:1]:
            for other in filter(None, needed.decode().split(",")):
                add(other)
        order.append(name)
        (draft / "modules").mkdir(exist_ok=True)
        shutil.copy(path, draft / "modules" / f"{len(order):02}-{name}.ko")

    for name in _LOADABLE:
        add(name)


def load_modules(guest: Guest) -> None:
    """Load what a test may load into a guest, once; what it needs comes first."""
    if guest.run(["test", "-d", "/run/modules"])[0] == 0:
        return
    guest.put(kernel().image.parent / "modules", "/run")
    guest.run(["sh", "-c", "for file in /run/modules/*.ko; do insmod $file; rm $file; done"])


def _newest_package() -> str:
    listed = _depends()
    if listed is None:
        command(["apt-get", "update", "-qq"])
        listed = _depends()
    if listed is None:
        raise LabUnavailable(f"apt offers no {_META} (it is Debian's)")
    return listed


def _depends() -> str | None:
    try:
        found = re.search(r"Depends: (linux-image-\S+)", command(["apt-cache", "depends", _META]))
    except LabUnavailable:
        return None
    return found[1] if found else None


def cpio(files: dict[str, bytes]) -> bytes:
    """An initial RAM disk (cpio, newc) with these files, all executable, and the folders they need."""
    entries = {"dev": b"", "bin": b""} | files
    packed = bytearray()
    for number, (name, content) in enumerate([*sorted(entries.items()), ("TRAILER!!!", b"")], start=1):
        folder = name in ("dev", "bin")
        mode = (stat.S_IFDIR if folder else stat.S_IFREG) | 0o755
        fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
        packed += b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
        packed += b"\0" * (-len(packed) % 4) + content
        packed += b"\0" * (-len(packed) % 4)
    return bytes(packed)


def root() -> Path:
    """The root file system for this interpreter and these packages; raises LabUnavailable."""
    wanted = _distributions()
    key = hashlib.sha256(
        repr((_VERSION, sys.version, sys.base_prefix, _INIT, _source(agent), sorted(wanted.items()))).encode()
    )
    while True:
        path = kept(f"root-{key.hexdigest()[:16]}.ext4", lambda draft: _make_root(draft, list(wanted)))
        # Another run may have just forgotten it: `touch` would make an empty one.
        with contextlib.suppress(FileNotFoundError):
            os.utime(path)
            _forget_others()
            return path


def _forget_others() -> None:
    """Images that were not used for a week."""
    for image in folder().glob("root-*.ext4"):
        with contextlib.suppress(OSError):
            if time.time() - image.stat().st_mtime > _KEPT_SECONDS:
                image.unlink()


def _source(module: object) -> str:
    return Path(str(getattr(module, "__file__", ""))).read_text()


def _distributions() -> dict[str, str]:
    """The wanted distributions and all they require, with their versions."""
    found: dict[str, str] = {}
    queue = list(_WANTED)
    while queue:
        name = re.sub(r"[-_.]+", "-", queue.pop()).lower()
        if name in found or name in _UNWANTED:
            continue
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        found[name] = distribution.version
        for requirement in distribution.requires or ():
            if "extra ==" not in requirement:
                queue.append(re.split(r"[^\w.-]", requirement, maxsplit=1)[0])
    found.pop("bai", None)
    return found


def _make_root(draft: Path, distributions: list[str]) -> None:
    staging = draft.with_name(draft.name + ".d")
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir()
    try:
        _fill(staging, distributions)
        size = sum(path.lstat().st_size for path in staging.rglob("*")) // (1 << 20) + 256
        command(
            [
                tool("mke2fs"),
                "-q",
                "-t",
                "ext4",
                "-O",
                "^has_journal",
                "-d",
                str(staging),
                str(draft),
                f"{size}M",
            ]
        )
    finally:
        shutil.rmtree(staging)


def _fill(staging: Path, distributions: list[str]) -> None:
    for name in ("bin", "dev", "proc", "sys", "tmp", "run", "root", "etc", "lib", "lib64", "var/lib", "site"):
        (staging / name).mkdir(parents=True, exist_ok=True)
    shutil.copy(tool("busybox"), staging / "bin" / "busybox")
    (staging / "sbin").symlink_to("bin")
    (staging / "usr").mkdir()
    (staging / "usr" / "bin").symlink_to("../bin")
    for applet in sorted(set(command([tool("busybox"), "--list"]).split()) - {"busybox"}):
        (staging / "bin" / applet).symlink_to("busybox")
    (staging / "etc" / "passwd").write_text(
        "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"
    )
    (staging / "etc" / "group").write_text("root:x:0:\nnogroup:x:65534:\n")
    (staging / "agent.py").write_text(_source(agent))
    _copy_packages(staging / "site", distributions)
    python = _copy_python(staging)
    _compile(staging)
    init = staging / "init"
    init.write_text(_INIT.replace("PYTHON", python))
    init.chmod(0o755)


def _compile(staging: Path) -> None:
    """Compiled once here rather than at every start in there, where everything takes ten times as long."""
    folders = [staging / "site", staging / sysconfig.get_path("stdlib").lstrip("/")]
    mode = ["--invalidation-mode", "unchecked-hash", "-s", str(staging), "-p", "/"]
    argv = [sys.executable, "-m", "compileall", "-q", "-j", "2", *mode, *map(str, folders)]
    subprocess.run(argv, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _copy_packages(site: Path, distributions: list[str]) -> None:
    for name in distributions:
        for file in importlib.metadata.distribution(name).files or ():
            source = Path(str(file.locate()))
            if ".." in file.parts or file.suffix == ".pyc" or not source.is_file():
                continue
            (site / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, site / file)


def _copy_python(staging: Path) -> str:
    """This interpreter, its standard library and shared libraries at their own paths; gives the command to
    start it.
    """
    executable = Path(os.path.realpath(sys.executable))
    stdlib = Path(sysconfig.get_path("stdlib"))
    inside = staging / str(stdlib).lstrip("/")

    def left_out(folder: str, names: list[str]) -> set[str]:
        return {name for name in names if name in _STDLIB_LEFT_OUT or name.startswith("config-")}

    shutil.copytree(stdlib, inside, ignore=left_out, symlinks=True)
    binaries = [executable, *stdlib.glob("lib-dynload/*.so"), *(staging / "site").rglob("*.so")]
    _copy(executable, staging)
    for library in _libraries(binaries):
        _copy(library, staging)
    (staging / "bin" / "python3").write_text(
        f'#!/bin/busybox sh\nPYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}/site" exec {executable} "$@"\n'
    )
    (staging / "bin" / "python3").chmod(0o755)
    return "/bin/python3"


def _copy(path: Path, staging: Path) -> None:
    target = staging / str(path).lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists():
        shutil.copy(path, target)


def _libraries(binaries: list[Path]) -> set[Path]:
    found: set[Path] = set()
    for at in range(0, len(binaries), 100):
        listed = subprocess.run(
            ["ldd", *map(str, binaries[at : at + 100])],
            check=False,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ).stdout
        found |= {Path(path) for path in re.findall(r"(?:=>\s+|^\s+)(/\S+) \(0x", listed, re.MULTILINE)}
    return {path for path in found if "site-packages" not in path.parts}
