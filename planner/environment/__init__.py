"""What a placed kernel is told of its place. Read `variables` first; `network_variables` has what follows
from the network, `cufile_file` and `nccl_topology_file` the files for storage and for NCCL.
"""
