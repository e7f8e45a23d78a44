# make        the binary at bin/gpustall, with the CUDA device in it
# make run    the screen on real training
# make install PREFIX=DIR   binary, completions and man pages under DIR (/usr/local)
# make wheel  a wheel for pip install, under dist/; make test-wheel installs and tries it (Python with pip)
# make dist   archives, deb, rpm, formula, SBOM and checksums as well (minutes; the same)
# make quick  vet, imports, guards and what changed, in about a minute
# make test   everything that can be tested on this machine
# make bench  the benchmarks
# make bench-peers   against other loaders, where PyTorch is (PYTHON=...)
# make pictures      the README's moving picture, where PyTorch and tmux are (PYTHON=...)
# make fuzz   a minute of random input for each parser, two at a time
# make asan   the C that reads images, with every access to memory checked
# make soak   a long run: its memory, and how long its session takes to open (minutes)
# make test-torch  what runs inside PyTorch, in environments of its own under .cache (minutes); test-torch-all: more versions
# make harm   trainings that end as they would without gpustall, whatever fails (PYTHON=...; minutes)
# make test-fleet  several gpustalls on one job: torchrun launchers and single ranks, gloo on this machine; gpustall attach by gdb (PYTHON=... with torch; minutes)
# make truth  how often what is said is wrong, measured: tables (minutes)
# make truth-torch  the same for PyTorch scripts whose trouble is known, quiet and crowded (PYTHON=... with torch; an hour)
# Needs Go, gcc and make; .ci/install installs what the tests want on top.

SHELL   := /bin/bash
GO      ?= go
# Everything is built without paths and with one set of flags, so that the binary, the build without
# cgo, vet, lint, the tests and the packages share what the compiler made. Names are looked up in Go:
# with cgo in net, its flags would be part of what all that imports net is built from.
TAGS    := netgo,osusergo
export GOFLAGS += -trimpath -tags=$(TAGS)
# What cgo makes of a file names the checkout that compiled it first, and without paths
# that is in no key of the build cache: vet and lint would open the file there, in a
# checkout that may be gone. A macro that nothing reads puts the checkout into the key.
export CGO_CPPFLAGS += -DGPUSTALL_CHECKOUT=$(shell pwd | cksum | cut -d' ' -f1)
PYTHON  ?= python3
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
export CGO_CFLAGS  := -O2 -g -I$(SHIM) -DGPUSTALL_SHIM=$(SHIM_HASH)
export CGO_LDFLAGS := -L$(BUILD)

.PHONY: all run install quick test test-torch test-torch-all test-fleet harm bench bench-peers fuzz asan soak truth truth-torch vet lint clean emulated test-cuda
all: bin/gpustall

.PHONY: bin/gpustall
bin/gpustall: $(BUILD)/libcuda.a
	@CGO_ENABLED=1 GO=$(GO) OUTPUT=$@ .ci/progress -tags cuda,$(TAGS) -ldflags '-s -w $(LDFLAGS)' .

$(BUILD)/libcuda.a: $(SHIM_FILES) | $(BUILD)
	gcc -O2 -fPIC -std=gnu11 -Wall -I$(SHIM) -c $(SHIM)/shim.c -o $(BUILD)/shim.o
	ar rcsD $@ $(BUILD)/shim.o

$(BUILD):
	mkdir -p $@

# A libcuda.so.1 that runs the kernels on the host: the CUDA device is tested on it
# end to end where there is no GPU.
EMULATED       := $(BUILD)/emulated/libcuda.so.1
EMULATED_FILES := $(wildcard engine/device/cuda/emulated/*) $(wildcard kernels/cuda/*.cu kernels/cuda/*.h kernels/cuda/ptx/* kernels/verify/emulation/*) kernels/cuda/build.sh

emulated: $(EMULATED)

$(EMULATED): $(EMULATED_FILES)
	mkdir -p $(@D)
	engine/device/cuda/emulated/known.sh >$(@D)/known.h
	g++ -I$(@D) -Ikernels/verify -std=c++17 -O2 -march=native -fPIC -shared -pthread -fvisibility=hidden -Wall -Wl,-soname,libcuda.so.1 \
	  -o $@ $(wildcard engine/device/cuda/emulated/*.cpp) kernels/verify/emulation/registry.cpp

test-cuda: $(BUILD)/libcuda.a $(EMULATED)
	GPUSTALL_TEST_CUDA=1 LD_LIBRARY_PATH=$(BUILD)/emulated CGO_ENABLED=1 \
	  $(GO) test -tags cuda,$(TAGS) -short -count=1 ./engine/device/cuda/... ./engine/device/gpucheck

run: bin/gpustall
	@echo "the binary is $(CURDIR)/bin/gpustall"
	@bin/gpustall

# DESTDIR is a packager's root, under which PREFIX is.
PREFIX  ?= /usr/local
SHARE   := $(DESTDIR)$(PREFIX)/share
install: bin/gpustall
	install -D bin/gpustall $(DESTDIR)$(PREFIX)/bin/gpustall
	install -d $(SHARE)/man/man1 $(SHARE)/bash-completion/completions $(SHARE)/zsh/site-functions $(SHARE)/fish/vendor_completions.d
	bin/gpustall man $(SHARE)/man/man1
	bin/gpustall completion bash >$(SHARE)/bash-completion/completions/gpustall
	bin/gpustall completion zsh >$(SHARE)/zsh/site-functions/_gpustall
	bin/gpustall completion fish >$(SHARE)/fish/vendor_completions.d/gpustall.fish
	@echo "the binary is $(DESTDIR)$(PREFIX)/bin/gpustall"

quick:
	.ci/quick

test:
	.ci/test

test-torch:
	engine/torch/python/test/run.sh

# Does a training end as it would without gpustall? Needs a Python with torch: PYTHON=...
harm: bin/gpustall
	$(PYTHON) engine/torch/python/test/harm.py bin/gpustall

# Several gpustalls on one job. Needs a Python with torch: PYTHON=...
test-fleet: bin/gpustall
	$(PYTHON) engine/torch/python/test/fleet.py bin/gpustall
	$(PYTHON) engine/torch/python/test/attach.py bin/gpustall
	GPUSTALL_PYTHON=$$(command -v $(PYTHON)) $(GO) test -count=1 -v -run '^TestPyTorch$$' ./engine/torch/tcpstore

test-torch-all:
	engine/torch/python/test/run.sh all

bench:
	$(GO) test -run '^$$' -bench . -benchmem ./...

# The README's moving picture, of a real training. It needs tmux, and a PYTHON with PyTorch.
.PHONY: pictures
pictures: bin/gpustall
	$(PYTHON) bench/pictures.py --gpustall bin/gpustall --out docs/images/fixing.svg

# Each script there compares with one kind of loader, and says so where it cannot.
bench-peers:
	@mkdir -p $(BUILD)
	$(GO) build -o $(BUILD)/peers-load ./bench/peers/load
	@for script in bench/peers/*.py; do $(PYTHON) $$script --load $(BUILD)/peers-load || exit 1; done

fuzz:
	.ci/fuzz 60

asan:
	$(GO) test -asan -count=1 -run '^(TestNative|TestPart|TestPillow|FuzzNative|TestResize|TestManyTaps|TestNeeds|TestCropInC|TestPlanesInC|TestBlur|TestResampled)' ./loader/codec ./loader/transform ./kernels/pixels

soak:
	GPUSTALL_SOAK=1000000 $(GO) test -count=1 -timeout 0 -run '^$$' -bench '^BenchmarkSoak$$' -benchtime 1x ./tui

truth:
	@code=0; \
	$(GO) test -count=1 -timeout 0 -v -p 1 -run '^TestTruth$$' ./engine/train ./engine/analysis/stats -truth || code=1; \
	$(GO) test -count=1 -timeout 0 -v -run '^(TestScenarios|TestPredictions|TestTuning)$$' ./engine/command -truth || code=1; \
	exit $$code

# Each case runs alone, so it wants a host that nothing else uses. Needs a Python with torch: PYTHON=...
truth-torch: bin/gpustall
	@for beside in none own same; do $(PYTHON) engine/torch/python/test/advice.py --gpustall bin/gpustall --burners $$beside || exit 1; done

vet:
	$(GO) vet ./...

lint: $(BUILD)/libcuda.a
	.ci/lint

clean:
	rm -rf bin .cache dist

# Everything that a GPU machine without Go and without a network needs, in one
# folder: copy it there and run gpu-check.sh in it, which unpacks the rest. See
# docs/guide/gpu.md.
BUNDLE   := dist/gpu-bundle
GPUCHECK := engine/device/gpucheck

.PHONY: gpu-bundle test-gpu-bundle
gpu-bundle: $(BUILD)/libcuda.a
	rm -rf $(BUNDLE)
	mkdir -p $(BUNDLE)
	CGO_ENABLED=1 $(GO) build -tags cuda,$(TAGS) -ldflags '-s -w $(LDFLAGS)' -o $(BUNDLE)/gpustall .
	CGO_ENABLED=1 $(GO) build -tags cuda,$(TAGS) -ldflags '-s -w $(LDFLAGS)' -o $(BUNDLE)/gpucheck ./$(GPUCHECK)
	CGO_ENABLED=1 $(GO) test -c -tags cuda,$(TAGS) -ldflags '-s -w' -o $(BUNDLE)/cuda.test ./engine/device/cuda
	CGO_ENABLED=1 $(GO) test -c -tags cuda,$(TAGS) -ldflags '-s -w' -o $(BUNDLE)/driver.test ./engine/device/cuda/driver
	gzip -9n $(BUNDLE)/gpustall $(BUNDLE)/*.test
	cp $(GPUCHECK)/bundle/* docs/guide/gpu.md LICENSE $(BUNDLE)/
	@du -sm $(BUNDLE) | awk '{ print $$2 ": " $$1 " MB"; if ($$1 >= 60) { print "too large: the limit is 60 MB"; exit 1 } }'

# The bundle on the emulated driver and on no driver at all.
GOTEST ?= $(GO) test
test-gpu-bundle: gpu-bundle $(EMULATED)
	GPUSTALL_BUNDLE=$(CURDIR)/$(BUNDLE) GPUSTALL_EMULATED=$(EMULATED) $(GOTEST) -count=1 -v -run '^TestBundle' ./$(GPUCHECK)

include packaging/rules.mk
