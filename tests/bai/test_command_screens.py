"""The screens of the gallery: what `bai apply`, `status` and `explain` leave on terminals of 80 and 200
columns, with and without colour. `make screens` draws them anew."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from providers.fake import FakeProvider, VirtualClock, World
from reconciler.controller.loop import Loop
from reconciler.controller.loop_options import LoopOptions
from reconciler.controller.pass_note import PassRecorder
from reconciler.workspace.workspace import Workspace
from tests.bai.many_sessions import EXAMPLE, session
from tests.bai.screens import expect_screen, screen_svg
from tests.bai.terminal import Terminal
from tests.bai.test_render import text_of

CLUSTER = """\
apiVersion: bai/v1
kind: Cluster
metadata: {name: dgx}
spec: {provider: fake}
---
apiVersion: bai/v1
kind: NodePool
metadata: {name: dgx}
spec:
  resourceGroup: h100
  reserved: {cpus: "0-1,56-57,112-113,168-169", memory: 64GiB}
  hardwareFrom: dgx-h100.json
  namePattern: dgx-[01-02]
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {name: h100}
spec: {selection: concentrated, numa: prefer-single-node}
---
apiVersion: bai/v1
kind: Project
metadata: {name: vision}
spec: {}
---
apiVersion: bai/v1
kind: Project
metadata: {name: language}
spec: {}
"""
FIRST = [
    session("finetune", "vision", "cpu: 32, memory: 256GiB, cuda.device: 4", "timeout: 1d"),
    session("notebook", "vision", "cpu: 8, memory: 64GiB, cuda.device: 1", "timeout: 8h"),
    session(
        "sweep", "vision", "cpu: 12, memory: 96GiB, cuda.device: 2",
        "cluster: {mode: single-node, roles: {main: 1, sub: 3}}",
    ),
]  # fmt: skip
THEN = [
    session("inference-bench", "language", "cpu: 16, memory: 128GiB, cuda.device: 2", "timeout: 2h"),
    session("pretrain", "language", "cpu: 96, memory: 1536GiB, cuda.device: 8"),
]


class Keyboard(io.StringIO):
    """Somebody who types `yes`, which the terminal shows."""

    def __init__(self, terminal: Terminal) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return True

    def readline(self, size: int | None = -1, /) -> str:
        self.terminal.write("yes\n")
        return "yes\n"


class Site:
    """Two machines that exist only here, in a time that stands still but for `later`."""

    def __init__(self, folder: Path, width: int, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.width, self.patch = folder, width, patch
        self.world = World(VirtualClock(1_800_000_000.0))
        folder.mkdir()
        (folder / "dgx-h100.json").write_bytes((EXAMPLE / "hardware/dgx-h100.json").read_bytes())
        self.write("cluster", CLUSTER)
        patch.setattr("providers.registry.open_provider", lambda *_, **__: FakeProvider(self.world))
        patch.setattr("reconciler.workspace.workspace.SystemClock", lambda: self.world.clock)

    def write(self, name: str, *documents: str) -> None:
        (self.folder / f"{name}.yaml").write_text("".join(documents), encoding="utf-8")

    def later(self, seconds: float) -> None:
        self.world.clock.sleep(seconds)

    def type(self, *words: str, color: bool = True) -> Terminal:
        """A command at a terminal, where somebody says yes."""
        from bai.cli.main import run

        terminal = Terminal(self.width)
        for name in ("BAI_STATE", "NO_COLOR", "FORCE_COLOR", "COLORTERM"):
            self.patch.delenv(name, raising=False)
        environment = {"COLUMNS": str(self.width), "LINES": "50", "TERM": "xterm", "BAI_PAGER": "cat"}
        for name, value in (environment | ({} if color else {"NO_COLOR": "1"})).items():
            self.patch.setenv(name, value)
        self.patch.setattr("sys.stdin", Keyboard(terminal))
        with contextlib.redirect_stdout(terminal), contextlib.redirect_stderr(terminal):
            code = run(["-C", str(self.folder), *words])
        assert code == 0, terminal.getvalue()
        return terminal

    def watch(self) -> None:
        """A loop looks once."""
        with Workspace.open(self.folder) as workspace:
            loop = Loop(workspace, LoopOptions("ops@head-1 (process 812)", 30), log=lambda line: None)
            loop.add_listener(PassRecorder(loop).record)
            assert loop.once()
            loop.halt()


Screens = dict[str, Terminal]


def make_screens(site: Site, *, color: bool) -> Screens:
    """One after the other, as a day goes."""
    found: Screens = {}
    site.write("sessions", *FIRST)
    found["apply"] = site.type("apply", "--parallel", "1", color=color)
    site.later(5_400)
    site.write("more", *THEN)
    found["apply-queued"] = site.type("apply", "--parallel", "1", color=color)
    site.later(600)
    site.watch()
    site.later(300)
    found["status"] = site.type("status", color=color)
    found["explain-running"] = site.type("explain", "finetune", color=color)
    found["explain-waiting"] = site.type("explain", "language/pretrain", color=color)
    return found


@pytest.fixture(scope="module", params=[80, 200])
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Screens, Screens]]:
    """With colour, and without; one action after the other, so that each is told in its turn."""
    folder = tmp_path_factory.mktemp("screens")
    with pytest.MonkeyPatch.context() as patch:
        yield (
            make_screens(Site(folder / "colour", request.param, patch), color=True),
            make_screens(Site(folder / "plain", request.param, patch), color=False),
        )


NAMES = ("apply", "apply-queued", "status", "explain-running", "explain-waiting")


@pytest.mark.parametrize("name", NAMES)
def test_screens_of_the_gallery(both: tuple[Screens, Screens], name: str) -> None:
    colored, plain = (screens[name] for screens in both)
    width = colored.width
    assert colored.screen().plain == plain.screen().plain
    assert colored.broken_lines() == []
    expect_screen(f"{name}-{width}.txt", text_of(plain.screen(), width=width))
    expect_screen(f"{name}-{width}.svg", screen_svg(colored.screen(), width))
