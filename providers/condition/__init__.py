"""Whether a node still is what it was provisioned to be, found out without Ansible.

A finished provisioning leaves a stamp on the node (`seal.json`). Read `values` (the stamp, and a node's
condition), `fingerprint` (when a stamp is that of a profile), `node` (runs on the node: writes the stamp and
compares) and `query` (asks all nodes at the same time).
"""
