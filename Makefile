# Targets that a contributor needs; `make help` lists them. Everything is plain
# Go: no cgo, no flags that change what is built.

export CGO_ENABLED = 0

FUZZTIME ?= 60s
GENERATED := ./cpu/kernel ./metal/mtl/soft/lane ./engine/tokenizer ./suites/limits
GENERATE := go generate $(GENERATED) && go run ./engine/tokenizer/gen
TESTFLAGS ?=
CLANG ?= clang

.PHONY: demo build static test test-v3 race check check-msl generate golden fuzz bench clean help

demo: build ## build, verify every op, and write text with the embedded model
	bin/mverify --suite ops
	bin/mbench run --prompt "In the beginning" -n 64

build: ## bin/mverify and bin/mbench
	go build -buildvcs=auto -o bin/ ./cmd/mverify ./cmd/mbench

static: ## the same without shared libraries at run time: no live llama.cpp
	go build -buildvcs=auto -tags static -o bin/static/ ./cmd/mverify ./cmd/mbench

test: ## every test that needs nothing but this checkout
	go test $(TESTFLAGS) ./...

test-v3: ## the arithmetic where the compiler may fuse multiplications with additions
	GOAMD64=v3 go test ./cpu/... ./engine/quant ./engine/synth ./metal/... ./refs/... ./suites/...

race: ## the concurrent packages under the race detector (needs a C compiler)
	CGO_ENABLED=1 go test -race ./cpu ./engine/graph/... ./engine/session ./engine/tokenizer ./metal/mtl/soft/... ./suites/safety

check: ## format, vet on every platform, generated files current, tidy modules
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo "gofmt: the files above are not formatted"; exit 1; }
	go vet ./...
	go vet -tags static ./...
	go vet -tags noembed ./...
	GOOS=linux GOARCH=arm64 go vet ./...
	GOOS=darwin GOARCH=arm64 go vet ./...
	GOOS=darwin GOARCH=amd64 go vet ./...
	GOOS=windows GOARCH=amd64 go build ./...
	go mod tidy -diff
	$(GENERATE)
	git diff --exit-code -- $(GENERATED)

check-msl: ## the kernels through a second front end, clang (CLANG=NAME, 14 or later)
	go test -count=1 ./metal/kernels/check -args -clang=$(CLANG)

generate: ## write the generated assembly, Go twins and tables again
	$(GENERATE)

golden: ## write all golden files again; review the diff
	go test $$(git grep -l 'flag.Bool("update"' -- '*_test.go' | xargs -n1 dirname | sort -u | sed 's|^|./|') -update

fuzz: ## every fuzz target for FUZZTIME (60s)
	@go list ./... | while read -r pkg; do \
	  go test -list '^Fuzz' "$$pkg" | grep '^Fuzz' | while read -r target; do \
	    echo "== $$pkg $$target"; go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$pkg" || exit 1; \
	  done || exit 1; \
	done

bench: build ## an embedded model beside llama.cpp: LLAMA=DIR of its shared libraries
	bin/mbench peers $(if $(LLAMA),--llama $(LLAMA))

clean: ## remove what was built
	rm -rf bin dist

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## (.*)/\1	\2/' | expand -t 12
