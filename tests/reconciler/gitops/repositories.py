"""Real repositories that tests push to and fetch from."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
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
    """A bare repository, as a forge has it, and the working copy of somebody who pushes. With `files`, these
    are the first commit of `main` in both."""

    def __init__(self, folder: Path, files: Mapping[str, str | None] | None = None) -> None:
        self.bare, self.work = folder / "forge.git", folder / "work"
        template = _template(tuple((files or {}).items()))
        shutil.copytree(template.bare, self.bare)
        shutil.copytree(template.work, self.work)
        config = self.work / ".git" / "config"
        config.write_text(config.read_text().replace(str(template.bare), str(self.bare)))

    def _make(self) -> None:
        self.bare.mkdir(parents=True)
        self.work.mkdir()
        git(self.bare, "init", "--quiet", "--bare")
        git(self.bare, "config", "receive.denyDeleteCurrent", "ignore")
        git(self.work, "init", "--quiet")
        for folder in (self.bare, self.work):  # Newer gits go on with it after the command has ended.
            git(folder, "config", "maintenance.auto", "false")
            for sample in folder.rglob("*.sample"):
                sample.unlink()
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

    def appear(self, files: Mapping[str, str | None], ref: str, message: str) -> str:
        """The commit that these files make on top of the working copy's `main`, as `ref` of the bare one by a
        single git, where a commit and a push are a dozen. The working copy has its objects, and `main`, too,
        but no files of it."""
        main = self.work / ".git" / "refs" / "heads" / "main"
        text, marks = message.encode(), self.bare / "made"
        parts = [b"commit %b\nmark :1\n" % ref.encode()]
        parts += [b"committer Ada <ada@cluster.example> now\ndata %d\n%b\n" % (len(text) + 1, text)]
        parts += [b"\nfrom %b\n" % main.read_text().strip().encode()]
        for name, content in files.items():
            data = (content or "").encode()
            change = b"M 100644 inline %b\ndata %d\n%b\n" % (name.encode(), len(data), data)
            parts.append(change if content is not None else b"D %b\n" % name.encode())
        options = ["--quiet", "--force", "--date-format=now", f"--export-marks={marks}"]
        subprocess.run(
            ["git", "-C", str(self.bare), "fast-import", *options], input=b"".join(parts), check=True
        )
        (self.work / ".git" / "objects" / "info" / "alternates").write_text(f"{self.bare / 'objects'}\n")
        commit = marks.read_text().split()[1]
        if ref == "refs/heads/main":
            main.write_text(f"{commit}\n")
        return commit

    def track(self) -> None:
        """The working copy's `main` follows the one that it was pushed to, as a clone's does."""
        with (self.work / ".git" / "config").open("a") as config:
            config.write('[branch "main"]\n\tremote = origin\n\tmerge = refs/heads/main\n')

    def push(self, *options: str, branch: str = "main") -> None:
        git(self.work, "push", "--quiet", *options, "origin", f"HEAD:{branch}")


@functools.cache
def _template(files: tuple[tuple[str, str | None], ...]) -> Pair:
    """What is the same for many of them: made once in each process, and copied."""
    folder = Path(tempfile.mkdtemp(prefix="bai-pair-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    made = Pair.__new__(Pair)
    made.bare, made.work = folder / "forge.git", folder / "work"
    made._make()
    if files:
        made.commit(dict(files), "the first")
        made.push()
    return made
