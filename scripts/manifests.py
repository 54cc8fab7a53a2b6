"""deploy/kubernetes/serve.yaml, made from the chart of deploy/helm: `make manifests`. `scripts/helm.sh` builds
the helm that it needs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHART, VALUES = ROOT / "deploy" / "helm" / "bai", ROOT / "deploy" / "helm" / "plain-values.yaml"
MANIFEST = ROOT / "deploy" / "kubernetes" / "serve.yaml"
NAMESPACE, KUBERNETES = "bai-system", "1.36.3"
HEAD = """\
# `bai serve` in the cluster that it looks after, without Helm (docs/kubernetes-server.md): made from deploy/helm/bai
# by `make manifests`. The namespace bai-system with its Secrets comes first; image, git.example and db.example below
# are to be changed, and the access file in the ConfigMap.
"""


def helm() -> str:
    """The path of the newest one in the cache. Raises FileNotFoundError."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    found = sorted((base / "bai-lab").glob("helm-*/helm"))
    if not found:
        raise FileNotFoundError("helm is not built: scripts/helm.sh does that")
    return str(found[-1])


def manifest(program: str) -> str:
    """What `kubectl apply` takes. Raises CalledProcessError."""
    words = ["--namespace", NAMESPACE, "--kube-version", KUBERNETES, "--values", str(VALUES)]
    command = [program, "template", "bai", str(CHART), *words]
    done = subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    return HEAD + done.stdout


def main() -> int:
    try:
        MANIFEST.write_text(manifest(helm()), encoding="utf-8")
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
