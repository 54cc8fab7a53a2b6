"""Asking a registry who has signed an image."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from bai.cli.output import emit, print_json
from bai.render.humanize import clean

if TYPE_CHECKING:
    from reconciler.workspace.workspace import Workspace
    from schemas.values.image_reference import ImageReference
    from schemas.values.public_keys import PublicKey


def verify_image(workspace: Workspace, name: str, files: tuple[Path, ...], *, as_json: bool) -> bool:
    """True when one of the keys has signed what the image means now. Raises NoSuchResource, CannotRead,
    RegistryError, SecretMissing."""
    from providers.registry_client.client import RegistryClient
    from reconciler.observe.images import access_to

    reference = _meant(workspace, name)
    keys = _keys(files)
    access = access_to(workspace.repository, reference, workspace.secrets.infrastructure)
    with RegistryClient(access) as client:
        exact = reference.at(client.facts(reference).digest)
        signed, refused = client.signatures(exact, tuple(keys.values()))
    by = {one.key.fingerprint: one for one in signed}
    signers = [(file, by[key.fingerprint]) for file, key in keys.items() if key.fingerprint in by]
    if as_json:
        found = [
            {"key": str(file), "fingerprint": one.key.fingerprint, "type": one.key.kind, "named": one.named}
            for file, one in signers
        ]
        print_json(
            "bai.signatures/v1", reference=str(reference), digest=exact.digest, signers=found,
            refused=list(refused),
        )  # fmt: skip
        return bool(signed)
    emit(f"{clean(reference.short)} is {exact.digest}")
    for file, one in signers:
        named = f", which called it {clean(one.named, 200)}" if one.named else ""
        emit(f"  signed by {clean(str(file))} ({one.key.kind}, {one.key.fingerprint}){named}")
    if not signed:
        why = "; ".join(refused) or "its registry has no signature of it"
        print(f"{clean(reference.short)} is signed by none of these keys: {clean(why)}", file=sys.stderr)
    return bool(signed)


def _meant(workspace: Workspace, name: str) -> ImageReference:
    """An Image's name, or any reference: one need not be used yet to be verified."""
    from schemas.images.resolution import mistaken, resolve
    from schemas.problems.errors import NoSuchResource

    name = name.removeprefix("Image/")
    wrong = mistaken(workspace.repository, name)
    if wrong is not None:
        raise NoSuchResource(what="image", name=clean(name), hint=wrong[1])
    return resolve(workspace.repository, name)


def _keys(files: tuple[Path, ...]) -> Mapping[Path, PublicKey]:
    from schemas.files.plain_files import read_plain
    from schemas.problems.errors import CannotRead
    from schemas.values.public_keys import LARGEST_KEY, read_key

    found = {}
    for file in files:
        try:
            found[file] = read_key(read_plain(file, LARGEST_KEY).decode())
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise CannotRead(what=str(file), why=why or str(error)) from None
    return found
