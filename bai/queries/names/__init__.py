"""What people mean by the words they type."""
