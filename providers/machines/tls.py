"""TLS with certificates and keys that are texts, for libraries that want files."""

from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import Iterator


@contextlib.contextmanager
def text_as_file(text: str) -> Iterator[str]:
    """The path of a file with this text, in memory and nowhere else, until the end."""
    with open(os.memfd_create("bai", os.MFD_CLOEXEC), "wb") as file:
        file.write(text.encode())
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"


def client_context(ca: str, cert: str = "", key: str = "") -> ssl.SSLContext:
    """Believes in these certificates (PEM), in the system's when empty, and shows ours. Raises ssl.SSLError
    for what is none."""
    with contextlib.ExitStack() as files:
        trust = ssl.create_default_context(cafile=files.enter_context(text_as_file(ca)) if ca else None)
        if cert and key:
            trust.load_cert_chain(
                files.enter_context(text_as_file(cert)), files.enter_context(text_as_file(key))
            )
    return trust
