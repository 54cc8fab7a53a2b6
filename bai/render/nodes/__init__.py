"""Nodes: `picture` says what each core and GPU is used for, `picture_text` and `svg` draw that; `rows`
lists nodes.
"""
