"""Making a kernel's pod and what it needs (`create`), ending it (`end`), and finding it (`find`)."""
