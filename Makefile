# Targets that a contributor needs; `make help` lists them. Everything is plain
# Go: no cgo, no flags that change what is built.

export CGO_ENABLED = 0

FUZZTIME ?= 60s
GENERATED := ./cpu/kernel ./metal/mtl/soft/lane ./engine/tokenizer ./suites/limits
GENERATE := go generate $(GENERATED) && go run ./engine/tokenizer/gen
TESTFLAGS ?=
CLANG ?= clang
QEMU ?= qemu-aarch64-static
CHROOT ?= $(if $(filter 0,$(shell id -u)),chroot,unshare -r chroot)
TAR ?= tar
# What `make dist` packs: system-processor, and -static for one that needs no
# shared library.
DIST = linux-amd64 linux-amd64-static linux-arm64 darwin-arm64

.PHONY: demo build static dist test test-v3 test-arm64 test-static verify-mac race check check-msl generate golden fuzz bench bench-peers clean help

demo: build ## build, verify every op, and write text with the embedded model
	bin/mverify --suite ops
	bin/mbench run --prompt "In the beginning" -n 64

build: ## bin/mverify and bin/mbench
	go build -buildvcs=auto -o bin/ ./cmd/mverify ./cmd/mbench

static: ## the same without shared libraries at run time: no live llama.cpp
	go build -buildvcs=auto -tags static -o bin/static/ ./cmd/mverify ./cmd/mbench

dist: ## archives of both programs for Linux and macOS, with checksums, in dist/
	@$(TAR) --version | grep -q GNU || { echo "make dist: $(TAR) is not GNU tar: want TAR=gtar"; exit 1; }
	rm -rf dist/stage dist/minfer-* dist/SHA256SUMS
	@set -e; version=$$(git describe --tags --always --dirty); stamp=$$(git log -1 --format=%ct); \
	mkdir -p dist/stage/completion; \
	for program in mverify mbench; do for shell in bash zsh; do \
	  name=$$program.bash; test $$shell = bash || name=_$$program; \
	  go run ./cmd/$$program completion $$shell >dist/stage/completion/$$name; \
	done; done; \
	for target in $(DIST); do \
	  name=minfer-$$version-$$target; dir=dist/stage/$$name; rest=$${target#*-}; tags=; \
	  case $$target in *-static) tags='-tags static';; esac; \
	  mkdir -p $$dir; echo "== $$name"; \
	  GOOS=$${target%%-*} GOARCH=$${rest%-static} go build -trimpath -buildvcs=true $$tags -ldflags '-s -w' -o $$dir/ ./cmd/mverify ./cmd/mbench; \
	  cp -r README.md LICENSE CHANGELOG.md dist/stage/completion $$dir/; \
	  $(TAR) -C dist/stage --sort=name --owner=0 --group=0 --numeric-owner --mode='u+rwX,go=rX' --mtime=@$$stamp -cf - $$name | gzip -9n >dist/$$name.tar.gz; \
	done; \
	cd dist && sha256sum minfer-*.tar.gz >SHA256SUMS && rm -r stage && cat SHA256SUMS

test: ## every test that needs nothing but this checkout
	go test $(TESTFLAGS) ./...

test-v3: ## the arithmetic where the compiler may fuse multiplications with additions
	GOAMD64=v3 go test ./cpu/... ./engine/quant ./engine/synth ./metal/... ./refs/... ./suites/...

test-arm64: ## the suites on an arm64 build, emulated: Debian's qemu-user-static (QEMU=PROGRAM)
	GOARCH=arm64 go build -buildvcs=auto -tags static -o bin/arm64/ ./cmd/mverify ./cmd/mbench
	$(QEMU) bin/arm64/mverify --suite ops,tokenizer
	$(QEMU) bin/arm64/mverify --suite dumps,greedy --filter 'synth-llama weights=q4|qwen2-f16 weights=q4_0 kv=f16 prompt=0'
	$(QEMU) bin/arm64/mbench run --prompt "In the beginning" -n 8
	GOARCH=arm64 go test -exec $(QEMU) ./cpu/kernel ./engine/quant ./metal/mtl

test-static: static ## the static programs in a root that holds nothing else (chroot)
	rm -rf bin/root && mkdir bin/root && cp bin/static/mverify bin/static/mbench bin/root/
	$(CHROOT) bin/root /mverify --suite ops
	$(CHROOT) bin/root /mbench run --prompt "In the beginning" -n 16

# What runs on the GPU has no case that hangs it on purpose: no deadline, safety or
# mutation cases, which can freeze a Mac. Where the device breaks a rule of the
# interface, nothing more is run on it.
verify-mac: ## on a Mac: conformance, kernels, greedy text and sweeps on its GPU, into one file to send back
	@test "$$(uname -s)" = Darwin || { echo "make verify-mac: this is $$(uname -s): want a Mac with macOS 14 or later"; exit 1; }
	@$(MAKE) build
	@set -u; name=verify-mac-$$(date -u +%Y-%m-%d)-$$(git rev-parse --short HEAD); dir=dist/$$name; status=0; \
	rm -rf $$dir && mkdir -p $$dir; \
	{ bin/mverify --version; sw_vers; sysctl -n machdep.cpu.brand_string hw.memsize; } >$$dir/machine.txt 2>&1; \
	echo "== conformance"; \
	go test -count=1 -v -run '^TestConformance$$' ./metal/mtl/apple >$$dir/conformance.txt 2>&1 && ! grep 'NOT RUN' $$dir/conformance.txt || status=1; \
	grep -E '^ *--- FAIL|^(ok|FAIL)' $$dir/conformance.txt; \
	if test $$status = 0; then \
	  echo "== kernels"; \
	  bin/mverify --suite kernels,ops,matmul,attention,kv,fusion,greedy --device apple --format json --out $$dir/suites.json || status=1; \
	  echo "== sweeps"; \
	  bin/mbench --sweep all --device apple --reps 20 --format jsonl --out $$dir/records.jsonl || status=1; \
	else \
	  echo "The conformance suite does not hold: nothing more is run on this GPU."; \
	fi; \
	tar -C dist -czf dist/$$name.tar.gz $$name; \
	echo "Please send back dist/$$name.tar.gz"; exit $$status

race: ## the concurrent packages under the race detector (needs a C compiler)
	CGO_ENABLED=1 go test -race ./cpu ./engine/gguf ./engine/graph/... ./engine/model ./engine/quant ./engine/session ./engine/synth ./engine/tokenizer ./metal ./metal/msl ./metal/mtl/apple ./metal/mtl/cuda ./metal/mtl/internal/... ./metal/mtl/mtltest ./metal/mtl/soft/... ./refs ./suites/limits ./suites/peers ./suites/safety

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

# About 15 minutes on two quiet cores, once the model files are there. The most
# telling comparisons come first; an interrupt keeps what is done. llama.cpp's library
# is the one for AVX-512, or with VARIANT= the one that it would choose itself, which on
# a processor with AMX multiplies matrices with that: measured too, for two files.
bench-peers: build ## models of real sizes beside llama.cpp: LLAMA=DIR of its libraries, PEERS=DIR for files and records
	@test -n "$(LLAMA)" && test -n "$(PEERS)" || { echo "make bench-peers: want LLAMA=DIR and PEERS=DIR"; exit 1; }
	@mkdir -p $(PEERS)
	@set -e; for m in $(addprefix 0.5b-,$(SMALL)) $(addprefix 1.5b-,$(LARGE)); do \
	  file=$(PEERS)/synth-qwen2-$$m.gguf; test -s $$file || bin/mbench synth --arch qwen2 --size $${m%%-*} --type $${m#*-} -o $$file; \
	done
	$(PEER) $(VARIANT) $(call models,0.5b,q4_0) --threads 2 --depth 0,2048,8192 --pp 128,512
	$(PEER) $(VARIANT) $(call models,1.5b,$(LARGE)) --threads 2 --pp 128,512
	$(PEER) $(VARIANT) $(call models,0.5b,$(filter-out q4_0,$(SMALL))) --threads 2 --pp 128,512
	$(PEER) $(VARIANT) $(call models,0.5b,q4_0) --threads 1 --depth 0,2048 --pp 128,512
	$(PEER) $(VARIANT) $(call models,0.5b,$(filter-out q4_0,$(SMALL))) --threads 1 --pp 128
	if grep -q amx_int8 /proc/cpuinfo; then $(PEER) $(call models,0.5b,q4_0) $(call models,1.5b,q4_K) --threads 2 --pp 128,512; fi
	$(PEER) $(VARIANT) $(call models,1.5b,$(LARGE)) --threads 1 --pp 128
	bin/mbench peers --show --records $(PEERS)/records --format markdown | tee $(PEERS)/table.md

SMALL = q4_0 q8_0 q5_0 q4_1 f16
LARGE = q4_K q6_K q5_K
models = $(foreach type,$(2),--model $(PEERS)/synth-qwen2-$(1)-$(type).gguf)
PEER = bin/mbench peers --llama $(LLAMA) --records $(PEERS)/records --tg 16 --reps 7 --time 2s
VARIANT ?= --llama-variant $(if $(shell grep -m1 -o avx512_bf16 /proc/cpuinfo 2>/dev/null),zen4,haswell)

clean: ## remove what was built
	rm -rf bin dist

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## (.*)/\1	\2/' | expand -t 12
