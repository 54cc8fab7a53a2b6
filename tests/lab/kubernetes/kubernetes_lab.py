"""A cluster on this machine for people: two nodes, and the way to them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tests.lab.kubernetes.api import CORE
from tests.lab.kubernetes.lab import Kubernetes
from tests.lab.kubernetes.permissions import until_granted

MANIFEST = Path(__file__).resolve().parents[3] / "deploy" / "kubernetes" / "rbac.yaml"


@contextlib.contextmanager
def permit(lab: Kubernetes) -> Iterator[None]:
    """With the namespace, service account and permissions of `deploy/kubernetes`, and a PersistentVolume of
    the class `lab` that an administrator has made: a folder that all nodes have."""
    lab.kubectl("apply", "-f", str(MANIFEST))
    until_granted(lab.api, MANIFEST)
    account = f"{CORE}/namespaces/bai/serviceaccounts/default"
    lab.api.until(account, lambda _: True, "pods may be created")
    given = lab.folder / "given"
    given.mkdir(exist_ok=True)
    given.chmod(0o777)
    spec = {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"], "storageClassName": "lab",
        "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": str(given)},
    }  # fmt: skip
    lab.api.create(f"{CORE}/persistentvolumes", {"metadata": {"name": "lab"}, "spec": spec})
    try:
        yield
    finally:
        lab.kubectl("delete", "persistentvolume", "lab", "--wait=false")
        lab.kubectl("delete", "-f", str(MANIFEST), "--ignore-not-found")
        # It goes once it is known that its claim has gone, and the next one has its name.
        lab.api.gone(f"{CORE}/persistentvolumes/lab", "the volume")


@contextlib.contextmanager
def kubernetes_lab(folder: Path) -> Iterator[Kubernetes]:
    """`folder` becomes a link to the lab's own, with `kubeconfig` and programs in `bin`. Needs root. Raises
    LabUnavailable, FileExistsError."""
    with contextlib.closing(Kubernetes()) as lab:
        lab.pair()
        (lab.folder / "kubeconfig").symlink_to(lab.kubeconfig)
        (lab.folder / "bin").symlink_to(lab.programs)
        folder.symlink_to(lab.folder)
        try:
            with permit(lab):
                yield lab
        finally:
            folder.unlink()
