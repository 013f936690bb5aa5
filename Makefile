# make build       ./memtrace, static; needs Go alone
# make install     with manual pages and completions; PREFIX=/usr/local, DESTDIR
# make build-viewer  what shows recordings and Reports on macOS and Windows
# sudo make demo   builds, starts a service that leaks, traces it for 10 s
# sudo make demo-serve   builds, starts 51 services, of which memtrace serve finds and names the one that leaks
# sudo make test   everything that CI checks
# The rest stands in CONTRIBUTING.md.

SHELL  := /bin/bash
CC     := gcc
CXX    := g++
PKG    := github.com/memtrace/memtrace
CLANG  := clang-19
STRIP  := llvm-strip-19

ifndef GO
GO         := $(shell .ci/find-go)
endif
export PATH := $(if $(GO),$(patsubst %/,%,$(dir $(GO))):)$(PATH)
# Under sudo, what builds runs as the user who called it, so that the checkout
# and Go's caches stay theirs.
OWNER      := $(shell stat -c %u .)
AS_USER    := $(if $(and $(SUDO_UID),$(filter $(OWNER),$(SUDO_UID)),$(filter-out 0,$(SUDO_UID)),$(filter 0,$(shell id -u))),sudo -H -u "$(SUDO_USER)" -- env "PATH=$(PATH)")
# The version is the last tag's, and the number of commits since it: 0.1.0, 0.1.0+5. Without a tag it is the one that
# this source becomes. COMMIT has -dirty where files differ from it.
VERSION    := $(or $(shell $(AS_USER) git describe --tags --match 'v[0-9]*' 2>/dev/null | sed -E 's/^v//; s/-([0-9]+)-g[0-9a-f]+$$/+\1/'),$(shell sed -n 's/^const nextRelease = "\(.*\)"/\1/p' cmd/memtrace/version.go))
COMMIT     := $(shell $(AS_USER) git describe --always --exclude '*' --abbrev=12 --dirty 2>/dev/null)
LINKED     := -s -w -X main.linkedVersion=$(VERSION) -X main.linkedCommit=$(COMMIT)
GO_PLAIN   := CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags '$(LINKED)'
GO_BUILD   := $(AS_USER) env $(GO_PLAIN)
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
VM_TIMEOUT ?= 800
# Left out in the VMs: services, which are not in them; what does not depend on the kernel, such as what is repaired; children
# that are to be followed within two seconds, which an emulator does not keep to; and what needs a compiler.
# Too slow there, for the same reason: at-exit checks and births, which hold what they look at, and the untraced heaps;
# the last three need programs that the VMs lack.
VM_SLOW := RunsGiveEqual|BlocksBeingHandedOut|FirstThreadEndedBefore|Container|SampledChildren|InterruptedMemtrace|SIGKILLLeaves|BlockedSignal|LineRingTellsLaps|KilledMemtraceLeaves|TwoTracersOnOne|TargetThatExits|PIDIsReused|ModestPrograms|SampledReport|Calibration|CorporaEndToEnd|DamagedFile|OtherAllocators|StoppedTracer|OverheadIsLimited|GrowthUnderLoad|JobDoesNotPass|StartedProgramsBegin|PauseAndResume|SampledLeaks|ProcessEndsDuring|VerdictsAt|ChildrenAreSeen|PreforkServer|SIGKILLWhile|ShellScript|UntracedHeap|NothingIsLostByMoving|RootScripts|ChooseBy|TargetUnder
# These need programs and libraries that the VMs lack, or are too slow there.
VM_ALLOCATORS := OperatorNewOf|OwnFunction|USDTMechanisms|USDTSample|USDTStacks|OneFamily|OwnInterfaces|OwnAllocator|AllProcesses|Namespaces|PythonLayer|AllocatorTable
# What programs, allocators and the C library do, on every kernel alike; and children, signals and stops by the dozen.
VM_USER := ServiceUnit|RightsOfUserAndUnit|ExamineUnit|ExamineSandbox|UnitInAUserNamespace|CallsTakenBack|LeftToTheUnit|ConfigurationIsOf|ConfigurationOfSet|WebMistakes|WebShows|WebAnswers|WebRefuses|InterruptBefore|RealReportsFulfil|SeccompFilter|Recording|EndedChildrenHold|ChangelogHasThe|ReadmeNamesThe|TracesPlayBack|LossesPlayBack|ReferenceIsUpToDate|UnquotedLimit|ErrorsAreShort|FlagsAfterTheCommand|EndedProcess|EndingProcess|DoctorsRemedy|FilesAreOpenedAs|KilledInEachPhase|Harmless|NoCheckBeside|ProgramInherits|ExecOfAFile|DebugFileOfAnother|ForgedBuildID|CopiedFileShares|RulesOfOthers|AccountInAUser|ProgramHasItsCallers|Interpreters|AllSpares|SuppressionsOfThe|EndedThreads|ChildrenOfAReplaced|LeaksOfA|GridOf|MovedText|LeaksOnEach|MemoryThatJemalloc|OwnProgramBreak|AllocatorThatRuns|LeakInALibrary|LibrariesThatAre|FurtherEntry|UnknownEntry|UnexplainedGrowth|Viewer|SignalsArePassedOn|StoppedAndFrozen|USDTLayerThat|FamilyThat|NoSuchContainer|UntracedAllocatorsAre|NamesOfAProcessWhose|ManyUnchecked|DiffOfTwo|JSONListsTen|ConfiguredFilesAre|ConfigurationOutOf|WhatIsWrongWith|Query|ReportIsGrouped|ReportOfSpan|ReportFrames|ProbesNoneIsRefused|DeadRegistersAnd|NamesThatHaveNoEnd
# Snapshots as files: much data that no kernel has a part in.
VM_FILES := SmallFilesOfMuch|ManyProcesses|LongNames|ManyPages|Damage|Lies|Bomb|OtherFiles|UnknownFieldsAnd|ReadsWhatWas
VM_SKIP := $(VM_USER)|$(VM_FILES)|SignalEndsAWait|SignalAfterTheCommand|PredictedResultsOfOther|MissedFrees|ProbesAllocs|EventsThatCannot|Postgres|Python|SQLite|Redis|Nginx|Scripts|UsageErrors|ExitCodes|SlowOutput|FailOn|NothingIsLost|Containers|TwoMemtraces|FollowsFork|RegistersOf|ForkStorm|SuppressionsMean|WrittenSuppressionsWork|JUnitByPython|LargeSnapshot|GoProgram|$(VM_SLOW)|$(VM_ALLOCATORS)
# What depends on how our programs count, rather than on the kernel's ways to attach them: the oldest and the newest kernel,
# which take most of these ways between them, run it. Each start of memtrace takes an emulator some eight seconds.
VM_ENDS_ONLY ?= ^Test(StopsOutlast|OwnReturnsAre|ExecByAnother|FunctionsThatAreLeft|SampledTotals|PressedCalls|PressedSample|SamplingTracer|TimeOfChildren|Regions|PendingBlocks|PredictedResults|StacksEqualBacktrace|USDTPool|OuterFrames|SignalsAre|FreeThatCalls|PatchedCode|AllocatorsAfterExec|RunFindsWhat|USDTDoctor|DoctorSaysWhat|FirstTouchOf|FirstTouchFinds|FirstTouchPasses|RelayedCalls|PredictedSample|FullMapIs|TopKnows|TopCounts)
VM_TEST_ARGUMENTS ?= -test.v -test.short -test.parallel=1 -test.timeout=500s -test.skip=^Test($(VM_SKIP))
# What depends on the size of pages.
VM_PAGES_TESTS := TestHaveScan|TestRunsAgreeWithSmaps|TestSmapsAgainstAwk|TestFramesAgreeWithSmaps|TestResidentBytes|TestBlockEnds|TestBaseline|TestTakeAgainstAwk|TestTakePages|TestRegions|TestUntracedHeap
# arm64: what depends on the architecture or the size of its pages, and what comes with the programs that are built for it.
VM_ARM64_TESTS := TestKernelHas|TestFunctionsThatAreLeft|TestDetachFromBusy|TestProgramsRun|TestEveryVariantLoads|TestEveryFunctionExactly|TestTwoThreads|TestLongjmpAndExceptions|TestEachFaultSource|TestFeaturesMatch|TestStacksEqualBacktrace|TestFullRing|TestFirstThread|TestRunFinds|TestAttachSees|TestKilledMemtrace|$(VM_PAGES_TESTS)
VM_ARM64_ARGUMENTS ?= -test.v -test.short -test.parallel=1 -test.timeout=1500s -test.run=^($(VM_ARM64_TESTS))
VM_ALL_KERNELS := $(filter-out arm64%,$(shell sed -n 's/^\([0-9a-z][-0-9a-z.]*\) .*/\1/p' testdata/vm/kernels))
# Two run at a time. Those that take longest come first, so that none of them runs alone at the end.
VM_LONGEST := newest 5.10
VM_KERNELS ?= $(VM_LONGEST) $(filter-out $(VM_LONGEST),$(VM_ALL_KERNELS))

.PHONY: all build build-viewer man docs install uninstall release test-packages test-packages-built generate check-generate lint unit integration test-loaded test-loaded-part vm-kernels vm-test vm-harm vm-test-arm64 vm-matrix bench bench-grid bench-sustained bench-leaks bench-stacks bench-python bench-programs bench-touch bench-frees bench-ladder bench-names bench-recording bench-all harm-cycles fuzz fuzz-long demo demo-serve test \
        check-root check-go deps-demo deps-test deps-bench clean
.DEFAULT_GOAL := build

# How a make within one builds test programs.
SIDE_BY_SIDE := --no-print-directory --output-sync=target -j$(shell nproc)

include testdata/programs/programs.mk

# Commands are shown with V=1.
Q := $(if $(V),,@)

build: check-go
	@echo "build   memtrace $(VERSION)"
	$(Q)$(GO_BUILD) -o memtrace ./cmd/memtrace

# What shows recordings and Reports, without the tracer, for systems that it does not run on: docs/exports.md.
# VIEWERS="darwin/arm64" makes one.
VIEWERS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
build-viewer: check-go
	$(Q)for system in $(VIEWERS); do \
		out=build/viewer/memtrace-$${system/\//-}; [[ $$system != windows/* ]] || out+=.exe; \
		echo "build   $$out $(VERSION)"; \
		$(AS_USER) env GOOS=$${system%/*} GOARCH=$${system#*/} $(GO_PLAIN) -tags viewer -o $$out ./cmd/memtrace || exit; \
	done

# Manual pages. The date in them is that of the last commit, so that two builds are the same.
man: build
	$(Q)rm -rf build/man && mkdir -p build && $(AS_USER) env SOURCE_DATE_EPOCH="$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || date +%s)}" \
		./memtrace __manual build/man

# docs/cli.md: all commands and options.
docs: build
	$(Q)./memtrace __manual markdown >docs/cli.md.new && mv docs/cli.md.new docs/cli.md

# make install PREFIX=/usr DESTDIR=/tmp/root
PREFIX  ?= /usr/local
DESTDIR ?=
SHARE   := $(DESTDIR)$(PREFIX)/share
BASH_COMPLETIONS := $(SHARE)/bash-completion/completions
ZSH_COMPLETIONS  := $(SHARE)/zsh/site-functions
FISH_COMPLETIONS := $(SHARE)/fish/vendor_completions.d

install: man
	install -d "$(DESTDIR)$(PREFIX)/bin" "$(SHARE)/man/man1" "$(SHARE)/man/man5" "$(BASH_COMPLETIONS)" "$(ZSH_COMPLETIONS)" "$(FISH_COMPLETIONS)" "$(SHARE)/doc/memtrace"
	install -m 755 memtrace "$(DESTDIR)$(PREFIX)/bin/memtrace"
	install -m 644 build/man/man1/*.1 "$(SHARE)/man/man1"
	install -m 644 build/man/man5/*.5 "$(SHARE)/man/man5"
	./memtrace completion bash >"$(BASH_COMPLETIONS)/memtrace"
	./memtrace completion zsh >"$(ZSH_COMPLETIONS)/_memtrace"
	./memtrace completion fish >"$(FISH_COMPLETIONS)/memtrace.fish"
	chmod 644 "$(BASH_COMPLETIONS)/memtrace" "$(ZSH_COMPLETIONS)/_memtrace" "$(FISH_COMPLETIONS)/memtrace.fish"
	install -m 644 LICENSE LICENSE-GPL CHANGELOG.md README.md "$(SHARE)/doc/memtrace"

# Removes what install has put there, and leaves directories that others may use.
uninstall:
	rm -f "$(DESTDIR)$(PREFIX)/bin/memtrace" "$(SHARE)/man/man1/memtrace.1" "$(SHARE)"/man/man1/memtrace-*.1 \
		"$(SHARE)/man/man5/memtrace.yaml.5" "$(SHARE)/man/man5/memtrace-config.5" \
		"$(BASH_COMPLETIONS)/memtrace" "$(ZSH_COMPLETIONS)/_memtrace" "$(FISH_COMPLETIONS)/memtrace.fish"
	rm -rf "$(SHARE)/doc/memtrace"

check-go:
	@[ -n "$(GO)" ] || exit 1 # find-go has said what to do

# --- generated code -----------------------------------------------------------

generate:
	@command -v $(CLANG) >/dev/null && command -v $(STRIP) >/dev/null || { \
		echo "generate: needs $(CLANG) and $(STRIP): apt-get install clang-19 llvm-19, or see https://apt.llvm.org" >&2; exit 1; }
	@$(CLANG) --version | grep -q 'version 19\.' || { \
		echo "generate: $(CLANG) is not version 19 but: $$($(CLANG) --version | head -1)" >&2; exit 1; }
	CLANG=$(CLANG) STRIP=$(STRIP) $(GO) generate ./bpf

check-generate:
	$(AS_USER) .ci/check-generate $(MAKE)

# --- release ------------------------------------------------------------------

# Packages, tarballs, container images, their checksums and what they are made of, in build/release. Needs the network
# once, for the tools.
release: check-go
	@$(AS_USER) packaging/release $(GO) $(VERSION) '$(COMMIT)' '$(LINKED)'

# Builds them twice and looks into them; then installs, upgrades and removes the deb in trees of other releases, which
# are fetched once: TREES="bookworm trixie", and MEMTRACE_MIRROR for one of Ubuntu's.
TREES ?= bookworm
test-packages: check-root deps-test test-packages-built
	for suite in $(TREES); do packaging/test-tree $$suite || exit; done

# The first half alone, which the integration tests have.
test-packages-built: check-root
	@packaging/test-packages $(GO) $(VERSION) '$(COMMIT)' '$(LINKED)'

# --- checks -------------------------------------------------------------------

# Of several packages the go command keeps nothing: they are compiled, not linked. With -trimpath, what another checkout has
# compiled, or make build, is not compiled again.
VIEWED := ./cmd/memtrace ./analyzer/input/...
lint:
	@unformatted=$$($(dir $(GO))gofmt -l analyzer bpf cmd packaging procfs testdata tracer); \
		if [ -n "$$unformatted" ]; then echo "gofmt these: $$unformatted" >&2; exit 1; fi
	$(AS_USER) $(GO) vet -tags integration,services ./... ./testdata/vm/smoke ./testdata/bench/... ./testdata/testlog ./testdata/costtest
	cd testdata/bench/system && $(AS_USER) $(GO) vet .
	cd packaging && $(AS_USER) $(GO) vet ./...
	for system in linux darwin windows; do $(AS_USER) env GOOS=$$system CGO_ENABLED=0 $(GO) build -trimpath -tags viewer $(VIEWED) || exit; done
	$(AS_USER) $(GO) vet -tags viewer $(VIEWED)
	$(AS_USER) $(GO) run $(STATICCHECK) ./...
	$(AS_USER) $(GO) run $(STATICCHECK) -tags integration,services ./... ./testdata/vm/smoke ./testdata/bench/... ./testdata/testlog ./testdata/costtest
	$(AS_USER) $(GO) run $(STATICCHECK) -tests=false -tags viewer -checks inherit,-U1000 ./cmd/memtrace
	$(AS_USER) .ci/depguard $(GO)
	.ci/selectors ^Test '$(VM_SKIP)|$(patsubst ^Test(%),%,$(VM_ENDS_ONLY))'
	.ci/selectors ^ '$(VM_ARM64_TESTS)'
	.ci/selectors ^Test '$(VM_HARM)'
	.ci/selectors '' '$(LOADED_PART)'

# go test vets what it builds; make lint has each file vetted, by all of its checks.
UNVETTED := -vet=off
unit:
	$(AS_USER) env GO=$(GO) .ci/tests unit $(UNVETTED) -timeout 5m -- ./... ./testdata/bench/... ./testdata/testlog ./testdata/costtest
	cd packaging && $(AS_USER) $(GO) test $(UNVETTED) ./...

# Needs root. One package at a time: they attach probes and watch for leftovers. Within one, tests that mostly
# wait run side by side. What stands in files without these tags has run in `make unit`.
TAGGED       = grep -rlE '^//go:build .*\b(integration|services)\b' --include='*_test.go' --exclude-dir=testdata --exclude-dir=build .
INTEGRATED   = $(shell $(TAGGED) | xargs -n1 dirname | sort -u)
TAGGED_TESTS = $(shell $(TAGGED) | xargs sed -nE 's/^func ((Test|Fuzz|Example)[A-Za-z0-9_]*).*/\1/p' | grep -v '^TestMain$$' | sort -u | paste -sd '|')
INTEGRATION := -buildvcs=false -tags integration,services -count=1 -p 1 -parallel 5 $(UNVETTED)
integration: check-root build
	@$(AS_USER) $(MAKE) $(SIDE_BY_SIDE) testprograms
	testdata/tools/check_answers.sh build/testdata
	@[ -n '$(TAGGED_TESTS)' ] || { echo "integration: no test has its tags; see TAGGED in the Makefile" >&2; exit 1; }
	@GO=$(GO) .ci/tests integration $(INTEGRATION) -timeout 25m -run '^($(TAGGED_TESTS))$$' -- $(INTEGRATED)
	testdata/vm/own-facts

# The same while all processors are busy: how often does each fail? PACKAGES and RUN choose a part.
ROUNDS   ?= 5
PACKAGES ?= ./...
RUN      ?= .
test-loaded: check-root build
	@$(AS_USER) $(MAKE) $(SIDE_BY_SIDE) testprograms
	GO=$(GO) testdata/tools/test-loaded $(ROUNDS) $(INTEGRATION) -timeout 2h -run '$(RUN)' $(PACKAGES)

# A part of it for CI: what stops, starts, ends and reads processes while others want the processors.
LOADED_PART := Attach|Children|Exec|FailOn|FirstThread|Fork|Kill|Matrix|OperatorNew|PID|Prefork|Programs|Stop|Terminal|Top|USDTPool|USDTSIGKILL|USDTStacks|Verdicts
test-loaded-part:
	@$(MAKE) --no-print-directory test-loaded ROUNDS=1 PACKAGES='./procfs/... ./analyzer/reach ./cmd/memtrace' RUN='$(LOADED_PART)'

check-root:
	@[ "$$(id -u)" = 0 ] || { echo "This attaches probes to processes and needs root: sudo make $(MAKECMDGOALS)" >&2; exit 1; }

# --- other kernels ------------------------------------------------------------

vm-kernels:
	testdata/vm/fetch-kernels $(VM_KERNELS)

# Two at a time, as each takes one core; all of them, even after one has failed.
vm-test: vm-kernels build
	@$(AS_USER) $(MAKE) $(SIDE_BY_SIDE) testprograms
ifneq ($(filter-out arm64%,$(VM_KERNELS)),)
	$(AS_USER) testdata/vm/build-initramfs $(GO) '$(VM_TEST_ARGUMENTS)'
endif
ifneq ($(filter arm64%,$(VM_KERNELS)),)
	@$(AS_USER) $(MAKE) $(SIDE_BY_SIDE) testprograms-arm64
	$(AS_USER) env VM_ARCH=arm64 testdata/vm/build-initramfs $(GO) '$(VM_ARM64_ARGUMENTS)'
endif
	@printf '%s\n' $(VM_KERNELS) | VM_ENDS_ONLY='$(VM_ENDS_ONLY)' xargs -P2 -I{} testdata/vm/run-kernel {} $(VM_TIMEOUT) || \
		{ echo "vm-test: failed; the kernels are named above" >&2; exit 1; }
	testdata/vm/matrix check

# Not part of `make test`: an emulated arm64 takes a quarter of an hour, with pages of 4 KiB, 16 and 64, and the kernel
# with those of 64 ten minutes to build.
vm-test-arm64: check-root deps-test deps-arm64
	@$(MAKE) --no-print-directory vm-test VM_KERNELS='arm64 arm64-16k arm64-64k' VM_TIMEOUT=1800

# What could harm a program, on all kernels and by each mechanism that they have: some 25 minutes a kernel, where nothing else
# wants the processors.
VM_HARM_TIMEOUT ?= 2400
VM_HARM_ARGUMENTS = -test.v -test.short -test.parallel=1 -test.timeout=$(VM_HARM_TIMEOUT)s -test.run=^Test(KernelHas|$(VM_HARM))
VM_HARM := Harmless|KilledInEachPhase|SIGKILL|KilledMemtrace|BlockedSignals|SignalsArePassedOn|StoppedAndFrozen|DetachFromBusy|LongjmpAndExceptions|OperatorNewMay|FunctionsThatAreLeft|PatchedCode|CallsOfPtrace
vm-harm: check-root deps-test
	@$(MAKE) --no-print-directory vm-test VM_TIMEOUT=$(VM_HARM_TIMEOUT) VM_ENDS_ONLY= \
		VM_TEST_ARGUMENTS='$(VM_HARM_ARGUMENTS)' VM_ARM64_ARGUMENTS='$(VM_HARM_ARGUMENTS)'

# Writes what the last vm-test found into README.md.
vm-matrix:
	$(AS_USER) testdata/vm/matrix write

# --- for people ---------------------------------------------------------------

bench: check-root deps-bench build
	@$(AS_USER) $(MAKE) $(SIDE_BY_SIDE) testprograms $(TP_OUT)/leak_bench_lsan
	$(AS_USER) env CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -o build/bench ./testdata/bench
	cd testdata/bench/system && $(AS_USER) env CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -o ../../../build/bench-system .
	build/bench -o docs/benchmarks.md $(BENCH_ARGUMENTS)
	build/bench-system -o docs/benchmarks.md
	@$(MAKE) --no-print-directory bench-leaks

# Leak checks: of 4 GiB, beside a program that needs its mmap lock, and of services under load. The parts stand for
# themselves (BENCH_LEAKS=near), as each takes minutes.
BENCH_LEAKS ?= near far locks
BENCH_SCANS ?= 60
bench-leaks: check-root deps-bench build
	@$(AS_USER) $(MAKE) $(SIDE_BY_SIDE) testprograms $(TP_OUT)/leak_bench_lsan
	$(AS_USER) env CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -o build/bench ./testdata/bench
	for part in $(BENCH_LEAKS); do build/bench -o docs/benchmarks.md -leaks $$part || exit; done
	mkdir -p build/leaks-services
	MEMTRACE_SCANS=$(BENCH_SCANS) MEMTRACE_SCANS_OUT=$(CURDIR)/build/leaks-services $(GO) test -buildvcs=false -tags integration,services \
		-count=1 -timeout 3h -run 'TestLeakScansUnderLoad$(BENCH_SERVICES)' ./cmd/memtrace
	build/bench -o docs/benchmarks.md -leaks show

# Ten minutes of a trace at full speed. Fails where events are lost or memtrace's memory grows.
bench-sustained: check-root deps-bench build
	@$(AS_USER) $(MAKE) $(SIDE_BY_SIDE) testprograms
	$(AS_USER) env CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -o build/bench ./testdata/bench
	build/bench -o docs/benchmarks.md -sustained 10m

# Depths, threads and allocators: some 4 minutes each.
bench-grid: check-root deps-bench build
	@$(AS_USER) $(MAKE) $(SIDE_BY_SIDE) testprograms
	$(AS_USER) env CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -o build/bench ./testdata/bench
	@for allocator in glibc jemalloc mimalloc tcmalloc; do build/bench -o docs/benchmarks.md -grid $$allocator $(BENCH_ARGUMENTS) || exit 1; done

# How the stacks of real programs end, and what their frames cost.
bench-stacks: check-root deps-test build
	$(AS_USER) env CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -o build/bench-stacks ./testdata/bench/stacks
	build/bench-stacks
	build/bench-stacks -cost
	build/bench-stacks -o docs/benchmarks.md

# What a Python frame costs beside a native one: some two minutes.
bench-python: check-root deps-bench build
	$(AS_USER) env CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -o build/bench-stacks ./testdata/bench/stacks
	build/bench-stacks -python -o docs/benchmarks.md

# What tracing costs real programs. PROGRAMS says which: each takes some minutes, and what was measured of the others
# is kept in build/programs.
PROGRAMS ?= compiler compiler-clang compiler-small redis postgres-select postgres-tpcb python sqlite git
bench-programs: check-root deps-bench build
	$(AS_USER) env CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -o build/bench-programs ./testdata/bench/programs
	for program in $(PROGRAMS); do build/bench-programs -o docs/benchmarks.md $$program || exit; done

# What a trace without probes costs: a loop, a compiler, redis. Some five minutes.
bench-touch: check-root deps-bench build
	$(AS_USER) env CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -o build/bench-touch ./testdata/bench/touch
	build/bench-touch -o docs/benchmarks.md

# What a trace without a probe on free costs beside a full one, and a walk through a heap. Some three minutes.
bench-frees: check-root deps-bench build
	@$(AS_USER) $(MAKE) --no-print-directory testprograms
	$(AS_USER) env CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -o build/bench-touch ./testdata/bench/touch
	build/bench-touch -frees -rounds 7 -o docs/benchmarks.md

# Where each nanosecond of the BPF programs goes: they are built to end after each of their steps, by clang-19, in
# build/ladder alone. A quarter of an hour, a third of it to build them.
bench-ladder: check-root deps-bench build
	@$(AS_USER) $(MAKE) --no-print-directory testprograms
	$(AS_USER) env CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -o build/bench ./testdata/bench
	$(AS_USER) build/bench -build-ladder
	rm -f build/ladder/*.json
	for program in loop compiler; do build/bench -o docs/benchmarks.md -ladder $$program || exit; done

# Kills memtrace 200 times in each of five phases, and looks each time whether the program is as before: half an hour.
HARM_CYCLES ?= 200
harm-cycles: check-root deps-test build
	@$(AS_USER) $(MAKE) --no-print-directory testprograms
	HARM_CYCLES=$(HARM_CYCLES) $(GO) test -buildvcs=false -tags integration -count=1 -timeout 3h -v -run '^TestKilledInEachPhase$$' ./cmd/memtrace

# All of docs/benchmarks.md in one run: some three hours.
bench-all:
	@for part in bench bench-grid bench-sustained bench-stacks bench-python bench-programs bench-touch bench-frees bench-ladder bench-recording; do $(MAKE) --no-print-directory $$part || exit; done

# How fast names are, on a big binary that is built once.
bench-names: deps-bench build/bigdwarf
	$(AS_USER) $(GO) run ./testdata/bench/names -file build/bigdwarf

# What recordings take and cost, beside heaptrack.
bench-recording: check-root deps-bench build
	$(AS_USER) env CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -o build/bench-recording ./testdata/bench/recording
	env PATH="$(dir $(GO)):$$PATH" build/bench-recording

build/bigdwarf: analyzer/symbol/testdata/bigdwarf.sh
	$(AS_USER) $< $@

# Each fuzz test for a while; FUZZ says which, such as unwind. Inputs are hardly made smaller meanwhile: with seeds that
# are whole files, that takes nearly all of the time.
FUZZ ?= .
FUZZ_TIME ?= 30s
fuzz: check-go
	@grep -rn '^func Fuzz' --include='*_test.go' . | sed 's/^\(.*\)\/[^/]*:[0-9]*:func \(Fuzz[A-Za-z0-9_]*\).*/\1 \2/' | grep -E '$(FUZZ)' | \
	while read -r package name; do \
		echo "$$package $$name"; \
		$(GO) test -run '^$$' -fuzz "^$$name$$" -fuzztime $(FUZZ_TIME) -fuzzminimizetime 5x "$$package" || exit 1; \
	done

# Every fuzz test that there is, ten minutes each: a night. All of them run, even after one has failed, and those that
# failed are named at the end.
FUZZTIME ?= 10m
fuzz-long: check-go
	@failed=; \
	while read -r package name; do \
		echo "$$package $$name"; \
		$(AS_USER) $(GO) test -run '^$$' -fuzz "^$$name$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 5x "$$package" </dev/null || failed="$$failed $$package:$$name"; \
	done < <(grep -rn '^func Fuzz' --include='*_test.go' . | sed 's/^\(.*\)\/[^/]*:[0-9]*:func \(Fuzz[A-Za-z0-9_]*\).*/\1 \2/' | grep -E '$(FUZZ)'); \
	[ -z "$$failed" ] || { echo "failed:$$failed" >&2; exit 1; }

demo: check-root deps-demo build
	@$(AS_USER) $(MAKE) --no-print-directory $(TP_OUT)/demo_service
	@$(TP_OUT)/demo_service 60 & service=$$!; \
	trap 'kill $$service 2>/dev/null; wait $$service 2>/dev/null' EXIT; \
	trap 'exit 130' INT TERM HUP; \
	echo "Tracing build/testdata/demo_service (PID $$service) for 10 s:"; \
	./memtrace -p $$service -d 10s

# One of 51 services leaks 1 KiB a second; memtrace serve finds it, names the line, tells a receiver of alerts. Until Ctrl-C.
demo-serve: check-root deps-demo build
	@$(AS_USER) $(MAKE) --no-print-directory $(TP_OUT)/demo_leak
	@testdata/demo-serve $(TP_OUT)/demo_leak $(GO) $(AS_USER)

# One after the other, whatever -j says, and all of them, whatever fails; the quick ones first.
test: check-root deps-test
	@GO=$(GO) .ci/steps build check-generate unit lint integration test-loaded-part vm-test

deps-demo deps-test deps-bench deps-arm64: deps-%: check-go
	@.ci/setup $*

clean:
	rm -rf build memtrace
