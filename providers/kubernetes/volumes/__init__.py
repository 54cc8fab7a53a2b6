"""What is done about volumes beside the pods that mount them. Read `storage` first."""
