"""Whom a command becomes, from what /proc says of the main process."""

from __future__ import annotations

import pytest

from providers.process.linux import procfs
from providers.process.supervision.identity import map_into_namespace, parse_identity

ALL = "         0          0 4294967295\n"
STATUS = (
    "Name:\tx\x0bUid:\t0\x0b\nUid:\t4242\t0\t0\t0\nGid:\t43\t43\t43\t43\nGroups:\t43 77 \n"
    "CapPrm:\t00000000000000ff\nCapBnd:\t000000000000000f\nNoNewPrivs:\t1\n"
)


def test_it_is_the_main_process_whatever_its_name() -> None:
    found = parse_identity(procfs.fields(STATUS), ALL, ALL)
    assert (found.uid, found.gid, found.groups) == (4242, 43, (43, 77))
    assert (found.inner_uid, found.inner_gid, found.no_new_privs) == (4242, 43, True)
    assert (found.power, found.bounding) == (0xF, 0xF)


@pytest.mark.parametrize(
    ("number", "mapping", "wanted"),
    [
        (4242, "0 4242 1", 0),
        (4242, "4242 4242 1", 4242),
        (5, "0 100 10\n20 3 4\n", 22),
        (0, "1234 0 1", 1234),
    ],
)
def test_a_number_is_what_its_namespace_calls_it(number: int, mapping: str, wanted: int) -> None:
    assert map_into_namespace(number, mapping) == wanted


@pytest.mark.parametrize("mapping", ["", "0 4243 1", "0 100 10"])
def test_a_number_that_the_namespace_lacks_is_nobodys(mapping: str) -> None:
    with pytest.raises(ValueError, match="no number for 4242"):
        map_into_namespace(4242, mapping)
