"""All resources of one directory or commit. `repository` answers which cluster, group or host each belongs
to: read it first. `storage_nodes`, `node_ranges` and `declared_stores` answer the same for volumes, pools,
secrets.
"""
