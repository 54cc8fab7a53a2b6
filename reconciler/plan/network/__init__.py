"""How the kernels of a session reach each other. Read `session_networks` first: which network a session
gets in its place, and which ports; `kernel_connections` is what that means for each kernel.
"""
