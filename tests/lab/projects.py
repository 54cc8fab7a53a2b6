"""File systems with project quotas, in a guest whose kernel has them, and bubblewrap there."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
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


@pytest.fixture(params=sorted(MAKERS))
def disk(request: pytest.FixtureRequest, vm: Boot) -> Iterator[tuple[Guest, str]]:
    """A guest, and where a file system with project quotas is mounted in it."""
    guest = vm(numa=2)
    kind = request.param
    load_modules(guest)
    try:
        _put_image(guest, kind)
    except LabUnavailable as error:
        pytest.skip(str(error))
    script = f"mkdir -p /tmp/{kind} && mount -t {kind} -o loop,prjquota /tmp/{kind}.img /tmp/{kind}"
    code, output = guest.run(["sh", "-c", script])
    assert code == 0, output + guest.run(["dmesg"])[1][-2000:]
    guest.run(["chmod", "777", f"/tmp/{kind}"])
    yield guest, f"/tmp/{kind}"
    guest.run(["sh", "-c", f"umount /tmp/{kind}; rm -rf /tmp/{kind}*"])


def _put_image(guest: Guest, kind: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{kind}.img"
        with file.open("wb") as image:
            image.truncate(SIZE)
        program, *options = MAKERS[kind]
        subprocess.run([tool(program), *options, str(file)], check=True, capture_output=True)
        guest.put_sparse(file, "/tmp")


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
