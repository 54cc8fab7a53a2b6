"""The provider in docs/plugins.md is a plugin as anybody's, and its tests there pass."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from schemas.plugins.entry_points import PROVIDERS

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.xdist_group("process-conformance")
def test_the_provider_in_the_documentation_keeps_its_promises(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
    module, tests = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[-2:]
    metadata = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)[-1]
    (entry,) = re.findall(r'^nice = "(.*)"$', metadata, re.M)
    assert f'entry-points."{PROVIDERS}"' in metadata
    for name, text in {
        "my_package/nice.py": module,
        "my_package-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: my_package\nVersion: 1.0\n",
        "my_package-1.0.dist-info/entry_points.txt": f"[{PROVIDERS}]\nnice = {entry}\n",
        "tests/test_nice.py": tests,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider", "tests/test_nice.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}", "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\b5\d passed", done.stdout), done.stdout
    assert "no node can be cut off" in done.stdout
