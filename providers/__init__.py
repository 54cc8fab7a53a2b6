"""Hands on the world. Read `base` first: the seam that every agent provider implements; `abilities` and
`images` are what some can do besides.

`process` and `docker` run kernels, `machines` reaches nodes, `storage` has volumes; `ansible` provisions,
`condition`, `health` and `probe` look at nodes, `gpu` enforces parts of GPUs; `registry_client`, `forge` and
`secret_stores` speak with services.
"""
