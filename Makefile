# The commands of the README are `make demo`, `make demo-panel` and `make test`; all set up .venv themselves.
# They presuppose git, make and Python >= 3.11.
.PHONY: help demo demo-panel test campaigns test-quick test-times test-flaky test-newest mutants simulate fuzz lock sbom setup coverage lint docs docs-serve generate screens screens-panel manifests docker-lab docker-lab-down bare-metal-lab bare-metal-lab-down kubernetes-lab kubernetes-lab-down bench clean

help:
	@echo "make demo      see the main job happen on this machine, and leave nothing behind"
	@echo "make demo-panel   see the panel: a simulated cluster in your browser, where a day of work goes on: LISTEN=127.0.0.1:8080"
	@echo "make test      every check and test that this machine can run, but campaigns"
	@echo "make campaigns what chance decides, many times over: a minute of fuzzing each, 450 more simulated lives, all examples of property tests; the quickstart on bare machines; bai serve in a cluster"
	@echo "make test-quick   only tests that need no root and no engine; for a part: scripts/test.sh -k NAME"
	@echo "make test-times   the same as make test, and where its time went"
	@echo "make test-flaky   what uses engines, nodes or processes, again and again beside busy loops: N=10 LOAD=4 ARGS='tests/integration -k docker'"
	@echo "make test-newest  with the newest of everything in place of what is locked"
	@echo "make lock      lock the newest of everything (requirements/)"
	@echo "make sbom      bill of materials of the wheel (CycloneDX) into dist/; with IMAGE=NAME of that image too"
	@echo "make coverage  which lines the tests reach"
	@echo "make mutants   which small changes to the code no test notices: AREA=planner SAMPLE=200 SEED=0"
	@echo "make simulate  simulated lives of a cluster, each from one seed: SEEDS=10000"
	@echo "make fuzz      inputs of strangers, led by coverage: TARGET=loader|importers|expressions|plan|access|webhook|api SECONDS=3600"
	@echo "make setup     only the development environment in .venv"
	@echo "make lint      lint, types and import arrows"
	@echo "make generate  refresh what is generated: reference pages, pictures, JSON schemas, arguments of roles"
	@echo "make screens   draw the screens of docs/gallery anew, as the commands print them now"
	@echo "make screens-panel   take the pictures of the panel anew, of its demo (Chromium)"
	@echo "make manifests make deploy/kubernetes/serve.yaml from the Helm chart (scripts/helm.sh builds helm)"
	@echo "make docs      build the documentation into site/"
	@echo "make docker-lab       four Docker nodes on this machine for examples/clusters/docker-lab (root)"
	@echo "make docker-lab-down  take them away"
	@echo "make bare-metal-lab   three bare machines on this machine for examples/clusters/bare-metal-lab (root)"
	@echo "make bare-metal-lab-down  take them away"
	@echo "make kubernetes-lab   a Kubernetes cluster of two nodes on this machine (root, Go; the first time it builds for ten minutes)"
	@echo "make kubernetes-lab-down  take it away"
	@echo "make bench     run the benchmarks"

demo:
	@scripts/setup.sh run
	@.venv/bin/python scripts/demo.py

LISTEN ?= 127.0.0.1:8080
demo-panel:
	@scripts/setup.sh server
	@exec .venv/bin/bai serve --demo --listen $(LISTEN)

test:
	@scripts/test.sh </dev/null

campaigns:
	@scripts/test.sh --campaigns

test-quick:
	@scripts/test.sh --quick

test-times:
	@scripts/test.sh --times

N ?= 10
LOAD ?= 4
test-flaky: setup
	.venv/bin/python scripts/flaky.py --runs $(N) --load $(LOAD) $(if $(ARGS),-- $(ARGS))

test-newest:
	@BAI_TEST_LEVEL=newest scripts/test.sh

# What is installed for development, tests and docs, by `make demo`, and in the image, with hashes. The wheel keeps its ranges.
LOCK = .venv/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate --upgrade \
	--custom-compile-command "make lock" --group build pyproject.toml
lock: setup
	$(LOCK) --extra dev --extra docs -o requirements/dev.txt
	$(LOCK) --constraints requirements/dev.txt -o requirements/run.txt
	$(LOCK) --constraints requirements/dev.txt --extra apps --extra tracing -o requirements/server.txt

sbom: setup
	.venv/bin/python scripts/sbom.py wheel dist/bai.cdx.json
	$(if $(IMAGE),.venv/bin/python scripts/sbom.py image $(IMAGE) dist/bai-image.cdx.json)

setup:
	@scripts/setup.sh dev

coverage: setup
	.venv/bin/python -m pytest -n 2 --dist loadgroup -q --cov --cov-report=term

SEEDS ?= 10000
simulate: setup
	BAI_SIM_SEEDS=$(SEEDS) .venv/bin/python -m pytest tests/simulation -q -n auto

TARGET ?= loader
SECONDS ?= 3600
fuzz: setup
	.venv/bin/python -m tests.fuzz $(TARGET) --seconds $(SECONDS) --corpus .fuzz/$(TARGET)

AREA ?= planner
SAMPLE ?= 200
SEED ?= 0
mutants: setup
	.venv/bin/python scripts/mutants.py $(AREA) --sample $(SAMPLE) --seed $(SEED) $(ARGS)

lint: setup
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/lint-imports --no-logo

generate: setup
	.venv/bin/python -m schemas.loading.json_schema
	.venv/bin/python scripts/gen_roles.py
	.venv/bin/python scripts/gen_docs.py
	.venv/bin/python scripts/gen_server.py
	.venv/bin/python scripts/gallery.py

screens: setup
	BAI_RECORD=1 .venv/bin/python -m pytest -q -n0 tests/bai/test_plan_at_size.py tests/bai/test_command_screens.py -k screens

screens-panel: setup
	BAI_RECORD=1 .venv/bin/python -m pytest -q -n0 tests/bai/web/browser/test_pictures.py

manifests: setup
	.venv/bin/python scripts/manifests.py

docs: setup
	.venv/bin/mkdocs build --strict

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

kubernetes-lab:
	@scripts/setup.sh dev
	@.venv/bin/python scripts/labs.py kubernetes-lab up

kubernetes-lab-down:
	@.venv/bin/python scripts/labs.py kubernetes-lab down

bench: setup
	.venv/bin/python -m benchmarks.startup
	.venv/bin/python -m benchmarks.commands
	.venv/bin/python -m benchmarks.sessions
	.venv/bin/python -m benchmarks.throughput
	.venv/bin/python -m benchmarks.locality --topologies tests/data/topology
	.venv/bin/python -m benchmarks.store

clean:
	rm -rf .venv .venv-newest site build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage*
