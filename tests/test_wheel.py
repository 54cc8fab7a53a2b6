"""The wheel in an environment of it and its declared dependencies: what a user of pipx or uv gets."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.lab import wheels
from tests.lab.wheels import ROOT, SHIPPED

pytestmark = pytest.mark.xdist_group("wheel")


def run(command: Sequence[str | Path], cwd: Path, code: int = 0) -> str:
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "COV_", "BAI_"))
    }
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=environment | {"NO_COLOR": "1", "COLUMNS": "100", "HOME": str(cwd)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == code, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheels.build(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def clean(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bai` of a new environment: the wheel, and links to the distributions it asks for."""
    folder = tmp_path_factory.mktemp("clean")
    run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], folder)
    python = folder / "venv" / "bin" / "python"
    run(
        [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index", wheel],
        folder,
    )
    dependencies = folder / "dependencies"
    dependencies.mkdir()
    link_closure(wheel, dependencies)
    site = run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], folder).strip()
    (Path(site) / "dependencies.pth").write_text(f"{dependencies}\n")
    return folder / "venv" / "bin" / "bai"


def link_closure(wheel: Path, target: Path) -> None:
    """Links to everything that the wheel's requirements, and theirs, have installed here."""
    waiting = wheels.requirements(wheel)
    seen: set[str] = set()
    while waiting:
        requirement = Requirement(waiting.pop())
        wanted = requirement.marker is None or any(
            requirement.marker.evaluate({"extra": extra}) for extra in ("", *requirement.extras)
        )
        if not wanted or requirement.name.lower() in seen:
            continue
        seen.add(requirement.name.lower())
        found = metadata.distribution(requirement.name)
        link(found, target)
        waiting += found.requires or []


def link(found: metadata.Distribution, target: Path) -> None:
    site = Path(sysconfig.get_path("purelib"))
    for top in {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")}:
        if not (target / top).exists():
            (target / top).symlink_to(
                Path(str(found.locate_file(top))) if (site / top).exists() else site / top
            )


def test_the_wheel_holds_what_it_should(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(SHIPPED)
    assert any(name.startswith("schemas/json/") and name.endswith(".json") for name in names)
    assert any(name.startswith("reconciler/store/migrations/versions/") for name in names)
    assert {"providers/ansible/roles/site.yml", "providers/ansible/templates/hosts.yml.j2"} <= set(names)
    assert "bai/web/demo/dgx-h100/hardware/dgx-h100.json" in names
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    assert not [name for name in names if "__pycache__" in name or name.endswith((".db", ".orig"))]


def test_version(clean: Path, tmp_path: Path) -> None:
    assert metadata.version("bai") in run([clean, "version"], tmp_path)


def test_the_environment_is_clean(clean: Path, tmp_path: Path) -> None:
    """Nothing of the working copy, and none of its tools, can be imported."""
    python = clean.parent / "python"
    assert str(clean.parent.parent) in run([python, "-c", "import bai; print(bai.__file__)"], tmp_path)
    run([python, "-c", "import pytest"], tmp_path, code=1)


def test_the_roles_are_found(clean: Path, tmp_path: Path) -> None:
    """All of them, and the same ones, as in the working copy."""
    code = "from providers.ansible import roles_path; print(roles_path())"
    found = Path(run([clean.parent / "python", "-c", code], tmp_path).strip())
    assert clean.parent.parent in found.parents
    files = {path.relative_to(found): path.read_bytes() for path in found.rglob("*") if path.is_file()}
    listed = subprocess.run(
        ["git", "ls-files", "-z", "roles"], cwd=ROOT, capture_output=True, check=True, text=True
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            assert files[Path(name).relative_to("roles")] == (ROOT / name).read_bytes()


def test_provisioning_without_ansible_says_what_to_install(clean: Path, tmp_path: Path) -> None:
    code = (
        "from pathlib import Path\n"
        "from providers.ansible import open_provisioner\n"
        "from providers.machines.base import Endpoint\n"
        "from providers.provisioning import ProvisionTarget\n"
        "from schemas.problems.errors.provisioning import ProvisioningImpossible\n"
        "target = ProvisionTarget('here', Endpoint('here', 'localhost', local=True), 'p', (), {})\n"
        "try:\n"
        "    open_provisioner(Path('state'), str).check([target])\n"
        "except ProvisioningImpossible as error:\n"
        "    print(error)\n"
    )
    assert "pip install 'bai[provisioning]'" in run([clean.parent / "python", "-c", code], tmp_path)


def test_schema(clean: Path, tmp_path: Path) -> None:
    import jsonschema

    jsonschema.Draft202012Validator.check_schema(json.loads(run([clean, "schema"], tmp_path)))
    assert "resources" in run([clean, "schema", "Session"], tmp_path)


def test_validate(clean: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples" / "quickstart", tmp_path / "quickstart")
    run([clean, "validate", "-C", tmp_path / "quickstart"], tmp_path)
    wrong = tmp_path / "quickstart" / "sessions" / "web.yaml"
    wrong.write_text(wrong.read_text().replace("type: interactive", "type: interactiv"))
    run([clean, "validate", "-C", tmp_path / "quickstart"], tmp_path, code=1)


def test_plan_with_a_new_store(clean: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples" / "clusters" / "dgx-h100", tmp_path / "dgx")
    plan = json.loads(run([clean, "-C", tmp_path / "dgx", "plan", "--offline", "--format", "json"], tmp_path))
    assert plan["version"] == "bai.plan/v1"
    assert any(action["id"] == "Session/language/pretrain" for action in plan["plan"]["actions"])


def test_init_gives_a_repository_that_plans(clean: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    run([clean, "-C", tmp_path / "mine", "init"], tmp_path)
    run([clean, "-C", tmp_path / "mine", "validate"], tmp_path)
