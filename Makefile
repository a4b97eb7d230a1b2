# make demo: install into .venv and run the embedded extractor on the samples; make test: the whole suite;
# make site: the leaderboard, built from its submissions into site/; make pictures: those of the README, drawn anew;
# make bench: every benchmark, one after another, into docs/benchmarks.md; ARGS= passes words on, such as only=startup.
PYTHON ?= python3
BIN = .venv/bin

# Where nothing compiled may be kept, every command that the tests start compiles the package anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test site pictures bench lint install lock clean

demo: install
	$(BIN)/alps run task=extraction model=rules data=samples

test: install
	$(BIN)/python -m pytest --numprocesses=3 --dist=loadfile --no-loadscope-reorder

site: install
	$(BIN)/alps leaderboard build out=site

pictures: install
	$(BIN)/python docs/pictures/draw.py

bench: install
	$(BIN)/python bench/all.py write=yes $(ARGS)

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

install: .venv/installed

.venv/installed: requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("alps needs Python 3.11 or newer, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

# Pin what a fresh install of the project and its development tools resolves to today: names and versions only.
lock:
	rm -rf .venv-lock
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet --disable-pip-version-check '.[dev]' hatchling editables
	.venv-lock/bin/python -m pip freeze --exclude alps-eval --exclude-editable | grep '==' > requirements.lock
	rm -rf .venv-lock

clean:
	rm -rf .venv .venv-lock build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
