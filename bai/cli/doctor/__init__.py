"""The checks of `bai doctor`: `all_checks` has their order, `check` says what a finding is."""
