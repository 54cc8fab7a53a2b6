"""Alive means that loops are alive; ready means that answers are worth something."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bai.controller.systemd import ALIVE, SystemdNotifier, systemd_watchdog
from bai.web.cluster_loops import ClusterLoops
from providers.fake import Fault
from reconciler.controller.stages import LoopPulse, StageListeners, stuck_loops
from reconciler.values.results import ApplyEvent
from tests.bai.web.lab import PATIENCE, Lab, wait_for
from tests.reconciler.lab import session


def health(lab: Lab) -> tuple[int, int]:
    return lab.status("/healthz", ""), lab.status("/readyz", "")


def test_ready_once_everything_was_seen(lab: Lab) -> None:
    assert health(lab) == (200, 503)
    assert lab.client.get("/readyz").json()["detail"] == "no pass yet of here"
    lab.world.inject(Fault("observe", times=1))
    lab.once()
    lab.once()
    assert health(lab) == (200, 200)


def test_a_commit_that_is_bad_does_not_make_it_unready(lab: Lab) -> None:
    lab.once()
    lab.write("a", "kind: [")
    assert not lab.once()
    assert health(lab) == (200, 200)


def test_a_loop_that_broke(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks() -> bool:
        raise RuntimeError("a defect")

    monkeypatch.setattr(threading, "excepthook", lambda arguments: None)
    monkeypatch.setattr(lab.loop, "once", breaks)
    lab.hub.start()
    wait_for(lambda: lab.hub.broken, "it breaks")
    assert health(lab) == (503, 503)
    assert lab.client.get("/healthz").json()["detail"] == "a loop broke: RuntimeError"


def test_a_loop_that_ended(lab: Lab) -> None:
    lab.hub.start()
    lab.loop.halt()
    assert lab.hub.join(60)
    assert health(lab) == (503, 503)


def test_a_pass_that_hangs(tmp_path: Path) -> None:
    """A node that never answers, and never refuses."""
    lab = Lab(tmp_path, stuck_after=0.2)
    there, go = threading.Event(), threading.Event()

    def hang(operation: str, kernel: str, moment: str) -> None:
        if operation == "create":
            there.set()
            go.wait(60)

    lab.write("a", session("a"))
    lab.world.at = hang
    lab.hub.start()
    assert there.wait(60)
    wait_for(lambda: health(lab) == (503, 503), "it is noticed")
    assert "no sign of life: here for" in lab.client.get("/healthz").json()["detail"]
    go.set()
    wait_for(lambda: health(lab) == (200, 200), "it is over")
    lab.close()


def test_a_replica_that_follows_is_alive_and_not_ready(lab: Lab) -> None:
    lab.once()
    lab.loop.leads = lambda: False
    assert health(lab) == (200, 503)
    assert lab.client.get("/readyz").json()["detail"] == "another replica leads here"
    assert lab.client.get("/readyz?standby=true").json()["detail"] == "nobody is known to lead here"
    lab.loop.leader = lambda: "another"
    assert lab.client.get("/readyz?standby=true").status_code == 200


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_what_is_a_sign_of_life() -> None:
    clock = Clock()
    pulse = LoopPulse(clock)
    both = StageListeners([pulse])
    clock.now = 1000
    assert pulse.silent == 0  # It waits for its next pass.
    with both.stage("pass", "c"):
        clock.now += 10
        assert pulse.silent == 10
        with both.stage("apply", "c"):
            clock.now += 5
            assert pulse.silent == 5
            both.event(ApplyEvent("progress", 0.0), "c")
            assert pulse.silent == 0
            clock.now += 7
        assert pulse.silent == 0
        clock.now += 3
        assert stuck_loops({"c": pulse}, 2.5) == "no sign of life: c for 3 s"
        assert stuck_loops({"c": pulse}, 3) == ""
    with pytest.raises(ValueError), both.stage("pass", "c"):
        raise ValueError
    clock.now += 100
    assert pulse.silent == 0


class Systemd:
    """The socket that systemd listens at; a thread reads it, for the kernel keeps ten datagrams at most."""

    def __init__(self, path: Path, micros: int) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self.environment = {"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": str(micros)}
        self._heard: queue.Queue[bytes] = queue.Queue()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        while said := self._socket.recv(4096):
            self._heard.put(said)

    def heard(self) -> list[str]:
        return self._heard.get(timeout=PATIENCE).decode().splitlines()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Systemd]:
    made = Systemd(tmp_path / "notify", 60_000)
    yield made
    made.close()


def test_systemd_hears_of_life(systemd: Systemd) -> None:
    why = [""]
    with systemd_watchdog(lambda: why[0], SystemdNotifier(systemd.environment)):
        assert systemd.heard() == ["READY=1", "STATUS="]
        assert [systemd.heard() for _ in range(4)] == [[ALIVE]] * 4
        why[0] = "no sign of life: here for 901 s"
        while (said := systemd.heard()) == [ALIVE]:
            pass
        assert said == ["STATUS=no sign of life: here for 901 s"]
        assert systemd.heard() == said  # And no word of life any more.
    while (said := systemd.heard())[0].startswith("STATUS"):
        pass
    assert said == ["STOPPING=1"]


def test_nobody_listens() -> None:
    for environment in ({}, {"NOTIFY_SOCKET": "/nowhere/at/all", "WATCHDOG_USEC": "1000000"}):
        with systemd_watchdog(lambda: "", SystemdNotifier(environment)):
            pass
    other = SystemdNotifier({"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"})
    assert other.period == 0


def test_an_empty_hub_is_well() -> None:
    hub = ClusterLoops()
    assert (hub.stuck_reason(), hub.unready_reason()) == ("", "")
