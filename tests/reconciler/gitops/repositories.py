"""Real repositories that tests push to and fetch from."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_WHO = ("-c", "user.name=Ada", "-c", "user.email=ada@cluster.example", "-c", "init.defaultBranch=main")


def git(folder: Path, *arguments: str) -> str:
    """What git says; fails when git does."""
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", "-C", str(folder), *_WHO, *arguments], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


class Pair:
    """A bare repository, as a forge has it, and the working copy of somebody who pushes."""

    def __init__(self, folder: Path) -> None:
        self.bare = folder / "forge.git"
        self.work = folder / "work"
        self.bare.mkdir(parents=True)
        self.work.mkdir()
        git(self.bare, "init", "--quiet", "--bare")
        git(self.bare, "config", "receive.denyDeleteCurrent", "ignore")
        git(self.work, "init", "--quiet")
        for folder in (self.bare, self.work):  # Newer gits go on with it after the command has ended.
            git(folder, "config", "maintenance.auto", "false")
        git(self.work, "remote", "add", "origin", str(self.bare))

    def commit(self, files: dict[str, str | None], message: str = "change") -> str:
        """The commit that these files (None: removed) make."""
        for name, text in files.items():
            path = self.work / name
            if text is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        git(self.work, "add", "--all")
        git(self.work, "commit", "--quiet", "--allow-empty", "--message", message)
        return git(self.work, "rev-parse", "HEAD")

    def push(self, *options: str, branch: str = "main") -> None:
        git(self.work, "push", "--quiet", *options, "origin", f"HEAD:{branch}")
