"""A folder of documents that people change, again and again."""

from __future__ import annotations

import os
from pathlib import Path

import yaml
from hypothesis import strategies as st

from tests.schemas.examples import HARDWARE

CLUSTER = """\
apiVersion: bai/v1
kind: Cluster
metadata: {{name: {name}}}
spec: {{provider: docker, defaults: {{env: {{LEVEL: "{level}"}}, image: {image}, resourceGroup: {group}}}}}
"""
GROUP = "apiVersion: bai/v1\nkind: ResourceGroup\nmetadata: {{name: {name}}}\n"
ROOT_GROUP = GROUP + "spec: {{allowRoot: true}}\n"
PROJECT = "apiVersion: bai/v1\nkind: Project\nmetadata: {name: vision}\n"
SESSION = """\
apiVersion: bai/v1
kind: Session
metadata: {{name: {name}, project: vision}}
spec: {{command: [a], resources: {{cpu: {cpu}}}{more}}}
"""
TEMPLATE = """\
apiVersion: bai/v1
kind: SessionTemplate
metadata: {{name: form, project: vision}}
spec:
  parameters: {{n: {{type: integer, default: {n}}}}}
  session: {{command: [a, "{{{{ n }}}}"], resources: {{cpu: 1}}}}
"""
SWEEP = """\
apiVersion: bai/v1
kind: Sweep
metadata: {{name: tries, project: vision}}
spec: {{template: form, over: {{n: [{values}]}}}}
"""
SERVICE = """\
apiVersion: bai/v1
kind: Service
metadata: {{name: {name}, project: vision}}
spec: {{replicas: {replicas}, template: {{{template}}}{more}}}
"""
IMAGE = "apiVersion: bai/v1\nkind: Image\nmetadata: {{name: tool}}\nspec: {{reference: r.io/tool:{tag}}}\n"
POOL = """\
apiVersion: bai/v1
kind: NodePool
metadata: {{name: pool}}
spec: {{namePattern: "gpu-[01-0{last}]", addressPattern: "10.0.0.[1-{last}]", hardwareFrom: {capture}}}
"""
CAPTURE = yaml.safe_dump({name: value for name, value in HARDWARE.items() if name != "unknown"})
OTHER_CAPTURE = CAPTURE.replace("x86_64", "aarch64")
_FROM = SESSION.format(name="s4", cpu=1, more="").replace(
    "command: [a], resources: {cpu: 1}", "from: {template: form}"
)
_MORE = (
    *("", ", image: tool", ", dependsOn: [Session/vision/s1]", ", colour: red", ", resourceGroup: g2"),
    ", container: {user: root}",
)
_TEMPLATES = (
    *(
        "command: [a]",
        "command: [a], ports: [{name: api, port: 80}]",
        "from: {template: form}",
        "type: batch",
    ),
    *("resourceGroup: g2", "dependsOn: [Session/vision/s1]", "image: tool"),
)
_CAPTURES = ("captured.yaml", "sub/captured.yaml", "none.yaml")
_NO_DOCUMENTS = ("", "# nothing\n", "a: [", "a: 1\n", "kind: Session\n")
_NUMBER = st.integers(1, 3)
_LINK = st.sampled_from(["session-1.yaml", "/etc/passwd", "nowhere.yaml", "sub"])
TEXTS = st.one_of(
    st.builds(
        CLUSTER.format,
        name=st.sampled_from(["lab", "other"]),
        level=_NUMBER,
        image=st.sampled_from(["tool", "r.io/x:1"]),
        group=st.sampled_from(["g1", "g2"]),
    ),
    st.builds(GROUP.format, name=st.sampled_from(["g1", "g2"])),
    st.builds(ROOT_GROUP.format, name=st.sampled_from(["g1", "g2"])),
    st.just(PROJECT),
    st.builds(
        SESSION.format, name=st.sampled_from(["s1", "s2", "s3"]), cpu=_NUMBER, more=st.sampled_from(_MORE)
    ),
    st.just(_FROM),
    st.builds(TEMPLATE.format, n=_NUMBER),
    st.builds(SWEEP.format, values=st.sampled_from(["1", "1, 2", "x"])),
    st.builds(
        SERVICE.format,
        name=st.sampled_from(["web", "s1"]),
        replicas=_NUMBER,
        template=st.sampled_from(_TEMPLATES),
        more=st.sampled_from(["", ", readiness: {tcp: {port: api}}"]),
    ),
    st.builds(IMAGE.format, tag=_NUMBER),
    st.builds(POOL.format, last=_NUMBER, capture=st.sampled_from(_CAPTURES)),
    st.sampled_from([CAPTURE, OTHER_CAPTURE, *_NO_DOCUMENTS]),
)
"""What may stand in a file."""
_FILES = ("cluster", "service", "group", "project", "session-1", "session-2", "form", "captured", "more")
_NAMES = [f"{name}.yaml" for name in _FILES]
PATHS = st.sampled_from([*_NAMES, *(f"sub/{name}" for name in _NAMES)])
Edit = tuple[str, str, str]
EDITS = st.one_of(
    st.tuples(st.just("write"), PATHS, st.lists(TEXTS, min_size=1, max_size=3).map("---\n".join)),
    st.tuples(st.just("remove"), PATHS, st.just("")),
    st.tuples(st.just("link"), PATHS, _LINK),
    st.just(("nothing", "", "")),
)  # fmt: skip
START: list[Edit] = [
    ("write", "cluster.yaml", CLUSTER.format(name="lab", level=1, image="tool", group="g1")),
    ("write", "group.yaml", GROUP.format(name="g1") + "---\n" + GROUP.format(name="g2")),
    ("write", "project.yaml", PROJECT + "---\n" + IMAGE.format(tag=1)),
    ("write", "session-1.yaml", SESSION.format(name="s1", cpu=1, more="")),
    ("write", "session-2.yaml", SESSION.format(name="s2", cpu=1, more=", dependsOn: [Session/vision/s1]")),
    ("write", "form.yaml", TEMPLATE.format(n=1) + "---\n" + SWEEP.format(values="1, 2")),
    ("write", "captured.yaml", CAPTURE),
    (
        "write",
        "service.yaml",
        SERVICE.format(name="web", replicas=2, template="from: {template: form}", more=""),
    ),
    ("write", "more.yaml", POOL.format(last=3, capture="captured.yaml")),
]
"""A repository that is sound."""


def make(folder: Path, edit: Edit) -> None:
    """Carry it out."""
    how, name, text = edit
    path = folder / name
    if how == "nothing":
        return
    path.parent.mkdir(exist_ok=True)
    if how != "write" or path.is_symlink():
        path.unlink(missing_ok=True)
    if how == "write":
        path.write_text(text, encoding="utf-8")
    elif how == "link":
        os.symlink(text, path)
