"""How documents call the machine that bai itself runs on."""

LOCAL_ADDRESSES = frozenset({"localhost", "127.0.0.1", "::1"})
