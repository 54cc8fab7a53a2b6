"""A client that has nothing but a folder for its contexts, and a server over a fake world."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.bai.conftest import Said
from tests.bai.web.lab import Lab, serving


@dataclass
class Laptop:
    """Commands are run in this process, in an empty folder."""

    folder: Path
    patch: pytest.MonkeyPatch
    env: dict[str, str] = field(default_factory=dict)

    @property
    def contexts(self) -> Path:
        return self.folder / "config" / "contexts.yaml"

    def __call__(self, *words: str, stdin: str = "") -> Said:
        from bai.cli.main import run

        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
        err = io.StringIO()
        with self.patch.context() as patch:
            for name in ("BAI_STATE", "BAI_CONTEXT", "BAI_CLUSTER"):
                patch.delenv(name, raising=False)
            patch.setenv("BAI_CONTEXTS", str(self.contexts))
            for name, value in self.env.items():
                patch.setenv(name, value)
            patch.chdir(self.folder)
            patch.setattr("sys.stdin", io.StringIO(stdin))
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = run(list(words))
        return Said(code, out.buffer.getvalue().decode(errors="replace"), err.getvalue())  # type: ignore[attr-defined]

    def ok(self, *words: str, stdin: str = "") -> Said:
        said = self(*words, stdin=stdin)
        assert said.code == 0, said.out + said.err
        return said

    def log_in(self, server: str, token: str, *words: str) -> None:
        """With a token of the access file."""
        self.ok("login", server, "--token", "-", *words, stdin=f"{token}\n")


@pytest.fixture
def laptop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Laptop:
    folder = tmp_path / "laptop"
    folder.mkdir()
    return Laptop(folder, monkeypatch)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    made = Lab(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="module")
def shared_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """For tests that only ask."""
    made = Lab(tmp_path_factory.mktemp("shared"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def shared_server(shared_lab: Lab) -> Iterator[str]:
    with serving(shared_lab.app) as address:
        yield address


@pytest.fixture
def server(lab: Lab) -> Iterator[str]:
    """Its address. The loop makes passes when `lab.once` is called."""
    with serving(lab.app) as address:
        yield address
