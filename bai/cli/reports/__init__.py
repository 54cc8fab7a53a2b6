"""`bai report`: what sessions held over a time, and what one used of it."""
