"""`bai images verify`, with a real registry and signatures of the real cosign."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bai.test_images_scan import bai
from tests.lab.cosign import Cosign
from tests.lab.registry import StartRegistry
from tests.schemas.test_images import BASE, document


def test_who_signed_is_told(
    registry: StartRegistry, cosign: Cosign, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = registry()
    cosign.key("release")
    cosign.key("nightly")
    digest = lab.push("tool:1")
    cosign.sign("release", f"{lab.address}/tool@{digest}")
    there = document("Registry", "lab", f"{{address: '{lab.address}', plainHttp: true}}")
    image = document("Image", "tool", "{registry: lab, reference: 'tool:1'}")
    (tmp_path / "all.yaml").write_text(BASE + there + image)
    keys = ["--key", str(cosign.file("release")), "--key", str(cosign.file("nightly"))]
    told = bai(tmp_path, capsys, "images", "verify", "tool", *keys)
    assert told.splitlines()[0] == f"{lab.address}/tool:1 is {digest}"
    assert f"signed by {cosign.file('release')} (ECDSA P-256, sha256:" in told
    assert f"called it {lab.address}/tool" in told
    assert "nightly" not in told
    found = json.loads(bai(tmp_path, capsys, "images", "verify", "tool", *keys, "-o", "json"))
    assert (found["digest"], [one["key"] for one in found["signers"]]) == (digest, [str(keys[1])])
    refused = bai(tmp_path, capsys, "images", "verify", f"{lab.address}/tool:1", *keys[2:], code=1)
    assert "is signed by none of these keys: it was made with another key" in refused
    wrong = bai(tmp_path, capsys, "images", "verify", "tool", "--key", str(tmp_path / "no.pub"), code=1)
    assert "no.pub" in wrong and "No such file" in wrong
    private = cosign.work / "release.key"
    assert "private key" in bai(tmp_path, capsys, "images", "verify", "tool", "--key", str(private), code=1)
    assert "did you mean 'tool'" in bai(tmp_path, capsys, "images", "verify", "tol", *keys, code=1)


def test_a_key_that_is_none_is_told_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = "{guards: {images: {signatures: [{keys: [nonsense]}]}}}"
    (tmp_path / "all.yaml").write_text(BASE + document("Policy", "origin", rules))
    told = bai(tmp_path, capsys, "validate", code=1)
    line = (tmp_path / "all.yaml").read_text().splitlines()
    at = next(number for number, text in enumerate(line, 1) if "nonsense" in text)
    assert f"all.yaml:{at}:" in told and "it is no public key in PEM" in told
