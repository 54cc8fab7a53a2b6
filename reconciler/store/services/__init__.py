"""What people want in place of services' documents: how it is written and read."""
