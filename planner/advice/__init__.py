"""What a person may want to know or change: read `capacity` first (what still fits), then `defragment`
(moves), `repartition` (MIG layouts) and `node_shortfalls` (how close nodes come to a session that waits).
"""
