# make        the binary at bin/gpustall, with the CUDA device in it
# make run    the screen on real training
# make test   everything that can be tested on this machine
# make bench  the benchmarks
# Needs Go, gcc and make; .ci/install installs what the tests want on top.

SHELL   := /bin/bash
GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -X main.version=$(VERSION)

BUILD   := $(CURDIR)/.cache/build
DRIVER  := $(CURDIR)/engine/device/cuda/driver

# The CUDA driver is not linked: gorgonia.org/cu's -lcuda finds a static library of
# lazy forwarders, which load libcuda.so.1 at the first call if it is there. Go does
# not see those headers change, so their hash is among the flags.
SHIM       := $(DRIVER)/shim
SHIM_FILES := $(wildcard $(SHIM)/*)
SHIM_HASH  := $(shell cat $(SHIM_FILES) $(DRIVER)/driver.h | cksum | cut -d' ' -f1)
CUDA_ENV    = CGO_ENABLED=1 CGO_CFLAGS='-O2 -g -I$(SHIM) -DGPUSTALL_SHIM=$(SHIM_HASH)' CGO_LDFLAGS='-L$(BUILD)'

.PHONY: all run test bench vet lint clean emulated test-cuda cuda-env
all: bin/gpustall

.PHONY: bin/gpustall
bin/gpustall: $(BUILD)/libcuda.a
	$(CUDA_ENV) $(GO) build -tags cuda -trimpath -ldflags '$(LDFLAGS)' -o $@ .

$(BUILD)/libcuda.a: $(SHIM_FILES) | $(BUILD)
	gcc -O2 -fPIC -std=gnu11 -Wall -I$(SHIM) -c $(SHIM)/shim.c -o $(BUILD)/shim.o
	ar rcsD $@ $(BUILD)/shim.o

$(BUILD):
	mkdir -p $@

# A libcuda.so.1 that runs the kernels on the host: the CUDA device is tested on it
# end to end where there is no GPU.
EMULATED       := $(BUILD)/emulated/libcuda.so.1
EMULATED_FILES := $(wildcard engine/device/cuda/emulated/*) $(wildcard kernels/*.cu kernels/*.h kernels/emulation/*)

emulated: $(EMULATED)

$(EMULATED): $(EMULATED_FILES)
	mkdir -p $(@D)
	g++ -std=c++17 -O2 -march=native -fPIC -shared -pthread -fvisibility=hidden -Wall -Wl,-soname,libcuda.so.1 \
	  -o $@ $(wildcard engine/device/cuda/emulated/*.cpp) kernels/emulation/registry.cpp

test-cuda: $(BUILD)/libcuda.a $(EMULATED)
	GPUSTALL_TEST_CUDA=1 LD_LIBRARY_PATH=$(BUILD)/emulated $(CUDA_ENV) \
	  $(GO) test -tags cuda -short -count=1 ./engine/device/cuda/...

# Prints the environment that builds with -tags cuda, for the test script.
cuda-env: $(BUILD)/libcuda.a
	@echo "$(CUDA_ENV)"

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
