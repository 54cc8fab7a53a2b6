"""One node's Docker engine. Read `engine` first (requests, the version of the API), then `connection` (how it
is reached) and `http`; `hijack` is for streams both ways, `errors` makes errors of bai of what goes wrong.
"""
