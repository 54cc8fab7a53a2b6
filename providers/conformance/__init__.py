"""What every provider promises, as tests that any provider can be put to: `docs/plugins.md` has an example.

Read `harness` first: what the tests have to know of a provider. `suite` is the class to inherit; each other
module has the promises of one kind. Only a test imports these, so that only a test needs pytest.
"""
