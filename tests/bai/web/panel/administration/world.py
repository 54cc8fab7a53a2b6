"""`two_projects` with all that administration is about; a viewer of one project sees of it what is theirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from providers.fake import FakeProvider
from providers.fake_provisioner import FakeNodes, FakeProvisioner
from providers.storage.nodes import NodeStorage
from reconciler.notify.news import News
from reconciler.notify.state import (
    Batch,
    DeliveryResult,
    NotifyState,
    Outbox,
    serialize_state,
    state_key,
)
from schemas.images.facts import ImageFacts, ImagePlatform
from tests.bai.web.lab import Lab
from tests.bai.web.panel.rendering import SECRET, theirs, two_projects
from tests.reconciler.lab import BASE, NODE, session
from tests.reconciler.nodes.lab import profile

PEOPLE = f"""
apiVersion: bai/v1
kind: User
metadata: {{name: ada}}
spec: {{fullName: Ada, email: ada@here.example, projects: [p]}}
---
apiVersion: bai/v1
kind: User
metadata: {{name: bob}}
spec: {{fullName: {SECRET} Bob, projects: [p, {SECRET}], active: false}}
---
apiVersion: bai/v1
kind: User
metadata: {{name: {SECRET}-eve}}
spec: {{fullName: {SECRET} Eve, email: eve@{SECRET}.example, projects: [{SECRET}]}}
"""
QUOTAS = f"""
apiVersion: bai/v1
kind: Quota
metadata: {{name: p-cores}}
spec: {{subject: {{project: p}}, total: {{cpu: 2}}, cohort: lab, pendingSessions: 7}}
---
apiVersion: bai/v1
kind: Quota
metadata: {{name: {SECRET}-cores}}
spec: {{subject: {{project: {SECRET}}}, total: {{cpu: 6}}, cohort: lab}}
---
apiVersion: bai/v1
kind: Quota
metadata: {{name: few}}
spec: {{subject: {{project: p}}, perSession: {{cuda.device: 1}}, concurrentSessions: 9}}
---
apiVersion: bai/v1
kind: Quota
metadata: {{name: {SECRET}-user}}
spec: {{subject: {{user: {SECRET}-eve}}, total: {{memory: 64GiB}}}}
"""
STORAGE = f"""
apiVersion: bai/v1
kind: StorageHost
metadata: {{{{name: disk}}}}
spec: {{{{root: {{root}}, node: n1}}}}
---
apiVersion: bai/v1
kind: Volume
metadata: {{{{name: data, project: p}}}}
spec: {{{{quota: 1GiB}}}}
---
apiVersion: bai/v1
kind: Volume
metadata: {{{{name: {SECRET}-data, project: {SECRET}}}}}
spec: {{{{}}}}
"""
HOOK = f"https://hooks.{SECRET}.example/services/T0/hush-hush-token"
"""An address that is a secret, as one that was sent to has it."""
TOLD = f"""
apiVersion: bai/v1
kind: Notification
metadata: {{name: ops}}
spec:
  to: {{slack: {{urlFrom: env/{SECRET.upper()}_HOOK}}}}
  events: [session-failed, session-waiting, node-lost]
  waiting: 10m
---
apiVersion: bai/v1
kind: Notification
metadata: {{name: people}}
spec:
  to: {{email: {{server: mail.here.example, from: bai@here.example, to: [ada@here.example],
                usernameFrom: env/MAIL_USER, passwordFrom: env/MAIL_PASSWORD}}}}
  events: [all]
  projects: [{SECRET}]
  over: false
  throttle: {{every: 1h, burst: 1, digest: false}}
"""
ADA = "mounts: [{volume: data, path: /data}], image: tool"
EVE = f"mounts: [{{volume: {SECRET}-data, path: /data}}], image: {SECRET}-tool"
IMAGES = f"""
apiVersion: bai/v1
kind: Registry
metadata: {{name: {SECRET}-hub}}
spec:
  address: 'hub.{SECRET}.example'
  credentials: {{usernameFrom: env/HUB_USER, passwordFrom: env/HUB_TOKEN}}
---
apiVersion: bai/v1
kind: Image
metadata: {{name: tool}}
spec: {{reference: 'docker.io/team/tool:1'}}
---
apiVersion: bai/v1
kind: Image
metadata: {{name: {SECRET}-tool}}
spec: {{registry: {SECRET}-hub, reference: '{SECRET}/tool:1'}}
"""
DIGEST = "sha256:" + "0123456789abcdef" * 4


def remember_images(lab: Lab) -> None:
    """As a registry has told it, and a key that has signed it."""
    platform = ImagePlatform(digest=DIGEST, size=3 << 30, layers=7)
    tagged = ImageFacts(reference="docker.io/team/tool:1", digest=DIGEST, platforms={"amd64": platform})
    signed = tagged.model_copy(
        update={"reference": f"docker.io/team/tool@{DIGEST}", "signers": ("SHA256:key-of-ada",)}
    )
    lab.workspace.store.save_images([tagged, signed], lab.world.clock.now())


def fill_outboxes(lab: Lab) -> None:
    """`ops` has failed, with an address in what was said, and has news to tell."""
    now = lab.world.clock.now()
    news = tuple(
        News(f"n{number}", "session-failed", "here", f"{SECRET} went to {HOOK}", now, f"Session/p/s{number}")
        for number in range(7)
    )
    last = DeliveryResult(now - 60, good=False, said=f"refused by {HOOK}", title=f"{SECRET} failed")
    box = Outbox(news[1:], 0, Batch(news[:1], tries=3, again=now + 90), (), last, sent=5, failed=3, lost=2)
    lab.workspace.store.set_meta(state_key("here"), serialize_state(NotifyState(boxes={"ops": box})))


def managed(lab: Lab) -> None:
    """After some passes: `p` borrows a core, and one of its sessions is held back by a quota."""
    lab.write("people", PEOPLE)
    lab.write(
        "ada", session("adas", f"resources: {{cpu: 1, memory: 1GiB}}, owner: ada, preemptible: true, {ADA}")
    )
    lab.write(
        "eve", theirs(f"{SECRET}-eves", f"resources: {{cpu: 1, memory: 2GiB}}, owner: {SECRET}-eve, {EVE}")
    )
    lab.write("quotas", QUOTAS)
    root = lab.folder.parent / "disk"
    root.mkdir()
    lab.workspace.storage = NodeStorage(lambda name: None)
    lab.write("storage", STORAGE.format(root=root))
    lab.write("images", IMAGES)
    remember_images(lab)
    lab.write("told", TOLD)
    fill_outboxes(lab)
    two_projects(lab)


MACHINES = ("n1", "n2", "n3", "n4")


def profiled(folder: Path, patch: pytest.MonkeyPatch) -> tuple[Lab, FakeNodes]:
    """Four nodes with a profile, none of them provisioned yet."""
    lab, machines = Lab(folder), FakeNodes(MACHINES)
    patch.setattr("providers.ansible.open_provisioner", lambda *a, **k: FakeProvisioner(machines))
    patch.setattr("providers.registry.open_provider", lambda *a, **k: FakeProvider(lab.world))
    lab.write("base", BASE.replace("spec: {provider: fake}", "spec: {provider: fake, profile: std}"))
    lab.write("nodes", "---".join(NODE.format(name=name) for name in MACHINES))
    lab.write("profile", profile())
    return lab, machines
