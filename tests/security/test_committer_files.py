"""Who may commit documents, or name files, wants bai to wait for ever or to drown in mistakes."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import paramiko
import pytest

from bai.web.auth.access_file import WatchedAccessFile
from providers.machines.ssh.login import _load_file
from providers.machines.ssh.route import Hop, Route
from providers.machines.ssh.trust import HostKeys
from reconciler.secrets.session_keys import derive_seed
from schemas.files.regular_files import open_regular_file, read_regular_file
from schemas.files.yaml_reader import LARGEST_FILE, MOST_PROBLEMS
from schemas.hardware.capture_reader import HardwareError, read_hardware
from schemas.loading.loader import MOST_IN_ALL, load_directory
from schemas.problems.errors.plan import SecretMissing
from schemas.problems.errors.repository import InvalidRepository
from tests.bai.conftest import Repo, Said, new_repo, tidy

HANGS = 60.0
"""Seconds after which something that should have said no has hung."""
KINDS = ("a FIFO", "a socket", "a directory", "a character device")


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repo]:
    made = new_repo(tmp_path)
    yield made
    tidy(made)


@pytest.fixture
def fifo(tmp_path: Path) -> Iterator[Path]:
    """That nobody writes to; whoever waits for it at the end of the test is let go."""
    path = tmp_path / "fifo.yaml"
    os.mkfifo(path)
    yield path
    if path.is_fifo():
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))


def _place(folder: Path, kind: str) -> Path:
    path = folder / "odd"
    if kind == "a FIFO":
        os.mkfifo(path)
    elif kind == "a socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(path))
    elif kind == "a directory":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")
    return path


def _said(repo: Repo, *words: str) -> Said:
    return repo.process(*words, timeout=HANGS)


def _answer(call: Callable[[], object]) -> BaseException:
    """What a call raises, in a thread that may hang."""
    found: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(HANGS)
    assert not thread.is_alive(), "it hangs"
    assert found, "it said nothing"
    return found[0]


@pytest.mark.parametrize(
    "words",
    [
        ("apply", "{}"),
        ("fmt", "{}"),
        ("simulate", "--trace", "{}", "--nodes", "{}"),
        ("serve", "--check", "--access", "{}"),
        ("serve", "--webhook-secret", "file:{}"),
        ("nodes", "import", "{}"),
    ],
    ids=" ".join,
)
def test_an_option_that_names_a_fifo_is_refused(repo: Repo, fifo: Path, words: tuple[str, ...]) -> None:
    said = _said(repo, *(word.format(fifo) for word in words))
    assert said.code == 1
    assert str(fifo) in said.err and "a fifo" in said.err.casefold()


def test_a_pipe_that_is_handed_on_is_read_like_a_file(repo: Repo) -> None:
    for name, text, code in (("stdin", "viewer", 0), ("fd/0", "viewer", 0), ("stdin", "king", 1)):
        read, write = os.pipe()
        os.write(write, f"anonymous: {text}\n".encode())
        os.close(write)
        with open(read) as stdin:
            said = repo.process("serve", "--check", "--access", f"/dev/{name}", stdin=stdin, timeout=HANGS)
        assert said.code == code, said.err


@pytest.mark.parametrize("kind", KINDS[:2])
def test_what_is_no_file_among_documents_is_refused_by_its_name(repo: Repo, kind: str) -> None:
    _place(repo.root, kind).rename(repo.root / "odd.yaml")
    said = _said(repo, "validate")
    assert said.code == 1 and f"odd.yaml:1:1: BAI-V001: the file cannot be read: it is {kind}" in said.err


def test_a_key_file_that_is_a_fifo_is_refused(fifo: Path) -> None:
    error = _answer(lambda: derive_seed(fifo, "session-key:a"))
    assert isinstance(error, SecretMissing) and "it is a FIFO" in str(error)


def test_an_access_file_that_becomes_a_fifo_changes_nothing(tmp_path: Path) -> None:
    told: list[str] = []
    path = tmp_path / "access.yaml"
    path.write_text("anonymous: viewer\n")
    access = WatchedAccessFile(path, told.append)
    path.unlink()
    os.mkfifo(path)
    doors: list[int] = []
    error = _answer(lambda: (doors.append(len(access.authenticators)), 1 / 0))
    assert isinstance(error, ZeroDivisionError) and doors == [2]
    assert len(told) == 1 and "it is a FIFO" in told[0]


@pytest.mark.parametrize(
    "read",
    [
        lambda path: _load_file(path, str(path)),
        lambda path: HostKeys(
            "n1", Hop("h", 22, "ada"), Route(Hop("h", 22, "ada"), known_hosts=(str(path),))
        ),
    ],
    ids=["ssh key", "known hosts"],
)
def test_a_key_that_is_a_fifo_is_refused(fifo: Path, read: Callable[[Path], object]) -> None:
    error = _answer(lambda: read(fifo))
    assert "it is a fifo" in str(error).casefold() and str(fifo) in str(error)


def test_a_certificate_beside_a_key_that_is_a_fifo_is_refused(tmp_path: Path) -> None:
    key = tmp_path / "key"
    paramiko.RSAKey.generate(1024).write_private_key_file(str(key))
    os.mkfifo(f"{key}-cert.pub")
    assert "it is a fifo" in str(_answer(lambda: _load_file(key, "key"))).casefold()


def test_what_is_exchanged_while_it_is_opened_is_noticed(
    tmp_path: Path, fifo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = os.stat(__file__)
    monkeypatch.setattr("schemas.files.regular_files.os.stat", lambda *_, **__: plain)
    assert "it is a FIFO" in str(_answer(lambda: read_regular_file(fifo, 10)))
    link = tmp_path / "link"
    link.symlink_to(__file__)
    assert isinstance(_answer(lambda: open_regular_file(link, follow=False)), OSError)


@pytest.mark.skipif(not os.path.exists("/proc/kmsg") or os.geteuid() != 0, reason="/proc/kmsg needs root")
def test_a_file_of_the_kernel_without_an_end_is_refused() -> None:
    """It is a regular file, and a read waits for the kernel's next line."""
    assert isinstance(_answer(lambda: read_regular_file("/proc/kmsg", 1 << 30)), OSError)


def test_a_file_with_a_false_size_is_read_to_its_limit(tmp_path: Path) -> None:
    assert b"processor" in read_regular_file("/proc/cpuinfo", 1 << 20)  # its size is said to be 0
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(1 << 40)
    error = _answer(lambda: read_regular_file(large, 1 << 20))
    assert isinstance(error, OSError) and error.strerror == "it is larger than 1 MiB"
    large.write_bytes(b"x" * 1024)
    assert len(read_regular_file(large, 1024)) == 1024
    assert isinstance(_answer(lambda: read_regular_file(large, 1023)), OSError)


def test_descriptors_do_not_stay_open(tmp_path: Path, fifo: Path) -> None:
    for path in (fifo, tmp_path, tmp_path / "none"):
        with pytest.raises(OSError, match=r"it is|No such file"):
            read_regular_file(path, 10)
    assert _open_below(tmp_path) == []
    with fifo.open("r+b", buffering=0):
        assert _open_below(tmp_path) == [str(fifo)], "else it would have shown nothing"


def _open_below(folder: Path) -> list[str]:
    """What this process has open there; other threads open and close what they like meanwhile."""
    found = []
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(each))
    return [path for path in found if path.startswith(str(folder))]


SESSION = "apiVersion: bai/v1\nkind: Session\nmetadata: {name: a, project: p}\nspec: {command: [a], mounts: "
FLOODS = {
    "documents that are none": "---\nx\n",
    "empty mappings": "---\n{}\n",
    "unknown kinds": "---\nkind: x\n",
    "nothing": "---\n",
    "tags": "- !a\n",
    "keys": "? 1\n",
    "unknown fields": "---\napiVersion: bai/v1\nkind: User\nmetadata: {name: a}\nspec: {x: 1, y: 2}\n",
    "wrong values": SESSION + "[" + "1," * 8000 + "1]}\n---\n",
    "one endless list": SESSION + "[" + "1," * 500_000 + "1]}\n",
}
PEAK = """
import atexit, sys
def tell(path=sys.argv.pop(1)):
    peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
    open(path, "w").write(peak)
atexit.register(tell)
from bai.cli.main import main
main()
"""
"""The command, which writes down how much memory it has had at once, in KiB: what the system counts for a
child begins with what its parent has."""
MOST_MEMORY = 300 << 20
"""Bytes; with the command itself; of four such files, 700 were kept."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", FLOODS)
def test_a_flood_of_mistakes_is_told_in_few_lines_and_little_memory(
    repo: Repo, tmp_path: Path, kind: str
) -> None:
    text = FLOODS[kind]
    for number in range(2):
        repo.write(f"flood{number}.yaml", text * max(1, LARGEST_FILE // len(text)))
    with (tmp_path / "said").open("w") as out:
        words = (sys.executable, "-c", PEAK, str(tmp_path / "peak"), "-C", str(repo.root), "validate")
        started = subprocess.run(
            [*words, "--format", "json"],
            stdout=out,
            stderr=subprocess.DEVNULL,
            timeout=600,
            check=False,
            env={**os.environ, **repo.env},
        )
    problems = json.loads((tmp_path / "said").read_text())["problems"]
    assert started.returncode == 1 and 1 <= len(problems) <= 2 * 2 * (MOST_PROBLEMS + 1)
    assert {problem["code"] for problem in problems} & {"BAI-V017", "BAI-V018"}
    assert int((tmp_path / "peak").read_text()) << 10 < MOST_MEMORY


@pytest.mark.parametrize("words", [("validate",), ("plan",), ("plan", "--format", "json"), ("review",)])
def test_every_command_tells_few_of_many_mistakes(repo: Repo, words: tuple[str, ...]) -> None:
    repo.write("flood.yaml", "- !a\n" * 5000)
    said = _said(repo, *words)
    assert said.code == 1
    assert len(said.err.splitlines()) <= MOST_PROBLEMS + 2
    assert words == ("review",) or "more than 100 mistakes up to here" in said.err


def test_mistakes_in_many_files_are_told_up_to_a_bound(tmp_path: Path) -> None:
    for number in range(MOST_IN_ALL + 100):
        (tmp_path / f"{number:05}.yaml").write_text("apiVersion: bai/v1\n")
    with pytest.raises(InvalidRepository) as caught:
        load_directory(tmp_path)
    told = caught.value.problems
    assert len(told) == MOST_IN_ALL
    assert told[0].place.file == "00000.yaml" and told[-1].code == "BAI-V018"


def test_names_that_nothing_has_are_told_up_to_a_bound(tmp_path: Path) -> None:
    for file in range(20):
        (tmp_path / f"{file}.yaml").write_text(
            "".join(
                f"---\napiVersion: bai/v1\nkind: User\nmetadata: {{name: u{file}-{one}}}\n"
                "spec: {email: a@b.example, projects: [no-such]}\n"
                for one in range(MOST_IN_ALL // 20 + 10)
            )
        )
    with pytest.raises(InvalidRepository) as caught:
        load_directory(tmp_path)
    assert len(caught.value.problems) <= MOST_IN_ALL
    assert caught.value.problems[-1].code == "BAI-V018"


def test_as_many_mistakes_as_are_told_are_all_told(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("---\nx\n" * (MOST_PROBLEMS - 1))
    with pytest.raises(InvalidRepository) as caught:
        load_directory(tmp_path)
    assert [problem.code for problem in caught.value.problems] == ["BAI-V014"] * (MOST_PROBLEMS - 1)


@pytest.mark.parametrize("name", ["a.json", "a.yaml"])
def test_captured_hardware_that_is_a_flood_is_refused_before_it_is_judged(name: str) -> None:
    text = '{"cpus": [' + "1," * 200_000 + "1]}"
    with pytest.raises(HardwareError) as caught:
        read_hardware(name, text.encode())
    assert [problem.code for problem in caught.value.problems] == ["BAI-V017"]
