"""`bai serve --demo`: a cluster that exists only in this process, where a day of work goes on by itself.

Everything but the machines is real: git commits of several people, the loop that follows them, plans, the
store and the pages. The machines are those of examples/clusters/dgx-h100; the fake provider stands for them.
"""
