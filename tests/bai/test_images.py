"""`bai images` as a person uses it, with a real registry behind TLS and a password, and a real engine. The
command runs on the node: there the registry is on the loopback."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.integration.test_docker_images import BASE, busybox, clean, document, node, session
from tests.lab.docker import Engine, Engines
from tests.lab.registry import USER, LabRegistry, StartRegistry
from tests.lab.spaces import within
from tests.lab.stores import NAME, declared, environment, owner_file

pytestmark = pytest.mark.xdist_group("docker-clusters")
ROOT = Path(__file__).parents[2]
PASSWORD = "open sesame"


@dataclass
class Person:
    """Somebody at a node's terminal."""

    engine: Engine
    folder: Path
    lab: LabRegistry
    env: dict[str, str] = field(default_factory=dict)

    def bai(self, *words: str, code: int = 0) -> str:
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "PYTHONPATH": str(ROOT), **self.env}
        done = subprocess.run(
            within(self.engine.namespace, [sys.executable, "-m", "bai", "-C", str(self.folder), *words]),
            env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        assert PASSWORD not in done.stdout + done.stderr
        return done.stdout + done.stderr

    def write(self, *documents: str) -> None:
        login = f"{{username: {USER}, passwordFrom: 'env/LAB_PASSWORD'}}"
        lab = f"{{address: '{self.lab.address}', caFrom: files/ca.pem, credentials: {login}}}"
        registry = document("Registry", "lab", lab)
        (self.folder / "all.yaml").write_text(BASE + node(self.engine) + registry + "".join(documents))


@pytest.fixture
def person(
    engines: Engines,
    registry: StartRegistry,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Person]:
    engine = engines(1)[0]
    clean(engine)
    lab = registry(password=PASSWORD, tls=True, namespace=engine.namespace)
    files = declared(Path(lab.ca).parent, "ca.pem", name="files")
    stores = owner_file(tmp_path_factory.mktemp("owner") / NAME, environment("LAB_PASSWORD"), files)
    yield Person(engine, tmp_path, lab, {"LAB_PASSWORD": PASSWORD, "BAI_SECRET_STORES": str(stores)})
    clean(engine)


TOOL = "{registry: lab, reference: 'team/tool:1', pin: digest, prePull: {all: true}}"


def test_from_a_scan_to_a_session(person: Person) -> None:
    layer = busybox(person.engine)
    digest = person.lab.push("team/tool:1", layers=(layer,), labels={"bai.min.mem": "32m"})
    person.write(document("Image", "tool", TOOL), session("s", "tool"))
    assert re.search(r"lab +docker .* ok", person.bai("images", "registries"))
    assert digest[:19] in person.bai("images", "scan")
    listed = json.loads(person.bai("images", "--format", "json"))["items"]
    assert [(item["image"], item["facts"]["digest"], item["minimum"]) for item in listed] == [
        ("tool", digest, {"mem": 32 << 20})
    ]
    planned = person.bai("plan")
    assert re.search(rf"pull [0-9.]+\w+ to {person.engine.name}", planned)
    applied = person.bai("apply", "--yes")
    assert f"{person.engine.name} has {person.lab.address}/team/tool@{digest}" in applied
    assert "Applied" in applied
    assert "No changes" in person.bai("plan")
    shown = person.bai("images", "show", "tool")
    assert f"on {person.engine.name}" in shown
    assert "used by p/s" in shown
    person.lab.push("team/tool:1", layers=(layer,), labels={"bai.min.mem": "64m"})
    assert f", was {digest[:19]}" in person.bai("images", "scan", "tool")
    assert "has" in person.bai("images", "pull", "tool")


def test_what_goes_wrong_is_said(person: Person) -> None:
    person.write(document("Image", "tool", TOOL), document("Image", "gone", "{registry: lab, reference: x}"))
    person.lab.push("team/tool:2", single=True)
    said = person.bai("images", "scan", code=1)
    assert "team/tool:1 (tags there: 2)" in said
    assert "x:latest (repositories there: team/tool)" in said
    assert "did you mean tool?" in person.bai("images", "show", "tol", code=1)
    assert "team/tool" in person.bai("images", "registries", "lab")
    assert "BAI-E0332" in person.bai("images", "pull", "tool", person.engine.name, code=1)
    person.env = {**person.env, "LAB_PASSWORD": "wrong"}
    assert "is the password right?" in person.bai("images", "registries", code=1)
