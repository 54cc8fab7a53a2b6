"""The real `helm`, on the chart of deploy/helm.

    def test_something(helm: Helm) -> None:
        helm.template("--set", "replicas=1", values={"git": {"remote": "https://git.example/x.git"}})

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

from tests.lab.cache import folder
from tests.lab.wheels import ROOT

CHART = ROOT / "deploy" / "helm" / "bai"


class Helm:
    """`program` is it; `work` holds what it writes."""

    def __init__(self, work: Path) -> None:
        found = sorted(folder().glob("helm-*/helm"))
        if not found:
            pytest.skip("helm is not built: scripts/helm.sh does that")
        self.program = found[-1]
        self.work = work

    @property
    def environment(self) -> dict[str, str]:
        """In which it finds nothing of the user's."""
        return {"PATH": f"{self.program.parent}:{os.environ['PATH']}", "HOME": str(self.work)}

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.program), *words], env=self.environment, cwd=self.work, check=False,
            capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120,
        )  # fmt: skip

    def template(
        self, *words: str, values: Mapping[str, Any], namespace: str = "bai-system"
    ) -> subprocess.CompletedProcess[str]:
        """What `helm install` of a release `bai` with these values would create."""
        file = self.work / "values.yaml"
        file.write_text(yaml.safe_dump(dict(values)))
        return self.run(
            "template", "bai", str(CHART), "--namespace", namespace, "--kube-version", "1.36.3",
            "--values", str(file), *words,
        )  # fmt: skip

    def rendered(self, values: Mapping[str, Any], *words: str) -> list[dict[str, Any]]:
        """The same as documents; fails with what it says."""
        done = self.template(*words, values=values)
        assert done.returncode == 0, done.stderr
        return [each for each in yaml.safe_load_all(done.stdout) if each]


@pytest.fixture
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(tmp_path_factory.mktemp("helm"))
