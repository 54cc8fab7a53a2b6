"""A fork of the server is to its command what a new process is."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.harness import bai_process, fork_client
from tests.harness.bai_process import BAI, Command, Done, run_bai, run_new
from tests.harness.fork_client import ROOT, ForkClient
from tests.harness.fork_server import NOT_HERE
from tests.harness.scripted_bai import asked_by_scripts
from tests.waiting import until

NULL, PIPE = subprocess.DEVNULL, subprocess.PIPE
OWNER = """
import os, sys, threading
from tests.harness.fork_client import ForkClient
client = ForkClient(os.environ, "tests.harness.any_code")
code = "import os, signal; print(os.getpid(), flush=True); signal.pause()"
request = {"words": ["-", code], "environment": dict(os.environ), "folder": "/", "limits": []}
print(client.process.pid, flush=True)
client.run(request, (-3, None, None), 600)
"""
LEFT = (
    "os.environ['LEFT']='1'; os.chdir('/'); os.umask(0o77); json.left=1; gc.set_threshold(9); random.seed(1)"
)
SEEN = "'LEFT' in os.environ, hasattr(json, 'left'), os.getcwd(), os.umask(0o22), gc.get_threshold()[0] == 9"


@pytest.fixture(scope="module")
def client() -> Iterator[ForkClient]:
    started = ForkClient(os.environ, "tests.harness.any_code")
    yield started
    started.close()


@pytest.fixture(scope="module")
def clients() -> Iterator[bai_process._Clients]:
    """The shared ones, whose server has imported all of bai; or others, as of now, where what a test before
    changed in this process sends those to new processes."""
    if bai_process.client_for(os.environ):
        yield bai_process._clients
        return
    made = bai_process._Clients()
    yield made
    for each in made._clients.values():
        each.close()


def run(
    client: ForkClient, code: str, *, files: Any = (NULL, PIPE, PIPE), timeout: float = 120, **options: Any
) -> Done:
    request = {
        "words": ["/some/bai", code],
        "environment": dict(os.environ),
        "folder": str(ROOT),
        "limits": [],
    }
    done = client.run(request | options, files, timeout)
    assert done is not None
    return done


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_the_environment_is_that_of_the_request_alone(client: ForkClient) -> None:
    code = "import json, os, subprocess; print(json.dumps(dict(os.environ))); print(flush=True)"
    code += "; subprocess.run(['/usr/bin/env'])"
    own, _, inherited = run(client, code, environment={"ONE": "1 ü"}).stdout.partition("\n\n")
    assert {name: text for name, text in json.loads(own).items() if name != "LC_CTYPE"} == {"ONE": "1 ü"}
    assert [line for line in inherited.splitlines() if not line.startswith("LC_CTYPE=")] == ["ONE=1 ü"]


def test_words_folder_and_standard_input_are_those_of_the_request(client: ForkClient, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("given\n")
    code = "import os, sys; print(sys.argv[0], os.getcwd(), sys.stdin.read())"
    with (tmp_path / "in").open() as given:
        done = run(client, code, files=(given, PIPE, PIPE), folder=str(tmp_path))
    assert done.stdout == f"/some/bai {tmp_path} given\n\n"
    assert run(client, "import sys; print(repr(sys.stdin.read()))").stdout == "''\n"


def test_output_goes_where_it_is_sent(client: ForkClient, tmp_path: Path) -> None:
    code = (
        "import os, sys; print('out'); print('err', file=sys.stderr); sys.stdout.flush(); os.write(2, b'2')"
    )
    done = run(client, code)
    assert (done.stdout, done.stderr) == ("out\n", "err\n2")
    both = run(client, code, files=(NULL, PIPE, subprocess.STDOUT))
    assert sorted(both.stdout) == sorted("out\nerr\n2") and both.stderr is None
    with (tmp_path / "out").open("w") as target:
        assert run(client, code, files=(NULL, target, NULL)).stdout is None
    assert (tmp_path / "out").read_text() == "out\n"
    assert len(run(client, "print('x' * 1_000_000)").stdout) == 1_000_001


@pytest.mark.parametrize(
    ("code", "expected", "err"),
    [
        ("pass", 0, ""),
        ("import sys; sys.exit(7)", 7, ""),
        ("import sys; sys.exit('why')", 1, "why\n"),
        ("import os; os.kill(os.getpid(), 9)", -9, ""),
        ("import os; os._exit(3)", 3, ""),
    ],
)
def test_the_exit_code_is_that_of_a_process(client: ForkClient, code: str, expected: int, err: str) -> None:
    done = run(client, code)
    assert (done.returncode, done.stderr) == (expected, err)


def test_what_nobody_catches_is_a_traceback(client: ForkClient) -> None:
    done = run(client, "{}['absent']")
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback") and done.stderr.endswith("KeyError: 'absent'\n")


def test_it_ends_as_an_interpreter_does(client: ForkClient) -> None:
    code = "import atexit, threading; atexit.register(print, 'exit')"
    code += "; threading.Timer(0.05, print, ['thread']).start()"
    assert run(client, code).stdout == "thread\nexit\n"


def test_a_command_that_takes_too_long_is_killed(client: ForkClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time is over as soon as it has said who it is."""
    code = "import os, signal; print(os.getpid(), flush=True); signal.pause()"
    read, passed = fork_client._part, [0.0]

    def read_and_let_time_pass(file: int) -> bytes:
        passed[0] += 1000
        return read(file)

    with monkeypatch.context() as patch, pytest.raises(subprocess.TimeoutExpired) as caught:
        patch.setattr(fork_client, "_part", read_and_let_time_pass)
        patch.setattr(fork_client, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + passed[0]))
        run(client, code, timeout=900)
    assert is_gone(int(caught.value.output))
    assert run(client, "print(1)").stdout == "1\n"


def test_what_it_leaves_running_lives_on(client: ForkClient) -> None:
    code = "import subprocess as s; n = s.DEVNULL"
    code += "; print(s.Popen(['sleep', '600'], stdin=n, stdout=n, stderr=n, start_new_session=True).pid)"
    pid = int(run(client, code).stdout)
    assert not is_gone(pid)
    os.kill(pid, signal.SIGKILL)


def test_limits_are_its_own(client: ForkClient) -> None:
    code = "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE))"
    assert run(client, code, limits=[(resource.RLIMIT_NOFILE, (50, 60))]).stdout == "(50, 60)\n"
    large = "import os; os.ftruncate(os.memfd_create('large'), 99)"
    refused = run(client, large, limits=[(resource.RLIMIT_FSIZE, (98, 98))])
    assert refused.returncode == 1 and "File too large" in refused.stderr
    assert run(client, large).returncode == 0
    assert run(client, code).stdout == f"{resource.getrlimit(resource.RLIMIT_NOFILE)}\n"


def test_nothing_of_a_command_is_seen_by_the_next(client: ForkClient) -> None:
    imports = "import gc, json, os, random\n"
    before = run(client, f"{imports}print({SEEN})").stdout
    assert run(client, f"{imports}{LEFT}").returncode == 0
    assert run(client, f"{imports}print({SEEN})").stdout == before
    drawn = {run(client, "import random; print(random.random())").stdout for _ in range(3)}
    assert len(drawn) == 3
    assert before.startswith("False False")


def test_what_a_command_imported_the_next_one_finds(client: ForkClient) -> None:
    code = "import sys; print('colorsys' in sys.modules); import colorsys"
    assert [run(client, code).stdout for _ in range(2)] == ["False\n", "True\n"]


def test_a_fork_has_the_signals_and_files_of_a_new_process(client: ForkClient) -> None:
    code = "import os, signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    code += "; print(sorted(map(int, os.listdir('/proc/self/fd')))[:3])"
    code += "; print([signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGCHLD)] == [signal.SIG_DFL] * 2)"
    new = subprocess.run([sys.executable, "-c", code], stdin=NULL, stdout=PIPE, text=True, check=True).stdout
    # Who ignores the interrupt, as what a script starts in the background does, starts others that do, too.
    assert new in ("True\n[0, 1, 2]\nTrue\n", "False\n[0, 1, 2]\nTrue\n")
    assert run(client, code).stdout == new


def stays(client: ForkClient, code: str, out: Any, **options: Any) -> fork_client.Started:
    request = {"words": ["bai", code], "environment": dict(os.environ), "folder": "/", "limits": []}
    started = client.start(request | options, (NULL, out, out))
    assert started is not None
    return started


def test_a_command_that_stays_takes_signals_and_tells_its_end(client: ForkClient, tmp_path: Path) -> None:
    code = "import os, signal; signal.signal(signal.SIGTERM, lambda *_: os._exit(7))"
    code += "; print(os.getpid(), flush=True)\nwhile True: signal.pause()"
    for number, expected in ((signal.SIGTERM, 7), (signal.SIGKILL, -signal.SIGKILL)):
        with (tmp_path / "out").open("w") as out:
            started = stays(client, code, out)
        until((tmp_path / "out").read_text, "it is there")
        assert int((tmp_path / "out").read_text()) == started.pid
        assert started.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            started.wait(0)
        started.send_signal(number)
        assert (started.wait(120), started.poll()) == (expected, expected)
        started.kill()  # Nobody's any more.
        assert is_gone(started.pid)


def test_what_is_asked_for_first_is_imported_for_all_that_come(client: ForkClient) -> None:
    client.import_first(["fractions", "no_such_module", "wave"])
    code = "import sys; print([name in sys.modules for name in ('fractions', 'no_such_module', 'wave')])"
    assert run(client, code).stdout == "[True, False, True]\n"


def test_one_that_stays_under_coverage_is_a_new_process(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as out:
        environment = {**os.environ, "COV_CORE_SOURCE": "bai"}
        started = bai_process.start_bai(Command(["version"], environment, tmp_path, stdout=out))
        assert isinstance(started, subprocess.Popen)
        assert started.wait(120) == 0


def test_who_refuses_is_understood_when_it_has_ended_by_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    receive = socket.recv_fds

    def late(connection: socket.socket, size: int, most: int) -> Any:
        until(lambda: len(connection.recv(16, socket.MSG_PEEK)) > len(NOT_HERE), "its exit code has come")
        return receive(connection, size, most)

    monkeypatch.setattr(fork_client.socket, "recv_fds", late)
    with (tmp_path / "out").open("w") as out:
        environment = {**os.environ, "TYPER_USE_RICH": "0"}
        started = bai_process.start_bai(Command(["version"], environment, tmp_path, stdout=out))
        assert isinstance(started, subprocess.Popen)
        assert started.wait(120) == 0


def test_server_and_commands_end_with_whoever_asked() -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER], cwd=ROOT, stdout=PIPE, text=True) as owner:
        assert owner.stdout is not None
        pids = [int(owner.stdout.readline()) for _ in range(2)]
        owner.kill()
    until(lambda: all(map(is_gone, pids)), "server and command end")


def test_a_server_that_was_killed_is_told(client: ForkClient) -> None:
    other = ForkClient(os.environ, "tests.harness.any_code")
    with pytest.raises(RuntimeError, match="the fork server ended"):
        run(other, f"import os; os.kill({other.process.pid}, 9); import signal; signal.pause()")
    until(lambda: not other.lives(), "the server is gone")
    other.close()


@pytest.mark.parametrize("words", [("plan",), ("nonsense",)])
def test_bai_says_the_same_from_a_fork(words: tuple[str, ...]) -> None:
    environment = {**os.environ, "COLUMNS": "100"}
    command = Command(words, environment, ROOT / "examples" / "clusters" / "dgx-h100")
    forked, new = run_bai(command, timeout=120), run_new(command, timeout=120)
    assert (forked.returncode, forked.stderr) == (new.returncode, new.stderr)
    assert forked.stdout == new.stdout


def test_a_fork_server_has_one_thread(clients: bai_process._Clients) -> None:
    client = clients.find(os.environ)
    assert client is not None
    request = {
        "words": [str(BAI), "plan"],
        "environment": dict(os.environ),
        "folder": str(ROOT / "examples" / "clusters" / "dgx-h100"),
        "limits": [],
    }
    for _ in range(2):
        done = client.run(request, (NULL, PIPE, PIPE), 120)
        assert done is not None and done.returncode == 0
    assert len(os.listdir(f"/proc/{client.process.pid}/task")) == 1


def test_another_start_of_modules_or_interpreter_is_a_new_process(
    clients: bai_process._Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(**environment: str) -> object:
        whole = {**os.environ, **environment}
        client = clients.find(whole)
        request = {"words": [str(BAI), "version"], "environment": whole, "folder": "/", "limits": []}
        return client and client.run(request, (NULL, PIPE, PIPE), 120)

    assert asked() is not None
    assert asked(TYPER_USE_RICH="0") is None
    assert asked(COV_CORE_SOURCE="bai") is None
    before = clients.find(os.environ)
    monkeypatch.setattr(bai_process, "ForkClient", dict)  # Its server would import all of bai.
    other: Any = bai_process._Clients().find({**os.environ, "LC_ALL": "C"})
    assert other["LC_ALL"] == "C" and clients.find(os.environ) is before


def test_in_other_circumstances_it_is_a_new_process(clients: bai_process._Clients) -> None:
    found: list[object] = []
    assert clients.find(os.environ) is not None
    before = os.umask(0o077)
    try:
        thread = threading.Thread(target=lambda: found.append(clients.find(os.environ)))
        thread.start()
        thread.join()
    finally:
        os.umask(before)
    assert found == [None]


def test_commands_of_a_script_are_forks_and_end_as_they_do(client: ForkClient) -> None:
    script = """
    cd /
    echo said | WORD=word bai 'import os, sys; print(os.getppid(), os.getcwd(), os.environ["WORD"], input())'
    bai 'import sys; sys.exit("no")'; echo $?
    bai 'import os; os.kill(os.getpid(), 9)'; echo $?
    bai serve --help | grep -c -- --listen
    """
    with asked_by_scripts(client) as programs:
        environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "COLUMNS": "100"}
        done = subprocess.run(["sh", "-c", script], env=environment, stdout=PIPE, stderr=PIPE, text=True)
    assert done.stdout.splitlines()[:3] == [f"{client.process.pid} / word said", "1", "137"], done
    assert int(done.stdout.splitlines()[3]) and "no\n" in done.stderr, done
    assert not programs.exists()
