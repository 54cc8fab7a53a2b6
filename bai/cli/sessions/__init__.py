"""What is done with sessions that are there: `find` is how each command gets to one.

`transfer`, `port_forwarding`, `logs` and `usage_samples` are what `bai cp`, `port-forward`, `logs` and `top`
do.
"""
