"""What `/sys` and `/proc` say about a machine, as a plain dictionary in the shape of
`schemas.hardware.model.Hardware`.

Standard library only and Python 3.8 syntax: the same modules run on a cluster node inside the probe's zipapp,
and here on
a snapshot. Nothing here opens a file: a `Tree` is handed in. Read `machine.py` first.
"""
