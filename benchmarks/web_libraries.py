"""Parts of the HTTP server beside libraries that do the same: what each promises, and what it costs.

    python -m benchmarks.web_libraries --json result.json

Keys of an identity provider, server-sent events, logs and limits of rates, for docs/adr/0024. Costs are CPU
time, medians of runs in turn. A library that is not installed is named, and left out.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from typing import Any

from benchmarks.results import parser_of, show
from benchmarks.web.event_streams import event_streams
from benchmarks.web.issuer_keys import issuer_keys
from benchmarks.web.quiet_logs import quiet_logs
from benchmarks.web.rate_limits import rate_limits

PARTS: dict[str, Callable[[], dict[str, Any]]] = {
    "issuer keys": issuer_keys,
    "event streams": event_streams,
    "quiet logs": quiet_logs,
    "rate limits": rate_limits,
}
OPTIONAL = {"limits": "limits", "pyrate_limiter": "pyrate-limiter"}


def main() -> None:
    parser = parser_of("web_libraries", __doc__)
    parser.add_argument("parts", nargs="*", default=[*PARTS], help=", ".join(PARTS))
    given = parser.parse_args()
    missing = [name for module, name in OPTIONAL.items() if importlib.util.find_spec(module) is None]
    if missing:
        print(f"left out: pip install {' '.join(missing)}", file=sys.stderr)
    show({name: PARTS[name]() for name in given.parts}, given.json)


if __name__ == "__main__":
    main()
