"""Asking replicas whether they answer: `questions` says whom and what, `ask` does it (`http_status` for
HTTP), `standing` makes a readiness of the answers; `prober` asks again and again, `one_round` once."""
