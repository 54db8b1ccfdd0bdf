# vsa.cpp: every task as one command. Needs a Debian 12 with g++, make and git; the rest is installed.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

# One job a core, but 1.5 GiB of memory for each: what g++ takes for the largest kernel file.
JOBS ?= $(shell awk -v cores="$$(nproc)" '/^MemAvailable/ { by_memory = int($$2 / 1.5 / 2^20) } \
  END { jobs = by_memory < cores ? by_memory : cores; print jobs < 1 ? 1 : jobs }' /proc/meminfo)
VSA := build/cli/vsa

.PHONY: help
help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

.PHONY: deps deps-test
deps:  ## install the Debian packages that the build needs, if any is missing
	@tools/install_deps.sh build

deps-test:
	@tools/install_deps.sh build test

.PHONY: build
build: deps  ## build libvsa and the vsa command into build/
	@cmake --preset release -DVSA_BUILD_TESTS=OFF -DVSA_BUILD_TORCH=OFF --log-level=NOTICE
	@cmake --build --preset release -j $(JOBS)

PROMPT ?= a large orange star moving down and right on a navy background
SEED ?= 7

# $(call make_video,FOLDER,OPTIONS): through VSA and once dense, both with the same noise.
define make_video
@mkdir -p out/$(1)
@$(VSA) generate --compare --prompt "$(PROMPT)" --seed $(SEED) $(2) --upscale 4 --overwrite -o out/$(1)/video.mp4 \
  --contact-sheet out/$(1)/contact-sheet.png --report out/$(1)/report.json --latents out/$(1)/latents.safetensors
@$(VSA) decode out/$(1)/latents.safetensors --upscale 4 -o out/$(1)/video.gif
@printf '\n"%s"\n' "$(PROMPT)"
@printf '  %s\n' "side by side   out/$(1)/video-compare.mp4 (left VSA: video.mp4, right dense: video-dense.mp4)" \
  "gif            out/$(1)/video.gif" \
  "contact sheet  out/$(1)/contact-sheet.png (above VSA, below dense)"
endef

.PHONY: demo demo-long
demo: build  ## generate 16 frames of 128x128 with the shipped model, through VSA and once dense, into out/demo
	$(call make_video,demo,--frames 16 --size 128x128 --sparsity 0.875)

demo-long: build  ## the same with 32 frames, in which sparsity gains more, into out/demo-long
	$(call make_video,demo-long,--frames 32 --size 128x128 --sparsity 0.9)

.PHONY: build-tests
build-tests: deps-test
	@cmake --preset release -DVSA_BUILD_TESTS=ON -DVSA_BUILD_TORCH=OFF --log-level=NOTICE
	@cmake --build --preset release -j $(JOBS)

# The Python that has PyTorch: make test-torch PYTHON=path/to/venv/bin/python
PYTHON ?= python3
# One with an older PyTorch, to test the same build of the operators with; none by default.
PYTHON_OLDEST ?=

.PHONY: test-torch
test-torch: deps-test  ## build and test the PyTorch operators, where PYTHON has PyTorch and pytest
	@tools/test_torch.sh $(PYTHON) $(JOBS) $(PYTHON_OLDEST)

.PHONY: wheel
wheel: deps  ## build the wheel of vsa_torch for release, with all CUDA architectures, into out/wheel (PYTHON has PyTorch)
	@mkdir -p out/wheel
	@CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(PYTHON) -m pip wheel . --no-deps -w out/wheel \
	  --disable-pip-version-check -C cmake.define.VSA_CUDA_ARCHITECTURES=ALL

.PHONY: test
test: build-tests test-torch run-tests  ## build and run every test that needs no GPU

.PHONY: run-tests
run-tests:
	@ctest --preset release -LE gpu --no-tests=error -j $(JOBS)

.PHONY: test-fast
test-fast: build-tests  ## build and run the tests labelled fast (under a minute)
	@ctest --preset release -L fast --no-tests=error -j $(JOBS)

.PHONY: test-clang
test-clang:  ## build everything but the CUDA backend with clang and run the tests labelled fast
	@tools/install_deps.sh build test clang
	@cmake --preset clang --log-level=WARNING
	@cmake --build --preset clang -j $(JOBS)
	@ctest --preset clang -L fast --no-tests=error -j $(JOBS)

.PHONY: test-asan
test-asan: deps-test  ## build and run the tests under AddressSanitizer and UBSan
	@cmake --preset asan --log-level=WARNING
	@cmake --build --preset asan -j $(JOBS)
	@ctest --preset asan -LE gpu --no-tests=error -j $(JOBS)

.PHONY: fuzz
fuzz:  ## feed the C ABI and the safetensors reader with hostile bytes (libFuzzer, sanitizers)
	@tools/install_deps.sh build test fuzz
	@cmake --preset fuzz --log-level=WARNING
	@cmake --build --preset fuzz -j $(JOBS)
	@ctest --preset fuzz --no-tests=error

.PHONY: mutation
mutation: deps-test  ## break each stage on purpose, one place at a time; a named test must notice
	@tools/mutate.py -j $(JOBS)

.PHONY: mutation-gpu
mutation-gpu: deps-test  ## the same in kernels that run on a card, as a bundle for a machine that has one (needs nvcc)
	@tools/mutate.py --gpu -j $(JOBS)

.PHONY: bench
bench: build  ## time stages and operator over bench/cases, as json lines in out/bench.jsonl
	@mkdir -p out
	@$(VSA) bench --json | tee out/bench.jsonl

.PHONY: bench-gpu
bench-gpu:  ## the CUDA backend and, where PYTHON has them, others: check, time (needs an H100 or H200)
	@PYTHON=$(PYTHON) tools/bench_gpu.sh -j $(JOBS)

.PHONY: check
check:  ## format, layers, lengths, spelling, large files, links, mutations
	@tools/install_deps.sh check
	@tools/check.sh

.PHONY: format
format:  ## format all C++ files
	@tools/install_deps.sh check
	@tools/check_format.sh --fix

.PHONY: clean
clean:  ## remove everything that was built
	rm -rf build build-* out
