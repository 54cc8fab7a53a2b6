"""What is installed is what is locked; bills of materials and the look for advisories (scripts/sbom.py,
scripts/advisories.py)."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from cyclonedx.schema import SchemaVersion, _res
from packaging.requirements import Requirement
from packaging.version import Version

from tests.lab import wheels
from tests.lab.wheels import ROOT

STATUS = """\
Package: git
Status: install ok installed
Architecture: amd64
Version: 1:2.47.3-0+deb13u1
Description: fast, scalable
 Version: 9 is not its version

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1.0
"""
RELEASE = 'PRETTY_NAME="Debian GNU/Linux 13"\nID=debian\nVERSION_ID="13"\n'


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))


def _read(path: str) -> Any:
    return json.loads(Path(path).read_text())


def valid(text: str) -> dict[str, Any]:
    """What it says. cyclonedx' own validator takes 13 seconds for it: it parses each URL with a grammar."""
    others = {"spdx": _res.SPDX_JSON, "jsf-0.82": _res.JSF, "cryptography-defs": _res.CRYPTOGRAPHY_DEFS}
    base = "http://cyclonedx.org/schema/"
    registry = jsonschema_rs.Registry(
        [(f"{base}{name}.SNAPSHOT.schema.json", _read(path)) for name, path in others.items()]
    )
    schema = _read(_res.BOM_JSON_STRICT[SchemaVersion.V1_6] or "")
    value: dict[str, Any] = json.loads(text)
    jsonschema_rs.Draft7Validator(schema, registry=registry, validate_formats=True).validate(value)
    return value


def wheel_sbom(out: Path, **environment: str) -> bytes:
    command = [sys.executable, "scripts/sbom.py", "wheel", str(out)]
    subprocess.run(command, cwd=ROOT, env=os.environ | environment, check=True, capture_output=True)
    return out.read_bytes()


def test_the_wheels_bill_names_what_is_locked_and_is_the_same_again(tmp_path: Path) -> None:
    first = wheel_sbom(tmp_path / "a.json", PYTHONHASHSEED="1")
    assert first == wheel_sbom(tmp_path / "b.json", PYTHONHASHSEED="2")
    bom = valid(first.decode())
    assert "timestamp" not in bom["metadata"]
    locked = {
        line.split("==")[0]
        for line in (ROOT / "requirements/run.txt").read_text().splitlines()
        if "==" in line and not line.startswith(("#", " "))
    }
    assert {each["name"] for each in bom["components"]} == locked
    lock = (ROOT / "requirements/run.txt").read_text()
    told = [h["content"] for c in bom["components"] for r in c["externalReferences"] for h in r["hashes"]]
    assert len(told) == lock.count("--hash=sha256:")
    assert all(each in lock for each in told)


@pytest.mark.usefixtures("scripts")
def test_what_is_deployed_is_what_is_tested() -> None:
    """`make lock` makes all from one, and bai and its image need nothing else."""
    from locked import read_locked

    run, server, tested = (
        {(each.name, each.version) for each in read_locked(ROOT / "requirements" / f"{name}.txt")}
        for name in ("run", "server", "dev")
    )
    assert len(run) > 20 and run < server <= tested


NEWEST = re.compile(r'^if \[ "\$level" = newest \]; then\n.*?^else\n', re.M | re.S)
"""What `make test-newest` installs, whose purpose is not to be locked."""
OWN = {"--no-deps", "--no-build-isolation"}
"""With these and this project's own folder, pip fetches nothing."""


def installs(text: str) -> list[str]:
    """Commands of a shell script, a Makefile or a Containerfile in which pip or uv installs anything."""
    text = re.sub(r"^\s*#.*\n", "", text, flags=re.M).replace("\\\n", " ")
    for name, value in re.findall(r'(\w+)="([^"]*\binstall\b[^"]*)"', text):
        text = text.replace(f'{name}="{value}"', "").replace(f"${{{name}}}", value)
    commands = re.split(r"&&|\|\||[;\n]|\bthen\b", text)
    return [each.strip() for each in commands if re.search(r"\bpip3?\b.*\binstall\b", each)]


def unlocked(text: str) -> list[str]:
    """Those of them that take whatever an index has on that day."""
    return [each for each in installs(text) if not _locked(each.split())]


def _locked(words: list[str]) -> bool:
    return "--require-hashes" in words or (words[-1] in (".", "/src") and set(words) >= OWN)


@pytest.mark.parametrize(
    ("path", "count"),
    [
        ("deploy/container/Containerfile", 2),
        ("scripts/setup.sh", 9),
        ("scripts/test.sh", 0),
        ("Makefile", 0),
    ],
)
def test_whatever_pip_installs_is_locked_with_hashes(path: str, count: int) -> None:
    """By `make demo`, by `make test` and in the image; also the tools that make an environment."""
    text = (ROOT / path).read_text()
    if path.endswith("setup.sh"):
        text, newest = NEWEST.subn("", text)
        assert newest == 1
    assert not unlocked(text)
    assert len(installs(text)) == count, installs(text)
    assert not re.search(r"\buv venv .*--seed|\bpipx\b|\buvx\b|\buv (sync|run|tool)\b|easy_install", text)
    code = re.sub(r"^\s*#.*$", "", text, flags=re.M)
    flags = list(re.finditer(r"--require-hashes|--no-deps|--no-build-isolation", code))
    assert len(flags) >= count
    for flag in flags:
        assert unlocked(code[: flag.start()] + code[flag.end() :]), "this very test would notice"


def test_what_makes_an_environment_is_in_the_lock_with_all_that_it_needs() -> None:
    """pip refuses a list with hashes that lacks anything: scripts/setup.sh names all of it."""
    text = (ROOT / "scripts/setup.sh").read_text()
    lock = (ROOT / "requirements/dev.txt").read_text()
    locked = {line.split("==")[0] for line in lock.splitlines()}
    if f"\nvirtualenv=={metadata.version('virtualenv')} " not in lock:
        pytest.skip("installed is not what is locked")
    named = [words.split() for words in re.findall(r'\blocked "\S+" ([\w -]+)', text)]
    assert {"pip", "uv", "virtualenv"} <= {names[0] for names in named}
    for names in named:
        assert needed(names[0]) == set(names) <= locked, names


def test_what_nodes_of_tests_install_is_locked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[str] = []
    monkeypatch.setattr(wheels, "command", lambda words, **_: asked.extend(words))
    monkeypatch.setattr(wheels.cache, "kept", lambda name, make: make(tmp_path))
    monkeypatch.delenv("BAI_TEST_LEVEL", raising=False)
    wheel = tmp_path / "bai-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("bai-1.dist-info/METADATA", "Name: bai\n")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    wheels.needed(wheel, "server", python="3.11")
    assert "download" in asked and "--require-hashes" in asked
    assert f"--constraint={ROOT / 'requirements' / 'dev.txt'}" in asked
    assert asked[-1] == f"bai[server] @ {wheel.as_uri()}#sha256={digest}"


def needed(name: str) -> set[str]:
    """A distribution and what it needs here, and that what it needs."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            asked = map(Requirement, metadata.requires(each) or [])
            waiting += [one.name for one in asked if one.marker is None or one.marker.evaluate({"extra": ""})]
    return found


@pytest.mark.parametrize("names", [["pip"], ["uv"], ["virtualenv", "packaging"]])
def test_lines_of_the_lock(tmp_path: Path, names: list[str]) -> None:
    """As scripts/setup.sh takes them: of these alone, and with all their hashes."""
    text = (ROOT / "scripts/setup.sh").read_text()
    [function] = re.findall(r"^locked\(\) \{\n.*?^\}\n", text, re.M | re.S)
    command = ["sh", "-euc", f'{function}locked "$@"', "sh", str(tmp_path / "lock.txt"), *names]
    subprocess.run(command, cwd=ROOT, check=True)
    lock = (ROOT / "requirements/dev.txt").read_text()
    parts = [
        re.findall(rf"^{name}==\S+ \\\n(?:    --hash=sha256:\w{{64}}(?: \\)?\n)+", lock, re.M)
        for name in names
    ]
    assert (tmp_path / "lock.txt").read_text() == "".join(part for [part] in parts)


@pytest.mark.usefixtures("scripts")
def test_a_time_only_where_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    import sbom

    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    bom = valid(sbom.written(sbom.wheel({"name": "bai", "version": "1"}, [])))
    assert bom["metadata"]["timestamp"].startswith("2023-11-14T22:13:20")


@pytest.mark.usefixtures("scripts")
def test_the_images_bill_names_its_debian_packages_and_distributions() -> None:
    import sbom

    seen = {"python": [["bai", "0.1.0"], ["PyYAML", "6.0.2"]], "status": STATUS, "release": RELEASE}
    text = sbom.written(sbom.image("bai", "sha256:" + "a" * 64, seen))
    purls = {each["purl"] for each in valid(text)["components"]}
    assert purls == {
        "pkg:pypi/bai@0.1.0",
        "pkg:pypi/pyyaml@6.0.2",
        "pkg:deb/debian/git@1:2.47.3-0%2Bdeb13u1?arch=amd64&distro=debian-13",
    }
    assert sbom.written(sbom.image("bai", "sha256:" + "a" * 64, seen)) == text


@pytest.mark.usefixtures("scripts")
def test_what_looks_into_the_image_finds_this_machines_packages() -> None:
    import sbom

    look = [sys.executable, "-I", "-c", sbom._LOOK]
    seen = json.loads(subprocess.run(look, check=True, capture_output=True, text=True).stdout)
    assert ["pytest", pytest.__version__] in seen["python"]
    # Few of them: the bill grows with what is installed here, and says no more.
    few = seen | {"python": seen["python"][:5], "status": "\n\n".join(seen["status"].split("\n\n")[:20])}
    told = {
        each["purl"]
        for each in valid(sbom.written(sbom.image("here", f"sha256:{'b' * 64}", few)))["components"]
    }
    assert {str(sbom._pypi(*each)) for each in few["python"]} <= told
    query = ["dpkg-query", "-W", "-f", "${Status}|${Package}\n"]
    if seen["status"]:
        lines = subprocess.run(query, check=True, capture_output=True, text=True).stdout.splitlines()
        installed = {line.split("|")[1] for line in lines if line.split("|")[0].endswith(" installed")}
        assert installed == {each.name for each in sbom.debian(seen["status"], seen["release"])}


@pytest.mark.usefixtures("scripts")
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("one==1\n", "is not locked"),
        (f"one>=1 --hash=sha256:{'a' * 64}\n", "is not locked"),
        ("one==\n", ":1: "),
    ],
)
def test_what_is_not_locked_is_refused_with_its_line(tmp_path: Path, text: str, why: str) -> None:
    from locked import read_locked

    (tmp_path / "r.txt").write_text(text)
    with pytest.raises(ValueError, match=why):
        read_locked(tmp_path / "r.txt")


def record(name: str, *, ecosystem: str = "PyPI", **affected: object) -> dict[str, Any]:
    package = {"ecosystem": ecosystem, "name": name}
    return {"id": "PYSEC-0", "summary": "bad", "affected": [{"package": package, **affected}]}


def audit_by_script(folder: Path) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "scripts/advisories.py"],
        cwd=ROOT,
        env=os.environ | {"BAI_ADVISORIES": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.stderr
    return done.returncode, done.stdout


def since(version: str) -> list[dict[str, object]]:
    return [{"type": "ECOSYSTEM", "events": [{"introduced": version}]}]


def test_a_folder_of_advisories(
    tmp_path: Path, scripts: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import advisories

    def audit(folder: Path) -> tuple[int, str]:
        monkeypatch.setenv("BAI_ADVISORIES", str(folder))
        return advisories.main(), capsys.readouterr().out

    code, told = audit(tmp_path)
    assert (code, "has no OSV records" in told) == (1, True)
    harmless = {
        "other": record("no-such-locked", ranges=since("0")),
        "elsewhere": record("requests", ecosystem="npm", ranges=since("0")),
        "later": record("requests", ranges=since("9999")),
        "withdrawn": record("requests", ranges=since("0")) | {"withdrawn": "2024-01-01T00:00:00Z"},
    }
    for name, value in harmless.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(value))
    assert audit(tmp_path) == (0, "no advisory names what is locked\n")
    (tmp_path / "hit.json").write_text(json.dumps(record("Requests", ranges=since("0"))))
    code, told = audit_by_script(tmp_path)
    assert code == 1
    assert told.startswith("requests ") and "PYSEC-0 bad" in told
    (tmp_path / "hit.json").write_text("[]")
    code, told = audit(tmp_path)
    assert (code, "hit.json is no OSV record" in told) == (1, True)


@pytest.mark.usefixtures("scripts")
@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("0.9", False),
        ("1.0", True),
        ("1.10", True),
        ("2.0", False),
        ("3.0rc1", False),
        ("3.0", True),
        ("3.1", False),
    ],
)
def test_ranges_of_versions(version: str, expected: bool) -> None:
    import advisories

    events = [{"introduced": "3.0"}, {"fixed": "2.0"}, {"introduced": "1.0"}, {"last_affected": "3.0"}]
    assert advisories.names({"ranges": [{"type": "ECOSYSTEM", "events": events}]}, version) is expected
    assert str(Version(version)) == version
