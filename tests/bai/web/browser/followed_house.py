"""The same cluster, following a git remote and waiting for approval: `bai serve` that people change."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.bai.web.browser.house import House, access_file, documents, environment_of, without_sessions
from tests.bai.web.browser.site import Visit
from tests.lab.browser import Chromium
from tests.lab.docker import IMAGE
from tests.lab.serve import Serve
from tests.reconciler.gitops.repositories import Pair, git

SESSION = """\
apiVersion: bai/v1
kind: Session
metadata: {{name: {name}, project: demo}}
spec:
  {image}
  command: [sleep, inf]
  resources: {{cpu: 100m, memory: 32MiB}}
  stop: {{grace: 0s}}
"""


@dataclass
class Followed(House):
    """`pair` has the working copy of somebody who pushes to what it follows."""

    provider: str
    server: Serve
    pair: Pair

    @property
    def image(self) -> str:
        return IMAGE if self.provider == "docker" else ""

    @property
    def head(self) -> str:
        """The newest commit of what is followed."""
        return self.newest("rev-parse", "origin/main")

    def newest(self, *words: str) -> str:
        """What git says, where it knows all that is pushed."""
        git(self.pair.work, "fetch", "--quiet", "origin")
        return git(self.pair.work, *words)

    def commit(self, files: dict[str, str | None], message: str) -> str:
        """On top of what is followed, pushed nowhere."""
        self.newest("reset", "--quiet", "--hard", "origin/main")
        return self.pair.commit(files, message)

    def session(self, name: str) -> str:
        image = f"image: {IMAGE}" if self.image else "type: interactive"
        return SESSION.format(name=name, image=image)

    def clear(self, text: str) -> None:
        """Nothing runs any more."""
        files = self.newest("ls-tree", "-r", "--name-only", "origin/main").split()
        self.server.ask("/resume", "POST")
        commit = self.commit(dict.fromkeys(files) | {"cluster.yaml": text}, "Nothing runs")
        self.pair.push()
        self.server.ask("/approve", "POST", commit=commit)
        self.server.until(lambda: not self.server.states(), "all sessions are gone")


@contextlib.contextmanager
def served(
    provider: str, node: dict[str, Any], pair: Pair, url: str, chromium: Chromium, *options: str, **more: str
) -> Iterator[Followed]:
    """`url`: of what `pair` pushes to; `more`: of the server's environment."""
    text, folder = documents(provider, node), pair.work.parent
    pair.commit({"cluster.yaml": text}, "A cluster")
    pair.push()
    words = ("--access", str(access_file(folder)), "--mode", "approve", *options)
    with Serve(folder / "serve", url, environment_of(folder) | more, *words, interval="1s") as server:
        server.until_runs("demo/talks")
        with chromium.reaching(int(server.url.rpartition(":")[2])):
            made = Followed(server.url, chromium, provider, server, pair)
            yield made
        made.clear(without_sessions(text))


@contextlib.contextmanager
def clean_visit(house: House, who: str) -> Iterator[Visit]:
    """On which nothing goes wrong."""
    visit = house.visit(who)
    yield visit
    assert not visit.problems, json.dumps(visit.problems, indent=1)
    visit.page.context.close()
