# Commands of attnlab; `make` alone lists them. Paths are relative, so that a space in the
# folder's name does no harm.

# The Python that makes the environment:   make lab PYTHON=python3.12
PYTHON ?= python3
# Options for the command itself:          make lab ARGS="--port 9000"
ARGS ?=
# One notebook only:                       make notebooks ONLY=04
ONLY ?=

# An environment of your own (conda, mamba) in .venv's place:   make test PY=python
ifdef PY
NEEDS :=
else
PY := .venv/bin/python
NEEDS := environment
endif

# A Python named on the command line is meant: no other one will do.
INSIST := $(if $(findstring command,$(origin PYTHON)),--insist)

TOO_OLD := attnlab needs Python 3.11, 3.12 or 3.13, and '$(PYTHON)' is missing or far older: \
	install one and run make again with PYTHON=python3.12 behind it.

.DEFAULT_GOAL := help
.PHONY: help environment lab test test-browser reports notebooks record figures offline-kit format

# Minutes of JupyterLab in a browser; the other tests with a browser take seconds a page.
IN_JUPYTERLAB := tests/test_lab_browser.py

help:
	@echo "make lab           open JupyterLab on the first notebook (installs what it needs first)"
	@echo "make test          unit tests, then every notebook"
	@echo "make test-browser  every notebook in JupyterLab in Chromium"
	@echo "make reports       run every notebook and export it to reports/ as one HTML file each"
	@echo "make notebooks     build notebooks/ from notebooks/source/ (ONLY=04 for one)"
	@echo "make record        on a GPU: make all recordings again"
	@echo "make figures       draw the pictures in figures/ from the recordings"
	@echo "make offline-kit   files and wheels for a Linux machine without a network"
	@echo "make format        format and check the Python code"

environment:
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null \
		|| { echo "$(TOO_OLD)" >&2; exit 1; }
	@"$(PYTHON)" attnlab_helpers/environment.py --python "$(PYTHON)" $(INSIST)

lab: $(NEEDS)
	@"$(PY)" -m attnlab_helpers.lab $(ARGS)

test: $(NEEDS)
	"$(PY)" -m pytest tests --ignore=$(IN_JUPYTERLAB) $(ARGS)
	"$(PY)" -m pytest --nbval-lax --nbval-current-env notebooks

test-browser: $(NEEDS)
	"$(PY)" -m pytest $(IN_JUPYTERLAB) $(ARGS)

reports: $(NEEDS)
	@"$(PY)" -m attnlab_helpers.reports $(ARGS)

notebooks: $(NEEDS)
	@"$(PY)" -m attnlab_helpers.building $(ONLY)

record: $(NEEDS)
	@"$(PY)" -m attnlab_helpers.record $(ARGS)

figures: $(NEEDS)
	@"$(PY)" -m attnlab_helpers.figures $(ARGS)

offline-kit: $(NEEDS)
	@"$(PY)" -m attnlab_helpers.offline_kit $(ARGS)

format: $(NEEDS)
	"$(PY)" -m ruff format .
	"$(PY)" -m ruff check --fix .
