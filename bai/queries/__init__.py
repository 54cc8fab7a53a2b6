"""What reading commands ask of a cluster, and what they are answered: here, or by a server."""
