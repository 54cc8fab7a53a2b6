"""Whether a node still is what it was provisioned to be, found out without Ansible.

A finished provisioning leaves a seal on the node. Read `values.py` (the seal, and a node's condition),
`fingerprint.py` (when a seal is the seal of a profile), `node/` (runs on the node: seals and compares) and
`ask.py` (asks all nodes at the same time).
"""
