"""The real `helm`, on the chart of deploy/helm.

    def test_something(helm: Helm) -> None:
        for document in helm.rendered({"git": {"remote": "https://git.example/x.git"}}): ...

Debian has no package of it: `scripts/helm.sh` builds it, and tests that ask for it are skipped by name until
that was done.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.lab.cache import LabUnavailable, folder
from tests.lab.wheels import ROOT

CHART = ROOT / "deploy" / "helm" / "bai"
_KUBERNETES = "1.36.3"
"""For which version charts are rendered: helm asks no cluster for that."""


def program() -> Path:
    """The newest one that was built. Raises LabUnavailable."""
    found = sorted(folder().glob("helm-*/helm"))
    if not found:
        raise LabUnavailable("helm is not built: scripts/helm.sh does that")
    return found[-1]


def template_command(helm: Path, values: Path, namespace: str = "bai-system") -> list[str]:
    """The command that prints what `helm install` of a release `bai` with a file of values would create."""
    words = ["--namespace", namespace, "--kube-version", _KUBERNETES, "--values", str(values)]
    return [str(helm), "template", "bai", str(CHART), *words]


class Helm:
    """`program` is it; `work` holds what it writes."""

    def __init__(self, work: Path) -> None:
        self.program = program()
        self.work = work

    @property
    def environment(self) -> dict[str, str]:
        """In which it finds nothing of the user's."""
        return {"PATH": f"{self.program.parent}:{os.environ['PATH']}", "HOME": str(self.work)}

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self._run([str(self.program), *words])

    def template(
        self, values: Mapping[str, Any], namespace: str = "bai-system"
    ) -> subprocess.CompletedProcess[str]:
        """What comes of `helm template` with these values."""
        file = self.work / "values.yaml"
        file.write_text(yaml.safe_dump(dict(values)))
        return self._run(template_command(self.program, file, namespace))

    def _run(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words, env=self.environment, cwd=self.work, check=False, capture_output=True, text=True,
            stdin=subprocess.DEVNULL, timeout=120,
        )  # fmt: skip

    def rendered(self, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        """What is created, as documents; fails with what helm says."""
        done = self.template(values)
        assert done.returncode == 0, done.stderr
        return [each for each in yaml.safe_load_all(done.stdout) if each]


@pytest.fixture
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    try:
        return Helm(tmp_path_factory.mktemp("helm"))
    except LabUnavailable as error:
        pytest.skip(str(error))
