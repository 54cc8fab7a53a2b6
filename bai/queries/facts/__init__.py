"""What several answers are made of."""
