"""The house itself: import arrows, short modules, a set-up that does nothing twice."""

from __future__ import annotations

import ast
import importlib
import os
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("schemas", "planner", "providers", "reconciler", "bai")


def project() -> dict[str, object]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def sources(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


WRONG_ARROWS = {
    "schemas.files.sources": "reconciler.plan",
    "reconciler.observe.observe": "reconciler.plan.pipeline",
    "reconciler.plan.decide.drain": "reconciler.plan.place.solve",
    "planner.model.types": "planner.queue.base",
    "bai.web.app": "bai.cli.output",
}


def test_the_contracts_catch_wrong_arrows(tmp_path: Path) -> None:
    """The same contracts fail, over the same packages with these imports alone, and name each of them."""
    deepest = {f"{name.replace('.', '/')}.py" for arrow in WRONG_ARROWS.items() for name in arrow}
    for package in PACKAGES:
        for path in sources(package):
            inside = path.relative_to(ROOT)
            if path.name == "__init__.py" or len(inside.parts) < 4 or str(inside) in deepest:
                (tmp_path / inside).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / inside).touch()
    for importer, imported in WRONG_ARROWS.items():
        (tmp_path / f"{importer.replace('.', '/')}.py").write_text(f"import {imported}\n")
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    command = [
        sys.executable,
        "-c",
        "from importlinter.cli import lint_imports_command; lint_imports_command()",
    ]
    done = subprocess.run(
        [*command, "--no-cache"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    for importer, imported in WRONG_ARROWS.items():
        assert f"{importer} -> {imported}" in done.stdout


def test_dependencies_say_what_they_are_for() -> None:
    lines = (ROOT / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    start = lines.index("dependencies = [")
    listed = lines[start + 1 : lines.index("]", start)]
    assert listed
    assert [line for line in listed if "#" not in line] == []


def test_every_entry_point_can_be_loaded() -> None:
    from importlib import import_module

    groups = project()["project"].get("entry-points", {})  # type: ignore[attr-defined]
    assert {"bai.providers", "bai.queue", "bai.selection"} <= set(groups)
    for entries in groups.values():
        for target in entries.values():
            module, _, name = target.partition(":")
            assert getattr(import_module(module), name) is not None


def test_a_stale_page_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import gen_docs  # type: ignore[import-not-found]

    monkeypatch.setattr(gen_docs, "REFERENCE", tmp_path)
    page = gen_docs.errors_page()
    (tmp_path / "errors.md").write_text(page, encoding="utf-8")
    assert gen_docs.stale({"errors.md": page}) == []
    assert gen_docs.stale({"errors.md": page + "more\n"}) != []
    assert gen_docs.stale({"missing.md": page}) != []


def test_every_error_and_code_is_documented() -> None:
    from schemas.problems import errors
    from schemas.problems.codes import CODES

    text = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    codes = {
        value.code
        for module in pkgutil.iter_modules(errors.__path__, f"{errors.__name__}.")
        for value in vars(importlib.import_module(module.name)).values()
        if isinstance(value, type) and issubclass(value, Exception)
    }
    assert len(codes) > 50
    assert {code for code in codes | set(CODES) if code != "BAI-E0000" and code not in text} == set()


def test_every_promise_of_security_names_its_tests() -> None:
    """And these exist. Three dots stand for any part of a name."""
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    tests = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^ *def (test_\w+)", path.read_text(encoding="utf-8"), re.M)
    }
    every = "\n".join(tests)
    promised = re.findall(r"^\*\*Promised.*?(?=^\*\*Not promised)", text, re.M | re.S)
    in_prose = [part.splitlines()[0] for part in promised if not re.search(r"^- ", part, re.M)]
    assert in_prose == [], "what is promised is a list, each with its tests"
    promises = [each for part in promised for each in re.split(r"^- ", part, flags=re.M)[1:]]
    assert len(promises) > 50
    for promise in promises:
        named = re.findall(r"(?:\btest_|\.\.\._)\w*?(?:_\.\.\.|\w(?!\w|\.py|\.\.\.))", promise)
        assert named, f"no test is named by: {promise}"
        for name in named:
            pattern = re.escape(name).replace(re.escape("..."), ".*")
            found = name in tests or ("..." in name and re.search(f"^{pattern}$", every, re.M))
            assert found, f"there is no {name}"


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"])
def test_links_of_the_first_pages_lead_somewhere(page: str) -> None:
    """Those of `docs/` are mkdocs' to check."""
    links = re.findall(r"\]\((?!\w+:)([^)#]*)(?:#([^)]*))?\)", (ROOT / page).read_text(encoding="utf-8"))
    assert links
    for path, anchor in links:
        target = ROOT / (path or page)
        assert target.exists(), f"{page} links to {path}"
        if anchor:
            assert anchor in _anchors(target), f"{page} links to {path}#{anchor}"


def _anchors(page: Path) -> set[str]:
    """As mkdocs and forges make them of headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings}


def test_holes_are_reported_in_private() -> None:
    """The three places say so, and promise the same."""
    told = [
        " ".join((ROOT / name).read_text(encoding="utf-8").split())
        for name in ("SECURITY.md", "docs/security.md")
    ]
    for text in told:
        for words in (
            "in private",
            "within three working days",
            "a test that attacks as you did",
            "if you like",
        ):
            assert words in text, words
    assert "docs/security.md#reporting-a-hole" in told[0]
    assert "(SECURITY.md)" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_modules_tell_one_story() -> None:
    long = {
        str(path.relative_to(ROOT)) for package in PACKAGES for path in sources(package) if _lines(path) > 400
    }
    assert long == set()


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_says_what_to_read_first(package: str) -> None:
    text = ast.get_docstring(ast.parse((ROOT / package / "__init__.py").read_text(encoding="utf-8")))
    assert text


def test_setting_up_again_does_nothing(tmp_path: Path) -> None:
    """`scripts/setup.sh` in a copy whose environment stands: it ends at once and touches nothing."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / "requirements").mkdir()
    for name in ("pyproject.toml", "scripts/setup.sh", "requirements/run.txt", "requirements/dev.txt"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    (tmp_path / ".venv" / "bin" / "python").symlink_to(sys.executable)
    check = "cat pyproject.toml scripts/setup.sh requirements/*.txt | cksum | cut -d' ' -f1,2 | tr ' ' -"
    key = subprocess.run(
        ["sh", "-c", check], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout.strip()
    stamp = tmp_path / ".venv" / ".bai-setup"
    stamp.write_text(f"{key} dev\n")
    before = stamp.stat().st_mtime_ns
    for level in ("dev", "run"):
        done = subprocess.run(
            ["sh", "scripts/setup.sh", level], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert stamp.stat().st_mtime_ns == before
    assert not (tmp_path / ".venv.lock").exists()


def set_up(folder: Path, python: str) -> subprocess.CompletedProcess[str]:
    """`scripts/setup.sh` in a copy, with no other interpreter than this shell script."""
    (folder / "scripts").mkdir()
    tools = folder / "tools"
    tools.mkdir()
    (folder / "requirements").mkdir()
    for name in ("pyproject.toml", "scripts/setup.sh", "requirements/run.txt", "requirements/dev.txt"):
        (folder / name).write_bytes((ROOT / name).read_bytes())
    setup = folder / "scripts" / "setup.sh"
    setup.write_text(setup.read_text().replace("/usr/bin/python3 /usr/local/bin/python3", ""))
    for tool in ("sh", "cat", "cksum", "cut", "tr", "dirname", "id", "mktemp", "rm"):
        path = next(Path(place) / tool for place in ("/bin", "/usr/bin") if (Path(place) / tool).exists())
        (tools / tool).symlink_to(path)
    (tools / "python3").write_text(f"#!/bin/sh\n{python}\n")
    (tools / "python3").chmod(0o755)
    return subprocess.run(
        ["sh", "scripts/setup.sh"],
        cwd=folder,
        env={"PATH": str(tools)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_old_python_is_refused_with_words(tmp_path: Path) -> None:
    """No interpreter that is new enough: one sentence, exit code 1, and no half environment."""
    done = set_up(tmp_path, "exit 1")
    assert done.returncode == 1
    assert "Python 3.11 or newer is needed" in done.stderr
    assert not (tmp_path / ".venv").exists()


def test_a_python_without_venv_is_refused_with_the_package_to_install(tmp_path: Path) -> None:
    """As on a Debian or Ubuntu that has no more than python3."""
    python = f'case "$*" in *executable*) echo "$0" ;; -c*) exec {sys.executable} "$@" ;; *) exit 1 ;; esac'
    done = set_up(tmp_path, python)
    assert done.returncode == 1
    assert "can make no virtual environment" in done.stderr
    assert "apt-get install python3-venv" in done.stderr
    assert not (tmp_path / ".venv").exists()


def test_a_folder_holds_one_subject(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    from structure import FLAT, per_folder  # type: ignore[import-not-found]

    crowded = {name: count for name, count in per_folder(ROOT).items() if count > 16 and name not in FLAT}
    assert crowded == {}


def test_no_kind_is_told_by_how_a_text_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """`schemas.values.resource_ref` takes identities apart."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    from structure import kinds_by_prefix

    assert kinds_by_prefix(ROOT) == []


def test_circles_of_imports_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    from structure import between_siblings, circles

    graph = {"a.b": {"a.c.d"}, "a.c.d": {"a.c.e"}, "a.c.e": {"a.b"}, "a.f": {"a.b"}}
    assert circles(graph) == [["a.b", "a.c.d", "a.c.e"]]
    assert between_siblings(graph) == {"a": [["a.b", "a.c"]]}
    assert between_siblings({"a.b": {"a.c.d"}, "a.c.d": {"a.c.e"}, "a.c.e": set()}) == {}


LIGHT = {"providers/process/linux/cgroup.py"}
"""Run in a process for each container, which has to stay small."""


def test_calls_are_repeated_by_one_library() -> None:
    """By tenacity: no other loop waits after an error that it has caught (docs/adr/0025-retries.md)."""
    found = {
        str(path.relative_to(ROOT)) for package in PACKAGES for path in sources(package) if _retries(path)
    }
    assert found == LIGHT


def _retries(path: Path) -> bool:
    text = path.read_text()
    if "sleep" not in text:
        return False
    loops = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.While | ast.For))
    return any({"except", "sleep"} <= {_part(node) for node in ast.walk(loop)} for loop in loops)


def _part(node: ast.AST) -> str:
    """Whether it catches errors, or waits."""
    if isinstance(node, ast.ExceptHandler):
        return "except"
    name = ""
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return {"suppress": "except", "sleep": "sleep", "_sleep": "sleep"}.get(name, "")
