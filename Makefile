# make        the binary at bin/gpustall, with the CUDA device in it
# make run    the screen on real training
# make test   everything that can be tested on this machine
# make bench  the benchmarks
# Needs Go, gcc and make; make tools installs what the tests want on top.

SHELL   := /bin/bash
GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -X main.version=$(VERSION)

BUILD   := $(CURDIR)/.cache/build
DRIVER  := $(CURDIR)/engine/device/cuda/driver
TOOLS   := $(CURDIR)/.cache/tools

.PHONY: all run test bench vet lint clean tools fuzz
all: bin/gpustall

.PHONY: bin/gpustall
bin/gpustall:
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $@ .

run: bin/gpustall
	bin/gpustall

test: bin/gpustall
	.ci/test

bench:
	$(GO) test -run '^$$' -bench . -benchmem ./...

vet:
	$(GO) vet ./...

lint:
	.ci/lint

clean:
	rm -rf bin .cache dist
