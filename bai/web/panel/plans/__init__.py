"""Plans, reviews, orders and history: what would change, who let it, and what came of it."""
