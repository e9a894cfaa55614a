# Everything here needs Go and git alone; tools come through the Go module proxy.

GO        ?= go
GOTESTSUM  = $(GO) run gotest.tools/gotestsum@v1.13.0
STATICCHECK = $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2
FUZZTIME  ?= 20s
MODEL     ?= -DROLES=1 -DCHANGES=3
RATIOS     = ./frame/association ./disco ./record ./subscribe ./channel

.PHONY: run test race conformance ratios versus fuzz lint build check

run: ## both ends over a real association: list, watch a change arrive, close
	@$(GO) run ./cmd/disco-probe demo

test: ## all tests; the closing line counts them
	@$(GOTESTSUM) --format pkgname -- -shuffle=on ./...

race: ## all tests under the race detector
	@$(GOTESTSUM) --format pkgname -- -race -shuffle=on ./...

conformance: ## NPAMP-DISC §11: clauses, rows, tests; fails on a P0 or P1 row without a passing test
	@$(GO) run ./cmd/disco-conformance

ratios: ## what is fast measured against what it is made of, a JSON line each; fails out of bounds
	@out=$$(mktemp); trap 'rm -f "$$out"' EXIT; status=0; \
	  NPAMP_RATIOS=1 $(GO) test -v -count=1 -p 1 -run '^TestRatios$$' $(RATIOS) >"$$out" 2>&1 || status=$$?; \
	  grep '^{' "$$out" || cat "$$out"; exit $$status

versus: ## beside MCP, etcd, NATS, xDS and the floor, in one run; a module of its own, slow to build
	@cd cmd/disco-versus && $(GO) run .

build: ## the command
	$(GO) build -o disco-probe ./cmd/disco-probe

fuzz: ## each fuzz target for FUZZTIME
	@GO="$(GO)" fuzz/each.sh $(FUZZTIME)

model: ## the state machine, exhaustively; needs Debian's spin and a C compiler
	@dir=$$(mktemp -d) && cp testvectors/model/discovery.pml $$dir && cd $$dir && spin -a $(MODEL) discovery.pml >/dev/null && \
	  cc -O2 -w -DSAFETY -DCOLLAPSE -o pan pan.c && ./pan -m500000 | tee out && rm -rf $$dir/pan* && \
	  grep -q 'errors: 0' out; ok=$$?; rm -rf $$dir; exit $$ok

lint: ## formatting, vet, static analysis, tidy modules, import arrows, the 32-bit build and its tests
	@test -z "$$(gofmt -l .)" || { echo "gofmt would change:"; gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(STATICCHECK) ./...
	$(GO) mod tidy -diff
	GOARCH=386 $(GO) vet ./...

check: lint test race ## what a commit must pass
