"""What a Kubernetes cluster's documents cannot say: of its sessions, and of its volumes."""
