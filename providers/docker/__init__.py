"""Kernels as containers of Docker engines, one engine per node (20.10 and later).

Read `provider.py` first: what is asked of a provider and where each part of the answer is. `config.py` (pure)
says what a kernel's spec means to the engine, `observe.py` (pure) what the engine's answer means to us,
`engine.py` talks to one node's engine, `labels.py` keeps who a kernel belongs to.
"""
