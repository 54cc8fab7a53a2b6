"""GPUs that device plugins count, on nodes where no DRA driver publishes them. `offers` is what nodes have,
`use` who has how many, `count_ledger` the same at any moment."""
