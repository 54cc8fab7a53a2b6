"""The folders of kernels in a node's memory: made and taken at the same time, and gone with the last."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from providers.base import File
from providers.docker.container import runtime_files
from tests.lab.docker import Engines
from tests.providers.docker.conftest import Open
from tests.providers.docker.specs import here, kernel

FILES = (File("topo.xml", "<x/>", "T"),)


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """bai's own folders, moved to a place of this test's."""
    folder = tmp_path / "bai" / "docker"
    monkeypatch.setattr(runtime_files, "FOLDERS", (str(folder),))
    monkeypatch.setattr(runtime_files, "OWN_FOLDERS", (str(folder), str(folder.parent)))
    return folder


def test_folders_of_bai_go_with_the_last_kernel(own: Path) -> None:
    engine = here()
    one, two = (runtime_files.prepare(engine, kernel(f"{name}-main1-0-g1", files=FILES), {}) for name in "ab")
    assert Path(one.binds[0].source, "topo.xml").read_text() == "<x/>"
    runtime_files.release(engine, "a-main1-0-g1", one.binds[0].source)
    assert [each.name for each in own.iterdir()] == ["b-main1-0-g1"]
    runtime_files.sweep(engine, "b-main1-0-g1")
    assert not own.parent.exists() and two.binds


def test_a_folder_that_an_option_names_stays(own: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    engine = here(state=str(mine))
    made = runtime_files.prepare(engine, kernel(files=FILES), {})
    runtime_files.release(engine, kernel().id, made.binds[0].source)
    assert mine.is_dir() and list(mine.iterdir()) == []


def test_who_makes_and_who_takes_the_last_do_not_meet(own: Path) -> None:
    engine = here()

    def one(number: int) -> bool:
        spec = kernel(f"s{number}-main1-0-g1", files=FILES)
        source = runtime_files.prepare(engine, spec, {}).binds[0].source
        there = Path(source, "topo.xml").is_file()
        runtime_files.release(engine, spec.id, source)
        return there

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(one, range(90)))
    assert not own.parent.exists()


@pytest.mark.xdist_group("docker")
def test_a_lab_that_goes_takes_the_folders_of_its_kernels(on_engines: Open, engines: Engines) -> None:
    provider, (engine,) = on_engines(), engines(1)
    provider.create(kernel("lab-main1-0-g1", files=FILES, secret_env={"A": "b"}))
    bind = engine.inspect("lab-main1-0-g1")["HostConfig"]["Mounts"][-1]
    assert Path(bind["Source"], "secrets").exists()
    engine.wipe()
    assert not Path(bind["Source"]).exists()
