"""Head-room of services: places that are held for replicas to come, lent to sessions that give way. Start
with `held_places`."""
