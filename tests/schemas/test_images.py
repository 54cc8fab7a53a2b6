"""Registry and Image documents: which image a session means, where it comes from, and what it needs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.images.facts import ImageFacts, ImagePlatform
from schemas.images.labels import parse_labels
from schemas.images.requirements import ImageRequirements, image_requirements
from schemas.loading.loader import load_directory
from schemas.problems.errors.repository import InvalidRepository
from schemas.repository.repository import Repository
from schemas.values.image_reference import parse_reference

BASE = """
apiVersion: bai/v1
kind: Cluster
metadata: {name: lab}
spec: {provider: docker}
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {name: all}
spec: {}
---
apiVersion: bai/v1
kind: Project
metadata: {name: vision}
spec: {}
"""


def document(kind: str, name: str, spec: str) -> str:
    project = ", project: vision" if kind == "Session" else ""
    return f"\n---\napiVersion: bai/v1\nkind: {kind}\nmetadata: {{name: {name}{project}}}\nspec: {spec}\n"


@pytest.fixture
def load(tmp_path: Path):  # type: ignore[no-untyped-def]
    def read(*documents: str) -> Repository:
        (tmp_path / "all.yaml").write_text(BASE + "".join(documents))
        return load_directory(tmp_path)

    return read


def problems(load, *documents: str) -> list[str]:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidRepository) as caught:
        load(*documents)
    return [
        f"{problem.code} {problem.path} {problem.message}; {problem.hint}"
        for problem in caught.value.problems
    ]


LAB = document("Registry", "lab", "{address: 'reg.lab:5000'}")


def test_a_session_means_an_image_by_name_or_by_reference(load) -> None:  # type: ignore[no-untyped-def]
    repository = load(LAB, document("Image", "torch", "{registry: lab, reference: 'team/torch:2'}"))
    image = repository.images.find("torch")
    assert image is not None
    assert image is repository.images.find("reg.lab:5000/team/torch:2")
    assert repository.images.find("team/torch:2") is None
    assert str(repository.images.reference_of(image)) == "reg.lab:5000/team/torch:2"


@pytest.mark.parametrize("reference", ["reg.lab:5000/team/torch:2", "team/torch:2"])
def test_the_address_may_be_repeated(load, reference: str) -> None:  # type: ignore[no-untyped-def]
    repository = load(LAB, document("Image", "torch", f"{{registry: lab, reference: '{reference}'}}"))
    image = repository.images.find("torch")
    assert image is not None
    assert str(repository.images.reference_of(image)) == "reg.lab:5000/team/torch:2"


def test_another_address_is_refused(load) -> None:  # type: ignore[no-untyped-def]
    for reference in ("other.lab/torch:2", "docker.io/library/torch:2"):
        found = problems(
            load, LAB, document("Image", "torch", f"{{registry: lab, reference: '{reference}'}}")
        )
        assert len(found) == 1
        assert "Registry/lab is reg.lab:5000" in found[0]


def test_a_slip_in_a_name_is_not_taken_for_an_image_of_docker_hub(load) -> None:  # type: ignore[no-untyped-def]
    torch = document("Image", "pytorch", "{reference: 'reg.lab/torch:2'}")
    found = problems(load, torch, document("Session", "s", "{image: pytroch}"))
    assert found == [
        "BAI-V040 spec.image there is no Image 'pytroch'; did you mean 'pytorch'? "
        "For the one of Docker Hub write library/pytroch:latest"
    ]
    for fine in ("busybox", "pytroch:latest", "pytorch", "reg.lab/pytroch"):
        load(torch, document("Session", "s", f"{{image: '{fine}'}}"))


def test_a_slip_in_a_clusters_default(load) -> None:  # type: ignore[no-untyped-def]
    default = document("Cluster", "other", "{provider: docker, defaults: {image: pytroch}}")
    torch = document("Image", "pytorch", "{reference: 'reg.lab/torch:2'}")
    found = problems(load, default, torch)
    assert any("spec.defaults.image" in line and "did you mean 'pytorch'" in line for line in found)


def test_what_is_no_reference_is_refused_where_containers_run(load) -> None:  # type: ignore[no-untyped-def]
    found = problems(load, document("Session", "s", "{image: 'Torch:2.4'}"))
    assert found == ["BAI-V040 spec.image 'Torch:2.4' is not an image reference; did you mean 'torch:2.4'?"]


def test_amounts_that_the_image_does_not_allow_are_refused(load) -> None:  # type: ignore[no-untyped-def]
    image = document(
        "Image", "i", "{reference: 'r.io/i:1', minimum: {memory: 4GiB, cuda.device: 1}, maximum: {cpu: 8}}"
    )
    found = problems(load, image, document("Session", "s", "{image: i, resources: {cpu: 16, memory: 1GiB}}"))
    assert [line.partition("; ")[0] for line in found] == [
        "BAI-V054 spec.resources main1 has 0 cuda.device, and image i needs at least 1 cuda.device",
        "BAI-V054 spec.resources main1 has 16 cpu, and image i takes at most 8 cpu",
        "BAI-V054 spec.resources main1 has 1GiB of memory, and image i needs at least 4GiB of memory",
    ]
    load(image, document("Session", "s", "{image: i, resources: {cuda.shares: 0.5}}"))


def test_registries_that_are_not_safe_are_said_loudly(load) -> None:  # type: ignore[no-untyped-def]
    for spec in ("{address: reg.lab, plainHttp: true}", "{address: reg.lab, insecure: true}"):
        warnings = load(document("Registry", "lab", spec)).warnings
        assert [warning.code for warning in warnings] == ["BAI-V091"]
        assert "NOT SAFE" in warnings[0].message


def test_a_password_is_not_sent_in_clear_text(load) -> None:  # type: ignore[no-untyped-def]
    spec = "{{address: '{}', plainHttp: true, credentials: {{username: u, passwordFrom: 'env/P'}}}}"
    for address in ("reg.lab:5000", "10.0.0.1:5000", "[fd00::1]:5000"):
        found = problems(load, document("Registry", "lab", spec.format(address)))
        assert "clear text" in found[0]
    for address in ("localhost:5000", "127.0.0.1:5000", "[::1]:5000", "localhost"):
        load(document("Registry", "lab", spec.format(address)))


@pytest.mark.parametrize(
    ("kind", "spec", "code"),
    [
        ("Registry", "{address: 'https://reg.lab/'}", "BAI-V033"),
        ("Registry", "{address: reg.lab, projects: [a]}", "BAI-V034"),
        ("Registry", "{address: reg.lab, plainHttp: true, caFrom: a/b}", "BAI-V034"),
        ("Registry", "{address: reg.lab, credentials: {passwordFrom: 'env/P'}}", "BAI-V034"),
        ("Registry", "{address: reg.lab, credentials: {username: u, passwordFrom: secret}}", "BAI-V033"),
        ("Image", "{reference: 'a b'}", "BAI-V033"),
        ("Image", "{reference: x, minimum: {cpu: 4}, maximum: {cpu: 2}}", "BAI-V032"),
        ("Image", "{reference: x, prePull: {}}", "BAI-V050"),
        ("Image", "{reference: x, prePull: {all: true, nodeSelector: {a: b}}}", "BAI-V034"),
        ("Image", "{reference: x, prePull: {all: true}, pullPolicy: never}", "BAI-V034"),
        ("Image", "{reference: x, prePull: {nodes: [nowhere]}}", "BAI-V040"),
        ("Image", "{reference: x, registry: nowhere}", "BAI-V040"),
        ("Image", "{reference: x, labels: {ai.backend.resource.min.mem: lots}}", "BAI-V032"),
    ],
)
def test_mistakes(load, kind: str, spec: str, code: str) -> None:  # type: ignore[no-untyped-def]
    assert [line.split()[0] for line in problems(load, document(kind, "x", spec))] == [code]


def test_one_image_is_described_once(load) -> None:  # type: ignore[no-untyped-def]
    found = problems(
        load,
        document("Image", "a", "{reference: busybox}"),
        document("Image", "b", "{reference: 'busybox:latest'}"),
    )
    assert "Image/a is the same image" in found[0]


def test_the_registry_that_names_an_image_comes_first(load) -> None:  # type: ignore[no-untyped-def]
    repository = load(
        document("Registry", "all", "{address: reg.lab}"),
        document("Registry", "team", "{address: reg.lab, serves: ['team/*']}"),
    )
    for text, name in (("reg.lab/team/x", "team"), ("reg.lab/x", "all")):
        found = repository.images.registry_of(parse_reference(text))
        assert found is not None
        assert found.name == name
    assert repository.images.registry_of(parse_reference("other/x")) is None
    again = document("Registry", "b", "{address: reg.lab}")
    assert (
        "serves the same images" in problems(load, document("Registry", "a", "{address: reg.lab}"), again)[0]
    )


LABELS = {
    "ai.backend.resource.min.cpu": "2",
    "ai.backend.resource.min.mem": "512m",
    "ai.backend.resource.min.cuda.shares": "0.5",
    "ai.backend.resource.max.cpu": "8",
    "ai.backend.accelerators": "cuda, rocm",
    "ai.backend.service-ports": "jupyter:http:8888,vscode:http:[8180,8181],odd",
    "bai.min.mem": "1g",
}


def test_labels_are_read_as_backend_ai_writes_them() -> None:
    found = parse_labels(LABELS)
    assert found.minimum == {"cpu": 2000, "mem": 1 << 30, "cuda.shares": 500}
    assert found.maximum == {"cpu": 8000}
    assert found.accelerators == ("cuda", "rocm")
    assert found.ports == (("jupyter", "http", 8888), ("vscode", "http", 8180), ("vscode", "http", 8181))
    assert found.unreadable == ("ai.backend.service-ports",)


@given(st.dictionaries(st.sampled_from([*LABELS, "bai.min.x", "bai.max.cuda.device"]), st.text(max_size=12)))
def test_no_label_breaks_the_reading(labels: dict[str, str]) -> None:
    found = parse_labels(labels)
    assert all(amount >= 0 for amount in (*found.minimum.values(), *found.maximum.values()))


def facts(labels: dict[str, str], *architectures: str) -> ImageFacts:
    digest = "sha256:" + "a" * 64
    platforms = {name: ImagePlatform(digest=digest, size=1, labels=labels) for name in architectures}
    return ImageFacts(reference="r.io/i:1", digest=digest, platforms=platforms)


def test_the_document_comes_before_the_labels_slot_by_slot(load) -> None:  # type: ignore[no-untyped-def]
    image = load(document("Image", "i", "{reference: 'r.io/i:1', minimum: {cpu: 1}}")).images.find("i")
    found = image_requirements("i", image, facts(LABELS, "amd64", "arm64"))
    assert found.minimum == {"cpu": 1000, "mem": 1 << 30, "cuda.shares": 500}
    assert found.machines == {"x86_64", "aarch64"}
    assert image_requirements("i", None, None) == ImageRequirements("i")


def test_devices_that_an_image_cannot_use_are_refused() -> None:
    found = ImageRequirements("i", accelerators=("cuda",))
    assert list(found.refusals({"rocm.device": 1, "cuda.device": 1, "tpu.device": 0})) == [
        "has rocm devices, and image i can use cuda"
    ]
