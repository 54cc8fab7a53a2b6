"""Asking a registry who has signed an image."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from bai.cli.output import print_json, print_line
from bai.render.humanize import clean

if TYPE_CHECKING:
    from reconciler.observe.images import ResolveSecret
    from schemas.repository.repository import Repository
    from schemas.values.image_reference import ImageReference
    from schemas.values.public_keys import PublicKey


def verify_image(
    repository: Repository, secret: ResolveSecret, name: str, files: tuple[Path, ...], *, as_json: bool
) -> bool:
    """True when one of the keys has signed what the image means now. Raises NoSuchResource, CannotRead,
    RegistryError, SecretMissing."""
    from providers.registry_client.client import RegistryClient
    from reconciler.observe.images import access_to

    reference = _resolve_reference(repository, name)
    keys = _read_keys(files)
    access = access_to(repository, reference, secret)
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
    print_line(f"{clean(reference.short)} is {exact.digest}")
    for file, one in signers:
        named = f", which called it {clean(one.named, 200)}" if one.named else ""
        print_line(f"  signed by {clean(str(file))} ({one.key.kind}, {one.key.fingerprint}){named}")
    if not signed:
        why = "; ".join(refused) or "its registry has no signature of it"
        print(f"{clean(reference.short)} is signed by none of these keys: {clean(why)}", file=sys.stderr)
    return bool(signed)


def _resolve_reference(repository: Repository, name: str) -> ImageReference:
    """An Image's name, or any reference: one need not be used yet to be verified."""
    from schemas.problems.errors.command import NoSuchResource

    name = name.removeprefix("Image/")
    wrong = repository.images.mistake(name)
    if wrong is not None:
        raise NoSuchResource(what="image", name=clean(name), hint=wrong[1])
    return repository.images.resolve(name)


def _read_keys(files: tuple[Path, ...]) -> Mapping[Path, PublicKey]:
    from schemas.files.regular_files import read_regular_file
    from schemas.problems.errors.repository import CannotRead
    from schemas.values.public_keys import LARGEST_KEY, parse_public_key

    found = {}
    for file in files:
        try:
            found[file] = parse_public_key(read_regular_file(file, LARGEST_KEY).decode())
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise CannotRead(what=str(file), why=why or str(error)) from None
    return found
