"""The nodes of a resource group. Read `node_table` first: arrays over all of them, changed in transactions;
then `feasibility`. `fragmentation` says what free devices are worth, `metrics` and `free_devices` what a
person sees.
"""
