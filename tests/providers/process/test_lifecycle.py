"""Create, adopt, end by itself, stop, remove: in every mode."""

from __future__ import annotations

import os
import resource
import signal
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from providers.base import RestartRule, env_digest
from providers.process.linux import procfs
from providers.process.provider import ProcessProvider
from schemas.problems.errors.kernel import KernelRefused
from tests.providers.process.kernels import ended, output, running_of, said, script, seen, spec, state
from tests.waiting import until


def test_a_kernel_starts_where_more_descriptors_are_open_than_select_takes(provider: ProcessProvider) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limits[1] < 4096:
        pytest.skip("this process may not open enough files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, limits[1]))
    taken = [os.open("/dev/null", os.O_RDONLY) for _ in range(1100)]
    try:
        one = script("echo hello; exit 7")
        provider.create(one)
        assert ended(provider, one.id).exit_code == 7
        assert output(provider, one.id) == b"hello\n"
    finally:
        for each in taken:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_the_environment_is_the_specs_and_nothing_of_the_callers(
    provider: ProcessProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALLERS_OWN", "leak")
    provider.create(script("env | sort", env={"A": "1 2", "LANG": "de_DE"}))
    end = ended(provider, spec().id)
    assert end.env_digest == env_digest({"A": "1 2", "LANG": "de_DE"})
    lines = dict(line.split("=", 1) for line in output(provider, spec().id).decode().splitlines())
    shells_own = {"PWD", "SHLVL", "_", "OLDPWD"}
    users = {"USER", "LOGNAME"} if provider.host.sandbox else set()
    assert lines.keys() - shells_own == {"PATH", "HOME", "LANG", "A", procfs.MARKER} | users
    assert lines["A"] == "1 2" and lines["LANG"] == "de_DE"


def test_it_starts_in_its_own_empty_folder(provider: ProcessProvider) -> None:
    provider.create(script('[ "$PWD" = "$HOME" ] && [ -z "$(ls -A)" ] && echo mine > file && cat file'))
    assert ended(provider, spec().id).exit_code == 0
    assert output(provider, spec().id) == b"mine\n"


def test_a_working_directory_lies_in_the_kernel(provider: ProcessProvider) -> None:
    provider.create(script("pwd", workdir="/home/work"))
    assert ended(provider, spec().id).exit_code == 0
    assert output(provider, spec().id).decode().strip().endswith(("/scratch", "/home/work"))


def test_it_outlives_its_creator(make: Callable[..., ProcessProvider]) -> None:
    provider = make("groups")
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            provider.create(spec())
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    kernel = seen(provider, spec().id)
    assert kernel.state == "running" and kernel.pid
    keeper = state(provider, spec().id)["supervisor"]
    assert os.getsid(kernel.pid) == kernel.pid and os.getsid(keeper) != os.getsid(0)


def test_who_does_not_listen_is_killed_with_the_whole_tree(provider: ProcessProvider) -> None:
    deaf = "setsid sh -c 'trap \"\" TERM; sleep 300'"
    text = f"trap '' TERM; (trap '' TERM; {deaf} &) ; echo up; sleep 300; sleep 300"
    provider.create(script(text))
    said(provider, spec().id, b"up")
    end = provider.stop(spec().id, grace=0.2)
    assert (end.exit_code, end.reason) == (137, "stopped")
    assert running_of(provider) == []


def test_daemons_do_not_survive_the_main_process(provider: ProcessProvider) -> None:
    provider.create(script("(setsid sh -c 'sleep 300' >/dev/null 2>&1 &) ; (setsid sleep 300 &) ; exit 0"))
    assert ended(provider, spec().id).exit_code == 0
    assert running_of(provider) == []


def test_a_signal_is_told_as_the_reason(provider: ProcessProvider) -> None:
    provider.create(script("kill -SEGV $$"))
    end = ended(provider, spec().id)
    assert (end.exit_code, end.reason) == (139, "signal 11")


def test_success_is_not_restarted_on_failure_and_waiting_can_be_stopped(
    make: Callable[..., ProcessProvider],
) -> None:
    provider = make("groups")
    well = spec("true", restart=RestartRule("on-failure"))
    provider.create(well)
    assert ended(provider, well.id).restarts == 0
    always = spec("true", name="s-always-g1", restart=RestartRule("always"))
    provider.create(always)
    until(lambda: state(provider, always.id)["phase"] == "backoff", "it waits to be restarted")
    assert seen(provider, always.id).state == "running"
    end = provider.stop(always.id, grace=60)
    assert (end.state, end.exit_code) == ("exited", 0)


def test_a_command_that_does_not_exist_leaves_nothing(make: Callable[..., ProcessProvider]) -> None:
    provider = make("groups")
    with pytest.raises(KernelRefused, match="no-such-program"):
        provider.create(spec("no-such-program"))
    assert provider.observe().kernels == () and running_of(provider) == []


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"command": ()}, "command"),
        ({"command": ("a\0b",)}, "NUL"),
        ({"env": {"A=B": "1"}}, "environment"),
        ({"cpus": (4096,)}, "4096"),
        ({"stop_signal": "SIGNOTHING"}, "SIGNOTHING"),
        ({"workdir": "../../etc"}, "working directory"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_touched(
    make: Callable[..., ProcessProvider], change: dict[str, object], word: str
) -> None:
    provider = make("bare")
    with pytest.raises(KernelRefused, match=word):
        provider.create(replace(spec(), **change))  # type: ignore[arg-type]
    assert provider.root.ids() == []


def test_fifty_at_once(make: Callable[..., ProcessProvider]) -> None:
    provider = make("sandbox" if os.path.exists("/usr/bin/bwrap") else "groups")
    specs = [spec(name=f"s-k{number}-g1") for number in range(50)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(provider.create, specs))
        kernels = provider.observe().kernels
        assert [kernel.state for kernel in kernels] == ["running"] * 50
        list(pool.map(lambda one: provider.remove(one.id), specs))
    assert provider.observe().kernels == () and running_of(provider) == []


def test_kernels_come_and_go_at_the_same_time(make: Callable[..., ProcessProvider]) -> None:
    """Who removes the last kernel removes the shared groups; who makes the next one must not notice."""
    provider, other = make("groups"), None
    other = ProcessProvider(provider.root.path, sandbox=False)
    failures: list[BaseException] = []

    def churn(mine: ProcessProvider, name: str) -> None:
        try:
            for round_ in range(4):
                one = spec(name=f"s-{name}{round_}-g1")
                assert mine.create(one).state == "running"
                mine.remove(one.id)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=churn, args=(p, n)) for p, n in ((provider, "a"), (other, "b"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_it_shares_the_machines_network(provider: ProcessProvider) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        port = server.getsockname()[1]
        code = f"import socket; socket.create_connection(('127.0.0.1', {port})).sendall(b'hello')"
        provider.create(spec("/usr/bin/python3", "-c", code))
        connection, _ = server.accept()
        with connection:
            connection.settimeout(60)
            assert connection.recv(5) == b"hello"
