"""The `passwd` and `group` of a session's user, the same whatever runs the session. Pure."""

from __future__ import annotations

from collections.abc import Sequence

USER = "work"
"""What a session's user is called inside, whoever it is on the machine."""
HOME = "/home/work"
FILES = ("passwd", "group")
"""Below /etc, in the order of `passwd_and_group`."""


def passwd_and_group(
    uid: int, gid: int, groups: Sequence[int], *, home: str = HOME, shell: str
) -> tuple[str, str]:
    """`passwd` and `group`. Root, where it is the session's user, has the home and the shell."""
    root = f"root:x:0:0:root:{home}:{shell}" if uid == 0 else "root:x:0:0:root:/root:/usr/sbin/nologin"
    users = [
        root,
        *([] if uid == 0 else [f"{USER}:x:{uid}:{gid}::{home}:{shell}"]),
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin",
    ]
    several = [f"group-{number}:x:{number}:{USER}" for number in groups]
    own = [] if gid == 0 else [f"{USER}:x:{gid}:"]
    named = ["root:x:0:", "tty:x:5:", *own, *several, "nogroup:x:65534:"]
    return "".join(f"{line}\n" for line in users), "".join(f"{line}\n" for line in named)
