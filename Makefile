# The one door for tools. Without make: each recipe below is what you type, see README.md.
.DEFAULT_GOAL := help
.PHONY: help setup up demo test lint types arch openapi lock check bench chaos

PY := .venv/bin/python

help: ## This list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' Makefile

setup: ## Make .venv (Python 3.11 or newer is all it needs)
	@scripts/setup

demo: setup ## Everything up, a small agent's whole job, everything down again
	@$(PY) manage.py demo

up: setup ## The same services, and they stay until Ctrl-C
	@$(PY) manage.py up --demo

test: ## The suite, with real servers and workers; CI adds the chaos run
	@scripts/setup --dev
	@$(PY) manage.py runtime install builtin
	@$(PY) scripts/test

check: lint types arch ## lint, types and arch

lint: ## ruff: rules and format
	@scripts/setup --dev
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .

types: ## mypy --strict
	@scripts/setup --dev
	@$(PY) -m mypy

arch: ## The import directions of docs/layout.md
	@scripts/setup --dev
	@.venv/bin/lint-imports

openapi: ## Write docs/openapi.json, the contract, anew
	@scripts/setup --dev
	@$(PY) manage.py spectacular --format openapi-json --file docs/openapi.json --validate

lock: ## Resolve the pins again (scripts/lock --upgrade moves them)
	@scripts/setup --dev
	@scripts/lock

bench: setup ## Every figure, one JSON line each
	@$(PY) -m benchmarks

EFFECTIVE ?= 30
chaos: ## Break things until EFFECTIVE=30 faults have hit, then check every promise
	@scripts/setup --dev
	@$(PY) -m benchmarks.chaos --effective $(EFFECTIVE)
