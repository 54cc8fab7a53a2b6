"""Every store that there is: what one of them does, all do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reconciler.store.database.address import StoreAddress
from reconciler.store.store import Store
from tests.lab.postgres import Server

MakeAddress = Callable[..., StoreAddress]


@pytest.fixture(params=["sqlite", "postgresql"])
def engine_name(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def new_address(engine_name: str, request: pytest.FixtureRequest, tmp_path: Path) -> MakeAddress:
    """Makes addresses of stores that are not there yet (`empty`), or were never used."""
    return maker(engine_name, request, tmp_path)


def maker(engine_name: str, request: pytest.FixtureRequest, tmp_path: Path) -> MakeAddress:
    made: list[StoreAddress] = []

    def make(*, empty: bool = False) -> StoreAddress:
        if engine_name == "sqlite":
            found = StoreAddress(path=tmp_path / f"repository{len(made)}" / ".bai" / "store.db")
        else:
            server: Server = request.getfixturevalue("postgres")
            url = server.database(empty=empty)
            request.addfinalizer(lambda: server.drop(url))
            found = StoreAddress.parse(url, tmp_path / ".bai")
        made.append(found)
        return found

    return make


@pytest.fixture
def address(new_address: MakeAddress) -> StoreAddress:
    return new_address()


@pytest.fixture
def store(address: StoreAddress) -> Iterator[Store]:
    """Its leases go by the times that the tests name."""
    with Store.open(address, server_time=False) as opened:
        yield opened
