"""Runs on a node and holds it for one provisioning; standard library of Python 3.8 only.

    python3 -c SOURCE FOLDER TOKEN WHO GRACE

Says `+` when it holds the node, else `-` and who does. It lets go when its input ends, or is silent for
too long: then who asked for it is gone. A reboot in the middle of a provisioning ends it, too; the file says
whose the node was, and for GRACE seconds after the boot only the same TOKEN gets it.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import sys

SILENCE = 120.0
"""Seconds without a sign of life after which the other side counts as gone."""


def boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def uptime() -> float:
    """Seconds since the first process began: the uptime, also where it is the host's."""
    with open("/proc/uptime") as file:
        up = float(file.read().split()[0])
    with open("/proc/1/stat", "rb") as file:
        began = int(file.read().rpartition(b")")[2].split()[19])
    return up - began / os.sysconf("SC_CLK_TCK")


def read_note(file: object) -> dict[str, str]:
    try:
        found = json.load(file)  # type: ignore[arg-type]
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def refusal(note: dict[str, str], token: str, grace: float) -> str:
    """Who has it though nobody locks it: a provisioning whose node has just rebooted."""
    if not note or note.get("token") == token or note.get("boot") == boot_id():
        return ""
    left = grace - uptime()
    return f"{note.get('who', 'somebody')}, whose reboot it was {uptime():.0f} s ago" if left > 0 else ""


def await_end() -> None:
    while select.select([0], [], [], SILENCE)[0]:
        if not os.read(0, 4096):
            return


def answer(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main(folder: str, token: str, who: str, grace: float) -> None:
    os.makedirs(folder, mode=0o755, exist_ok=True)
    path = os.path.join(folder, "provisioning")
    with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return answer("-" + str(read_note(file).get("who", "somebody")))
        why = refusal(read_note(file), token, grace)
        if why:
            return answer("-" + why)
        file.seek(0)
        file.truncate()
        json.dump({"token": token, "who": who, "boot": boot_id()}, file)
        file.flush()
        os.fsync(file.fileno())
        answer("+")
        await_end()
        file.seek(0)
        file.truncate()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]))
