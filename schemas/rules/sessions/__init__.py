"""What sessions ask for, and which of it goes with the other documents."""
