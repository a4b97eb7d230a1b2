# make demo   install what alps runs on into .venv, and show its results on the samples that come with it
# make test   install the development tools, too, and run the tests (ARGS= passes words on to pytest)
# make test-ext NAME=memory  a smoke of the core, then the tests of one extension: a minute
# make test-all  the same, with what only a release needs
# make printed  write again what tests/printed holds of commands and pages (ARGS=-k NAME for some)
# make lint   ruff, mypy, the words of the house, and the budgets of the spine
# make docs   the documentation as a site, in site-docs/
# make notebook  execute the notebook of the documentation again
# make site   the leaderboard as a site, built from its submissions, in site/
# make bench  the tests of the benchmarks, then each of them into bench/RESULTS.md (ARGS=only=startup for one)
# make pictures  draw the pictures of the README again
PYTHON ?= python3
BIN = .venv/bin
PIP = $(BIN)/python -m pip install --disable-pip-version-check --progress-bar off
# Of what pip prints: each package as it is fetched, so that somebody who waits sees that it goes on.
NAMES = while read -r verb name rest; do case $$verb in \
	Collecting) printf '%s ' "$${name%%[<>=!~[]*}" ;; \
	Installing) printf '\n  … fetched, now unpacking\n' ;; \
	esac; done
FAILED = { cat .venv/pip.log >&2; exit 1; }

SIDE_BY_SIDE = --numprocesses=3 --dist=loadfile --no-loadscope-reorder

# Where nothing compiled may be kept, every command that the tests start compiles the package anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-ext test-all printed docs notebook site pictures bench lint install lock clean

demo: .venv/runtime
	@$(BIN)/python bench/demo.py

test: install
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not release" $(ARGS)

SMOKE = tests/core/test_cli.py tests/core/test_engine.py tests/core/test_journal.py \
	tests/core/test_run.py tests/core/test_matching.py tests/core/test_settings.py \
	"tests/core/test_goldens.py::test_every_file_is_written_as_before[embedded]"

test-ext: install
	$(BIN)/python -m pytest --numprocesses=2 --dist=loadfile -m "not release" $(SMOKE) tests/ext/$(NAME) $(ARGS)

test-all: install
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) $(ARGS)

printed: install
	ALPS_PRINTED=write $(BIN)/python -m pytest -q tests/core/test_printed.py tests/core/test_first_screens.py $(ARGS)

docs: .venv/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "wrote site-docs/index.html"

notebook: install
	$(BIN)/python docs/notebook.py

site: .venv/runtime
	$(BIN)/alps leaderboard build out=site

pictures: install
	$(BIN)/python docs/pictures/draw.py

bench: install
	$(BIN)/python -m pytest -q bench/tests
	$(BIN)/python bench/all.py write=yes $(ARGS)

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python bench/plain_words.py
	$(BIN)/python bench/house.py budgets=yes

install: .venv/installed

# Stamps: the demo and the site wait for neither the development tools nor those of the docs.
.venv/runtime: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("alps needs Python 3.11 or newer, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	@echo "Installing alps and the packages that it runs on into .venv (once; a minute or two, 700 MB on disk):"
	@$(PYTHON) -m venv .venv
	@$(PIP) --quiet --constraint requirements.lock hatchling editables 2> .venv/pip.log || $(FAILED)
	@rm -f $@
	@{ $(PIP) --no-compile --constraint requirements.lock --no-build-isolation --editable . 2> .venv/pip.log \
		&& touch $@; } | $(NAMES)
	@test -e $@ || $(FAILED)

.venv/docs: .venv/runtime
	@echo "Installing what the documentation is built with:"
	@rm -f $@
	@{ $(PIP) --no-compile --constraint requirements.lock --no-build-isolation --editable '.[docs]' 2> .venv/pip.log \
		&& touch $@; } | $(NAMES)
	@test -e $@ || $(FAILED)

.venv/installed: .venv/runtime
	@echo "Installing the development tools:"
	@rm -f $@
	@{ $(PIP) --requirement requirements.lock 2> .venv/pip.log && touch $@; } | $(NAMES)
	@test -e $@ || $(FAILED)
	@$(BIN)/python -m compileall -q -j 0 .venv/lib > .venv/pip.log || true

# Pin what a fresh install of the project and its development tools resolves to today: names and versions only.
lock:
	rm -rf .venv-lock
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet --disable-pip-version-check '.[dev,docs]' hatchling editables
	.venv-lock/bin/python -m pip freeze --exclude alps-eval --exclude-editable | grep '==' > requirements.lock
	rm -rf .venv-lock

clean:
	rm -rf .venv .venv-lock build dist site-docs .mypy_cache .ruff_cache .pytest_cache .hypothesis
