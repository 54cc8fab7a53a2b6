"""Reading a commit: by our one git command, by GitPython, and by pygit2.

    python -m benchmarks.git_reading --runs 5 --json result.json
    pip install gitpython pygit2     what the other columns need; a column is left out without it

A repository of 1,250 node files and 20,000 session files is made for it, packed as a forge packs it. Every
run is an interpreter of its own, and the columns take turns. Medians of CPU seconds (what git takes
included), of wall-clock seconds, and the most memory in MiB of the interpreter:

- `import`: the modules alone, beside those that load documents.
- `read`: the path and bytes of every document of a commit; `load`: the same, and the repository made of them.
- `diff`: the paths that two commits differ in; `history`: those that each of 200 commits changes.

Then what a hostile repository or remote may try, on the same columns: seconds until a git that hangs is given
up (after 1 s) on a machine without `ps`, and whether a commit is read with `GIT_OBJECT_DIRECTORY` in the
environment, and from a repository with SHA-256 names.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.results import keep, parser_of

ROOT = Path(__file__).resolve().parent.parent
NODES, SESSIONS, COMMITS = 1250, 20_000, 200
COLUMNS = {"bai": "schemas", "gitpython commands": "git", "gitpython objects": "git", "pygit2": "pygit2"}
HANGS = 10
HEAD = """\
apiVersion: bai/v1
kind: Cluster
metadata: {name: here}
spec: {provider: fake}
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {name: all}
---
apiVersion: bai/v1
kind: Project
metadata: {name: p}
"""
NODE = """\
apiVersion: bai/v1
kind: Node
metadata: {{name: n{0:04}}}
spec:
  resourceGroup: all
  address: n{0:04}.cluster.example
  hardware: {{numaNodes: [{{id: 0, cpus: "0-63", memory: 549755813888}}]}}
"""
SESSION = """\
apiVersion: bai/v1
kind: Session
metadata: {{name: s{0:05}, project: p}}
spec:
  command: [python, train.py, --seed, "{0}", --round, "{1}"]
  resources: {{cpu: 8, memory: 64GiB}}
"""
Work = Callable[[Path, str], int]


def make_repository(folder: Path) -> None:
    """A bare one, whose tags `first` and `last` lie 200 commits apart; each changes one session."""
    who = "Ada <ada@cluster.example> 1700000000 +0000"

    def commit(files: Mapping[str, str]) -> str:
        parts = [f"commit refs/heads/main\nauthor {who}\ncommitter {who}\ndata 1\nx\n"]
        parts += [f"M 100644 inline {path}\ndata {len(text)}\n{text}\n" for path, text in files.items()]
        return "".join(parts)

    first = {"cluster.yaml": HEAD}
    first |= {f"nodes/rack{n // 40:02}/n{n:04}.yaml": NODE.format(n) for n in range(NODES)}
    first |= {f"sessions/u{n // 100:03}/s{n:05}.yaml": SESSION.format(n, 0) for n in range(SESSIONS)}
    later = [
        {f"sessions/u{n // 100:03}/s{n:05}.yaml": SESSION.format(n, 1)}
        for n in range(0, SESSIONS, SESSIONS // COMMITS)
    ]
    reset = "reset refs/tags/{}\nfrom refs/heads/main\n"
    stream = commit(first) + reset.format("first") + "".join(map(commit, later)) + reset.format("last")
    git("init", "--quiet", "--bare", "-b", "main", str(folder))
    git("-C", str(folder), "fast-import", "--quiet", data=stream.encode())
    git("-C", str(folder), "repack", "-adq")


def git(*words: str, data: bytes = b"") -> str:
    done = subprocess.run(["git", *words], input=data, capture_output=True, check=True)
    return done.stdout.decode().strip()


# The columns; each imports what it needs when it is asked.


def bai(what: str) -> Work:
    from schemas.files.git_process import execute_git
    from schemas.files.git_source import CommitSource

    if what in ("diff", "history"):
        importlib.import_module("reconciler.trust.commit_history")

    def hang(folder: Path, words: str) -> int:
        return execute_git("-c", words, "hang", folder=folder, timeout=1).returncode

    def diff(folder: Path, tip: str) -> int:
        from reconciler.trust.commit_history import differing_paths

        one, other = (git("-C", str(folder), "rev-parse", name) for name in ("first", tip))
        return len(differing_paths(folder, one, other))

    def history(folder: Path, tip: str) -> int:
        from reconciler.trust.commit_history import changed_paths, commits_between, read_commits

        found, _ = read_commits(folder, commits_between(folder, "first", tip))
        return sum(map(len, changed_paths(folder, found)))

    return {
        "read": lambda folder, tip: len(list(CommitSource(folder, tip).files())),
        "load": load,
        "diff": diff,
        "history": history,
        "hang": hang,
    }[what]  # fmt: skip


def load(folder: Path, tip: str) -> int:
    from schemas.loading.loader import load_commit

    return len(load_commit(folder, tip).resources)


def gitpython_commands(what: str) -> Work:
    from git import Repo

    def read(folder: Path, tip: str) -> int:
        with Repo(folder) as repo:
            listing = repo.git.ls_tree("-r", "-z", "-l", "--full-tree", tip, stdout_as_string=False)
            names = [line.split()[2] for line in listing.split(b"\0") if line]
            return len([repo.git.get_object_data(name)[3] for name in names])

    def diff(folder: Path, tip: str) -> int:
        said = Repo(folder).git.diff_tree("-r", "-z", "--name-only", "--no-renames", "first", tip)
        return said.count("\0")

    def history(folder: Path, tip: str) -> int:
        repo = Repo(folder)
        names = repo.git.rev_list(f"first..{tip}").split()
        options = ("-r", "-z", "--name-only", "--no-renames", "--no-commit-id")
        return sum(repo.git.diff_tree(*options, name).count("\0") for name in names)

    def hang(folder: Path, words: str) -> int:
        repo = Repo(folder)
        command = ["git", "-c", words, "hang"]
        return repo.git.execute(
            command, kill_after_timeout=1, with_extended_output=True, with_exceptions=False
        )[0]

    return {"read": read, "diff": diff, "history": history, "hang": hang}[what]


def gitpython_objects(what: str) -> Work:
    from git import Repo

    def read(folder: Path, tip: str) -> int:
        with Repo(folder) as repo:
            items = repo.commit(tip).tree.traverse()
            return len([(each.path, each.data_stream.read()) for each in items if each.type == "blob"])

    def diff(folder: Path, tip: str) -> int:
        repo = Repo(folder)
        return len({each.b_path for each in repo.commit("first").diff(tip, no_renames=True)})

    def history(folder: Path, tip: str) -> int:
        found = Repo(folder).iter_commits(f"first..{tip}")
        return sum(len(each.parents[0].diff(each, no_renames=True)) for each in found)

    return {"read": read, "diff": diff, "history": history}[what]


def pygit2(what: str) -> Work:
    from pygit2 import Commit, Repository, Tree

    def blobs(tree: Tree, folder: str = "") -> list[tuple[str, bytes]]:
        found = []
        for each in tree:
            path = f"{folder}{each.name}"
            found += blobs(each, path + "/") if isinstance(each, Tree) else [(path, each.data)]
        return found

    def read(folder: Path, tip: str) -> int:
        return len(blobs(Repository(str(folder)).revparse_single(tip).peel(Commit).tree))

    def differing(repo: Any, one: Any, other: Any) -> int:
        return len([each.delta.new_file.path for each in repo.diff(one, other)])

    def history(folder: Path, tip: str) -> int:
        repo = Repository(str(folder))
        walker = repo.walk(repo.revparse_single(tip).id)
        walker.hide(repo.revparse_single("first").id)
        return sum(differing(repo, each.parents[0], each) for each in walker)

    def diff(folder: Path, tip: str) -> int:
        repo = Repository(str(folder))
        return differing(repo, repo.revparse_single("first"), repo.revparse_single(tip))

    return {"read": read, "diff": diff, "history": history}[what]


MAKE = {
    "bai": bai, "gitpython commands": gitpython_commands, "gitpython objects": gitpython_objects,
    "pygit2": pygit2,
}  # fmt: skip


# One run, in an interpreter of its own.


def child(column: str, what: str, folder: str, tip: str) -> None:
    """Do it, and print what it took."""
    importlib.import_module("schemas.loading.loader")
    before = cpu()
    begin = time.perf_counter()
    work = MAKE[column]("read" if what == "import" else what)
    imported = cpu() - before
    if what == "import":
        print(json.dumps({"cpu": imported, "wall": time.perf_counter() - begin, "mib": peak()}))
        return
    before, begin = cpu(), time.perf_counter()
    count = work(Path(folder), tip)
    print(json.dumps({"cpu": cpu() - before, "wall": time.perf_counter() - begin, "mib": peak(), "n": count}))


def cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def peak() -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def once(
    column: str, what: str, folder: Path, tip: str = "last", **environment: str
) -> dict[str, float] | None:
    """What a run took; None where it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.git_reading", "--child", column, what, str(folder), tip],
        env={**os.environ, **environment}, capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    return json.loads(done.stdout) if done.returncode == 0 else None


# All of them.


def measure(folder: Path, columns: list[str], runs: int) -> dict[str, dict[str, dict[str, float]]]:
    found: dict[str, dict[str, dict[str, float]]] = {}
    for what in ("import", "read", "load", "diff", "history"):
        taken = [column for column in columns if what != "load" or column == "bai"]
        samples: dict[str, list[dict[str, float]]] = {column: [] for column in taken}
        for _ in range(runs):
            for column in taken:
                sample = once(column, what, folder)
                if sample is None:
                    raise SystemExit(f"{what} by {column} failed")
                samples[column].append(sample)
        found[what] = {column: _medians(each) for column, each in samples.items()}
    return found


def _medians(samples: list[dict[str, float]]) -> dict[str, float]:
    return {key: round(statistics.median(each[key] for each in samples), 3) for key in samples[0]}


def attacks(folder: Path, root: Path, columns: list[str]) -> dict[str, dict[str, float | bool]]:
    programs = root / "bin"
    programs.mkdir()
    for name in ("git", "sh", "sleep"):
        (programs / name).symlink_to(shutil.which(name) or name)
    sha256 = root / "sha256"
    git("init", "--quiet", "--object-format=sha256", "-b", "last", str(sha256))
    (sha256 / "a.yaml").write_text(HEAD)
    git("-C", str(sha256), "add", ".")
    git("-C", str(sha256), "-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "x")
    words = f"alias.hang=!sleep {HANGS}"
    found: dict[str, dict[str, float | bool]] = {"hang": {}, "other objects": {}, "sha256": {}}
    for column in columns:
        if column in ("bai", "gitpython commands"):
            sample = once(column, "hang", folder, words, PATH=str(programs))
            found["hang"][column] = round(sample["wall"], 1) if sample else False
        elsewhere = once(column, "read", folder, GIT_OBJECT_DIRECTORY=str(sha256 / ".git" / "objects"))
        found["other objects"][column] = elsewhere is not None
        found["sha256"][column] = once(column, "read", sha256) is not None
    return found


def main() -> None:
    parser = parser_of("git_reading", __doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--child", nargs=4)
    chosen = parser.parse_args()
    if chosen.child:
        child(*chosen.child)
        return
    columns = [column for column, module in COLUMNS.items() if importlib.util.find_spec(module)]
    for column in COLUMNS.keys() - set(columns):
        print(f"{column}: left out (pip install {column.split()[0]})")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "repository.git"
        make_repository(folder)
        figures = measure(folder, columns, chosen.runs)
        promises = attacks(folder, Path(place), columns)
    print(f"{'':10}{'':20}{'CPU s':>8}{'wall s':>8}{'MiB':>7}{'CPU, times bai':>16}")
    for what, by in figures.items():
        for column, took in by.items():
            ratio = took["cpu"] / by["bai"]["cpu"]
            print(f"{what:10}{column:20}{took['cpu']:8.3f}{took['wall']:8.3f}{took['mib']:7.0f}{ratio:16.2f}")
    for what, outcomes in promises.items():
        print(f"{what}: {', '.join(f'{column} {outcome}' for column, outcome in outcomes.items())}")
    keep({"figures": figures, "attacks": promises}, chosen.json)


if __name__ == "__main__":
    main()
