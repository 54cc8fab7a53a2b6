"""The manifests that a kernel consists of, and what they are called. Pure."""
