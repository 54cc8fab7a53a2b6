"""What the rules about versions rest on: order of versions, generations of GPUs, profiles of MIG."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.hardware.generations import first_driver, gpu_generation, has_switches, needs_open
from schemas.hardware.mig import PRODUCTS, instances_fit, products_of, profile_of
from schemas.profile.versions.gpus import first_with_mig
from schemas.profile.versions.version_numbers import (
    driver_branch,
    is_older,
    upstream_version,
    version_numbers,
)

STEADY = settings(deadline=None, derandomize=True, database=None)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("550.90.07", "550.90.12"),
        ("550.90.07", "550.127.05"),
        ("1:450.80.02-0ubuntu1", "550.54.15"),
        ("20.10.24+dfsg1-1+deb12u1", "25.0"),
        ("6.1.0-25-amd64", "6.2"),
        ("1.9", "1.12"),
    ],
)
def test_older(one: str, two: str) -> None:
    assert is_older(one, two)
    assert not is_older(two, one)


@STEADY
@given(
    st.lists(st.integers(0, 999), min_size=1, max_size=4),
    st.lists(st.integers(0, 999), min_size=1, max_size=4),
)
def test_versions_are_in_order(one: list[int], two: list[int]) -> None:
    a, b = (".".join(map(str, parts)) for parts in (one, two))
    assert is_older(a, b) + is_older(b, a) <= 1
    assert not is_older(a, f"{a}.0")
    assert version_numbers(f"1:{a}-1") == tuple(one)


def test_parts_of_a_version() -> None:
    assert driver_branch("550.90.07") == 550
    assert driver_branch("latest") == 0
    assert upstream_version("1:550.90.07-0ubuntu1") == "550.90.07"


@pytest.mark.parametrize(
    ("model", "generation"),
    [
        ("NVIDIA H100 80GB HBM3", "Hopper"),
        ("NVIDIA H100 NVL", "Hopper"),
        ("NVIDIA H200", "Hopper"),
        ("NVIDIA H20", "Hopper"),
        ("NVIDIA GH200 480GB", "Hopper"),
        ("NVIDIA GB200", "Blackwell"),
        ("NVIDIA B200", "Blackwell"),
        ("NVIDIA B300 SXM6 AC", "Blackwell"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "Blackwell"),
        ("NVIDIA GeForce RTX 5090", "Blackwell"),
        ("NVIDIA L40S", "Ada"),
        ("NVIDIA L4", "Ada"),
        ("NVIDIA RTX 6000 Ada Generation", "Ada"),
        ("NVIDIA GeForce RTX 4090", "Ada"),
        ("NVIDIA A100-SXM4-80GB", "Ampere"),
        ("NVIDIA A100 80GB PCIe", "Ampere"),
        ("NVIDIA A10G", "Ampere"),
        ("NVIDIA A2", "Ampere"),
        ("NVIDIA RTX A6000", "Ampere"),
        ("NVIDIA GeForce RTX 3090 Ti", "Ampere"),
        ("Tesla T4", "Turing"),
        ("Quadro RTX 6000", "Turing"),
        ("NVIDIA TITAN RTX", "Turing"),
        ("NVIDIA GeForce GTX 1660 SUPER", "Turing"),
        ("Tesla V100-SXM2-32GB", "Volta"),
        ("NVIDIA TITAN V", "Volta"),
        ("Tesla P100-PCIE-16GB", "Pascal"),
        ("Tesla P4", "Pascal"),
        ("NVIDIA GeForce GTX 1080 Ti", "Pascal"),
        ("NVIDIA TITAN Xp", "Pascal"),
        ("Tesla M60", "Maxwell"),
        ("Tesla K80", "Kepler"),
        ("Tesla K40m", "Kepler"),
        ("AMD Instinct MI300X", None),
        ("Rubin R100", None),
    ],
)
def test_generations(model: str, generation: str | None) -> None:
    found = gpu_generation(model)
    assert (found.name if found else None) == generation


def test_what_a_generation_needs() -> None:
    assert needs_open("NVIDIA B200")
    assert needs_open("NVIDIA GH200 480GB")
    assert not needs_open("NVIDIA H100 80GB HBM3")
    assert first_driver("NVIDIA B200") == "570.133.20"
    assert first_driver("Tesla T4") == "410.48"
    assert first_driver("Rubin R100") is None
    assert has_switches("NVIDIA H100 80GB HBM3", 8)
    assert not has_switches("NVIDIA H100 80GB HBM3", 4)
    assert has_switches("NVIDIA A100-SXM4-40GB", 8)
    assert has_switches("NVIDIA B200", 8)
    assert not has_switches("NVIDIA A100 80GB PCIe", 8)
    assert not has_switches("NVIDIA H200 NVL", 8)
    assert not has_switches("H100", 8)
    assert not has_switches("NVIDIA L40S", 8)


MOST = {
    "A30 24": {"1g.6gb": 4, "2g.12gb": 2, "4g.24gb": 1},
    "A100 40": {"1g.5gb": 7, "1g.10gb": 4, "2g.10gb": 3, "3g.20gb": 2, "4g.20gb": 1, "7g.40gb": 1},
    "H100 80": {"1g.10gb": 7, "1g.20gb": 4, "2g.20gb": 3, "3g.40gb": 2, "4g.40gb": 1, "7g.80gb": 1},
    "H100 94": {"1g.12gb": 7, "1g.24gb": 4, "2g.24gb": 3, "3g.47gb": 2, "4g.47gb": 1, "7g.94gb": 1},
    "H200 141": {"1g.18gb": 7, "1g.35gb": 4, "2g.35gb": 3, "3g.71gb": 2, "4g.71gb": 1, "7g.141gb": 1},
    "GH200 144": {"1g.18gb": 7, "1g.36gb": 4, "2g.36gb": 3, "3g.72gb": 2, "4g.72gb": 1, "7g.144gb": 1},
    "B200 180": {"1g.23gb": 7, "1g.45gb": 4, "2g.45gb": 3, "3g.90gb": 2, "4g.90gb": 1, "7g.180gb": 1},
    "GB200 189": {"1g.24gb": 7, "1g.47gb": 4, "2g.47gb": 3, "3g.95gb": 2, "4g.95gb": 1, "7g.189gb": 1},
    "B300 269": {"1g.34gb": 7, "1g.67gb": 4, "2g.67gb": 3, "3g.135gb": 2, "4g.135gb": 1, "7g.269gb": 1},
    "RTX PRO 6000 96": {"1g.24gb": 4, "2g.48gb": 2, "4g.96gb": 1},
}
"""Most instances of each profile on one GPU, as NVIDIA's tables have them."""


@pytest.mark.parametrize("name", MOST)
def test_as_many_instances_fit_as_nvidia_says(name: str) -> None:
    model, _, memory = name.rpartition(" ")
    product = next(one for one in products_of(model) if one.memory == int(memory))
    assert set(product.profiles) == set(MOST[name])
    for profile, most in MOST[name].items():
        assert instances_fit(product, {profile: most})
        assert not instances_fit(product, {profile: most + 1})


@pytest.mark.parametrize(
    ("instances", "fit"),
    [
        ({"3g.40gb": 1, "4g.40gb": 1}, True),
        ({"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 2}, True),
        ({"3g.40gb": 2, "1g.10gb": 1}, False),
        ({"4g.40gb": 1, "2g.20gb": 1, "1g.10gb": 1}, True),
        ({"2g.20gb": 3, "1g.10gb": 1}, True),
        ({"1g.10gb+me": 1, "1g.10gb": 6}, True),
        ({"1g.10gb+me": 2}, False),
        ({"1g.10gb+me": 1, "1g.20gb+me": 1}, False),
        ({"1g.5gb": 1}, False),
        ({}, True),
    ],
)
def test_mixed_layouts(instances: dict[str, int], fit: bool) -> None:
    (h100,) = products_of("NVIDIA H100 80GB HBM3")
    assert instances_fit(h100, instances) is fit


def test_products_by_name_and_memory() -> None:
    assert [one.memory for one in products_of("H100")] == [80, 94, 96]
    assert [one.memory for one in products_of("A100-SXM4-40GB")] == [40]
    assert [one.memory for one in products_of("NVIDIA H100 NVL", 95_830 << 20)] == [94]
    assert [one.memory for one in products_of("NVIDIA H200", 143_771 << 20)] == [141]
    assert [one.memory for one in products_of("NVIDIA B200", 183_359 << 20)] == [180]
    assert [one.memory for one in products_of("NVIDIA A100X", 81_559 << 20)] == [80]
    assert products_of("NVIDIA L40S") == ()


def test_every_product_has_its_places_and_its_first_driver() -> None:
    for product in PRODUCTS:
        assert all(profile_of(product, name) for name in product.profiles)
    for model in ("A30", "A100", "H100", "H20", "H200", "GH200", "B200", "GB200", "B300", "RTX PRO 6000"):
        assert first_with_mig(f"NVIDIA {model}") is not None
    assert first_with_mig("NVIDIA L40S") is None
