"""The files of a first repository."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

from schemas.problems.errors.command import AlreadyThere
from schemas.problems.errors.repository import CannotRead

CLUSTER = """\
# This machine is the cluster: sessions are native processes, pinned to its cores.
# `bai doctor` says which limits can be enforced here.
apiVersion: bai/v1
kind: Cluster
metadata: {name: home}
spec:
  provider: process
---
apiVersion: bai/v1
kind: Node
metadata: {name: NODE}
spec:
  resourceGroup: default
  address: localhost
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {name: default}
spec:
  queue: fifo
  selection: concentrated
"""

TENANCY = """\
# Who uses the cluster. A project belongs to a domain, a session to a project.
apiVersion: bai/v1
kind: Domain
metadata: {name: default}
spec: {}
---
apiVersion: bai/v1
kind: Project
metadata: {name: demo}
spec:
  domain: default
"""

SESSION = """\
# A first session: half a core, a little memory, and a program that tells what it was given.
# Change something, and `bai plan` says what that would do.
apiVersion: bai/v1
kind: Session
metadata: {name: hello, project: demo}
spec:
  type: interactive
  resources: {cpu: 500m, memory: 256MiB}
  command:
    - python3
    - -u
    - -c
    - |
      import os, time
      print("hello from", os.environ["BACKENDAI_CLUSTER_HOST"], "on cores", sorted(os.sched_getaffinity(0)))
      while True:
          time.sleep(60)
"""

IGNORE = """\
# What bai remembers of this clone; see `bai state`.
.bai/
"""

IGNORE_FILE = ".gitignore"
SCHEMA = "bai.schema.json"


def scaffold(root: Path) -> list[Path]:
    """Write the files below `root`; gives their paths.

    Raises AlreadyThere, before anything is written, when one of them or any other document exists.
    """
    files = _files()
    if root.exists() and not root.is_dir():
        raise CannotRead(what=root, why="it is not a directory")
    _refuse_documents(root)
    for name in files:
        if (root / name).exists():
            raise AlreadyThere(path=root / name, hint="choose an empty directory")
    written = []
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        written.append(path)
    if ignore_store(root):
        written.append(root / IGNORE_FILE)
    return written


def ignore_store(root: Path) -> bool:
    """Have git leave the store alone; whether that had to be written."""
    path = root / IGNORE_FILE
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    if ".bai/" in before.splitlines():
        return False
    path.write_text(before.rstrip("\n") + "\n\n" + IGNORE if before else IGNORE, encoding="utf-8")
    return True


def _refuse_documents(root: Path) -> None:
    found = next((path for end in ("yaml", "yml") for path in sorted(root.glob(f"*.{end}"))), None)
    if found is not None:
        raise AlreadyThere(path=found, hint="`bai init` starts a repository where there is none")


def _files() -> dict[str, str]:
    from schemas.loading.json_schema import union_schema

    documents = {
        "cluster.yaml": CLUSTER.replace("NODE", node_name()),
        "tenancy.yaml": TENANCY,
        "sessions/hello.yaml": SESSION,
    }
    made = {name: _modeline(name) + text for name, text in documents.items()}
    made[SCHEMA] = json.dumps(union_schema(), indent=1) + "\n"
    return made


def _modeline(name: str) -> str:
    up = "../" * name.count("/")
    return f"# yaml-language-server: $schema={up}{SCHEMA}\n"


def node_name(hostname: str | None = None) -> str:
    """This machine's host name where that is a name for a node, else `localhost`."""
    name = (hostname if hostname is not None else socket.gethostname()).split(".")[0].lower()
    return name if re.fullmatch(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", name) else "localhost"
