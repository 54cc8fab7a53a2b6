"""What a machine must have for a cluster."""

from __future__ import annotations

import tempfile

from tests.lab.cache import LabUnavailable, ran
from tests.lab.kubernetes.build import go
from tests.lab.spaces import hierarchies, what_lacks

_TRIAL = """
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"
mkdir "$1/lower" "$1/upper" "$1/work"
mount -t overlay -o "lowerdir=$1/lower,upperdir=$1/upper,workdir=$1/work" overlay "$1/lower"
"""


def why_not() -> str:
    """Why there can be no cluster here; empty when there can."""
    if lacks := what_lacks("runc", "busybox", "ip", "nsenter", "unshare", "setpriv"):
        return lacks
    try:
        go()
    except LabUnavailable as error:
        return str(error)
    if not hierarchies():
        return "no control groups are mounted"
    with tempfile.TemporaryDirectory() as folder:
        own = ["unshare", "--mount", "--pid", "--fork", "--mount-proc"]
        done = ran([*own, "sh", "-ec", _TRIAL, "sh", folder], timeout=60)
    return f"root may not mount here: {done.stderr.strip()}" if done.returncode else ""
