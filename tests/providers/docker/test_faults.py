"""What goes wrong with real engines: killed, full, cut off, meddled with."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from providers.abilities import KernelEvent
from providers.base import unfenced
from providers.docker.container import config
from providers.docker.container.user import ROOT
from providers.docker.engine import engine as engine_api
from providers.docker.events import EventListener
from providers.docker.options import open_docker
from providers.docker.provider import DockerProvider
from schemas.kinds.parts.docker import Docker
from schemas.problems.errors.kernel import KernelNotFound, KernelRefused
from schemas.problems.errors.provider import ProviderError, ProviderUnavailable
from tests.lab.cable import Cable
from tests.lab.docker import IMAGE, Engine, Engines
from tests.providers.docker.conftest import Open
from tests.providers.docker.specs import kernel, script
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("docker")
ID = "s-main1-0-g1"


def on(engine: Engine, **options: object) -> DockerProvider:
    return open_docker({}, machines=[engine.endpoint(**options)])


def names(engine: Engine) -> list[str]:
    return engine.docker("ps", "-a", "--format", "{{.Names}}").split()


@pytest.fixture
def broken(engines: Engines) -> Iterator[Engine]:
    """An engine to be broken."""
    engine = engines.private()
    yield engine
    engine.close()


def test_what_cannot_be_started_does_not_stay(on_engines: Open, engines: Engines) -> None:
    """The engine refuses a GPU only at the start and leaves the container behind."""
    provider = on_engines(gpus="device-request")
    with pytest.raises(KernelRefused, match="device driver") as caught:
        provider.create(kernel(devices=("GPU-0",)))
    assert "nvidia-container-toolkit" in caught.value.hint
    with pytest.raises(KernelRefused, match="no/such/program"):
        provider.create(kernel(ID, "/no/such/program"))
    assert names(engines(1)[0]) == [] and provider.observe().kernels == ()


def test_what_a_killed_creation_left_is_made_again(on_engines: Open, engines: Engines) -> None:
    provider = on_engines()
    old = config.container_payload(kernel(cpus=(0,)), Docker(), ROOT)
    made = engines(1)[0].api().create_container_from_config(old, ID)
    (seen,) = provider.observe().kernels
    assert seen.state == "creating"
    assert provider.create(kernel(cpus=(1,))).cpus == (1,)
    assert names(engines(1)[0]) == [ID] and engines(1)[0].inspect(ID)["Id"] != made["Id"]


def test_strangers_are_left_alone(on_engines: Open, engines: Engines) -> None:
    provider = on_engines()
    engine = engines(1)[0]
    engine.docker("run", "-d", "--name", ID, "bai-lab:1", "sleep", "1000")
    engine.docker("run", "-d", "--name", "half", "--label", "bai.id=half", "bai-lab:1", "sleep", "1000")
    with pytest.raises(KernelRefused, match="not bai's"):
        provider.create(kernel())
    seen = provider.observe()
    assert (seen.kernels, seen.unlabelled, seen.complete) == ((), ("half",), True)
    with pytest.raises(KernelNotFound):
        provider.stop(ID, grace=0)
    provider.remove(ID)
    assert set(names(engine)) == {ID, "half"}


def test_a_container_removed_by_hand_is_gone_and_can_be_made_again(
    on_engines: Open, engines: Engines
) -> None:
    provider = on_engines()
    provider.create(kernel())
    provider.stop(ID, grace=0)
    engines(1)[0].docker("rm", "-f", ID)
    assert provider.observe().kernels == ()
    again = provider.create(kernel())
    assert (again.state, again.reason) == ("running", "")
    provider.remove(ID)
    assert engines(1)[0].docker("volume", "ls", "-q") == ""


def test_nothing_stays_of_a_kernel_whose_container_was_removed_by_hand(
    on_engines: Open, engines: Engines
) -> None:
    provider = on_engines()
    engine = engines(1)[0]
    provider.create(kernel(secret_env={"A": "b"}))
    provider.stop(ID, grace=0)
    (bind,) = (each for each in engine.inspect(ID)["Mounts"] if each["Destination"] == "/run/bai")
    engine.docker("rm", "-f", ID)
    assert os.path.exists(bind["Source"]) and engine.docker("volume", "ls", "-q")
    provider.remove(ID)
    assert not os.path.exists(bind["Source"]) and not engine.docker("volume", "ls", "-q")


def test_a_renamed_container_is_still_the_kernel(on_engines: Open, engines: Engines) -> None:
    provider = on_engines()
    engine = engines(1)[0]
    provider.create(kernel())
    engine.docker("rename", ID, "renamed")
    assert [seen.id for seen in provider.observe().kernels] == [ID]
    assert provider.update(ID, kernel(pids=50)).pids == 50
    assert provider.stop(ID, grace=0).state == "exited"
    provider.remove(ID)
    assert names(engine) == []


def test_a_copy_with_a_kernels_labels_is_not_taken_for_it(on_engines: Open, engines: Engines) -> None:
    provider = on_engines()
    engine = engines(1)[0]
    real = provider.create(kernel())
    labels = engine.inspect(ID)["Config"]["Labels"]
    words = [f"--label={name}={value}" for name, value in labels.items()]
    engine.docker("run", "-d", "--name", "copy", *words, "bai-lab:1", "sleep", "1000")
    words = [word.replace(f"bai.id={ID}", "bai.id=../../etc") for word in words]
    engine.docker("run", "-d", "--name", "climber", *words, "bai-lab:1", "sleep", "1000")
    seen = provider.observe()
    assert {found.id: found.pid for found in seen.kernels}[ID] == real.pid and seen.unlabelled == (ID,)
    provider.remove("../../etc")
    provider.remove(ID)
    assert names(engine) == ["copy"] and os.path.exists("/etc/passwd")


def test_limits_changed_by_hand_are_seen(on_engines: Open, engines: Engines) -> None:
    provider = on_engines()
    provider.create(kernel(cpus=(0,), memory=2**26))
    engines(1)[0].docker("update", "--cpuset-cpus", "1", "--memory", "128m", "--memory-swap", "128m", ID)
    (seen,) = provider.observe().kernels
    assert (seen.cpus, seen.memory) == ((1,), 2**27)
    assert provider.update(ID, kernel(cpus=(0,), memory=2**26)).cpus == (0,)


def test_a_kernel_killed_by_hand_was_not_stopped(on_engines: Open, engines: Engines) -> None:
    provider = on_engines()
    provider.create(kernel())
    engines(1)[0].docker("kill", ID)
    (seen,) = provider.observe().kernels
    assert (seen.state, seen.exit_code, seen.reason) == ("exited", 137, "signal 9")


def test_an_engine_that_hears_only_afterwards_that_memory_was_short(
    on_engines: Open, engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state of a container says what was known when it ended; what comes later is only told."""
    inspect = engine_api.Engine.inspect

    def inspect_at_the_end(engine: engine_api.Engine, name: str) -> dict[str, Any]:
        found = inspect(engine, name)
        return {**found, "State": {**found["State"], "OOMKilled": False}}

    monkeypatch.setattr(engine_api.Engine, "inspect", inspect_at_the_end)
    provider = on_engines()
    provider.create(kernel(ID, "tail", "/dev/zero", memory=2**25))
    provider.create(kernel("t-main1-0-g1", memory=2**25))
    engines(1)[0].docker("kill", "t-main1-0-g1")
    until(lambda: {each.state for each in provider.observe().kernels} == {"exited"}, "both have ended")
    for asked in (provider, on_engines()):
        reasons = {each.id: each.reason for each in asked.observe().kernels}
        assert reasons == {ID: "out-of-memory", "t-main1-0-g1": "signal 9"}
    assert provider.stop(ID, grace=0).reason == "out-of-memory"


def test_a_node_that_is_down_is_named_and_the_others_are_seen(
    on_engines: Open, broken: Engine, engines: Engines
) -> None:
    one = engines(1)[0]
    provider = open_docker({}, machines=[one.endpoint(), broken.endpoint()])
    provider.create(kernel())
    provider.create(kernel("t-main1-0-g1", node=broken.name))
    broken.kill()
    seen = open_docker({}, machines=[one.endpoint(), broken.endpoint()]).observe()
    assert [found.id for found in seen.kernels] == [ID] and seen.complete
    assert set(seen.unreachable) == {broken.name} and "docker daemon running" in seen.unreachable[broken.name]
    with pytest.raises(ProviderUnavailable, match="may be on a node"):
        provider.stop("unknown-main1-0-g1", grace=0)
    with pytest.raises(ProviderUnavailable):
        provider.create(kernel("u-main1-0-g1", node=broken.name))
    on(one).remove(ID)


def test_an_engine_killed_during_creations_ends_with_each_kernel_once(broken: Engine) -> None:
    provider = on(broken)
    specs = [
        kernel(f"s{n}-main1-0-g1", "sh", "-c", "trap exit TERM; sleep 1000 & wait", node=broken.name)
        for n in range(6)
    ]
    failed: list[BaseException] = []

    killed = threading.Event()

    def until_killed() -> None:
        killed.wait()

    def make(number: int) -> None:
        try:
            # However fast the others are, the last one is in the midst of it then.
            provider.create(specs[number], until_killed if number == len(specs) - 1 else unfenced)
        except ProviderError as error:
            failed.append(error)

    makers = [threading.Thread(target=make, args=(number,)) for number in range(len(specs))]
    for maker in makers:
        maker.start()
    until(
        lambda: (broken.folder / "data/containers").exists() and os.listdir(broken.folder / "data/containers")
    )
    broken.kill()
    killed.set()
    for maker in makers:
        maker.join()
    assert failed and all(isinstance(error, ProviderUnavailable) for error in failed)
    broken.start()
    broken.wait()
    for spec in specs:
        if provider.create(spec).state != "running":
            provider.remove(spec.id)
            provider.create(spec)
    assert sorted(names(broken)) == sorted(spec.id for spec in specs)
    assert {seen.state for seen in provider.observe().kernels} == {"running"}


def test_a_cut_in_the_midst_of_anything_is_retryable_and_leaves_nothing_twice(
    on_engines: Open, engines: Engines, tmp_path: Path
) -> None:
    on_engines()
    engine = engines(1)[0]
    cable = Cable(tmp_path / "s", engine.socket)
    provider = on(engine, socket=str(cable.path))
    rng = random.Random(7)
    for number in range(8):
        spec = kernel(f"s{number}-main1-0-g1")
        cutter = threading.Timer(rng.uniform(0, 0.15), cable.cut)
        cutter.start()
        with contextlib.suppress(ProviderUnavailable):
            provider.create(spec)
            provider.update(spec.id, kernel(spec.id, pids=100))
            provider.remove(spec.id)
        cutter.join()
        cable.mend()
        assert provider.create(spec).state == "running"
    assert sorted(names(engine)) == [f"s{number}-main1-0-g1" for number in range(8)]
    cable.cut()


def test_a_full_disk_is_refused_and_then_there_is_room_again(engines: Engines) -> None:
    engine = engines.private(disk="24m")
    try:
        provider = on(engine)
        filler = engine.folder / "data/filler"
        with contextlib.suppress(OSError), filler.open("wb") as file:
            while True:
                file.write(bytes(2**16))
        with pytest.raises(KernelRefused, match="no space left"):
            provider.create(kernel(node=engine.name))
        seen = provider.observe()
        assert (seen.kernels, seen.complete, seen.unreachable) == ((), True, {})
        filler.unlink()
        assert provider.create(kernel(node=engine.name)).state == "running"
    finally:
        engine.close()


def test_events_are_told_also_after_the_engine_was_away(broken: Engine) -> None:
    provider = on(broken)
    told: list[KernelEvent] = []
    over = threading.Event()
    listener = threading.Thread(target=lambda: told.extend(_each(provider, over, told)))
    listener.start()
    until(lambda: _listens(broken), "it knows from when on it listens")
    provider.create(script("exit 3", node=broken.name))
    until(lambda: {"created", "started", "ended"} <= {event.what for event in told})
    (ended,) = [event for event in told if event.what == "ended"]
    assert (ended.kernel, ended.node, ended.exit_code) == (ID, broken.name, 3)
    broken.restart(signal.SIGTERM)
    provider.remove(ID)
    until(lambda: "removed" in {event.what for event in told})
    assert len([event for event in told if event.what == "created"]) == 1
    over.set()
    until(lambda: not listener.is_alive(), "it is over")


def _listens(engine: Engine) -> bool:
    """Not of another test, whose listener may not have ended yet."""
    listeners = (each for each in threading.enumerate() if isinstance(each, EventListener))
    return any(each._engine.node == engine.name and each._last for each in listeners)


def _each(provider: DockerProvider, over: threading.Event, told: list[KernelEvent]) -> list[KernelEvent]:
    for event in provider.events(over.is_set):
        told.append(event)
    return []


def test_an_image_that_is_removed_or_replaced_by_hand_is_told(on_engines: Open, engines: Engines) -> None:
    """Of what runs; it runs on, and the name that comes back means the same again."""
    provider, engine = on_engines(), engines(1)[0]
    engine.docker("tag", IMAGE, "moved:1")
    try:
        provider.create(kernel(image="moved:1"))

        def now() -> tuple[str, str, str]:
            (seen,) = provider.observe().kernels
            return seen.state, seen.image, seen.image_now

        assert now() == ("running", "moved:1", "same")
        engine.docker("rmi", "moved:1")
        assert now() == ("running", "moved:1", "gone")
        engine.docker("commit", ID, "moved:1")
        assert now() == ("running", "moved:1", "another")
        engine.docker("tag", IMAGE, "moved:1")
        assert now() == ("running", "moved:1", "same")
    finally:
        provider.remove(ID)
        engine.docker("rmi", "moved:1")
        engine.docker("image", "prune", "--force")
