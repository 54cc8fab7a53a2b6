"""Volumes on a real NFS server: made where it is mounted, and nowhere where it is not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab import nfs
from tests.lab.cache import LabUnavailable
from tests.lab.fixtures import Boot, put_repository
from tests.lab.guest import Guest

pytestmark = [pytest.mark.vm, pytest.mark.slow, pytest.mark.xdist_group("vm")]

SCENARIO = """
import json, os, sys
sys.path.insert(0, ".")
from providers.storage.node.main import serve

root = sys.argv[1]
folder = {
    "volume": "Volume/a", "root": root, "path": "team/a", "fileSystems": ["nfs", "nfs4"],
    "uid": 1000, "gid": 1000, "mode": 0o2770, "quota": 1 << 20, "usage": True,
}

def ask(verb, **more):
    return serve({"do": verb, "folders": [{**folder, **more}]})[0]

found = {"make": ask("make"), "look": ask("look")}
found["check"] = ask("check", path="team/a/sub", make=True)
if "refused" not in found["make"]:
    with open(root + "/team/a/file", "wb") as file:
        file.write(os.urandom(100_000))
    found["used"] = ask("look")["used"]
    ask("move", entry="gone", record={"volume": "Volume/a", "path": "team/a"})
    found["trashed"] = [entry["volume"] for entry in ask("trashed")["entries"]]
    ask("restore", entry="gone")
    found["back"] = os.path.getsize(root + "/team/a/file")
found["below"] = sorted(os.listdir(root))
print(json.dumps(found))
"""


@pytest.fixture
def guest(vm: Boot) -> Iterator[Guest]:
    made = vm(numa=2)
    try:
        nfs.start(made)
    except LabUnavailable as error:
        pytest.skip(str(error))
    yield made
    nfs.stop(made)


def scenario(guest: Guest) -> dict[str, Any]:
    repository = put_repository(guest)
    code, output = guest.run(["python3", "-c", SCENARIO, nfs.MOUNT], cwd=repository, timeout=300)
    assert code == 0, output
    found: dict[str, Any] = json.loads(output.splitlines()[-1])
    return found


def test_a_volume_is_made_only_where_the_server_is_mounted(guest: Guest) -> None:
    before = scenario(guest)
    for verb in ("make", "look", "check"):
        why = f"{nfs.MOUNT} is not mounted: it is on ext4 at /, not on nfs or nfs4"
        assert before[verb] == {"refused": why, "mounted": False}
    assert before["below"] == []

    nfs.mount(guest)
    mounted = scenario(guest)
    look = mounted["look"]
    assert (look["there"], look["uid"], look["gid"], look["mode"]) == (True, 1000, 1000, 0o2770)
    assert "set one on the server" in mounted["make"]["unheld"]
    assert mounted["check"] == {}
    assert mounted["used"] >= 100_000
    assert (mounted["trashed"], mounted["back"]) == (["Volume/a"], 100_000)
    on_server = guest.run(["ls", "-A", nfs.EXPORT])[1].split()
    assert sorted(on_server) == mounted["below"] == [".bai-trash", "team"]

    nfs.unmount(guest)
    after = scenario(guest)
    assert "refused" in after["look"]
    assert after["below"] == []
