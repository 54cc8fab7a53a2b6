"""deploy/kubernetes/serve.yaml, made from the chart of deploy/helm: `make manifests`. It takes the helm that
`scripts/helm.sh` builds.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.lab.cache import LabUnavailable  # noqa: E402
from tests.lab.helm import program, template_command  # noqa: E402

VALUES = ROOT / "deploy" / "helm" / "plain-values.yaml"
MANIFEST = ROOT / "deploy" / "kubernetes" / "serve.yaml"
HEAD = """\
# `bai serve` in the cluster that it looks after, without Helm (docs/kubernetes-server.md): `make manifests`
# makes it from deploy/helm/bai. The namespace bai-system with its Secrets comes first; image, git.example,
# db.example and the access file in the ConfigMap are to be changed.
"""


def manifest() -> str:
    """What `kubectl apply` takes. Raises LabUnavailable, CalledProcessError."""
    words = template_command(program(), VALUES)
    done = subprocess.run(words, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    return HEAD + done.stdout


def main() -> int:
    try:
        MANIFEST.write_text(manifest(), encoding="utf-8")
    except LabUnavailable as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
