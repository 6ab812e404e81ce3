# Two commands do everything on a fresh machine: `make bench` and `make test`.
VENV ?= .venv
PYTHON ?= python3
# Bring your own build: `make bench TORCH=/path/to/torch.whl` (or any requirement pip takes).
TORCH ?=
BIN := $(VENV)/bin
# Every part of the tests would compile the same files again.
unexport PYTHONDONTWRITEBYTECODE
TORCH_ARGS := $(if $(TORCH),$(TORCH),-c constraints.txt)

.PHONY: docs gallery bench automl-demo leaderboard-demo test test-slow test-lab test-cloud test-frameworks test-package test-web serve package fuzz fuzz-api install-locked locks licences \
	sbom perf lint clean

bench: $(VENV)/.bench
	$(BIN)/trainmark data get fashion-mnist state-of-the-union
	$(BIN)/trainmark run quick

# A whole AutoML experiment on this machine, on real data, in about five minutes.
automl-demo: $(VENV)/.automl
	$(BIN)/trainmark data get fashion-mnist
	$(BIN)/trainmark automl run demo

# A site of verified results of this machine: two short runs, packed, verified and listed.
leaderboard-demo: $(VENV)/.dev
	$(BIN)/python tools/leaderboard_demo.py

# Most tests wait, for agents and deadlines, and use little of a core: twice as many workers as a small machine has cores.
test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 4 -m "not slow and not lab and not cloud and not frameworks and not package and not web"

# Whole trainings, searches and notebooks on this machine.
test-slow: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 -m "slow and not lab and not cloud and not frameworks and not package and not web"

# What needs real hosts and takes longer; installs the lab's packages when run as root. Whatever measures runs alone.
LAB_TESTS = OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive $(BIN)/python -m pytest tests/lab tests/slurm
test-lab: $(VENV)/.dev
	$(LAB_TESTS) -n 2 -m "lab and not alone"
	$(LAB_TESTS) -m "lab and alone"

# Runs on an emulated cloud training service, through its official clients.
test-cloud: $(VENV)/.dev
	OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive $(BIN)/python -m pytest -n 2 -m cloud tests/launch/modelarts

# Every framework in an environment of its own, which the tests make; two ranks each, on CPUs.
test-frameworks: $(VENV)/.dev
	OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive $(BIN)/python -m pytest -m frameworks tests/frameworks

# The server as processes, on PostgreSQL, with a provider of identities; its pages in a browser; its queue, simulated.
test-web: $(VENV)/.dev
	$(BIN)/python -m pytest -m web tests/web

# A server on this machine, from nothing, with a benchmark in it; it prints how the admin signs in.
serve: $(VENV)/.bench
	$(BIN)/python -m pip install -q --disable-pip-version-check $(TORCH_ARGS) -e ".[torch,web]"
	$(BIN)/trainmark data get fashion-mnist state-of-the-union
	$(BIN)/trainmark serve --demo

# Wrong suites, sites and host lists by the hundred thousand; ends at the first that is not refused in words.
FUZZ ?= 100000
fuzz: $(VENV)/.dev
	$(BIN)/python -m tests.security.fuzz $(FUZZ)

# Requests made of the server's own description; ends at the first answer that it does not name.
FUZZ_API ?= 20000
fuzz-api: $(VENV)/.dev
	$(BIN)/python -m tests.web.fuzz_api $(FUZZ_API)

# The documentation as a site in build/site, which can be read without a server; a broken link is an error.
docs: $(VENV)/.docs
	$(BIN)/python tools/reference_pages.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

# Reports of this machine as pages and pictures, in docs/gallery; a quarter of an hour, on a machine with nothing else to do.
gallery: $(VENV)/.dev
	$(BIN)/trainmark data get fashion-mnist state-of-the-union
	$(BIN)/python tools/gallery.py

# What is published: dist/*.tar.gz and dist/*.whl, the same bytes whenever and wherever they are built.
package: $(VENV)/.package
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl

# The package as somebody who installs it meets it: an empty environment, an empty folder, every Python that is here;
# and the documentation as a site.
test-package: $(VENV)/.package $(VENV)/.docs
	$(BIN)/python -m pytest -m package tests/package

# Exactly the packages of locks/dev.txt, each checked by its hash; torch by its version, as machines have builds of their own.
install-locked: $(VENV)/bin/python
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes --no-deps -r locks/dev.txt
	$(BIN)/python -m pip install -q --disable-pip-version-check $(TORCH_ARGS) torch
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps -e .

# Renews the locks; `LINKS=/path` adds wheels of this machine.
LINKS ?=
locks: $(VENV)/.dev
	$(BIN)/python tools/lock.py $(if $(LINKS),--find-links $(LINKS))

licences: $(VENV)/.dev
	$(BIN)/python tools/licences.py

sbom: $(VENV)/.dev
	$(BIN)/python tools/sbom.py dist/sbom.cdx.json

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/rooms_picture.py --check
	$(BIN)/vermin --no-tips --violations -t=3.7- $$($(BIN)/python -m trainmark.launch.node_zip)

# The peers have an environment of their own: neither side's packages change what the other's cost.
# `make perf ONLY="nas handover"` runs those alone; the newest runs of the others stay in RESULTS.md.
ONLY ?=
perf: $(VENV)/.automl $(VENV)-perf/.peers $(VENV)-nni/.peers
	$(BIN)/python benchmarks/run_all.py $(ONLY)

clean:
	rm -rf $(VENV) $(VENV)-perf $(VENV)-nni build dist

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.bench: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install -q --disable-pip-version-check $(TORCH_ARGS) -e ".[torch]"
	$(BIN)/python -m compileall -q src/trainmark
	touch $@

$(VENV)/.automl: $(VENV)/.bench
	$(BIN)/python -m pip install -q --disable-pip-version-check $(TORCH_ARGS) -e ".[torch,automl]"
	touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install -q --disable-pip-version-check $(TORCH_ARGS) -e ".[dev]"
	$(BIN)/python -m compileall -q src/trainmark
	tools/get-chromium
	touch $@ $(VENV)/.bench

$(VENV)/.docs: $(VENV)/.dev
	$(BIN)/python -m pip install -q --disable-pip-version-check $(TORCH_ARGS) -e ".[docs]"
	touch $@

$(VENV)/.package: $(VENV)/.dev
	$(BIN)/python -m pip install -q --disable-pip-version-check $(TORCH_ARGS) -e ".[package]"
	touch $@

$(VENV)-perf/.peers: benchmarks/peers/requirements.txt
	$(PYTHON) -m venv $(VENV)-perf
	$(VENV)-perf/bin/python -m pip install -q --disable-pip-version-check -r $<
	touch $@

# NNI without its own requirements, which are those of its server and would change the versions it is measured with.
$(VENV)-nni/.peers: benchmarks/peers/requirements-nni.txt
	$(PYTHON) -m venv $(VENV)-nni
	$(VENV)-nni/bin/python -m pip install -q --disable-pip-version-check -r $<
	$(VENV)-nni/bin/python -m pip install -q --disable-pip-version-check --no-deps nni==2.10
	touch $@
