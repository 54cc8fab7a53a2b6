"""Attacks on whoever enters a kernel, played whole in one process without test tools, so that any user can.

    python exec_attacks.py NAME FOLDER     prints one JSON object: what the session got hold of

`FOLDER` is the operator's, empty. The kernel's command is the hostile session; it and what is run in it say
what they found through files in `/home/work`, which is the kernel's scratch folder.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import pty
import socket
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from providers.base import KernelSpec, Labels
from providers.process.provider import ProcessProvider
from providers.process.sandbox import bubblewrap
from tests.waiting import until

LABELS = Labels("repo", "here", "Session/vision/s", 1, "digest", "main1", "node")
ID = "s-main1-00000000-g1"
UID = 1_900_000_123
PYTHON = "/usr/bin/python3"
TIOCSTI = 0x5412
CALLER = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from providers.process.provider import ProcessProvider
provider = ProcessProvider(Path(sys.argv[2]))
sys.exit(provider.execute(sys.argv[4], tuple(sys.argv[5:]), tty=sys.argv[3] == "tty"))
"""

Found = dict[str, Any]
ATTACKS: dict[str, Callable[[Play], Found]] = {}


class Play:
    """The operator, with one hostile kernel."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.provider = ProcessProvider(folder / "root")
        self.scratch = folder / "root" / "kernels" / ID / "scratch"

    def begin(self, code: str, *, wait: bool = True, **fields: Any) -> None:
        """The session: Python code, which makes `up` when it is ready."""
        env, uid = fields.pop("env", {}), fields.pop("uid", UID)
        spec = KernelSpec(ID, LABELS, (PYTHON, "-c", code), env, uid=uid, **fields)
        self.provider.create(spec)
        if wait:
            until((self.scratch / "up").exists, "the session is ready")

    def end(self) -> None:
        self.provider.remove(ID)

    def command(self, *argv: str, tty: bool = False) -> list[str]:
        here = str(Path(__file__).resolve().parents[2])
        return [
            sys.executable,
            "-c",
            CALLER,
            here,
            str(self.provider.root.path),
            "tty" if tty else "-",
            ID,
            *argv,
        ]

    def enter(self, *argv: str, **streams: Any) -> subprocess.CompletedProcess[bytes]:
        streams = {"stdin": subprocess.DEVNULL, "stdout": -1, "stderr": -1, **streams}
        return subprocess.run(self.command(*argv), timeout=120, check=False, **streams)

    def told(self, name: str = "found") -> Any:
        """What the session wrote down."""
        path = self.scratch / name
        return json.loads(path.read_text()) if path.exists() else None


def attack(function: Callable[[Play], Found]) -> Callable[[Play], Found]:
    ATTACKS[function.__name__] = function
    return function


IDLE = "open('up', 'w').close(); import time; time.sleep(1000)"

# The interpreter of the helper, by a first line, a link, another name for the same.

HOLDER = """
import json, os
found = {}
for name in ("exe", "fd/3", "fd/4", "fd/5"):
    path = "/proc/self/" + name
    try:
        there = os.stat(path)
        found[name] = [there.st_dev, there.st_ino, bool(os.statvfs(path).f_flag & os.ST_RDONLY), ""]
        try:
            os.close(os.open(path, os.O_WRONLY))
        except OSError as error:
            found[name][3] = error.strerror
        if there.st_dev != os.stat("/usr/bin/python3").st_dev:
            for what, *words in ((os.pwrite, b"#", 0), (os.ftruncate, 0), (os.ftruncate, 1 << 25)):
                try:
                    what(os.open(path, os.O_RDWR), *words)
                    found[name][3] = "written"
                except OSError:
                    pass
    except OSError:
        pass
open("/home/work/found", "w").write(json.dumps(found))
"""


def _handles(play: Play) -> Found:
    """Handles on the operator's interpreter through which it could be written, and what was written."""
    host = os.stat(os.path.realpath(PYTHON))
    got = play.told() or {}
    bad = {
        name: [readonly, error]
        for name, (device, inode, readonly, error) in got.items()
        if ((device, inode) == (host.st_dev, host.st_ino) and not readonly) or error == "written"
    }
    return {"ran": bool(got), "got": bad}


def _planted(play: Play, first: str, *argv: str, env: Mapping[str, str] | None = None) -> Found:
    play.begin(IDLE, env=env or {})
    (play.scratch / "tool").write_text(f"#!{first}\n{HOLDER}")
    (play.scratch / "tool").chmod(0o755)
    (play.scratch / "link").symlink_to("/proc/self/exe")
    play.enter(*argv)
    return _handles(play)


@attack
def interpreter_by_first_line(play: Play) -> Found:
    return _planted(play, "/proc/self/exe", "/home/work/tool")


@attack
def interpreter_by_thread(play: Play) -> Found:
    return _planted(play, "/proc/thread-self/exe", "/home/work/tool")


@attack
def interpreter_by_path(play: Play) -> Found:
    return _planted(play, "/proc/self/task/../exe", "tool", env={"PATH": "/home/work"})


@attack
def interpreter_by_link(play: Play) -> Found:
    return _planted(play, "/proc/self/exe", "/home/work/link", "/home/work/tool")


# The environment, as the session says it is.

LIAR = """
import os, sys
if len(sys.argv) == 1:
    os.mkdir("bin")
    for name in ("id", "env", "tar"):
        open("bin/" + name, "w").write("#!/bin/sh\\n: > /home/work/planted\\n")
        os.chmod("bin/" + name, 0o755)
    lies = {"PATH": "/home/work/bin", "SECRET": "lie", "LD_PRELOAD": "/home/work/lib.so"}
    os.execve("/usr/bin/python3", ["python3", "-c", CODE, "again"], {**os.environ, **lies})
open("up", "w").close()
import time
time.sleep(1000)
"""


@attack
def environment_of_the_main_process(play: Play) -> Found:
    play.begin(f"CODE = {LIAR!r}\n{LIAR}", env={"OWN": "mine"}, secret_env={"SECRET": "told"})
    done = play.enter("env")
    lines = done.stdout.decode().splitlines()
    wrong = [line for line in lines if "lie" in line or "/home/work/" in line]
    right = {"OWN=mine", "SECRET=told"} <= set(lines)
    return {"ran": right, "got": wrong + ["planted"] * (play.scratch / "planted").exists()}


def _copied(play: Play, env: Mapping[str, str]) -> Found:
    play.begin(IDLE, env=env)
    for name in ("tar", "id"):
        planted = play.scratch / "bin" / name
        planted.parent.mkdir(exist_ok=True)
        planted.write_text('#!/bin/sh\n: > /home/work/planted\nexec /usr/bin/tar "$@"\n')
        planted.chmod(0o755)
    (play.scratch / "data").write_text("whole")
    stream = b"".join(play.provider.copy_out(ID, "data"))
    play.provider.copy_in(ID, "/home/work", iter([stream]))
    return {"ran": b"whole" in stream, "got": ["planted"] * (play.scratch / "planted").exists()}


@attack
def path_for_the_copying_program(play: Play) -> Found:
    return _copied(play, {"PATH": "/home/work/bin"})


@attack
def options_for_the_copying_program(play: Play) -> Found:
    return _copied(play, {"TAR_OPTIONS": "--checkpoint=1 --checkpoint-action=exec=/home/work/bin/id"})


# The operator's files and sockets, through the descriptors of what runs in the session.

POLLER = """
import json, os, stat, time
open("up", "w").close()
got, own = {}, os.getpid()
while not os.path.exists("stop"):
    for pid in [name for name in os.listdir("/proc") if name.isdigit() and int(name) not in (1, own)]:
        for number in range(10):
            path = f"/proc/{pid}/fd/{number}"
            try:
                link, kind = os.readlink(path), os.stat(path).st_mode
                got.setdefault(link.split(":")[0].rstrip("0123456789"), "seen")
                if stat.S_ISREG(kind) and not link.startswith(("/home/work", "/memfd")):
                    with open(path, "a") as stream:
                        stream.write("OWNED")
                    os.truncate(path, 1)
            except OSError:
                pass
    open("found.new", "w").write(json.dumps(sorted(got)))
    os.rename("found.new", "found")
"""


def _polled(play: Play, **streams: Any) -> list[str]:
    """What kinds of descriptors the session saw, but for harmless ones."""
    play.begin(POLLER)
    play.enter(
        "sh", "-c", "cat; sleep 0.5; [ ! -s /dev/stdin ]; echo out; echo err >&2; sleep 0.5", **streams
    )
    until((play.scratch / "found").exists, "it has looked at all once")
    harmless = ("pipe", "/dev/null", "/proc/", "/home/work/", "/dev/pts/", "/usr/", "/etc/", "/lib")
    return [kind for kind in play.told() if not kind.startswith(harmless)]


def _file(play: Play) -> Path:
    path = play.folder / "of-the-operator"
    path.write_text("precious")
    return path


@attack
def standard_input_from_a_file(play: Play) -> Found:
    path = _file(play)
    with path.open("rb") as stream:
        seen = _polled(play, stdin=stream)
    return {"ran": True, "got": seen + ["changed"] * (path.read_text() != "precious")}


@attack
def standard_output_to_a_file(play: Play) -> Found:
    path = _file(play)
    with path.open("ab") as stream:
        seen = _polled(play, stdout=stream)
    return {"ran": True, "got": seen + ["changed"] * (path.read_text() != "preciousout\n")}


@attack
def errors_to_the_same_file(play: Play) -> Found:
    path = _file(play)
    with path.open("ab") as stream:
        seen = _polled(play, stdout=stream, stderr=stream)
    return {"ran": True, "got": seen + ["changed"] * (path.read_text() != "preciousout\nerr\n")}


@attack
def standard_input_from_a_socket(play: Play) -> Found:
    ours, theirs = socket.socketpair()
    ours.close()
    with theirs:
        return {"ran": True, "got": _polled(play, stdin=theirs, stdout=theirs)}


@attack
def its_own_standard_input_for_writing(play: Play) -> Found:
    path = _file(play)
    play.begin(IDLE)
    code = "\n".join(
        (
            "import os",
            "for n in range(3):",
            " try: os.ftruncate(os.open(f'/proc/self/fd/{n}', os.O_RDWR), 0)",
            " except OSError: pass",
        )
    )
    with path.open("r+b") as stream:
        done = play.enter(PYTHON, "-c", code, stdin=stream)
    return {"ran": done.returncode == 0, "got": ["changed"] * (path.read_text() != "precious")}


# The helper itself, while it enters. A long PATH gives the session time.

SPY = """
import ctypes, json, os
libc = ctypes.CDLL(None, use_errno=True)
open("up", "w").close()
seen, got, own = 0, set(), os.getpid()
def helper(pid):
    try:
        return b"process.interaction.enter" in open(f"/proc/{pid}/cmdline", "rb").read()
    except OSError:
        return False
def tries(pid):
    for name in ("exe", "cwd", "root", "fd/0", "ns/mnt"):
        try:
            os.readlink(f"/proc/{pid}/{name}")
            yield name
        except OSError:
            pass
    for name in ("mem", "exe", "cwd", "root", "fd/0", "fd/1", "fd/2", "ns/mnt"):
        try:
            os.close(os.open(f"/proc/{pid}/{name}", os.O_RDONLY))
            yield "open " + name
        except OSError:
            pass
    for name in ("maps", "environ", "auxv", "syscall"):
        try:
            if open(f"/proc/{pid}/{name}", "rb").read(1):
                yield "read " + name
        except OSError:
            pass
    try:
        yield from ["has " + name for name in os.listdir(f"/proc/{pid}/fd") if int(name) > 2]
    except OSError:
        pass
    try:
        os.close(os.open(f"/proc/{pid}/mem", os.O_RDWR))
        yield "write mem"
    except OSError:
        pass
    if libc.ptrace(0x4206, pid, 0, 0) == 0:
        yield "traced"
while not os.path.exists("stop"):
    try:
        while os.waitpid(-1, os.WNOHANG | 0x40000000)[0]:  # What it traces ends when it is told.
            pass
    except ChildProcessError:
        pass
    for pid in [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) not in (1, own)]:
        if helper(pid):
            seen += 1
            tried = list(tries(pid))
            if helper(pid):
                got.update(tried)
    open("found.new", "w").write(json.dumps([seen, sorted(got)]))
    os.rename("found.new", "found")
"""


def _spied(play: Play, env: Mapping[str, str]) -> Found:
    play.begin(SPY, env=env)
    times = itertools.count(1)

    def often() -> bool:
        play.enter("true")
        seen = (play.told() or [0])[0]
        return seen > 20 or (next(times) >= 20 and seen > 0)

    until(often, "the helper is seen")
    (play.scratch / "found").unlink()
    until((play.scratch / "found").exists, "what it found last is told")
    seen, got = play.told()
    return {"ran": seen > 0, "got": got}


@attack
def helper_that_is_looking_for_the_program(play: Play) -> Found:
    return _spied(play, {"PATH": ":".join(["/nowhere"] * 12000 + ["/usr/bin"])})


@attack
def helper_that_becomes_no_program(play: Play) -> Found:
    """Nothing of the name: the helper is there until its message is out."""
    return _spied(play, {"PATH": ":".join(["/proc/self/exe"] * 8000)})


# Where it starts.


def _started_in(play: Play, targets: list[str]) -> Found:
    """The working directory replaced by links; whether what runs there sees the operator's files."""
    marker = play.folder / "marker"
    marker.write_text("x")
    play.begin(IDLE)
    record = play.provider.root.read(ID)
    assert record is not None
    play.provider.root.rewrite(record, replace(record.spec, workdir="sub"), again=False)
    place = play.scratch / "sub"
    place.mkdir()
    ups = " ".join("../" * steps for steps in range(1, 6))
    look = f"for up in ./ {ups}; do [ -e $up{marker} ] && echo escaped; done; [ ! -e marker ] || echo escaped"
    got, ran = [], 0
    for target in targets:
        if place.is_symlink():
            place.unlink()
        else:
            place.rename(play.scratch / "was")
        place.symlink_to(target)
        done = play.enter("/bin/sh", "-c", look, cwd=play.folder)
        ran += 1
        got += [target] * (b"escaped" in done.stdout)
    return {"ran": ran == len(targets), "got": got}


@attack
def working_directory_through_descriptors(play: Play) -> Found:
    return _started_in(play, [f"/proc/self/fd/{number}" for number in range(12)])


@attack
def working_directory_through_processes(play: Play) -> Found:
    links = [
        "/proc/self/cwd",
        "/proc/self/root",
        "/proc/1/cwd",
        "/proc/1/root",
        "/proc/self/fd/3/../../..",
        "..",
    ]
    return _started_in(play, links)


@attack
def program_through_descriptors(play: Play) -> Found:
    """A planted program that leads to what the helper has open."""
    play.begin(IDLE)
    got = []
    for number in range(3, 12):
        tool = play.scratch / f"tool{number}"
        tool.write_text(f"#!/proc/self/fd/{number}\n{HOLDER}")
        tool.chmod(0o755)
        done = play.enter(f"/home/work/tool{number}")
        got += [number] * (done.returncode not in (126, 127))
    return {"ran": True, "got": got}


@attack
def kernel_that_is_just_beginning(play: Play) -> Found:
    """Its sandbox is not there yet: nothing may run outside of it."""
    marker = play.folder / "marker"
    marker.write_text("x")
    got, ran = [], 0
    for _ in range(8):
        play.begin(IDLE, wait=False)
        try:
            out = play.folder / "out"
            done = play.provider.execute(
                ID, ("/bin/sh", "-c", f"[ ! -e {marker} ] && exit 7; echo x > {out}")
            )
        except Exception:  # that it does not run yet is an answer
            done = 7
        ran += done == 7
        got += ["host"] * (done != 7)
        play.end()
    return {"ran": ran > 0, "got": got}


# The operator's terminal.

INJECT = f"""
import fcntl, os, termios
places = [0, 1, 2]
try:
    places.append(os.open("/dev/tty", os.O_RDWR))
except OSError:
    pass
for path in ("/proc/self/fd/0", "/proc/self/fd/1", "/dev/console"):
    try:
        places.append(os.open(path, os.O_RDWR))
    except OSError:
        pass
for place in places:
    try:
        for letter in b"OWNED\\n":
            fcntl.ioctl(place, {TIOCSTI}, bytes([letter]))
    except OSError:
        pass
    try:
        mode = termios.tcgetattr(place)
        mode[3] &= ~termios.ECHO
        mode[6][termios.VINTR] = b"x"
        termios.tcsetattr(place, termios.TCSANOW, mode)
    except (OSError, termios.error):
        pass
"""


def _on_a_terminal(play: Play, *, tty: bool) -> Found:
    """The operator's terminal after a command that attacked it: its modes, and what waits to be read."""
    play.begin(IDLE)
    pid, ours = pty.fork()
    if pid == 0:
        before = termios.tcgetattr(0)
        code = subprocess.run(play.command(PYTHON, "-c", INJECT, tty=tty), check=False).returncode
        waiting = struct.unpack("i", fcntl.ioctl(0, termios.FIONREAD, b"\0" * 4))[0]
        got = ["modes"] * (termios.tcgetattr(0) != before) + ["typed"] * bool(waiting)
        (play.folder / "result").write_text(json.dumps({"ran": code == 0, "got": got}))
        os._exit(0)
    try:
        while os.read(ours, 1 << 12):
            pass
    except OSError:
        pass
    os.waitpid(pid, 0)
    os.close(ours)
    found: Found = json.loads((play.folder / "result").read_text())
    return found


@attack
def terminal_of_who_gives_one(play: Play) -> Found:
    return _on_a_terminal(play, tty=True)


@attack
def terminal_of_who_gives_none(play: Play) -> Found:
    return _on_a_terminal(play, tty=False)


@attack
def group_of_the_operator(play: Play) -> Found:
    """A command that signals its whole process group ends nobody outside."""
    play.begin(IDLE)
    operator = "import subprocess, sys; print(subprocess.run(sys.argv[1:]).returncode)"
    inner = play.command(PYTHON, "-c", "import os, signal; signal.signal(15, signal.SIG_IGN); os.kill(0, 15)")
    done = subprocess.run(
        [sys.executable, "-c", operator, *inner], capture_output=True, start_new_session=True, check=False
    )
    return {"ran": True, "got": [] if done.stdout == b"0\n" else [done.returncode, done.stdout.decode()]}


# What bai says.


@attack
def control_characters_in_a_name(play: Play) -> Found:
    play.begin(IDLE)
    name = "/home/work/\x1b]0;owned\x07\r\x9bbai: all is well\n"
    said = b""
    for variant in (name, name.strip("\n"), name.replace("/home/work/", "")):
        if "/" in variant:
            Path(str(play.scratch) + "/" + os.path.basename(variant)).write_text("#!/no/such\n")
        done = play.enter(variant)
        said += done.stderr
    text = said.decode()
    lines = text.splitlines()
    return {
        "ran": len(lines) == 3,
        "got": [letter for letter in text if not letter.isprintable() and letter != "\n"],
    }


@attack
def lies_in_the_name_of_the_main_process(play: Play) -> Found:
    code = "import ctypes; ctypes.CDLL(None).prctl(15, b'\\nCapBnd:\\tff\\x0b\\n)', 0, 0, 0)\n" + IDLE
    play.begin(code)
    done = play.enter("grep", "CapEff", "/proc/self/status")
    inside = play.enter(
        "sh", "-c", "grep CapPrm /proc/2/status; grep -h CapPrm /proc/[0-9]*/status"
    ).stdout.split()
    return {
        "ran": done.returncode == 0,
        "got": [] if done.stdout.split()[1] in inside else [done.stdout.decode()],
    }


# Whom it becomes. Only root has something to choose.


ASK = "id -u; id -g; id -G; grep -E '^(CapPrm|CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status"
TELL = "open('who', 'w').write(subprocess.run(['/bin/sh', '-c', ASK], capture_output=True, text=True).stdout)"


def _who(text: str) -> tuple[list[str], dict[str, int]]:
    """An answer to `ASK`: what has to be the same, and the sets of capabilities."""
    lines = text.splitlines()
    sets = {line.split()[0]: int(line.split()[1], 16) for line in lines if line.startswith("Cap")}
    return [line for line in lines if not line.startswith("Cap")], sets


def _compared(play: Play) -> Found:
    its, most = _who((play.scratch / "who").read_text())
    done = play.enter("/bin/sh", "-c", ASK)
    mine, power = _who(done.stdout.decode())
    more = [name for name, bits in power.items() if bits & ~most[name]]
    return {"ran": len(power) == 3, "got": [mine, its, done.stderr.decode()] * (mine != its) + more}


def _same(play: Play, code: str, **fields: Any) -> Found:
    """What enters has the main process's identity, capabilities, groups and filter, whatever they are."""
    play.begin(f"import subprocess\nASK = {ASK!r}\n{code}\n{TELL}\n{IDLE}", **fields)
    return _compared(play)


@attack
def main_process_as_it_is(play: Play) -> Found:
    return _same(play, "")


@attack
def main_process_of_another_user(play: Play) -> Found:
    return _same(play, "", uid=4242, groups=(77, 4343))


@attack
def main_process_in_a_user_namespace(play: Play) -> Found:
    bubblewrap.NAMESPACES = (*bubblewrap.NAMESPACES, "--unshare-user", "--uid", "1234", "--gid", "1235")  # type: ignore[misc]
    return _same(play, "")


@attack
def main_process_under_a_filter(play: Play) -> Found:
    """The filter refuses `uname` with 77; bai's own copy of it lies in the kernel's folder."""
    rules = struct.pack("<HBBI", 0x20, 0, 0, 0)  # load the number of the system call
    rules += struct.pack("<HBBI", 0x15, 0, 1, {"x86_64": 63, "aarch64": 160}[os.uname().machine])
    rules += struct.pack("<HBBI", 0x06, 0, 0, 0x00050000 | 77) + struct.pack("<HBBI", 0x06, 0, 0, 0x7FFF0000)
    load = (
        f"import ctypes\nrules = {rules!r}\n"
        "class P(ctypes.Structure): _fields_ = (('n', ctypes.c_ushort), ('f', ctypes.c_char_p))\n"
        "import os\nwhile not os.path.exists('go'): pass\n"
        "libc = ctypes.CDLL(None); p = P(len(rules) // 8, rules)\n"
        "libc.prctl(38, 1, 0, 0, 0); assert libc.prctl(22, 2, ctypes.byref(p), 0, 0) == 0\n"
    )
    play.begin(f"import subprocess\nASK = {ASK!r}\n{load}\n{TELL}\n{IDLE}", wait=False)
    (play.scratch.parent / "filter.bpf").write_bytes(rules)
    (play.scratch / "go").touch()
    until((play.scratch / "up").exists, "the session is ready")
    found = _compared(play)
    found["got"] += ["uname"] * (play.enter("uname").returncode == 0)
    return found


def main(name: str, folder: Path) -> Found:
    play = Play(folder)
    if why := bubblewrap.sandbox_problem():
        return {"skip": why}
    try:
        return ATTACKS[name](play)
    finally:
        if play.scratch.exists():
            play.end()


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]))))
