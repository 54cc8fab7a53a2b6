"""`python -m tests.fuzz TARGET`: inputs led by coverage (atheris, which is LLVM's libFuzzer for Python).

What is found is written to `tests/fuzz/found/TARGET`, where each run of the tests tries it again; what covers
something new is kept in `--corpus`, and begun with the next time. Ends with 0 when nothing is found.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
from pathlib import Path

from tests.fuzz.targets import FOUND, TARGETS

HANGS = 30
"""Seconds after which one input counts as a hang."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--seconds", type=int, default=0, help="0: no end")
    parser.add_argument("--runs", type=int, default=-1, help="inputs; -1: no end")
    parser.add_argument("--seed", type=int, default=0, help="of chance; 0: another one each time")
    parser.add_argument("--corpus", type=Path, help="a folder (default: a new one)")
    parser.add_argument("--found", type=Path, help="a folder for what is found")
    parser.add_argument("--largest", type=int, default=8192, metavar="BYTES", help="of an input")
    chosen = parser.parse_args()

    import atheris

    target = TARGETS[chosen.target]
    with atheris.instrument_imports(include=list(target.packages)):
        feed = target.make()
    corpus = chosen.corpus or Path(tempfile.mkdtemp(prefix="bai-fuzz-"))
    corpus.mkdir(parents=True, exist_ok=True)
    for seed in target.seeds():
        if len(seed) <= chosen.largest:
            (corpus / hashlib.sha256(seed).hexdigest()[:16]).write_bytes(seed)
    found = chosen.found or FOUND / chosen.target
    found.mkdir(parents=True, exist_ok=True)
    words = [
        f"-max_total_time={chosen.seconds}", f"-runs={chosen.runs}", f"-seed={chosen.seed}",
        f"-max_len={chosen.largest}",
        f"-timeout={HANGS}", "-rss_limit_mb=2048", f"-artifact_prefix={found}/", "-print_final_stats=1",
        "-use_value_profile=1",
    ]  # fmt: skip
    atheris.Setup([sys.argv[0], *words, str(corpus)], feed)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
