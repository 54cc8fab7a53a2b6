"""The page with the comments of example pull requests, as `bai review` writes them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from doc_text import MADE

ROOT = Path(__file__).resolve().parent.parent
PATCHES = ROOT / "examples" / "reviews"
_WHO = {"NAME": "bai", "EMAIL": "bai@cluster.example", "DATE": "2026-01-05T09:00:00Z"}


@dataclass(frozen=True)
class Example:
    """A pull request: a patch on a folder of the examples (nothing: on an empty repository)."""

    name: str
    title: str
    says: str
    base: str = ""


EXAMPLES = (
    Example("new-cluster", "A new cluster", "Three machines and a first session, in an empty repository."),
    Example(
        "quota-cut", "A quota is cut", "Running sessions stay; who asks for more waits.", "clusters/dgx-h100"
    ),
    Example(
        "driver-bump",
        "A driver is updated",
        "Its nodes are provisioned, one wave after the other.",
        "profiles",
    ),
    Example(
        "node-removed", "A node goes", "What runs on it moves to where it fits best.", "clusters/dgx-h100"
    ),
    Example(
        "big-gang",
        "A large session",
        "Twelve whole machines, of which too few are free.",
        "clusters/dgx-h100",
    ),
)


def reviews_page() -> str:
    """Every example with its patch and its comment."""
    parts = [MADE, _HEAD]
    for example in EXAMPLES:
        patch = (PATCHES / f"{example.name}.patch").read_text("utf-8")
        lines = [line for line in patch.splitlines() if not line.startswith(("diff ", "index ", "new file"))]
        below = _comment(example).replace("\n## ", "\n#### ").replace("\n### ", "\n#### ")
        parts += [
            f"## {example.title}\n",
            f"{example.says}\n",
            "```diff\n" + "\n".join(lines) + "\n```\n",
            below,
        ]
    return "\n".join(parts)


_HEAD = """\
# Reviews of example pull requests

Each comment below is what `bai review` writes under the pull request with the patch above it
(`examples/reviews/`), on a cluster that runs what its main branch says. To see one:

```sh
cp -r examples/clusters/dgx-h100 /tmp/example && cd /tmp/example
git init -q && git add -A && git commit -q -m base
git apply ~/bai/examples/reviews/quota-cut.patch
bai review --base HEAD
```

How they come about is told in [Review](../review.md).
"""


def _comment(example: Example) -> str:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "repository"
        if example.base:
            shutil.copytree(ROOT / "examples" / example.base, folder, ignore=shutil.ignore_patterns(".bai"))
        folder.mkdir(exist_ok=True)
        for command in (
            ["git", "init", "-q", "-b", "main"],
            ["git", "add", "-A"],
            ["git", "commit", "-q", "--allow-empty", "-m", "base"],
            ["git", "apply", "--whitespace=nowarn", str(PATCHES / f"{example.name}.patch")],
            ["git", "add", "-A"],
            ["git", "commit", "-q", "-m", "change"],
        ):
            _run(command, folder, Path(scratch))
        bai = [sys.executable, "-m", "bai", "review", "--base", "HEAD~1", "--format", "markdown"]
        return _run(bai, folder, Path(scratch))


def _run(command: list[str], folder: Path, home: Path) -> str:
    who = {f"GIT_{role}_{part}": value for role in ("AUTHOR", "COMMITTER") for part, value in _WHO.items()}
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(ROOT), **who}
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stdout}{done.stderr}")
    return done.stdout
