"""The frame of the command: help, completion, global options, exit codes, and what is imported when."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from bai import __version__
from bai.cli import error_messages, main
from bai.cli.global_options import move_global_options_first
from bai.cli.lazy_commands import load_command
from schemas.problems.errors.plan import StalePlan
from schemas.problems.errors.repository import InvalidRepository
from schemas.problems.errors.store import LeaseHeld
from schemas.problems.problem import Problem, SourceLocation

ROOT = Path(__file__).parents[2]
HEAVY = (
    "pydantic",
    "sqlalchemy",
    "yaml",
    "rich",
    "git",
    "numpy",
    "jinja2",
    "alembic",
    "jsonschema",
    "lark",
    "pynvml",
    "tenacity",
)


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )


def loaded_after(*commands: list[str], **environment: str) -> set[str]:
    code = (
        "import sys, contextlib, io\nfrom bai.cli.main import run\n"
        f"for words in {commands!r}:\n"
        "    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        "        run(words)\n"
        "print('\\n'.join(sys.modules))"
    )
    done = python(code, **environment)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_help_loads_nothing_heavy(capsys: pytest.CaptureFixture[str]) -> None:
    assert not loaded_after(["--help"]).intersection(HEAVY)
    assert [main.run([word]) for word in ("-h", "--help")] == [0, 0]
    half = capsys.readouterr().out
    assert half[: len(half) // 2] * 2 == half


def test_a_command_that_does_nothing_loads_no_part_of_bai() -> None:
    found = loaded_after(["plan", "--help"], ["nodes", "--help"], ["version"])
    # Typer reads options through pydantic.
    assert not found.intersection({*HEAVY} - {"pydantic"})
    assert not any(name.startswith(("reconciler", "planner", "providers")) for name in found)


@pytest.mark.parametrize("way", [["bai"], [sys.executable, "-m", "bai"]], ids=["script", "module"])
def test_it_starts_by_its_script_and_as_a_module(way: list[str], tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["/usr/bin/env", *way, "--version"],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, f"bai {__version__}\n"), done.stderr


def test_completion_loads_nothing_heavy() -> None:
    found = loaded_after([], _BAI_COMPLETE="complete_bash", COMP_WORDS="bai p", COMP_CWORD="1")
    assert not found.intersection(HEAVY)


def complete(words: str, at: int) -> list[str]:
    code = "from bai.cli.main import main\nmain()"
    done = python(code, _BAI_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=str(at))
    return done.stdout.split()


def test_completion_of_commands_and_options() -> None:
    assert "rebuild" in complete("bai state re", 2)
    assert complete("bai --verbose --cluster x de", 4) == ["destroy", "describe"]
    assert "--detailed-exitcode" in complete("bai plan --det", 2)


def private_names(tree: ast.AST) -> set[str]:
    """Names of Typer and of its contexts that begin with an underscore."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names = [f"{node.value.id}.{node.attr}"]
        else:
            continue
        found |= {name for name in names if name.startswith(("typer.", "ctx.", "click.")) and "._" in name}
    return found


def test_of_typer_only_public_names_are_used() -> None:
    """Its own Click and the insides of its contexts may change with any release."""
    files = sorted((ROOT / "bai").rglob("*.py"))
    assert private_names(ast.parse("from typer import _click\nctx._protected_args = []"))
    wrong = {str(path): private_names(ast.parse(path.read_text(encoding="utf-8"))) for path in files}
    assert {path: names for path, names in wrong.items() if names} == {}


def test_every_command_loads_and_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    for name, (module, line) in main.COMMANDS.items():
        assert load_command(module) is not None
        assert main.run([name, "--help"]) == 0
        assert f"bai {name}" in capsys.readouterr().out
        assert line.endswith(".")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (["plan", "-C", "x"], ["-C", "x", "plan"]),
        (["plan", "--cluster=a", "--verbose"], ["--cluster=a", "--verbose", "plan"]),
        (["exec", "web", "ls", "-C"], ["exec", "web", "ls", "-C"]),
        (
            ["exec", "-C", "d", "web", "--", "ls", "--verbose"],
            ["-C", "d", "exec", "web", "--", "ls", "--verbose"],
        ),
        (["logs", "--", "--verbose"], ["logs", "--", "--verbose"]),
        (["plan", "-C"], ["-C", "plan"]),
        (["get", "--target=--cluster=x"], ["get", "--target=--cluster=x"]),
        (["get", "--context", "lab"], ["--context", "lab", "get"]),
        (
            ["import", "kubernetes", "--context", "x", "-C", "d"],
            ["-C", "d", "import", "kubernetes", "--context", "x"],
        ),
        (["import", "kubernetes", "--context=x"], ["import", "kubernetes", "--context=x"]),
    ],
)
def test_global_options_may_stand_anywhere(before: list[str], after: list[str]) -> None:
    assert move_global_options_first(before) == after


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["plan", "--nonsense"], ["plan", "--format", "xml"], ["describe"], []]
)
def test_wrong_usage_exits_with_one(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(arguments) == 1
    shown = capsys.readouterr()
    assert shown.err and not shown.out
    assert "Traceback" not in shown.err


def test_a_mistyped_command_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    main.run(["aply"])
    assert "'apply'" in capsys.readouterr().err


def test_every_problem_of_a_repository_is_a_line() -> None:
    problems = tuple(
        Problem(SourceLocation("a.yaml", line, 3), "BAI-V001", "spec.x", "is wrong", "do y")
        for line in (1, 2)
    )
    lines = error_messages.error_lines(InvalidRepository(problems))
    assert lines == [
        "a.yaml:1:3: BAI-V001 (spec.x): is wrong; do y",
        "a.yaml:2:3: BAI-V001 (spec.x): is wrong; do y",
        "error: 2 problem(s) in the repository",
    ]


def test_known_errors_say_code_and_what_to_do() -> None:
    lines = error_messages.error_lines(StalePlan(why="a session ended"))
    assert lines == [
        "error: The plan is stale: a session ended [BAI-E0501]",
        "  make a new plan and read it again",
    ]
    held = error_messages.error_lines(
        LeaseHeld(holder="ann", cluster="lab", until="noon", store="s", why="w")
    )
    assert held[-1] == "  this may pass: try again"


def test_a_defect_leaves_a_report_and_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert (
        error_messages.report_error(ZeroDivisionError("oh"), command=["exec", "web", "--", "secret-word"])
        == 1
    )
    shown = capsys.readouterr().err
    (path,) = (tmp_path / "bai" / "reports").iterdir()
    assert str(path) in shown and "Traceback" not in shown
    assert "ZeroDivisionError: oh" in path.read_text() and "secret-word" not in path.read_text()
    assert path.stat().st_mode & 0o077 == 0


def test_verbose_shows_the_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    error_messages.report_error(ZeroDivisionError("oh"), verbose=True)
    assert "ZeroDivisionError: oh" in capsys.readouterr().err


def test_a_missing_file_is_no_defect() -> None:
    assert error_messages.error_lines(FileNotFoundError(2, "No such file or directory", "x.json")) == [
        "error: x.json: no such file or directory"
    ]


def test_an_extra_that_is_not_installed_is_named() -> None:
    error = ModuleNotFoundError("No module named 'fastapi'", name="fastapi")
    first, then = error_messages.error_lines(error)
    assert "fastapi is not installed" in first and "defect" not in first
    assert then == "  pip install 'bai[server]'"
    assert (
        "defect"
        in error_messages.error_lines(ModuleNotFoundError("No module named 'bai.x'", name="bai.x"))[0]
    )


def test_every_requirement_of_the_server_is_known_as_its_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {Requirement(line).name.lower() for line in project["optional-dependencies"]["server"]}
    owners = packages_distributions()
    assert wanted == {
        owners[module][0].lower().replace("_", "-") for module in error_messages.EXTRA_OF_MODULE
    }
    assert set(error_messages.EXTRA_OF_MODULE.values()) == {"server"}


def test_the_version_is_an_option_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--version"]) == 0 and main.run(["plan", "--version"]) == 0
    assert capsys.readouterr().out == f"bai {__version__}\n" * 2


@pytest.mark.parametrize("words", [["--help"], ["version"]])
def test_a_closed_pipe_is_quiet(words: list[str]) -> None:
    """Whoever reads has gone before the first word, be it written at once or at the end."""
    code = "from bai.cli.main import main; main()"
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb") as closed:
        done = subprocess.run(
            [sys.executable, "-c", code, *words],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=closed,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
        )
    assert done.stderr == "" and done.returncode in (0, 1)
