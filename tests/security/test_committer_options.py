"""Who may commit gives options to plugins that declare a schema of them: the schema is the owner's, what it
judges is not."""

from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from schemas.loading.loader import load_directory
from schemas.plugins.entry_points import QUEUE
from schemas.plugins.options import DEEPEST, LONGEST, MOST_ISSUES, MOST_VALUES, option_issues
from schemas.problems.errors.repository import InvalidRepository
from tests.lab.plugins import SitePackages, site_packages

__all__ = ["site_packages"]

RECURSIVE = {"properties": {"a": {"$ref": "#"}}}
SLOW = {
    "unique": {"properties": {"a": {"uniqueItems": True}}},
    "odd": {
        "additionalProperties": {"pattern": "^(a|ab|b|ba)+$"},
        "propertyNames": {"pattern": "^([a-z0-9]+)+$"},
    },
    "branching": {"anyOf": [{**RECURSIVE, "required": ["y"]}, {**RECURSIVE, "required": ["z"]}]},
}


def nested(levels: int) -> dict[str, object]:
    found: dict[str, object] = {}
    for _ in range(levels):
        found = {"a": found}
    return found


@pytest.mark.parametrize("schema", SLOW)
@pytest.mark.parametrize(
    "options",
    [
        {"a": [{"k": at} for at in range(MOST_VALUES // 2 - 2)]},
        {"a": [{"k": at} for at in range(100_000)]},
        {f"n{at}{'a' * 900}": "ab" * (LONGEST // 2 - 1) + "!" for at in range(400)},
        {"a": "ab" * 500_000},
        nested(DEEPEST),
        nested(60),
    ],
    ids=["many", "too many", "long", "too long", "deep", "too deep"],
)
def test_options_take_no_time(schema: str, options: dict[str, object]) -> None:
    list(option_issues({}, {}, ()))  # The library is imported by now.
    begin = time.process_time()
    found = list(option_issues(SLOW[schema], options, ("spec",)))
    assert time.process_time() - begin < 8
    assert len(found) <= MOST_ISSUES


def test_a_schema_is_not_fetched() -> None:
    asked: list[str] = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/schema.json"
        for schema in ({"$ref": url}, {"$dynamicRef": url}, {"$id": url, "$ref": "other.json"}):
            (issue,) = option_issues(schema, {"a": 1}, ("spec",))
            assert "the plugin's options_schema cannot be used" in issue.message
        assert list(option_issues({"$schema": url}, {"a": 1}, ("spec",))) == []
    finally:
        server.shutdown()
    assert asked == []


def test_words_of_options_drive_no_terminal(tmp_path: Path, site_packages: SitePackages) -> None:
    schema = {"properties": {"a": {"enum": ["b"]}}, "additionalProperties": False}
    text = f"def queue(): ...\nqueue.options_schema = {schema}"
    site_packages.install("queue_of_a_test", text, QUEUE, "painter", "queue")
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "bai.yaml").write_text(
        "apiVersion: bai/v1\nkind: ResourceGroup\nmetadata: {name: main}\n"
        'spec: {queue: painter, queueOptions: {plugin: {"\\e[2J": 1, a: "\\e]0;x\\a"}}}\n'
    )
    with pytest.raises(InvalidRepository) as caught:
        load_directory(tmp_path / "r")
    told = "\n".join(str(problem) for problem in caught.value.problems)
    assert "unknown option" in told and "is not one of" in told and "\x1b" not in told and "\x07" not in told
