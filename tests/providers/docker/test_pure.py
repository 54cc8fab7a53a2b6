"""What engines say, understood without any engine."""

from __future__ import annotations

import http.client
import io
import json
import socket
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.base import Limit
from providers.containers.failed_start import WithheldOutput, explain_failure
from providers.docker import events, usage
from providers.docker.container.devices import choose_gpu_access, nvidia_edits
from providers.docker.engine import connection as reach
from providers.docker.engine.engine import Engine
from providers.docker.engine.errors import engine_errors, to_provider_error
from providers.docker.engine.facts import parse_engine_info
from providers.docker.engine.http import EngineHttp, EngineRefusal, split_lines
from providers.docker.interaction.logs import demultiplex
from providers.docker.labels import to_engine_labels
from providers.docker.notes import parse_notes
from providers.docker.observe import parse_container, parse_time
from providers.docker.options import open_docker
from providers.machines.base import Endpoint
from schemas.kinds.parts.docker import Docker
from schemas.problems.errors.kernel import KernelRefused
from schemas.problems.errors.provider import InvalidOption, ProviderError, ProviderUnavailable
from tests.providers.docker.specs import LABELS, here

AT = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
WHOLE = {"CPUSet": True, "CPUShares": True, "MemoryLimit": True, "PidsLimit": True, "SwapLimit": True,
         "CpuCfsQuota": True, "SecurityOptions": ["name=seccomp,profile=default"], "NCPU": 8,
         "Driver": "overlay2", "DriverStatus": [["Backing Filesystem", "xfs"]]}  # fmt: skip


def container(status: str = "exited", **state: Any) -> dict[str, Any]:
    given = {"Status": status, "ExitCode": 0, "OOMKilled": False, "Error": "", "Pid": 0, **state}
    when = "2026-01-01T12:00:00.123456789Z"
    return {"State": given, "HostConfig": {}, "Config": {"Image": "tool:1"}, "Created": when}


@pytest.mark.parametrize(
    ("found", "state", "reason"),
    [
        (container(), "exited", "exit"),
        (container(ExitCode=137), "exited", "signal 9"),
        (container(ExitCode=143), "exited", "signal 15"),
        (container(ExitCode=137, OOMKilled=True), "exited", "out-of-memory"),
        (container(ExitCode=0, OOMKilled=True), "exited", "exit"),
        (container(ExitCode=255), "exited", "exit"),
        (container(Error="bind source path does not exist"), "lost", "bind source path does not exist"),
        (container("dead"), "lost", ""),
        (container("running"), "running", ""),
        (container("restarting", ExitCode=1), "running", ""),
        (container("created"), "creating", ""),
    ],
)
def test_how_it_is(found: dict[str, Any], state: str, reason: str) -> None:
    seen = parse_container("k", LABELS, found)
    assert (seen.state, seen.reason) == (state, reason)


def test_time_stamps() -> None:
    assert parse_time("2026-01-01T12:00:00.123456789Z") == AT.replace(microsecond=123456)
    assert parse_time("2026-01-01T13:00:00.5+01:00") == AT.replace(microsecond=500_000)
    assert parse_time("2026-01-01T12:00:00Z") == AT
    assert parse_time("0001-01-01T00:00:00Z") is None and parse_time("") is None


@given(st.lists(st.binary(max_size=300), max_size=8), st.data())
def test_output_however_it_is_cut(payloads: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(bytes([1, 0, 0, 0]) + len(part).to_bytes(4, "big") + part for part in payloads)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=10)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert b"".join(demultiplex(iter(pieces))) == b"".join(payloads)
    if whole:
        with pytest.raises(http.client.IncompleteRead):
            list(demultiplex(iter([whole + b"\1"])))


def test_an_engine_of_today_can_all() -> None:
    found = parse_engine_info(WHOLE)
    assert not found.missing and not found.cautions and found.cpus == 8


def test_what_an_engine_cannot_is_said() -> None:
    found = parse_engine_info({**WHOLE, "CPUSet": False, "SwapLimit": False})
    assert set(found.missing) == {Limit.CPUSET, Limit.MEMSET} and "swap" in found.cautions[0]
    rootless = parse_engine_info({**WHOLE, "SecurityOptions": ["name=rootless"], "CgroupDriver": "none"})
    assert rootless.rootless and Limit.MEMORY in rootless.missing


@pytest.mark.parametrize(
    ("said", "userns", "shifts", "exempt"),
    [
        ("name=userns", {}, True, False), ("name=userns", {"userns": "host"}, False, True),
        ("name=rootless", {}, True, False), ("name=rootless", {"userns": "host"}, True, False),
        ("name=seccomp", {}, False, False), ("name=seccomp", {"userns": "host"}, False, False),
    ],
)  # fmt: skip
def test_containers_leave_an_engines_user_namespace_but_not_a_rootless_engine(
    monkeypatch: pytest.MonkeyPatch, said: str, userns: dict[str, str], shifts: bool, exempt: bool
) -> None:
    engine = here(**userns)
    monkeypatch.setattr(Engine, "facts", parse_engine_info({**WHOLE, "SecurityOptions": [said]}))
    assert (engine.maps_users, engine.leaves_user_namespace) == (shifts, exempt)


@pytest.mark.parametrize(
    ("driver", "below", "able"),
    [("overlay2", "xfs", True), ("overlay2", "extfs", False), ("btrfs", "", True), ("zfs", "zfs", True),
     ("vfs", "", False), ("overlayfs", "", False), ("", "", False)],
)  # fmt: skip
def test_only_some_storage_drivers_limit_what_a_container_writes(driver: str, below: str, able: bool) -> None:
    told = {**WHOLE, "Driver": driver, "DriverStatus": [["Backing Filesystem", below]]}
    assert (Limit.SCRATCH not in parse_engine_info(told).missing) == able
    rootless = [*WHOLE["SecurityOptions"], "name=rootless"]
    assert Limit.SCRATCH in parse_engine_info({**told, "SecurityOptions": rootless}).missing


def test_gpus_reach_a_container_by_whatever_the_engine_has() -> None:
    def never() -> bool:
        raise AssertionError("asked")

    told = parse_engine_info(
        {**WHOLE, "DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=GPU-1"}]}
    )
    silent = parse_engine_info({**WHOLE, "CDISpecDirs": ["/etc/cdi"], "Runtimes": {"nvidia": {}, "runc": {}}})
    assert choose_gpu_access(told, never) == "cdi"
    assert (
        choose_gpu_access(silent, lambda: True) == "cdi"
        and choose_gpu_access(silent, lambda: False) == "runtime"
    )
    assert (
        choose_gpu_access(parse_engine_info({**WHOLE, "Runtimes": {"runc": {}}}), never) == "device-request"
    )
    assert (
        choose_gpu_access(parse_engine_info({**WHOLE, "DiscoveredDevices": None, "CDISpecDirs": []}), never)
        == "device-request"
    )

    (request,) = nvidia_edits(("GPU-1",), "cdi", told, "k").requests
    assert request == {"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=GPU-1"]}
    with pytest.raises(KernelRefused, match="MIG-2"):
        nvidia_edits(("MIG-2",), "cdi", told, "k")
    by_runtime = nvidia_edits(("GPU-1", "MIG-2"), "runtime", silent, "k")
    assert by_runtime.runtime == "nvidia" and by_runtime.env["NVIDIA_VISIBLE_DEVICES"] == "GPU-1,MIG-2"
    (request,) = nvidia_edits(("GPU-1", "MIG-2"), "device-request", silent, "k").requests
    assert request["DeviceIDs"] == ["GPU-1", "MIG-2"] and request["Driver"] == "nvidia"


def note(number: int, container_id: str = "c", at: datetime = AT, **labels: str) -> dict[str, Any]:
    said = {"bai.note": "k", "bai.container": container_id, "bai.number": str(number), **labels}
    return {"Name": f"n{number}", "CreatedAt": at.isoformat(), "Labels": said}


def test_the_newest_labels_count() -> None:
    old, new = to_engine_labels("k", LABELS), {**to_engine_labels("k", LABELS), "bai.digest": "d9"}
    found = parse_notes([note(2, **new), note(10, "other", **old), note(1, **old)])
    assert found["c"].labels is not None and found["c"].labels.digest == "d9"
    assert found["other"].labels == LABELS


def test_what_was_stopped_and_started_again_ended_by_itself() -> None:
    (stopped,) = parse_notes([note(1, at=AT, **{"bai.stopped": "true"})]).values()
    minute = timedelta(minutes=1)
    assert stopped.ended(AT - minute, AT + minute)
    assert not stopped.ended(AT + minute, AT + 2 * minute)
    assert not stopped.ended(AT - 2 * minute, AT - minute)


def test_events_are_read() -> None:
    said = {
        "Action": "die",
        "timeNano": int(AT.timestamp() * 1e9),
        "Actor": {"Attributes": {"bai.id": "k", "exitCode": "3"}},
    }
    text = (json.dumps(said) + "\n").encode()
    (found,) = [events.parse_event(json.loads(each), "n") for each in split_lines(iter([text[:9], text[9:]]))]
    assert (found.kernel, found.node, found.what, found.exit_code, found.at) == ("k", "n", "ended", 3, AT)


def test_use_is_what_docker_stats_counts() -> None:
    stats = {
        "read": "2026-01-01T12:00:00Z",
        "cpu_stats": {"cpu_usage": {"total_usage": 1_500_000_000}},
        "memory_stats": {"usage": 100, "limit": 500, "stats": {"total_inactive_file": 30}},
        "networks": {"eth0": {"rx_bytes": 1, "tx_bytes": 2}, "eth1": {"rx_bytes": 10, "tx_bytes": 20}},
        "pids_stats": {"current": 4},
    }  # fmt: skip
    found = usage.parse_stats("k", stats, {})
    assert (found.cpu_seconds, found.memory, found.memory_limit, found.pids) == (1.5, 70, 500, 4)
    assert (found.network_in, found.network_out, found.at) == (11, 22, AT)
    assert usage.parse_stats("k", {"memory_stats": {}}, {}).memory is None
    gpus = usage.parse_gpu_usage("GPU-1, 97, 2048\nGPU-2, [N/A], [N/A]\nnonsense\n")
    assert (gpus["GPU-1"].busy, gpus["GPU-1"].memory, gpus["GPU-2"].busy) == (97, 2048 * 2**20, None)


def test_ways_to_an_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Endpoint("n", "10.0.0.1")
    assert reach.engine_address(node, Docker()).socket == "/var/run/docker.sock"
    assert reach.engine_address(node, Docker(host="tcp://h:2376")).host == ("h", 2376)
    with pytest.raises(InvalidOption, match="one of"):
        reach.engine_address(node, Docker(host="tcp://h:2376", socket="/x"))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    with pytest.raises(InvalidOption, match="no docker context lab"):
        reach.engine_address(node, Docker(context="lab"))
    context(tmp_path, "lab", "ssh://me@far:2222")
    found = reach.engine_address(node, Docker(context="lab")).endpoint
    assert (found.address, found.ssh.user, found.ssh.port, found.local) == ("far", "me", 2222, False)
    context(tmp_path, "bad", "npipe:////./pipe")
    with pytest.raises(InvalidOption, match="npipe"):
        reach.engine_address(node, Docker(context="bad"))


def context(folder: Path, name: str, host: str) -> None:
    import hashlib

    place = folder / "contexts/meta" / hashlib.sha256(name.encode()).hexdigest()
    place.mkdir(parents=True)
    (place / "meta.json").write_text(json.dumps({"Name": name, "Endpoints": {"docker": {"Host": host}}}))


class Answering:
    """An engine of few words: gives one answer after the other, each on the connection it was asked on."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.dialled = 0

    def dial(self) -> socket.socket:
        self.dialled += 1
        ours, theirs = socket.socketpair()
        threading.Thread(target=self._serve, args=(theirs,), daemon=True).start()
        return ours

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as asked:
            while self.answers and self._heard(asked):
                answer = self.answers.pop(0)
                if not answer:
                    return
                connection.sendall(answer)

    def _heard(self, asked: io.BufferedReader) -> bool:
        while line := asked.readline():
            if line == b"\r\n":
                return True
        return False


def answer(body: bytes, status: str = "200 OK", more: str = "") -> bytes:
    kind = "Content-Type: application/json\r\n"
    return f"HTTP/1.1 {status}\r\n{kind}{more}Content-Length: {len(body)}\r\n\r\n".encode() + body


def test_a_node_that_says_its_own_way_needs_none_of_the_clusters(tmp_path: Path) -> None:
    node = Endpoint("n", "n", local=True, options={"socket": f"{tmp_path}/own.sock"})
    seen = open_docker({"context": "there-is-none"}, machines=[node]).observe()
    assert "docker daemon running" in seen.unreachable["n"]


def test_a_connection_is_kept_and_one_that_was_cut_is_replaced() -> None:
    engine = Answering(answer(b'{"a":1}'), answer(b'{"a":2}'), b"", answer(b'{"a":3}'))
    http_ = EngineHttp(engine.dial)
    assert [http_.call("GET", "/x")["a"] for _ in range(2)] == [1, 2] and engine.dialled == 1
    assert http_.call("GET", "/x")["a"] == 3 and engine.dialled == 2
    http_.close()


def test_a_connection_that_ends_with_its_answer_is_read_to_the_end() -> None:
    engine = Answering(answer(b'{"a":1}', more="Connection: close\r\n"), answer(b'{"a":2}'))
    http_ = EngineHttp(engine.dial)
    assert [http_.call("GET", "/x")["a"] for _ in range(2)] == [1, 2] and engine.dialled == 2


def test_refusals_speak() -> None:
    engine = Answering(answer(b'{"message":"no such thing"}', "404 Not Found"), answer(b"oops", "500 Bad"))
    http_ = EngineHttp(engine.dial)
    with pytest.raises(EngineRefusal, match="no such thing") as caught:
        http_.call("GET", "/x")
    assert caught.value.status == 404
    with pytest.raises(EngineRefusal, match="oops"):
        http_.call("GET", "/x")


@pytest.mark.parametrize(
    ("status", "why", "kind"),
    [
        (400, "Requested CPUs are not available", KernelRefused),
        (500, "no space left on device", KernelRefused),
        (500, "dial unix: connect: connection refused: unavailable", ProviderUnavailable),
        (503, "shutting down", ProviderUnavailable),
    ],
)
def test_what_may_pass_is_tried_again(status: int, why: str, kind: type[ProviderError]) -> None:
    found = to_provider_error(EngineRefusal(status, why), "n1", "k", making=True)
    assert type(found) is kind and "n1" in str(found)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (TimeoutError(), "node n1: the engine does not answer"),
        (FileNotFoundError(2, "No such file or directory"), "node n1: No such file or directory"),
        (http.client.BadStatusLine("x"), "node n1: x"),
        (OSError(), "node n1: OSError"),
    ],
)
def test_what_goes_wrong_on_the_way_is_said_in_words(error: Exception, words: str) -> None:
    with pytest.raises(ProviderUnavailable) as told, engine_errors("n1"):
        raise error
    assert words in told.value.message and "Errno" not in told.value.message


def test_a_fresh_connection_that_breaks_is_not_tried_again() -> None:
    engine = Answering(b"", answer(b"{}"))
    with pytest.raises((OSError, http.client.HTTPException)):
        EngineHttp(engine.dial).call("GET", "/x")
    assert engine.dialled == 1


# commands that engines cannot start

FAILED = "OCI runtime exec failed: "
RUNC = f"{FAILED}exec failed: unable to start container process: "
OLD_RUNC = f"{FAILED}exec failed: container_linux.go:380: starting container process caused: "


@pytest.mark.parametrize(
    ("program", "said", "code", "words"),
    [
        ("x", f'{RUNC}exec: "x": executable file not found in $PATH: unknown', 127, "no such program"),
        ("x", f'{OLD_RUNC}exec: "x": executable file not found in $PATH: unknown', 127, "no such program"),
        (
            "x",
            f"{FAILED}crun: executable file `x` not found in $PATH: No such file or directory",
            127,
            "PATH",
        ),
        ("/x", f'{RUNC}exec: "/x": stat /x: no such file or directory: unknown', 127, "no such file"),
        ("/x.sh", f"{RUNC}exec /x.sh: no such file or directory: unknown", 127, "first line"),
        ("/x", f'{RUNC}exec: "/x": permission denied: unknown', 126, "may be executed"),
        ("/x", f"{RUNC}exec /x: exec format error: unknown", 126, "exec /x: exec format error"),
        (
            "/x",
            f'{RUNC}chdir to cwd ("/gone") set in config.json failed: no such file or directory: unknown',
            126,
            'chdir to cwd ("/gone")',
        ),
    ],
)
def test_what_an_engine_could_not_start(program: str, said: str, code: int, words: str) -> None:
    sentence, found = explain_failure(program, f"{said}\r\n".encode())
    assert found == code and words in sentence and sentence.startswith(f"{program}: ")
    assert "OCI" not in sentence and "unknown" not in sentence


def test_only_what_may_be_an_engines_words_is_kept_back() -> None:
    mine, theirs = WithheldOutput(), WithheldOutput()
    assert not mine.keeps(b"hello") and not mine.keeps(FAILED.encode()) and mine.taken() == b""
    assert theirs.keeps(FAILED.encode()) and theirs.keeps(b"x" * 100)
    assert not theirs.keeps(b"x" * 9000) and theirs.taken() == FAILED.encode() + b"x" * 100
    assert theirs.taken() == b""
