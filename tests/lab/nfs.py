"""A real NFS server, the kernel's own, in a guest; its programs are fetched from Debian and unpacked only."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from tests.lab.cache import LabUnavailable, command, kept
from tests.lab.guest import Guest
from tests.lab.image import load_modules

EXPORT, MOUNT = "/srv/nfs", "/mnt/nfs"
_PROGRAMS = ("usr/sbin/rpc.mountd", "usr/sbin/exportfs", "usr/sbin/rpc.nfsd")
_PACKAGES = (
    "nfs-kernel-server", "libtirpc3", "libwrap0", "libkeyutils1", "libnsl2", "libblkid1", "libuuid1",
    "libgssapi-krb5-2", "libkrb5-3", "libk5crypto3", "libcom-err2", "libkrb5support0",
)  # fmt: skip
_LINKER = "/lib64/ld-linux-x86-64.so.2"
_MOUNT = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
data = b"addr=127.0.0.1,clientaddr=127.0.0.1,vers=4.2"
if libc.mount(b"127.0.0.1:/", sys.argv[1].encode(), b"nfs4", 0, data):
    sys.exit(os.strerror(ctypes.get_errno()))
"""
_START = f"""
set -e
mkdir -p /var/lib/nfs/sm /var/lib/nfs/v4recovery {EXPORT} {MOUNT}
touch /var/lib/nfs/etab /var/lib/nfs/rmtab
printf 'nfs 2049/tcp\\nnfs 2049/udp\\n' > /etc/services
printf 'tcp 6 TCP\\nudp 17 UDP\\n' > /etc/protocols
printf 'udp tpi_clts v inet udp - -\\ntcp tpi_cots_ord v inet tcp - -\\n' > /etc/netconfig
mount -t tmpfs srv {EXPORT}
mount -t nfsd nfsd /proc/fs/nfsd
echo 10 > /proc/fs/nfsd/nfsv4leasetime
echo 10 > /proc/fs/nfsd/nfsv4gracetime
echo '{EXPORT} 127.0.0.1(rw,no_root_squash,fsid=0,insecure,no_subtree_check)' > /etc/exports
cd /tmp/nfs-programs
run() {{ ./ld.so --library-path lib "$@"; }}
run ./exportfs -r
run ./rpc.mountd -N 3 </dev/null >/tmp/mountd 2>&1
run ./rpc.nfsd -N 3 -U 1
[ "$(cat /proc/fs/nfsd/threads)" = 1 ]
"""
_STOP = f"""
umount {MOUNT}; umount -l {MOUNT}
cd /tmp/nfs-programs && ./ld.so --library-path lib ./rpc.nfsd 0
kill $(pidof ld.so); umount /proc/fs/nfsd; umount {EXPORT}
true
"""


def start(guest: Guest) -> None:
    """Serve `EXPORT`; nothing is mounted yet. Raises LabUnavailable."""
    load_modules(guest)
    guest.put(kept("nfs-programs", _fetch), "/tmp")
    code, output = guest.run(["sh", "-c", _START])
    if code:
        raise LabUnavailable(f"the NFS server does not start in the guest: {output.strip()[-300:]}")


def mount(guest: Guest) -> None:
    """At `MOUNT`, by NFS 4.2."""
    code, output = guest.run(["python3", "-c", _MOUNT, MOUNT])
    assert code == 0, output


def unmount(guest: Guest) -> None:
    guest.run(["umount", MOUNT])


def stop(guest: Guest) -> None:
    guest.run(["sh", "-c", _STOP])


def _fetch(draft: Path) -> None:
    unpacked = draft / "unpacked"
    unpacked.mkdir(parents=True)
    command(["apt-get", "-o", "APT::Sandbox::User=root", "download", *_PACKAGES], cwd=draft)
    for archive in draft.glob("*.deb"):
        command(["dpkg-deb", "-x", str(archive), str(unpacked)])
        archive.unlink()
    folders = ":".join(sorted({str(path.parent) for path in unpacked.rglob("*.so*")}))
    (draft / "lib").mkdir()
    for program in _PROGRAMS:
        shutil.copy(unpacked / program, draft / Path(program).name)
        for name, library in _libraries(unpacked / program, folders).items():
            shutil.copy(library, draft / "lib" / name)
    shutil.copy(_LINKER, draft / "ld.so")
    shutil.rmtree(unpacked)


def _libraries(program: Path, folders: str) -> dict[str, str]:
    env = {**os.environ, "LD_LIBRARY_PATH": folders}
    listed = subprocess.run(
        ["ldd", str(program)], env=env, capture_output=True, text=True, check=False
    ).stdout
    missing = re.findall(r"(\S+) => not found", listed)
    if missing:
        raise LabUnavailable(f"{program.name} needs {missing[0]}")
    return dict(re.findall(r"(\S+) => (/\S+)", listed))
