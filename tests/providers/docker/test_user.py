"""Whom containers run as: the project's user, unless the image or the document says otherwise."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from providers.base import KernelSpec, Mount
from providers.docker.provider import DockerProvider
from providers.process.provider import ProcessProvider
from providers.process.sandbox import bubblewrap
from schemas.problems.errors.kernel import KernelRefused
from tests.lab.derived import derived, packed, ran_in
from tests.lab.docker import Engine, Engines
from tests.providers.docker.conftest import Open
from tests.providers.docker.specs import UID, kernel, script
from tests.providers.process import kernels as native
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("docker")
ID = "s-main1-0-g1"
WHO = "id -u; id -g; id -un; echo $HOME; pwd; cd; touch mine && ls -ld $HOME | cut -d' ' -f1"


@pytest.fixture
def engine(on_engines: Open, engines: Engines) -> Engine:
    on_engines()
    return engines(1)[0]


@pytest.fixture
def provider(on_engines: Open) -> Iterator[DockerProvider]:
    yield on_engines()


def said(provider: DockerProvider, spec: KernelSpec) -> list[str]:
    provider.create(spec)
    until(lambda: provider.observe().kernels[0].state == "exited")
    lines = b"".join(provider.logs(ID)).decode().splitlines()
    provider.remove(ID)
    return lines


def test_without_a_word_it_is_the_projects_user(provider: DockerProvider) -> None:
    assert said(provider, script(WHO)) == [
        str(UID), str(UID), "work", "/home/work", "/home/work", "drwx------",
    ]  # fmt: skip


def test_a_root_that_is_read_only_has_a_home_in_memory(provider: DockerProvider) -> None:
    found = said(provider, script(WHO, read_only_root=True))
    assert found[:5] == [str(UID), str(UID), "work", "/home/work", "/home/work"] and len(found) == 6


def test_a_working_directory_in_the_home_can_be_written(provider: DockerProvider) -> None:
    assert said(provider, script("touch x && pwd", workdir="/home/work/a/b")) == ["/home/work/a/b"]


def test_an_image_that_says_root_says_nothing(provider: DockerProvider, engine: Engine) -> None:
    for number, word in enumerate(("root", "0", "0:0")):
        image = derived(engine, f"root{number}", f"USER {word}")
        assert said(provider, script("id -u", image=image)) == [str(UID)]


def test_an_images_own_user_stays(provider: DockerProvider, engine: Engine) -> None:
    """By number, and by a name that the image knows; its group is the project's."""
    for number, word in enumerate(("1000", "user", "user:user")):
        image = derived(engine, f"own{number}", f"USER {word}", "WORKDIR /home/user")
        found = said(provider, script("id -u; id -g; id -un; echo $HOME; pwd", image=image))
        assert found == ["1000", str(UID), "user", "/home/user", "/home/user"]


def test_a_document_wins(provider: DockerProvider, engine: Engine) -> None:
    image = derived(engine, "own0", "USER 1000")
    found = said(provider, script("id -u; id -g; id -un", image=image, user="4321"))
    assert found == ["4321", str(UID), "work"]
    assert said(provider, script("id -u; id -g", image=image, user="4321:4322")) == ["4321", "4322"]
    assert said(provider, script("id -u; id -g", image=image, user="root")) == ["0", "0"]
    assert said(provider, script("id -u", user="user")) == ["1000"]
    with pytest.raises(KernelRefused, match="no user nobody-here"):
        provider.create(kernel(user="nobody-here"))


def test_groups_of_volumes_are_joined(provider: DockerProvider) -> None:
    assert said(provider, script("id -G", groups=(4400, 4500))) == [f"{UID} 4400 4500"]


def test_volumes_and_the_home_go_together(provider: DockerProvider, tmp_path: Path) -> None:
    """Below the home, over it, above it, and one in the other."""

    def mounts(*targets: str) -> tuple[Mount, ...]:
        return tuple(
            Mount(f"{tmp_path}/v{n}", target, root=str(tmp_path)) for n, target in enumerate(targets)
        )

    text = "touch $HOME/x && echo $HOME"
    for targets, home in (
        (("/home/work/data",), "/home/work"), (("/home/work",), "/home/work"), (("/home",), "/home"),
        (("/data",), "/home/work"), (("/data", "/data/more"), "/home/work"),
    ):  # fmt: skip
        assert said(provider, script(text, mounts=mounts(*targets))) == [home]
    assert (tmp_path / "v0").stat().st_uid == UID


def test_it_is_entered_and_copied_to_as_its_user(
    provider: DockerProvider, capfd: pytest.CaptureFixture[str]
) -> None:
    provider.create(kernel())
    assert provider.execute(ID, ("sh", "-c", "id -un; touch $HOME/y")) == 0
    assert capfd.readouterr().out == "work\n"
    provider.copy_in(ID, "/home/work", iter([packed("z", "hello")]))
    assert provider.execute(ID, ("sh", "-c", "cat z && echo more >> z && stat -c %u z")) == 0
    assert capfd.readouterr().out == f"hello{UID}\n"


def test_what_is_looked_at_is_taken_away(provider: DockerProvider, engine: Engine) -> None:
    provider.create(kernel(user="user"))
    assert engine.docker("ps", "-a", "--format", "{{.Names}}").split() == [ID]


def test_both_providers_write_volumes_as_one_user(provider: DockerProvider, tmp_path: Path) -> None:
    if os.geteuid() or bubblewrap.sandbox_problem():
        pytest.skip(f"no native sessions of a project's user: {bubblewrap.sandbox_problem() or 'not root'}")
    mount = Mount(f"{tmp_path}/v", "/data", root=str(tmp_path))
    assert said(provider, script("umask 077; echo one > /data/x", mounts=(mount,))) == []
    processes = ProcessProvider(tmp_path / "process")
    spec = native.script("cat /data/x && echo two >> /data/x", mounts=(mount,), uid=UID)
    try:
        processes.create(spec)
        assert native.ended(processes, spec.id).exit_code == 0, native.output(processes, spec.id)
    finally:
        processes.remove(spec.id)
    assert said(provider, script("cat /data/x", mounts=(mount,))) == ["one", "two"]


def test_the_home_is_made_on_the_node_or_by_the_engine(provider: DockerProvider, engine: Engine) -> None:
    """With the same result, also where the image has something at its place or declares a volume there."""
    (found,) = provider.engines.values()
    images = [
        ran_in(engine, "homes", "mkdir -p /home/other; echo hi > /home/other/x; chmod 700 /home"),
        ran_in(engine, "closed", "mkdir -p /home/work/old; chmod 500 /home/work"),
        ran_in(engine, "linked", "rm -rf /home; ln -s /etc /home"),
        derived(engine, "volume", "VOLUME /home/work"),
    ]
    text = "cd; pwd; touch x; stat -c '%u %g %a' /home /home/work x; ls /home /home/work; cat /home/other/x"
    for image in images:
        spec = script(f"({text}) 2>&1", image=image)
        found.can_write_layers = True
        outside = said(provider, spec)
        assert found.can_write_layers == (os.geteuid() == 0)
        found.can_write_layers = False
        assert outside == said(provider, spec)
        assert outside[:4] == ["/home/work", "0 0 755", f"{UID} {UID} 700", f"{UID} {UID} 644"]


def test_the_home_stays_when_it_starts_again(provider: DockerProvider, engine: Engine) -> None:
    provider.create(script("cd; echo line >> x; cat x; stat -c %a ."))
    until(lambda: provider.observe().kernels[0].state == "exited")
    engine.docker("start", ID)
    until(lambda: provider.observe().kernels[0].state == "exited")
    assert b"".join(provider.logs(ID)).decode().split() == ["line", "700", "line", "line", "700"]
    assert engine.docker("diff", ID).count("/home/work\n") == 1
