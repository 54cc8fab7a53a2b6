"""The way of requests to apps: Caddy, the questions that it asks, connections to kernels. Read `app_proxy`
first."""
