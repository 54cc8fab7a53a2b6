"""What each session needs, before anybody is placed. Read `decision` first: the needs that there are, then
`decide_sessions`, which puts together what documents (`session_needs`), nodes and time (`lifecycle`), a
person (`replace_requests`) and the health of GPUs (`node_health`) ask for.
"""
