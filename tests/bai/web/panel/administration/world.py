"""`two_projects` with users and quotas, of which a viewer of one project sees what is theirs."""

from __future__ import annotations

from tests.bai.web.lab import Lab
from tests.bai.web.panel.rendering import SECRET, theirs, two_projects
from tests.reconciler.lab import session

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


def managed(lab: Lab) -> None:
    """After some passes: `p` borrows a core, and one of its sessions is held back by a quota."""
    lab.write("people", PEOPLE)
    lab.write("ada", session("adas", "resources: {cpu: 1, memory: 1GiB}, owner: ada, preemptible: true"))
    lab.write("eve", theirs(f"{SECRET}-eves", f"resources: {{cpu: 1, memory: 2GiB}}, owner: {SECRET}-eve"))
    lab.write("quotas", QUOTAS)
    two_projects(lab)
