"""Traces in files, what people asked of a cluster and when: read `load` first; `queue_file` and `openb`
are formats.
"""
