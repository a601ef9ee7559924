# SPDX-License-Identifier: MIT
# The commands of the project; each installs what it needs first (scripts/install). `make help` lists them.
.DEFAULT_GOAL := build
SUITE ?= all

.PHONY: build program demo test bench-cpu bench-gpu tune-gpu lint format docs-check install clean help

build: install ## build everything in build/; the program is build/bin/tilewright
	@scripts/build

program: install ## build the program build/bin/tilewright alone
	@scripts/build release program

demo: program ## tune the linear layers of Llama-3.1-8B on this machine, with a report
	@scripts/demo

test: build ## run every test; LABEL=unit|op|compile|emulated|python|gpu|slow picks some, WITHOUT=slow leaves some out
	@scripts/test $(if $(LABEL),--label-regex '^$(LABEL)$$') $(if $(WITHOUT),--label-exclude '^$(WITHOUT)$$')

bench-cpu: build install-bench ## measure on the CPU; SUITE=gemm picks a suite; writes build/bench/<suite>.csv
	@scripts/bench cpu $(SUITE)

bench-gpu: build ## measure on a GPU; SUITE=gemm picks a suite; writes build/bench/<suite>-gpu.csv
	@scripts/bench gpu $(SUITE)

tune-gpu: build ## tune what is shipped in tuned/ on the GPUs of this machine, about twelve minutes
	@scripts/tune_gpu

lint: install-lint build ## formatting, clang-tidy, layers, scripts
	@scripts/lint

format: install-lint ## format every source file
	@scripts/format

docs-check: install ## links, commands and tables of the documentation
	@. build/install.env && "$$PYTHON" scripts/check_docs.py

install: ## find or install what the build needs
	@scripts/install

install-lint:
	@scripts/install --lint
install-bench:
	@scripts/install --bench
.PHONY: install-lint install-bench

clean: ## remove what was built; installed packages in build/deps and build/venv stay
	@find build -mindepth 1 -maxdepth 1 ! -name deps ! -name venv ! -name 'install.*' -exec rm -rf {} +

help: ## list the commands
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14
