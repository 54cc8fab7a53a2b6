"""Whatever dies, and whenever: what runs is known, what is lost is said, what is left over is cleaned.

`BAI_SUPERVISOR_KILLS`: how many supervisors are killed in each mode (8).
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from providers.process.linux import cgroup, files, procfs
from providers.process.provider import ProcessProvider
from providers.process.supervision.observe import sweep_remains
from providers.process.supervision.records import KernelRecord, LogRotation
from schemas.problems.errors.kernel import NotRunning
from tests.harness.processes import having
from tests.providers.process.kernels import groups_of, running_of, said, script, seen, spec, state
from tests.waiting import until

KILLS = int(os.environ.get("BAI_SUPERVISOR_KILLS", "8"))


def keeper_of(provider: ProcessProvider, kernel_id: str) -> int:
    return int(until(lambda: state(provider, kernel_id).get("supervisor"), "a supervisor"))


def test_a_killed_supervisor_is_noticed_and_nothing_runs_on(provider: ProcessProvider) -> None:
    provider.create(script("(setsid sleep 300 &) ; echo up; sleep 300"))
    said(provider, spec().id, b"up")
    os.kill(keeper_of(provider, spec().id), signal.SIGKILL)
    until(lambda: seen(provider, spec().id).state == "lost", "it is lost")
    kernel = seen(provider, spec().id)
    assert (kernel.reason, kernel.exit_code, kernel.pid) == ("its supervisor died", None, None)
    assert kernel.finished and running_of(provider) == []
    assert provider.create(spec()).state == "lost"
    assert provider.stop(spec().id, grace=1).state == "lost"
    provider.remove(spec().id)
    provider.create(spec())
    assert seen(provider, spec().id).state == "running"


def test_removing_cleans_up_after_a_killed_supervisor(provider: ProcessProvider) -> None:
    provider.create(script("(setsid sleep 300 &) ; echo up; sleep 300"))
    said(provider, spec().id, b"up")
    os.kill(keeper_of(provider, spec().id), signal.SIGKILL)
    provider.remove(spec().id)
    assert running_of(provider) == [] and provider.observe().kernels == ()


@pytest.mark.parametrize("mode", ["groups", "bare", "sandbox"])
def test_supervisors_killed_at_random_moments(make: Callable[..., ProcessProvider], mode: str) -> None:
    """Seeded delays from before the first record to well after the start; every outcome must be clean."""
    provider = make(mode)
    dice = random.Random(20)
    for round_ in range(KILLS):
        # A name of its own: it is looked for among all processes, those of tests beside this one too.
        one = script("(setsid sleep 300 &) ; sleep 300", name=f"s-r{round_}-{os.getpid()}-{mode}-g1")
        maker = threading.Thread(target=_create_quietly, args=(provider, one))
        maker.start()
        assert _kill_supervisor_after(one.id, dice.random() * 0.06)
        maker.join()
        states = {kernel.id: kernel.state for kernel in provider.observe().kernels}
        if states.get(one.id) in ("lost", "creating"):
            provider.remove(one.id)
            assert running_of(provider) == []
            assert provider.create(one).state == "running"
        provider.remove(one.id)
        assert running_of(provider) == []


SPAWNER = """
import json, os, sys
from providers.process.supervision import child
place, told, going, order = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4])
def stand_still(*_):
    os.write(told, b".")
    os.read(going, 1)
setattr(os if place == "setsid" else child, place, stand_still)
limits = dict(cpus=[], memory_nodes=[], memory=0, pids=0, cpu_milli=0, pool=[])
child.spawn_main_process(order, [], limits)
"""
"""A supervisor, as far as it starts a command, whose child stands still at one place before exec."""


@pytest.mark.parametrize("place", ["setsid", "_reset_signals"])
def test_what_a_killed_supervisor_was_starting_does_not_start(tmp_path: Path, place: str) -> None:
    """Without control groups nobody finds it: before it asked to end with its supervisor, and after."""
    started = tmp_path / "started"
    order: dict[str, object] = {
        "argv": ["touch", str(started)],
        "env": dict(os.environ),
        "cwd": "/",
        "user": None,
    }
    order |= {"tty": False, "sandboxed": False}
    hears, told = os.pipe()
    going, go = os.pipe()
    words = [sys.executable, "-c", SPAWNER, place, str(told), str(going), json.dumps(order)]
    root = Path(__file__).parents[3]
    with subprocess.Popen(words, cwd=root, pass_fds=(told, going)) as supervisor:
        os.close(told)
        os.close(going)
        with open(hears, "rb", buffering=0) as stream:
            try:
                assert stream.read(1) == b"."
            finally:
                supervisor.kill()
                supervisor.wait()
                os.close(go)
            assert stream.read() == b"", "its child is gone, too"
    assert not started.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes somebody else")
def test_who_becomes_another_user_still_ends_with_the_parent() -> None:
    code = """
import os
from providers.process.linux import parent_death
from providers.process.sandbox import user_switch
for asked in (False, True):
    if os.fork() == 0:
        if asked:
            parent_death.end_with_parent(os.getppid())
        user_switch.become_user({"uid": 65534, "gid": 65534, "groups": []})
        print(parent_death.ends_with_parent(), flush=True)
        os._exit(0)
    os.wait()
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["False", "True"]


def test_remains_are_swept_when_the_supervisor_is_gone_altogether(
    make: Callable[..., ProcessProvider], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lock is free a little earlier than what was to end with it has been killed."""
    provider = make("bare")
    provider.root.ensure()
    record = provider.root.stage(spec(), time.time())
    ended = []
    with subprocess.Popen(["sleep", "300"]) as dying:
        started = procfs.start_time(dying.pid)
        state = {"boot": procfs.boot_id(), "supervisor": dying.pid, "supervisor_start": started}
        open_handle = os.pidfd_open

        def dies(pid: int) -> int:
            handle = open_handle(pid)
            dying.kill()
            return handle

        def sweep(*_: object) -> bool:
            ended.append(dying.poll() is not None)
            return True

        monkeypatch.setattr(os, "pidfd_open", dies)
        monkeypatch.setattr(procfs, "kill_until_gone", sweep)
        try:
            assert sweep_remains(provider.root, replace(record, state=state))
        finally:
            dying.kill()
    assert ended == [True]


def _create_quietly(provider: ProcessProvider, one: object) -> None:
    try:
        provider.create(one)  # type: ignore[arg-type]
    except Exception as error:
        assert type(error).__name__ in ("ProviderUnavailable", "KernelRefused")


def _kill_supervisor_after(kernel_id: str, seconds: float) -> bool:
    """Found by its command line, which ends with the kernel's id, from the moment it exists. False when there
    is none."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for pid, words in having(kernel_id).items():
            if kernel_id in words and "-I" in words and procfs.parent(pid) != os.getpid():
                began = procfs.start_time(pid)
                time.sleep(seconds)
                if procfs.send(pid, began, signal.SIGKILL):
                    return True
    return False


def test_a_half_made_kernel_is_seen_finished_and_removable(make: Callable[..., ProcessProvider]) -> None:
    provider = make("groups")
    provider.root.ensure()
    provider.root.stage(spec(), time.time())
    assert seen(provider, spec().id).state == "creating"
    assert provider.create(spec()).state == "running"
    provider.remove(spec().id)
    provider.root.stage(spec(), time.time())
    provider.remove(spec().id)
    assert provider.observe().kernels == ()


def test_an_order_cut_short_or_outdated_starts_nothing(make: Callable[..., ProcessProvider]) -> None:
    from providers.process import launch

    provider = make("groups")
    provider.root.ensure()
    record = provider.root.stage(spec(), time.time())
    order = launch.launch_order(provider.root, record, spec(), provider.host, LogRotation(10_000, 2))
    provider.root.rewrite(record, spec(), again=True)
    with launch.waiting_supervisor(spec().id, "unit", scope=False) as keeper:
        assert launch.start_kernel(order, keeper) == "taken"
    text = json.dumps(order).encode()
    with launch.waiting_supervisor(spec().id, "unit", scope=False) as keeper:
        assert launch._exchange(keeper, text[:-5]) == {}
    with launch.waiting_supervisor(spec().id, "unit", scope=False):
        pass
    assert running_of(provider) == [] and seen(provider, spec().id).state == "creating"


def test_after_a_reboot_it_is_lost_and_no_stranger_is_touched(make: Callable[..., ProcessProvider]) -> None:
    """A record of an earlier boot names a pid that is somebody else's now."""
    provider = make("bare")
    provider.create(spec())
    before = dict(state(provider, spec().id))
    os.kill(int(before["supervisor"]), signal.SIGKILL)
    until(lambda: seen(provider, spec().id).state == "lost")
    stranger = os.fork()
    if stranger == 0:
        signal.pause()
        os._exit(0)
    try:
        until(lambda: procfs.start_time(stranger))
        stale = {**before, "boot": "another", "pid": stranger, "supervisor": stranger}
        path = provider.root.folder(spec().id) / "state.json"
        files.write_atomically(str(path), json.dumps(stale))
        kernel = seen(provider, spec().id)
        assert (kernel.state, kernel.reason) == ("lost", "the machine was restarted")
        provider.stop(spec().id, grace=0)
        provider.remove(spec().id)
        assert procfs.start_time(stranger)
    finally:
        os.kill(stranger, signal.SIGKILL)
        os.waitpid(stranger, 0)


def test_empty_groups_of_a_killed_remover_go_at_the_next_look(grouped: ProcessProvider) -> None:
    cgroup.make(cgroup.below(list(grouped.host.groups), cgroup.KEEPERS))
    assert groups_of(grouped)
    again = ProcessProvider(grouped.root.path, sandbox=False)
    assert again.observe().kernels == ()
    assert groups_of(again) == []


def test_a_reused_pid_is_not_signalled() -> None:
    assert not procfs.send(os.getpid(), procfs.start_time(os.getpid()) - 1, signal.SIGKILL)
    assert not procfs.send(os.getpid(), 0, signal.SIGKILL)
    assert not procfs.send(2**22 - 1, 1, signal.SIGKILL)


def test_a_broken_record_is_an_incomplete_observation_and_can_be_removed(
    make: Callable[..., ProcessProvider],
) -> None:
    provider = make("groups")
    provider.create(script("(setsid sleep 300 &) ; sleep 300"))
    (provider.root.folder(spec().id) / "intent.json").write_text("{")
    found = provider.observe()
    assert not found.complete and found.unlabelled == (spec().id,) and spec().id in found.errors[0]
    provider.remove(spec().id)
    assert provider.observe().complete and running_of(provider) == []


def test_kernels_whose_files_were_deleted_are_still_found(grouped: ProcessProvider) -> None:
    import shutil

    grouped.create(spec())
    shutil.rmtree(grouped.root.folder(spec().id))
    found = grouped.observe()
    assert found.unlabelled == (spec().id,)
    grouped.remove(spec().id)
    assert grouped.observe().unlabelled == () and running_of(grouped) == []


def test_the_supervisor_ignores_hangup_and_stops_its_kernel_at_shutdown(provider: ProcessProvider) -> None:
    provider.create(script("trap 'exit 4' TERM; echo up; while :; do sleep 0.05; done", stop_grace=120.0))
    said(provider, spec().id, b"up")
    keeper = keeper_of(provider, spec().id)
    os.kill(keeper, signal.SIGHUP)
    os.kill(keeper, signal.SIGINT)
    assert seen(provider, spec().id).state == "running"
    os.kill(keeper, signal.SIGTERM)
    until(lambda: seen(provider, spec().id).state == "exited")
    assert seen(provider, spec().id).exit_code == 4


def test_a_supervisor_that_dies_young_is_not_taken_for_a_kernel(
    make: Callable[..., ProcessProvider], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody's who was killed: it lives when we look, and ends before it has begun."""
    provider = make("bare")
    provider.root.ensure()
    record = provider.root.stage(spec(), time.time())
    young = files.open_lock(str(record.folder / "alive"))
    assert files.try_lock(young)
    look = provider._await_start

    def dies(kernel_id: str) -> object:
        with contextlib.suppress(OSError):
            os.close(young)
        return look(kernel_id)

    monkeypatch.setattr(provider, "_await_start", dies)
    assert provider.create(spec()).state == "running"


def test_what_has_ended_is_not_entered_while_its_supervisor_lives_on(provider: ProcessProvider) -> None:
    """It lives until all is dismantled, and the kernel's ports are the machine's by then."""
    provider.create(script("echo mine >file; exit 3"))
    until(lambda: seen(provider, spec().id).state == "exited" and not _record(provider).alive, "all is over")
    late = files.open_lock(str(provider.root.folder(spec().id) / "alive"))
    assert files.try_lock(late)
    assert _record(provider).alive
    with socket.create_server(("127.0.0.1", 0)) as neighbour, pytest.raises(NotRunning):
        provider.dial(spec().id, neighbour.getsockname()[1])
    for enter in (provider.attach, lambda name: provider.execute(name, ("true",))):
        with pytest.raises(NotRunning):
            enter(spec().id)
    assert list(provider.usage()) == []
    assert b"".join(provider.copy_out(spec().id, "file"))
    os.close(late)


def _record(provider: ProcessProvider) -> KernelRecord:
    record = provider.root.read(spec().id)
    assert record is not None
    return record
