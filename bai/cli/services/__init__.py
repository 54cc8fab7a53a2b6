"""What commands do with services: `rollout_watch` waits, `rollout_orders` gives orders; `replica_logs` prints
what all replicas write, which `local_replicas` or `remote_replicas` find."""
