"""One kernel onto one node, exactly. Read `mapping` first; `fractional` chooses parts of devices, `amounts`
divides cores and memory, `placement_builder` turns a mapping into CPU numbers and device ids.
"""
