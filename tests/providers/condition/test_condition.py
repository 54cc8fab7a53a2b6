"""Sealing and comparing, on this machine; once through the same call that reaches nodes."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from providers.condition import query
from providers.condition.node import main, state, system
from providers.machines.base import Endpoint
from providers.machines.local import LocalMachine
from providers.machines.remote_modules import call_remote


class Sealed:
    """Files of a folder, sealed in another."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "seal"
        self.file = folder / "watched"
        self.file.write_text("one\n")
        self.file.chmod(0o644)

    def ask(self, do: str, **more: object) -> Mapping[str, Any]:
        """Of the node's module, in this process; what it is asked and answers is JSON."""
        answer = main.serve(json.loads(json.dumps(self._request(do, more))))
        return cast(Mapping[str, Any], json.loads(json.dumps(answer)))

    def ask_as_a_node(self, do: str, **more: object) -> Mapping[str, Any]:
        machine = LocalMachine("here")
        return cast(Mapping[str, Any], call_remote(machine, query.MODULES, self._request(do, more)))

    def _request(self, do: str, more: Mapping[str, object]) -> Mapping[str, object]:
        return {"do": do, "folder": str(self.folder), **more}

    def seal(self, **watch: object) -> Mapping[str, Any]:
        seal = {"profile": "p", "fingerprint": "f", "document": {"a": 1}, "at": 5.0}
        return self.ask("seal", seal=seal, watch={"files": [str(self.file)], **watch})

    def deviations(self) -> list[list[str]]:
        return cast(list[list[str]], self.ask("look")["deviations"])


@pytest.fixture
def sealed(tmp_path: Path) -> Sealed:
    return Sealed(tmp_path)


def test_a_node_without_a_seal_was_never_provisioned(sealed: Sealed) -> None:
    found = query._parse_condition("n", sealed.ask("look"))
    assert (found.stamp, found.stamp_problem, found.deviations) == (None, "", ())
    assert found.kernel == os.uname().release
    assert found.boot_id
    assert not found.converged("f")


def test_what_is_sealed_is_found_again(sealed: Sealed) -> None:
    found = query._parse_condition("n", sealed.seal())
    assert found.stamp is not None
    assert (found.stamp.profile, found.stamp.document, found.stamp.at) == ("p", {"a": 1}, 5.0)
    assert found.stamp.boot_id == found.boot_id
    assert found.converged("f")
    assert not found.converged("g")
    assert (sealed.folder / main.SEAL).stat().st_mode & 0o777 == 0o600
    assert os.listdir(sealed.folder) == [main.SEAL]
    assert query._parse_condition("n", sealed.ask_as_a_node("look")) == found


def test_content_mode_and_absence_of_a_file(sealed: Sealed) -> None:
    sealed.seal()
    name = f"file {sealed.file}"
    sealed.file.write_text("two\n")
    assert [each[0] for each in sealed.deviations()] == [name]
    sealed.file.write_text("one\n")
    sealed.file.chmod(0o600)
    assert sealed.deviations() == [[f"{name} mode", "0644", "0600"]]
    sealed.file.unlink()
    assert [each[::2] for each in sealed.deviations()] == [[name, "absent"]]
    sealed.file.symlink_to("/etc/hostname")
    assert sealed.deviations()[0][::2] == [name, "link to /etc/hostname"]


def test_a_provisioning_that_did_not_end_counts(sealed: Sealed) -> None:
    sealed.seal()
    found = query._parse_condition("n", sealed.ask("begin"))
    assert found.stamp is not None
    assert found.stamp.unfinished
    assert not found.converged("f")
    assert query._parse_condition("n", sealed.seal()).converged("f")


def test_to_begin_leaves_no_seal_where_there_was_none(sealed: Sealed) -> None:
    assert sealed.ask("begin")["seal"] is None
    assert not (sealed.folder / main.SEAL).exists()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"form": 7}', '{"form": 1}', '{"form": 1, "state": 3}'])
def test_a_seal_that_cannot_be_used_is_none_and_says_why(sealed: Sealed, content: str) -> None:
    sealed.folder.mkdir()
    (sealed.folder / main.SEAL).write_text(content)
    found = query._parse_condition("n", sealed.ask("look"))
    assert found.stamp is None
    assert main.SEAL in found.stamp_problem


def test_every_kind_has_a_value(tmp_path: Path) -> None:
    watch = {
        "packages": {"no-such-package": ""}, "held": ["no-such-package"], "files": ["/no/such/file"],
        "sysctls": {"kernel.ostype": "x", "no.such": ""}, "units": ["no-such.service"],
        "modules": {"no-such-module": ""}, "mounts": ["/proc", "/no/such/mount"],
    }  # fmt: skip
    found = state.state(watch)
    assert found.pop("unit no-such.service") in ("inactive", "unknown", "offline")
    assert found == {
        "kernel": os.uname().release,
        "package no-such-package": "absent",
        "hold of no-such-package": "not held",
        "file /no/such/file": "absent",
        "sysctl kernel.ostype": "Linux",
        "sysctl no.such": "absent",
        "module no-such-module": "not loaded",
        "mount /proc": "proc proc",
        "mount /no/such/mount": "not mounted",
    }


def test_packages_of_dpkg(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "a\t1.0\tii \tamd64\nb\t2.0\thi \tamd64\nc\t3\trc \tamd64\nd\t4\tii \ti386\n"
    monkeypatch.setattr(state, "output", lambda _argv: said)
    versions, held = state._dpkg(["a", "b", "c", "d"])
    assert versions == {
        "a": "1.0", "a:amd64": "1.0", "b": "2.0", "b:amd64": "2.0", "d": "4", "d:i386": "4",
    }  # fmt: skip
    assert "b" in held
    assert "a" not in held


def test_a_package_that_is_not_configured_is_not_like_one_that_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "output", lambda _argv: "a\t1.0\tiF \tamd64\n")
    assert state._dpkg(["a"])[0]["a"] == "1.0 (iF)"


def test_packages_and_locks_of_rpm(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "kernel\t5.14-1.el9\nkernel\t5.14-2.el9\npackage x is not installed\ncuda\t1:12-1\n"
    monkeypatch.setattr(state, "output", lambda _argv: said)
    monkeypatch.setattr(
        state, "read", lambda _path: "# a comment\nkernel-0:5.14-2.el9.*\n1:cuda-12-1.*\n!x-1-1\n"
    )
    versions, held = state._rpm(["kernel", "x", "cuda"])
    assert versions == {"kernel": "5.14-1.el9 5.14-2.el9", "cuda": "1:12-1"}
    assert set(held) == {"kernel", "cuda"}


@pytest.mark.parametrize(
    ("release", "os_name"),
    [
        ('ID=debian\nVERSION_ID="12"\n', "debian-12"),
        ('NAME="Ubuntu"\nVERSION_ID="22.04"\nID=ubuntu\nID_LIKE=debian\n', "ubuntu-22.04"),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.4"\n', "rhel-9"),
        ("ID=arch\n", "arch"),
        ("", "linux"),
    ],
)
def test_names_of_systems(release: str, os_name: str) -> None:
    assert system._os_name(release) == os_name


def test_a_node_without_python_is_unreached_with_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    found, why = query.observe_conditions([Endpoint("here", "localhost", local=True)])
    assert found == {}
    assert "python3 is not installed" in why["here"]


def test_nothing_newer_than_python_3_8_is_used() -> None:
    folder = Path(main.__file__).parent
    paths = [str(path) for path in folder.glob("*.py")]
    paths.append(str(folder.parents[1] / "ansible" / "node_lock_holder.py"))
    code = "import ast, sys\nfor p in sys.argv[1:]: ast.parse(open(p).read(), p, feature_version=(3, 8))"
    subprocess.run(["python3", "-c", code, *paths], check=True)
    for path in paths:
        text = Path(path).read_text()
        assert "removeprefix" not in text
        assert "match " not in text
        assert not text.strip() or "import" not in text or "from __future__ import annotations" in text


def test_the_seal_keeps_no_state_in_what_it_answers(sealed: Sealed) -> None:
    assert not {"state", "watch"} & set(sealed.seal()["seal"])
    assert json.loads((sealed.folder / main.SEAL).read_text())["state"]
