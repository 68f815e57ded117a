PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
INSTALL := -m pip install --quiet --disable-pip-version-check
PIP := "pip>=25.1"  # the first that knows dependency groups

.PHONY: demo docs figures test test-slow test-oldest coverage fuzz lint bench clean

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(INSTALL) --upgrade $(PIP)
	$(BIN)/python $(INSTALL) --editable ".[all]" --group test
	touch $(READY)

DEMO ?= .venv-demo
DEMO_READY := $(DEMO)/.ready

$(DEMO_READY): pyproject.toml
	$(PYTHON) -m venv $(DEMO)
	$(DEMO)/bin/python $(INSTALL) --editable ".[plot]"
	touch $(DEMO_READY)

demo: $(DEMO_READY)  ## a table, a recording and a ring with faults: print what is found, write demo.png
	$(DEMO)/bin/python examples/demo.py

DOCS ?= .venv-docs
DOCS_READY := $(DOCS)/.ready
SITE := build/site
GALLERY ?= 1  # 0 leaves the examples of the gallery unrun

$(DOCS_READY): pyproject.toml
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python $(INSTALL) --upgrade $(PIP)
	$(DOCS)/bin/python $(INSTALL) --editable ".[audio,cli,plot]" --group docs
	touch $(DOCS_READY)

docs: $(DOCS_READY)  ## the site in build/site: no network, warnings are errors, links are checked
	rm -rf docs/reference/generated  # pages of what no longer exists
	GALLERY=$(GALLERY) $(DOCS)/bin/python -m sphinx -W --keep-going -q -b html -d build/doctrees docs $(SITE)
	$(DOCS)/bin/python docs/check_links.py $(SITE)

test: $(READY)  ## the default tests
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow"

test-slow: $(READY)  ## the statistical tests
	$(BIN)/python -m pytest -n auto --dist worksteal -m slow

coverage: $(READY)  ## lines of src/gemmed that the default tests run; HTML in build/coverage
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow" --cov --cov-report=term:skip-covered \
		--cov-report=html:build/coverage

OLDEST ?= .venv-oldest
test-oldest:  ## the default tests with the oldest versions that pyproject.toml allows
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python tests/attack/oldest_versions.py > $(OLDEST)/oldest.txt
	$(OLDEST)/bin/python $(INSTALL) --upgrade $(PIP)
	$(OLDEST)/bin/python $(INSTALL) --constraint $(OLDEST)/oldest.txt --editable ".[all]" --group test
	$(OLDEST)/bin/python -m pytest -n auto --dist worksteal -m "not slow"

AUDIT ?= .venv-audit
.PHONY: vulnerabilities
vulnerabilities:  ## known vulnerabilities of the dependencies; skipped where the database is out of reach
	$(PYTHON) -m venv $(AUDIT)
	$(AUDIT)/bin/python -m pip install --quiet --disable-pip-version-check \
		"pip-audit>=2.7" --editable ".[audio,cli,dask,excel,onnx,polars,review]"
	$(AUDIT)/bin/python .ci/known_vulnerabilities.py

SECONDS ?= 60
SEED ?= 0
GROUPS ?=
fuzz: $(READY)  ## the attack: SECONDS of each of its GROUPS; cases tried and wrong
	$(BIN)/python tests/attack/run.py $(GROUPS) --seconds $(SECONDS) --seed $(SEED) --keep findings

lint: $(READY)  ## style, types, prose
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/python tools/lint_prose.py

LARGE := exactness peers flip_limit grid stages scaling cluster
INTELEX ?=  # a Python with scikit-learn-intelex, to have its SVC among the peers

bench: $(READY)  ## timings as ratios; docs/benchmarks/benchmarks.md and its pictures
	$(BIN)/python $(INSTALL) --group compare
	$(BIN)/python benchmarks/fit_time.py
	$(BIN)/python benchmarks/paper/distance_to_exact.py
	$(BIN)/python benchmarks/ring_grid.py
	$(BIN)/python benchmarks/rod_solvers.py
	$(if $(INTELEX),$(BIN)/python benchmarks/large/peers.py --intelex $(INTELEX))
	for part in $(LARGE); do $(BIN)/python benchmarks/large/$$part.py || exit 1; done
	$(BIN)/python benchmarks/large/page.py

QUALITY ?=  # files of benchmarks/quality/run.py as NAME=FILE.csv
figures: $(DOCS_READY) $(READY)  ## pictures and tables of the pages that take minutes, not hours
	$(DOCS)/bin/python examples/readme_picture.py
	$(BIN)/python docs/draw_screenshots.py
	$(DOCS)/bin/python docs/architecture/draw_packages.py
	$(if $(QUALITY),$(DOCS)/bin/python benchmarks/quality/page.py $(QUALITY))

.PHONY: dist
DIST ?= .venv-dist
dist:  ## sdist and wheel, checked, and the wheel tried in an empty environment
	$(PYTHON) -m venv $(DIST)
	$(DIST)/bin/python $(INSTALL) "build>=1.2" "twine>=6.1"
	$(DIST)/bin/python .ci/check_dist.py

clean:
	rm -rf $(VENV) $(DOCS) $(DEMO) build dist .pytest_cache .mypy_cache .ruff_cache demo.png \
		docs/gallery docs/reference/generated docs/sg_execution_times.rst
