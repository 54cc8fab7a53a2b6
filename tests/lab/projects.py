"""File systems with project quotas, in a guest whose kernel has them, and bubblewrap there."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.cache import LabUnavailable, tool
from tests.lab.fixtures import Boot
from tests.lab.guest import Guest
from tests.lab.image import load_modules

MAKERS = {
    "xfs": ["mkfs.xfs", "-q", "--unsupported"],
    "ext4": ["mke2fs", "-q", "-t", "ext4", "-O", "quota,project", "-E", "quotatype=prjquota"],
}
SIZE = 64 << 20
UNPACK = f"""
import sys, zlib
packed, unpacking = open(sys.argv[1], "rb"), zlib.decompressobj()
with open(sys.argv[2], "wb") as image:
    while piece := unpacking.decompress(unpacking.unconsumed_tail or packed.read(4096), 65536):
        image.write(piece) if any(piece) else image.seek(len(piece), 1)
    image.truncate({SIZE})
"""
"""What is empty takes no room: the guest's files are in its memory."""


@pytest.fixture(params=sorted(MAKERS))
def disk(request: pytest.FixtureRequest, vm: Boot) -> Iterator[tuple[Guest, str]]:
    """A guest, and where a file system with project quotas is mounted in it."""
    guest = vm(numa=2)
    kind = request.param
    load_modules(guest)
    try:
        guest.put_bytes(zlib.compress(_image(kind), 1), f"/tmp/{kind}.z")
    except LabUnavailable as error:
        pytest.skip(str(error))
    mount = f"mkdir -p /tmp/{kind} && mount -t {kind} -o loop,prjquota /tmp/{kind}.img /tmp/{kind}"
    script = f'python3 -c "$1" /tmp/{kind}.z /tmp/{kind}.img && {mount}'
    code, output = guest.run(["sh", "-c", script, "sh", UNPACK])
    assert code == 0, output + guest.run(["dmesg"])[1][-2000:]
    guest.run(["chmod", "777", f"/tmp/{kind}"])
    yield guest, f"/tmp/{kind}"
    guest.run(["sh", "-c", f"umount /tmp/{kind}; rm -rf /tmp/{kind}*"])


def _image(kind: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "image"
        with file.open("wb") as image:
            image.truncate(SIZE)
        program, *options = MAKERS[kind]
        subprocess.run([tool(program), *options, str(file)], check=True, capture_output=True)
        return file.read_bytes()


def put_bubblewrap(guest: Guest) -> None:
    """This machine's, with the libraries that it needs. Raises LabUnavailable."""
    program = shutil.which("bwrap")
    if program is None:
        raise LabUnavailable("bubblewrap (bwrap) is not installed")
    if guest.run(["test", "-x", program])[0] == 0:
        return
    listed = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    for file in (program, *re.findall(r"(/\S+) \(0x", listed)):
        if guest.run(["test", "-e", file])[0]:
            guest.run(["mkdir", "-p", str(Path(file).parent)])
            guest.put_bytes(Path(file).read_bytes(), file)
            guest.run(["chmod", "755", file])
