"""Looking at processes that come and go."""

from __future__ import annotations

import os
import subprocess
import uuid

from tests.harness.processes import child_called, having
from tests.waiting import until


def test_those_that_end_meanwhile_are_left_out() -> None:
    mark = uuid.uuid4().hex
    program = f"while :; do /bin/true {mark} & done & while :; do /bin/true {mark}; done"
    with subprocess.Popen(["sh", "-c", program], process_group=0) as shell:
        try:
            until(lambda: ["/bin/true", mark] in having(mark).values(), "one is seen")
            until(lambda: child_called(shell.pid, "true") is not None, "so is a child")
            assert shell.pid in having(mark)
        finally:
            os.killpg(shell.pid, 9)
    until(lambda: having(mark) == {}, "nothing is left")
    assert child_called(shell.pid, "true") is None
