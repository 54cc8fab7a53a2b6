"""Placement as a pure function: no input or output, no clock, no chance.

Read `model.types` for the values that go in and come out, then `place`, the one entry, and `resource_group`,
one group's part of a plan. The folders, each built on those before it:

`model` (values, slots, one machine's topology), `environment` (the variables of a placed kernel), `devices`
(one kernel onto one node, exactly), `nodes` (the nodes of a group as arrays), `admission` (quotas,
reservations, what holds a session back), `queue` (who is tried first), `selection` (which node), `waiting`
(why not and until when, backfill, preemption), `batch` (the whole queue packed at once), `advice` (capacity,
moves, MIG layouts), `simulation` (traces in virtual time). `policies` says which queue and selection
policies are built in.
"""
