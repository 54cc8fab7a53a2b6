"""The main job, for your eyes: YAML in git becomes pinned, running sessions here, and nothing stays.

Every command is shown with its own output. What the commands say is then checked against the kernel's view of
the processes (/proc, control groups); the first thing that is not so tidies up and ends it with exit code 1.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
QUICKSTART = ROOT / "examples" / "quickstart"
BAI = (
    [sys.executable, "-m", "bai"]
    if not (Path(sys.executable).parent / "bai").exists()
    else [str(Path(sys.executable).parent / "bai")]
)
PORT = 18080
PATIENCE = 120.0
"""Seconds to wait for anything, on however slow a machine."""
COLOR = sys.stdout.isatty() and "NO_COLOR" not in os.environ


class NotSo(Exception):
    """Something that the demo promises is not so."""


@dataclass(frozen=True)
class Kernel:
    """One container as the plan put it: its cores (none means a share of those that nobody has alone)."""

    id: str
    name: str
    cpus: tuple[int, ...]
    milli: int


# --- telling ---------------------------------------------------------------------------------------------


def say(text: str = "", style: str = "") -> None:
    print(f"\033[{style}m{text}\033[0m" if COLOR and style else text, flush=True)


def chapter(text: str) -> None:
    say()
    say(f"── {text} " + "─" * max(3, 96 - len(text)), "1;34")


def check(holds: bool, promise: str) -> None:
    if not holds:
        raise NotSo(promise)
    say(f"✓ {promise}", "32")


# --- commands --------------------------------------------------------------------------------------------


class Demo:
    """One run in one temporary repository."""

    def __init__(self, repository: Path) -> None:
        self.repository = repository
        self.kernels: dict[str, Kernel] = {}
        """Every kernel that any plan named, by id."""
        self.times: list[tuple[str, float]] = []

    def run(self, *words: str, code: int = 0) -> None:
        """One bai command, its output shown as it comes."""
        say(f"\n$ bai {' '.join(words)}", "1")
        began = time.monotonic()
        done = subprocess.run([*BAI, *words], cwd=self.repository, stdin=subprocess.DEVNULL, check=False)
        self.times.append((f"bai {words[0]}", time.monotonic() - began))
        if done.returncode != code:
            raise NotSo(f"`bai {' '.join(words)}` ends with exit code {code} (it was {done.returncode})")

    def output(self, *words: str, code: int = 0) -> str:
        """What one bai command prints."""
        done = subprocess.run(
            [*BAI, *words],
            cwd=self.repository,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != code:
            raise NotSo(f"`bai {' '.join(words)}` ends with exit code {code}\n{done.stdout}{done.stderr}")
        return done.stdout

    def git(self, *words: str) -> str:
        who = [
            "-c",
            "user.name=bai demo",
            "-c",
            "user.email=demo@example.org",
            "-c",
            "init.defaultBranch=main",
        ]
        return subprocess.run(
            ["git", *who, *words], cwd=self.repository, capture_output=True, text=True, check=True
        ).stdout

    def commit(self, message: str) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)
        say(f"\n$ git commit -m {message!r}", "1")

    # what the plan says, and what is

    def learn(self, saved: Path) -> dict[str, list[Kernel]]:
        """Kernels by session, as a saved plan placed them."""
        sessions: dict[str, list[Kernel]] = {}
        for action in json.loads(saved.read_text())["plan"]["actions"]:
            after: dict[str, Any] = action["after"] or {}
            for spec, place in zip(
                after.get("specs", ()), (after.get("placement") or {}).get("kernels", ()), strict=False
            ):
                kernel = Kernel(spec["id"], place["kernel"], tuple(place["cpus"]), place["cpu_milli"])
                sessions.setdefault(action["id"], []).append(kernel)
                self.kernels[kernel.id] = kernel
        return sessions

    def processes(self) -> dict[str, tuple[int, str, int | None]]:
        """Kernel id to (pid, state, exit code) of everything of this repository that the provider finds."""
        from reconciler.workspace.workspace import Workspace

        with Workspace.open(self.repository) as workspace:
            actual = workspace.actual()
        found = (kernel for each in actual.existing.values() for kernel in each.kernels + each.strays)
        return {kernel.id: (kernel.pid or 0, kernel.state, kernel.exit_code) for kernel in found}


def allowed(pid: int) -> tuple[int, ...]:
    """The CPUs that Linux lets this process use."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    text = next(line.split(":")[1].strip() for line in lines if line.startswith("Cpus_allowed_list"))
    return tuple(cpu for part in text.split(",") for cpu in _span(part))


def _span(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def spans(cpus: tuple[int, ...]) -> str:
    """CPU numbers as a list string."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def wait_for(what: str, probe: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not probe():
        if time.monotonic() > end:
            raise NotSo(f"{what} within {PATIENCE:.0f} s")
        time.sleep(0.3)


# --- the story -------------------------------------------------------------------------------------------


def story(demo: Demo, port: int) -> None:
    saved = demo.repository.parent / "plan.json"
    chapter("A git repository of YAML")
    demo.git("init", "--quiet")
    demo.commit("This machine, and four sessions")
    demo.run("validate")

    chapter("What would happen? (nothing yet)")
    demo.run("plan", "--out", str(saved))
    sessions = demo.learn(saved)
    check(demo.processes() == {}, "planning has started nothing")

    chapter("Make it so: exactly the plan that was read")
    with watched(demo) as seen:
        demo.run("apply", str(saved))
    masks(sessions, seen)
    demo.run("get", "sessions")

    chapter("They are real: logs, and an HTTP answer")
    wait_for("main1 of trio adds up pi", lambda: "pi is 3.14159" in demo.output("logs", "trio"))
    demo.run("logs", "trio")
    wait_for("web answers", lambda: answers(port))
    check(answers(port), f"session web answers on port {port}")
    finished(demo, sessions["Session/demo/primes"])
    demo.run("logs", "primes")

    chapter("Change two files, and look what that would do")
    edit(demo.repository / "sessions" / "web.yaml", "team: frontend", "team: platform")
    edit(demo.repository / "sessions" / "primes.yaml", 'SECONDS: "15"', 'SECONDS: "1"')
    say("\n$ git diff", "1")
    say(demo.git("diff", "--unified=0"))
    before = demo.processes()
    demo.commit("Web belongs to another team; primes may be quicker")
    demo.run("plan", "--out", str(saved))
    changed = demo.learn(saved)
    demo.run("apply", "--yes")
    finished(demo, changed["Session/demo/primes"])
    web = sessions["Session/demo/web"][0].id
    check(
        demo.processes().get(web) == before[web],
        "web got its label in place: it is the same process as before",
    )

    chapter("And again? There is nothing left to do")
    demo.run("plan", "--detailed-exitcode")
    check("No changes" in demo.output("plan"), "the second plan says: no changes")

    chapter("Take everything away")
    pids = [pid for pid, _, _ in demo.processes().values() if pid]
    demo.run("destroy", "--yes")
    nothing_left(demo, pids)


Masks = dict[str, tuple[int, tuple[int, ...]]]
"""Kernel id to its process, and the CPUs that Linux lets it use."""


@contextlib.contextmanager
def watched(demo: Demo) -> Iterator[Masks]:
    """What runs, as it was seen last: on a slow machine a batch session is done before the command is that
    started it."""
    seen: Masks = {}
    over = threading.Event()

    def look() -> None:
        for kernel, (pid, _, code) in demo.processes().items():
            if not pid and code != 0:
                seen.pop(kernel, None)
            with contextlib.suppress(OSError):  # It may just have ended.
                seen[kernel] = pid, allowed(pid)

    def watch() -> None:
        while not over.wait(0.5):
            look()

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield seen
    finally:
        over.set()
        watching.join()
    look()


def masks(sessions: dict[str, list[Kernel]], seen: Masks) -> None:
    """Plan and reality, side by side."""
    say(
        f"\n{'session':24} {'container':10} {'pid':>8}   {'plan':24} /proc/<pid>/status: Cpus_allowed_list",
        "1",
    )
    exclusive = {cpu for kernels in sessions.values() for kernel in kernels for cpu in kernel.cpus}
    good = True
    for session, kernels in sorted(sessions.items()):
        for kernel in kernels:
            if kernel.id not in seen:
                raise NotSo(f"{kernel.name} of {session} runs")
            pid, real = seen[kernel.id]
            planned = (
                f"core {spans(kernel.cpus)}"
                if kernel.cpus
                else f"{kernel.milli / 1000:g} of the shared cores"
            )
            good &= set(real) == set(kernel.cpus) if kernel.cpus else not exclusive & set(real)
            say(f"{session:24} {kernel.name:10} {pid:>8}   {planned:24} {spans(real)}")
    check(good, "every process has the cores of the plan, and nobody else has a pinned one")


def finished(demo: Demo, kernels: list[Kernel]) -> None:
    """Wait for a batch session's success."""

    def done() -> bool:
        return all(demo.processes().get(kernel.id, (0, "", None))[1] == "exited" for kernel in kernels)

    wait_for("primes ends", done)
    codes = [demo.processes()[kernel.id][2] for kernel in kernels]
    check(codes == [0] * len(kernels), "batch session primes ended by itself, with exit code 0")


def answers(port: int) -> bool:
    with (
        contextlib.suppress(OSError),
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as reply,
    ):
        return bool(reply.status == 200)
    return False


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    if old not in text:
        raise NotSo(f"{path.name} holds {old!r}")
    path.write_text(text.replace(old, new))


def nothing_left(demo: Demo, pids: list[int]) -> None:
    """No process, no record, no control group, no file of any kernel that there ever was."""
    wait_for("every process ends", lambda: not any(is_ours(pid, demo) for pid in pids))
    mine = [pid for pid in everybody() if is_ours(pid, demo)]
    check(not mine, f"no process is left of {len(demo.kernels)} containers")
    check(demo.processes() == {}, "the provider keeps no record of them")
    # Others' groups may go meanwhile, which os.walk does not mind.
    groups = {name for _, folders, _ in os.walk("/sys/fs/cgroup") for name in folders}
    check(not any(k in name for name in groups for k in demo.kernels), "no control group is left")
    listed = demo.output("state", "list")
    check("Session/" not in listed, "the store holds no session")


def everybody() -> Iterator[int]:
    return (int(entry) for entry in os.listdir("/proc") if entry.isdigit())


def is_ours(pid: int, demo: Demo) -> bool:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return any(f"BACKENDAI_KERNEL_ID={kernel}".encode() in environment for kernel in demo.kernels)


# --- setting up and tidying up ---------------------------------------------------------------------------


def free_port() -> int:
    """The example's port, or another one where that is taken; `BAI_DEMO_PORT` names one."""
    for port in (int(os.environ.get("BAI_DEMO_PORT", PORT)), 0):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])
    raise NotSo("a free port exists")


def copy_quickstart(target: Path) -> int:
    shutil.copytree(QUICKSTART, target)
    port = free_port()
    if port != PORT:
        web = target / "sessions" / "web.yaml"
        web.write_text(web.read_text().replace(str(PORT), str(port)))
    return port


def main() -> int:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="bai-demo-") as folder:
        demo = Demo(Path(folder) / "cluster")
        port = copy_quickstart(demo.repository)
        try:
            story(demo, port)
        except (NotSo, OSError, subprocess.SubprocessError, KeyError, KeyboardInterrupt) as error:
            say(f"\n✗ This is not so: {error or 'interrupted'}", "1;31")
            subprocess.run(
                [*BAI, "destroy", "--yes"], cwd=demo.repository, stdin=subprocess.DEVNULL, check=False
            )
            return 1
    say(
        f"\nAll of it took {time.monotonic() - began:.0f} s; the commands: "
        + ", ".join(f"{name} {seconds:.1f} s" for name, seconds in demo.times),
        "2",
    )
    say("Your own: `mkdir ~/my-cluster && cd ~/my-cluster && bai init` (docs/quickstart.md)")
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    raise SystemExit(main())
