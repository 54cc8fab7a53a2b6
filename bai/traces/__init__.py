"""Traces in files: what people asked of a cluster, and when."""
