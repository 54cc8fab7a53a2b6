"""Registries of container images: the OCI distribution API, and Harbor's own.

`access.py` says who is asked and how, `transport.py` sends requests and turns what fails into errors,
`auth.py` answers challenges, `manifests.py` (pure) reads manifests, `client.py` and `harbor.py` ask.
"""
