"""Plans and placements as JSON in one normal form, and the fingerprint of the state that a plan was made
from."""
