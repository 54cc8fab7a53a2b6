"""How much is asked of services (`sources`), and the autoscaler that says how many replicas that needs
(`autoscaler`)."""
