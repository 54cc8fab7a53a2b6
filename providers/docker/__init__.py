"""Kernels as containers of Docker engines, one engine per node (20.10 and later).

Read `provider` first: what is asked of a provider and where each part of the answer is. `container` makes and
removes one kernel's container, `observe` (pure) says what the engine's answer means to us, `fleet` asks all
nodes, `labels` keeps who a kernel belongs to. `engine` talks to one node's engine; `interaction` is what a
person does with a container that runs.
"""
