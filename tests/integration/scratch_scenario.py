"""What `test_scratch_quota.py` runs in a guest: sessions whose scratch folder is held by a project quota."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, ".")
from providers.base import Limit, Mount
from providers.process.provider import ProcessProvider
from providers.process.supervision import scratch
from providers.storage.node import mounts, project
from tests.providers.process.kernels import ended, output, said, script, spec, state
from tests.waiting import until

MIB = 1 << 20
PYTHON = Mount(sys.base_prefix, sys.base_prefix, read_only=True)
LEAVING = """
import fcntl, os, struct
GET, SET, GETFLAGS, SETFLAGS = 0x801C581F, 0x401C5820, 0x80086601, 0x40086602
INHERIT = 0x200
layout = struct.Struct("=5I8s")

def known(file):
    buffer = bytearray(layout.size)
    fcntl.ioctl(file, GET, buffer)
    return list(layout.unpack(bytes(buffer)))

def attempt(what, work):
    try:
        work()
        print("CHANGED", what)
    except OSError as error:
        print("refused", what, error.strerror)

os.makedirs("below", exist_ok=True)
open("file", "w").close()
for name in (".", "below", "file"):
    file = os.open(name, os.O_RDONLY)
    print("project", name, known(file)[3] > 0, bool(known(file)[0] & INHERIT) or name == "file")
    for number in (0, 1, 77):
        other = known(file)
        other[3] = number
        attempt(f"{name} {number}", lambda: fcntl.ioctl(file, SET, layout.pack(*other)))
    if name != "file":
        other = known(file)
        other[0] &= ~INHERIT
        attempt(f"{name} inheritance", lambda: fcntl.ioctl(file, SET, layout.pack(*other)))
        flags = bytearray(8)
        fcntl.ioctl(file, GETFLAGS, flags)
        bits = struct.unpack("=q", bytes(flags))[0] & ~0x20000000
        attempt(f"{name} flags", lambda: fcntl.ioctl(file, SETFLAGS, struct.pack("=q", bits)))
    print("still", name, known(file)[3] > 0, bool(known(file)[0] & INHERIT) or name == "file")
"""


def number(provider: ProcessProvider, kernel: str) -> int:
    folder = os.open(provider.root.folder(kernel) / "scratch", os.O_RDONLY)
    try:
        return project.project_of(folder)
    finally:
        os.close(folder)


def limits(root: str, of: int) -> tuple[int, int]:
    """Limit and use of a project now; zeros where there is none."""
    folder = os.open(root, os.O_RDONLY)
    try:
        return project.read_limits(mounts.mount_of(root), folder, of)
    except (FileNotFoundError, ProcessLookupError):
        return 0, 0
    finally:
        os.close(folder)


def fill(name: str, most: int) -> str:
    return f"head -c {most} /dev/zero > {name} && echo whole {name} || echo part {name}"


def main(root: str) -> None:
    found: dict[str, object] = {}
    place = Path(root) / "state"
    provider = ProcessProvider(place)
    found["held"] = Limit.SCRATCH in provider.capabilities().limits
    wait = "while ! test -e go; do sleep 0.5; done"
    text = f"{fill('big', 20 * MIB)}; {wait}; {fill('more', 6 * MIB)}; sleep 300"
    first = provider.create(script(text, name="s-first-g1", scratch=8 * MIB))
    said(provider, first.id, b"part big")
    mine = number(provider, first.id)
    most, used = limits(root, mine)
    found["first"] = [most, 7 * MIB < used <= 8 * MIB]
    other = provider.create(script(f"{fill('free', 16 * MIB)}; sleep 300", name="s-other-g1"))
    said(provider, other.id, b"whole free")
    found["apart"] = number(provider, other.id) not in (0, mine)

    # bai comes back after a crash, and its supervisor lives on.
    provider = ProcessProvider(place)
    raised = provider.update(first.id, script(text, name=first.id, scratch=32 * MIB))
    found["raised"] = [raised.scratch, limits(root, mine)[0], number(provider, first.id) == mine]
    (provider.root.folder(first.id) / "scratch" / "go").touch()
    said(provider, first.id, b"whole more")
    provider.update(other.id, script("", name=other.id, scratch=20 * MIB))
    theirs = number(provider, other.id)
    found["limited_later"] = limits(root, theirs)[0]

    # Its supervisor is killed: nothing is lost or taken twice.
    os.kill(int(state(provider, first.id)["supervisor"]), signal.SIGKILL)
    until(lambda: provider.observe().kernels[0].state == "lost", "the first is lost")
    found["after_crash"] = [limits(root, mine)[0], number(provider, first.id) == mine]
    # Killed between lifting the limit and deleting the folder.
    scratch.lift_limit(provider.root.folder(first.id))
    for kernel in (first.id, other.id):
        provider.remove(kernel)
    # XFS counts what is deleted a moment later.
    until(lambda: limits(root, mine) == limits(root, theirs) == (0, 0), "no quota outlives its kernel")

    many = "i=0; while test $i -lt 4000; do i=$((i+1)); true > f$i || { echo stopped at $i; exit 3; }; done"
    kernel = provider.create(script(many, name="s-many-g1", scratch=4 * MIB))
    found["files"] = [ended(provider, kernel.id).exit_code, output(provider, kernel.id).decode()[-200:]]
    provider.remove(kernel.id)
    kernel = provider.create(
        spec("python3", "-c", LEAVING, name="s-leave-g1", scratch=4 * MIB, mounts=(PYTHON,))
    )
    found["leaving"] = [ended(provider, kernel.id).exit_code, output(provider, kernel.id).decode()]
    provider.remove(kernel.id)
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
