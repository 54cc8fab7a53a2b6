"""`bai apply --yes`, with CPU time, peak memory, and what it asks of an API server.

    python -m benchmarks.counted_apply FOLDER --json result.json

Imports no more than the command itself, which is part of what is measured.
"""

from __future__ import annotations

import logging
import re
import resource
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.results import keep, parser_of

_OBJECT = re.compile(r"/(?:api|apis/[^/]+)/v1/(?:namespaces/[^/]+/)?([a-z]+)(?:/[^/?]+)?(?:/([a-z]+))?")


class Requests(logging.Handler):
    """What this process asks the API server, by verb and kind."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.seen: Counter[str] = Counter()
        logger = logging.getLogger("urllib3.connectionpool")
        logger.addHandler(self)
        logger.setLevel(logging.DEBUG)
        logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        if isinstance(record.args, tuple) and len(record.args) == 8:
            method, url = str(record.args[3]), str(record.args[4])
            found = _OBJECT.match(url)
            kind = "/".join(filter(None, found.groups())) if found else url
            self.seen[f"{'WATCH' if 'watch=1' in url else method} {kind}"] += 1


def apply(folder: Path) -> dict[str, Any]:
    from bai.cli.main import run

    requests = Requests()
    begin = time.perf_counter()
    code = run(["-C", str(folder), "apply", "--yes"])
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "code": code,
        "applied_s": round(time.perf_counter() - begin, 2),
        "cpu_s": round(used.ru_utime + used.ru_stime, 2),
        "peak_mib": round(used.ru_maxrss / 1024),
        "requests": dict(requests.seen.most_common()),
    }


def main() -> None:
    parser = parser_of("counted_apply", __doc__)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    found = apply(given.folder)
    keep(found, given.json)
    sys.exit(found["code"])


if __name__ == "__main__":
    main()
