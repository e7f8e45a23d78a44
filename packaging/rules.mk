# What is handed out, under dist/. Python with pip is needed: the tools come from PyPI, once, into
# .cache/packaging. Nothing here publishes anything.

# make wheel       dist/gpustall-VERSION-py3-none-manylinux_2_28_x86_64.whl
# make wheel-arm64 the same for aarch64, without cgo; make test-wheel-arm64 checks it, and runs it under qemu
# make darwin      .cache/build/dist/darwin_arm64/gpustall, without cgo; it was never run
# make test-wheel  installs it in a fresh environment and runs a training under it
# make dist        archives, deb, rpm, the wheel, a formula, an SBOM and checksums (minutes); needs no root

PACKAGING   := $(CURDIR)/packaging
TOOLS       := $(CURDIR)/.cache/packaging
DIST_BUILD  := $(BUILD)/dist
# A recursive name: git is asked only where something is packed.
RELEASE      = $(shell $(PACKAGING)/version)
PY_RELEASE   = $(shell $(PACKAGING)/version python)
GLIBC       := 2.28
PLATFORM    := manylinux_$(subst .,_,$(GLIBC))_x86_64
NVML         = $(shell $(GO) list -m -f '{{.Dir}}' github.com/NVIDIA/go-nvml)/pkg/nvml

$(TOOLS)/installed: $(PACKAGING)/requirements.txt
	rm -rf $(TOOLS)
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/pip install -q --disable-pip-version-check -r $<
	touch $@

$(BUILD)/libnvmlforward.a: $(PACKAGING)/nvml.sh go.mod | $(BUILD)
	$(PACKAGING)/nvml.sh $(NVML)/nvml.h >$(BUILD)/nvmlforward.c
	gcc -O2 -fPIC -std=gnu11 -Wall -I$(NVML) -c $(BUILD)/nvmlforward.c -o $(BUILD)/nvmlforward.o
	ar rcsD $@ $(BUILD)/nvmlforward.o

# The binary that runs on any Linux with this glibc or a newer one: gcc compiles it as ever, zig links it.
.PHONY: $(DIST_BUILD)/linux_amd64/gpustall
$(DIST_BUILD)/linux_amd64/gpustall: $(BUILD)/libcuda.a $(BUILD)/libnvmlforward.a $(TOOLS)/installed
	ZIG='$(TOOLS)/bin/python -m ziglang' TARGET=x86_64-linux-gnu.$(GLIBC) FORWARDERS=$(BUILD)/libnvmlforward.a CGO_ENABLED=1 \
	  $(GO) build -tags cuda,$(TAGS) -o $@ \
	  -ldflags '-s -w -X main.version=$(RELEASE) -linkmode external -extld $(PACKAGING)/link' .

.PHONY: wheel test-wheel portable packaging-tools
packaging-tools: $(TOOLS)/installed
portable: $(DIST_BUILD)/linux_amd64/gpustall

WHEEL = dist/gpustall-$(PY_RELEASE)-py3-none-$(PLATFORM).whl

# auditwheel fails where the binary needs more of a system than the wheel's name says.
wheel: $(DIST_BUILD)/linux_amd64/gpustall
	rm -f dist/gpustall-*.whl
	cd $(PACKAGING)/wheel && GPUSTALL_VERSION=$(PY_RELEASE) GPUSTALL_PLATFORM=$(PLATFORM) GPUSTALL_BINARY=$< \
	  $(TOOLS)/bin/hatchling build -t wheel -d $(CURDIR)/dist
	PATH=$(TOOLS)/bin:$$PATH auditwheel repair --plat $(PLATFORM) --only-plat -w $(DIST_BUILD)/audited $(WHEEL)

test-wheel: wheel
	$(PACKAGING)/test-wheel.sh $(WHEEL)

# Without cgo: the CPU device's kernels in Go, no CUDA device, no NVML, image decoders in Go.
$(DIST_BUILD)/linux_arm64/gpustall:
	CGO_ENABLED=0 GOOS=linux GOARCH=arm64 \
	  $(GO) build -ldflags '-s -w -X main.version=$(RELEASE)' -o $@ .
.PHONY: $(DIST_BUILD)/linux_arm64/gpustall

# A binary without cgo needs no glibc; the tag is that of the other wheel.
ARM64_WHEEL = dist/gpustall-$(PY_RELEASE)-py3-none-$(subst x86_64,aarch64,$(PLATFORM)).whl
.PHONY: wheel-arm64
wheel-arm64: $(DIST_BUILD)/linux_arm64/gpustall $(TOOLS)/installed
	rm -f $(ARM64_WHEEL)
	cd $(PACKAGING)/wheel && GPUSTALL_VERSION=$(PY_RELEASE) GPUSTALL_PLATFORM=$(subst x86_64,aarch64,$(PLATFORM)) GPUSTALL_BINARY=$< \
	  $(TOOLS)/bin/hatchling build -t wheel -d $(CURDIR)/dist

.PHONY: test-wheel-arm64
test-wheel-arm64: wheel-arm64
	$(PACKAGING)/test-arm64.sh $(ARM64_WHEEL)

.PHONY: darwin
darwin: $(DIST_BUILD)/darwin_arm64/gpustall
	CGO_ENABLED=0 GOOS=darwin GOARCH=arm64 $(GO) vet ./...
$(DIST_BUILD)/darwin_arm64/gpustall:
	CGO_ENABLED=0 GOOS=darwin GOARCH=arm64 \
	  $(GO) build -ldflags '-s -w -X main.version=$(RELEASE)' -o $@ .
.PHONY: $(DIST_BUILD)/darwin_arm64/gpustall

# nfpm and cyclonedx-gomod, from a module of their own.
$(TOOLS)-go/nfpm: $(PACKAGING)/tools/go.mod $(PACKAGING)/tools/go.sum
	mkdir -p $(@D)
	cd $(PACKAGING)/tools && $(GO) build -o $(@D)/ tool
	touch $@

# A release's folder of archives, for the formula.
URL ?= https://example.invalid/gpustall/$(RELEASE)

.PHONY: dist test-dist
dist: wheel $(TOOLS)-go/nfpm
	@$(MAKE) --no-print-directory test-wheel-arm64
	PATH=$(TOOLS)-go:$(TOOLS)/bin:$$PATH VERSION=$(RELEASE) URL=$(URL) $(PACKAGING)/dist.sh $(DIST_BUILD) dist
