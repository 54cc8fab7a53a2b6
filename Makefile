# The two commands of the README are `make demo` and `make test`; both set up .venv themselves.
# They presuppose git, make and Python >= 3.11.
.PHONY: help demo test setup coverage lint docs docs-serve generate docker-lab docker-lab-down bare-metal-lab bare-metal-lab-down bench clean

help:
	@echo "make demo      see the main job happen on this machine, and leave nothing behind"
	@echo "make test      every check and test"
	@echo "make coverage  which lines the tests reach"
	@echo "make setup     only the development environment in .venv"
	@echo "make lint      lint, types and import arrows"
	@echo "make generate  refresh what is generated: reference pages, pictures, JSON schemas, arguments of roles"
	@echo "make docs      build the documentation into site/"
	@echo "make docker-lab       four Docker nodes on this machine for examples/clusters/docker-lab (root)"
	@echo "make docker-lab-down  take them away"
	@echo "make bare-metal-lab   three bare machines on this machine for examples/clusters/bare-metal-lab (root)"
	@echo "make bare-metal-lab-down  take them away"
	@echo "make bench     run the benchmarks"

demo:
	@scripts/setup.sh run
	@.venv/bin/python scripts/demo.py

test:
	@scripts/test.sh </dev/null

setup:
	@scripts/setup.sh dev

coverage: setup
	.venv/bin/python -m pytest -n 2 --dist loadgroup -q --reruns 1 --cov --cov-report=term

lint: setup
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/lint-imports --no-logo

generate: setup
	.venv/bin/python -m schemas.json_schema
	.venv/bin/python scripts/gen_roles.py
	.venv/bin/python scripts/gen_docs.py
	.venv/bin/python scripts/gen_server.py
	.venv/bin/python scripts/gallery.py

docs: setup
	.venv/bin/mkdocs build --strict --quiet

docs-serve: setup
	.venv/bin/mkdocs serve

docker-lab:
	@scripts/setup.sh dev
	@.venv/bin/python scripts/labs.py docker-lab up

docker-lab-down:
	@.venv/bin/python scripts/labs.py docker-lab down

bare-metal-lab:
	@scripts/setup.sh dev
	@.venv/bin/python scripts/labs.py bare-metal-lab up

bare-metal-lab-down:
	@.venv/bin/python scripts/labs.py bare-metal-lab down

bench: setup
	.venv/bin/python -m benchmarks.startup
	.venv/bin/python -m benchmarks.sessions
	.venv/bin/python -m benchmarks.throughput
	.venv/bin/python -m benchmarks.locality --topologies tests/data/topology
	.venv/bin/python -m benchmarks.store

clean:
	rm -rf .venv site build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage*
