"""Project quotas on real file systems, in a virtual machine whose kernel has them."""

from __future__ import annotations

import json

import pytest

from tests.lab.fixtures import put_repository
from tests.lab.guest import Guest
from tests.lab.projects import disk

__all__ = ["disk"]

pytestmark = [pytest.mark.vm, pytest.mark.slow, pytest.mark.xdist_group("vm")]

SCENARIO = """
import json, os, sys
sys.path.insert(0, ".")
from providers.storage.node.main import serve

MIB = 1 << 20
root = sys.argv[1]
folder = {"volume": "Volume/a", "root": root, "path": "team/a", "quota": 4 * MIB, "mode": 0o777}
other = {"volume": "Volume/b", "root": root, "path": "b", "quota": 8 * MIB}

def ask(verb, one, **more):
    answer = serve({"do": verb, "folders": [{**one, **more}]})[0]
    assert "refused" not in answer, answer
    return answer

def fill(path, count):
    written = 0
    try:
        with open(path, "wb") as file:
            for _ in range(count):
                file.write(os.urandom(MIB))
                file.flush()
                os.fsync(file.fileno())
                written += 1
    except OSError as error:
        return written, error.strerror
    return written, ""

def as_nobody(path, count):
    child = os.fork()
    if not child:
        os.setgid(65534); os.setuid(65534)
        written, why = fill(path, count)
        os._exit(100 + written if why else written)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

found = {}
os.makedirs(root + "/team/a/before")
with open(root + "/team/a/before/file", "wb") as file:
    file.write(os.urandom(MIB))
os.chmod(root + "/team/a/before", 0o777)
ask("make", folder)
ask("make", other)
ask("make", folder)
seen = ask("look", folder)
found["quotas"] = [seen["quota"], ask("look", other)["quota"]]
found["unheld"] = seen["unheld"]
found["counted_before"] = seen["used"] >= MIB
found["written"] = as_nobody(root + "/team/a/before/big", 20)
found["used"] = ask("look", folder)["used"] <= 4 * MIB
found["other_has_room"] = as_nobody(root + "/free", 1)
ask("make", folder, quota=10 * MIB)
found["raised"] = ask("look", folder)["quota"]
found["more"] = as_nobody(root + "/team/a/more", 2)
ask("make", folder, quota=0)
found["lifted"] = ask("look", folder)["quota"]
ask("make", folder, quota=None)
ask("move", folder, entry="gone", record={"volume": "Volume/a", "path": "team/a"})
ask("purge", folder, entry="gone")
ask("move", other, entry="kept", record={"volume": "Volume/b", "path": "b"})
ask("restore", other, entry="kept")
found["restored"] = ask("look", other)["quota"]
print(json.dumps(found))
"""


def test_a_volume_holds_no_more_than_its_quota(disk: tuple[Guest, str]) -> None:
    guest, root = disk
    repository = put_repository(guest)
    code, output = guest.run(["python3", "-c", SCENARIO, root], cwd=repository, timeout=300)
    assert code == 0, output
    found = json.loads(output.splitlines()[-1])
    mebibyte = 1 << 20
    assert found["quotas"] == [4 * mebibyte, 8 * mebibyte]
    assert found["unheld"] == ""
    assert found["counted_before"], "what was in it before counts"
    assert found["written"] in (102, 103), "4 MiB are not passed: the write fails after 2 or 3 of them"
    assert found["used"]
    assert found["other_has_room"] == 1
    assert found["raised"] == 10 * mebibyte
    assert found["more"] == 2
    assert found["lifted"] == 0
    assert found["restored"] == 8 * mebibyte
