"""Starts Ansible with the module archives of earlier runs.

    python -P launch.py FOLDER PROGRAM ARGUMENTS...

Ansible packs a module with all that it imports before it sends it, which takes a quarter of a second for each
kind of module and is kept for one process only. FOLDER stands in place of that process's own: Ansible locks
what it writes there, and puts it in place whole.
"""

from __future__ import annotations

import contextlib
import os
import sys


def main() -> None:
    folder = sys.argv.pop(1)
    from ansible import constants
    from ansible.__main__ import main as ansible

    # An Ansible that keeps its archives elsewhere is as slow as ever, and otherwise the same.
    with contextlib.suppress(OSError):
        os.symlink(folder, os.path.join(constants.DEFAULT_LOCAL_TMP, "ansiballz_cache"))
    ansible()


if __name__ == "__main__":
    main()
