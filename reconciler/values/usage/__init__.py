"""What sessions held and used over time. Pure.

Read `allocations` first: what is written down when something is given back. `totals` adds that up over a
time, `efficiency` sets against it what was used.
"""
