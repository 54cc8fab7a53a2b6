"""What pages show, as values: made of a view of the cluster, and nothing of requests or HTML."""
