"""Services: `pattern` says what their replicas are, `readiness` how these answer, `state` what is remembered
of a service, `status` what a plan makes of it."""
