"""Becoming what runs in a sandbox. Cheap imports only.

    root: opens what is to be shown → `user_switch` → the session's user → bubblewrap → the command
    another user: opens what is to be shown → bubblewrap → the command

bubblewrap itself gets an environment of its own and learns the command's through a file in memory: a variable
such as LD_PRELOAD would have it load a session's library on the machine.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence

from providers.storage.beneath import open_beneath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn, TypedDict

    from providers.process.sandbox.user_switch import User

    class Source(TypedDict):
        """What a sandbox shows at `target`. A folder that may lie behind links of others is `below` `root`,
        as `open_beneath` takes them; with an empty `below`, `root` is a folder or file of bai's own."""

        root: str
        below: str
        target: str
        read_only: bool

    class Box(TypedDict):
        """`argv`: bubblewrap and its options, `command`: what follows the sources."""

        argv: list[str]
        sources: list[Source]
        command: list[str]
        env: dict[str, str]
        user: User | None
        """Whom root becomes first; None for another user, who stays who it is."""
        filter: str
        """Path of a filter of system calls; empty without one."""


PREFIX = "BAI_SESSION_ENV_"
"""Before the names of the command's variables in bubblewrap's environment: there `target` finds them."""
_PATH = os.O_PATH | os.O_CLOEXEC


def execute_sandbox(box: Box, status: int = -1, own: Mapping[str, str] | None = None) -> NoReturn:
    """`status`: an inheritable descriptor where bubblewrap reports; `own`: more of its environment.

    Raises OSError, naming what is gone or behind a link.
    """
    program = box["argv"][0]
    report = ["--json-status-fd", str(status)] if status >= 0 else []
    outer = {"PATH": os.defpath, "LANG": "C.UTF-8", **(own or {})}
    outer |= {f"{PREFIX}{name}": value for name, value in box["env"].items()}
    with contextlib.ExitStack() as stack:
        filtered = ["--seccomp", str(_open_inheritable(box["filter"], stack))] if box["filter"] else []
        variables = ["--args", str(_variable_arguments(box["env"], stack))]
        shown = _source_arguments(box, stack)
        words = [program, *report, *filtered, *variables, *box["argv"][1:], *shown, *box["command"]]
        os.execve(program, words, outer)
    raise AssertionError  # execve does not return


def _open_inheritable(path: str, stack: contextlib.ExitStack) -> int:
    descriptor = os.open(path, os.O_RDONLY)
    stack.callback(os.close, descriptor)
    os.set_inheritable(descriptor, True)
    return descriptor


def _variable_arguments(env: Mapping[str, str], stack: contextlib.ExitStack) -> int:
    """bubblewrap's arguments that set the command's environment, and no other one."""
    words = ["--clearenv"]
    for name, value in env.items():
        words += ["--setenv", name, value]
    descriptor = os.memfd_create("environment", 0)
    stack.callback(os.close, descriptor)
    with open(descriptor, "wb", closefd=False) as stream:
        stream.write(b"".join(os.fsencode(word) + b"\0" for word in words))
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _source_arguments(box: Box, stack: contextlib.ExitStack) -> list[str]:
    """The arguments that show them; root has become the box's user afterwards."""
    user, sources = box["user"], box["sources"]
    if user is None:
        return [word for source in sources for word in _user_view_arguments(source, stack)]
    from providers.process.sandbox import user_switch

    user_switch.unshare_mounts()
    descriptors = []
    for source in sources:
        descriptor = _open_source(source)
        stack.callback(os.close, descriptor)
        descriptors.append(descriptor)
    places = user_switch.show_descriptors(descriptors)
    user_switch.become_user(user)
    pairs = zip(sources, places, strict=True)
    return [word for source, place in pairs for word in (_bind_option(source), place, source["target"])]


def _user_view_arguments(source: Source, stack: contextlib.ExitStack) -> Sequence[str]:
    if not source["below"]:
        return _bind_option(source), source["root"], source["target"]
    descriptor = _open_source(source)
    stack.callback(os.close, descriptor)
    os.set_inheritable(descriptor, True)
    return f"{_bind_option(source)}-fd", str(descriptor), source["target"]


def _open_source(source: Source) -> int:
    if source["below"]:
        return open_beneath(source["root"], source["below"])
    return os.open(source["root"], _PATH)


def _bind_option(source: Source) -> str:
    return "--ro-bind" if source["read_only"] else "--bind"


def main(descriptor: int) -> NoReturn:
    """Read a box as JSON from a pipe until its end, and be what it says. Exit code 126 when that fails."""
    with os.fdopen(descriptor, "rb") as stream:
        box: Box = json.loads(stream.read())
    try:
        execute_sandbox(box)
    except OSError as error:
        os.write(2, f"{error.filename or box['argv'][0]}: {error.strerror}\n".encode(errors="replace"))
    os._exit(126)
