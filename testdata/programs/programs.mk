# Builds the test programs into build/testdata/. Included by the Makefile.
#
# -fno-builtin keeps the compiler from dropping or merging calls of the malloc
# family; -fno-optimize-sibling-calls keeps every caller on the stack.

TP_SRC   := testdata/programs
TP_OUT   := build/testdata
TP_FLAGS := -g -ffile-prefix-map=$(CURDIR)=. -Wall -Wextra -Wno-missing-field-initializers -Wno-alloc-size-larger-than -Wno-use-after-free -Wno-infinite-recursion \
            -U_FORTIFY_SOURCE -fno-builtin -fno-optimize-sibling-calls -pthread
TP_FP    := -O1 -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer
TP_NOFP  := -O2 -fomit-frame-pointer

TP_SAY    = @echo "compile $@"

# Linked with an allocator of Debian's packages, by file: no package for development is needed.
TP_INTERFACES := jemalloc tcmalloc mimalloc
TP_C      := regions signals odd patched without_malloc leak_exec embedded heap_truth freed_unseen samples user_alloc own_pools usdt_pool python_blocks leak_rebuild every_function two_threads cross_thread_free temporary churn fork_exec births touch demo_service leak_bench lock_waits leak_exits known_memory first_thread outer_frames same_places predicted handed_out late_link plugins ended_threads first_touch slow_leak passed_around demo_leak grow_busily many_mappings
TP_CXX    := leaves longjmp_throw cxx_containers leak_moves
# Libraries that plugins loads.
TP_PLUGINS := libplugin_first.so libplugin_second.so libplugin_shifted.so libplugin_own.so
# Static programs: no libc.so to probe; with and without symbols.
TP_STATIC := every_function_static two_threads_static churn_static births_static predicted_static first_touch_static
# musl: the smallest libc, and no pvalloc.
TP_MUSL   := every_function_musl two_threads_musl every_function_musl_static

TP_ALL := $(addprefix $(TP_OUT)/,$(TP_C) $(TP_CXX) $(TP_STATIC) \
            churn_nofp cxx_containers_nofp every_function_stripped every_function_static_stripped first_touch_static_stripped \
            escape libescape.so plain_sleep moved_text moved_whole bare mixed_heap entries choose choose_lsan odd_lsan odd_asan libcount_calls.so leak_corpus libleak_tls.so leak_grid_O0 leak_grid_O2 $(TP_PLUGINS))
# Programs that know their own stacks, without frame pointers, by level of optimisation.
TP_STACKS := $(foreach level,O0 O2 O3,stacks_$(level) stacks_cxx_$(level) stacks_clang_$(level) stacks_cxx_clang_$(level) stacks_rust_$(level)) \
             stacks_static stacks_static_pie stacks_now stacks_musl stacks_musl_static
TP_ALL += $(addprefix $(TP_OUT)/,$(TP_STACKS) libstacks.so)
TP_ALL += $(if $(shell command -v musl-gcc),$(addprefix $(TP_OUT)/,$(TP_MUSL)))
# Rust.
TP_ALL += $(if $(shell command -v rustc),$(addprefix $(TP_OUT)/,leak_corpus_rust own_allocator))
TP_CRATES := /usr/share/cargo/registry
TP_CRATE  := $(firstword $(foreach crate,jemalloc-sys tikv-jemalloc-sys,$(if $(wildcard $(TP_CRATES)/$(crate)-*),$(crate))))
TP_ALL += $(if $(TP_CRATE),$(TP_OUT)/rust_jemalloc)
TP_ALL += $(addprefix $(TP_OUT)/interfaces_,$(TP_INTERFACES))
# Layers over malloc, from their development packages.
TP_LAYERS := layer_apr layer_glib
TP_ALL += $(addprefix $(TP_OUT)/,$(TP_LAYERS))
# A 32-bit program that needs no 32-bit libc, where compiler and linker know the format.
TP_ALL += $(if $(shell $(CC) -m32 -E -x c /dev/null >/dev/null 2>&1 && ld -V 2>/dev/null | grep elf_i386),$(TP_OUT)/sleeper32)

.PHONY: testprograms testprograms-arm64
testprograms: $(TP_ALL)

# For the arm64 VM, by Debian's cross compilers.
TP_ARM64 := $(TP_C) $(TP_CXX) $(TP_STATIC) escape libescape.so stacks_O0 stacks_O2 stacks_O3 stacks_cxx_O2 stacks_static libstacks.so leak_corpus libleak_tls.so odd_lsan odd_asan
testprograms-arm64:
	@$(MAKE) --no-print-directory TP_OUT=build/testdata-arm64 CC=aarch64-linux-gnu-gcc CXX=aarch64-linux-gnu-g++ $(addprefix build/testdata-arm64/,$(TP_ARM64))

$(TP_OUT):
	@mkdir -p $@

$(addprefix $(TP_OUT)/,$(TP_C)): $(TP_OUT)/%: $(TP_SRC)/%.c | $(TP_OUT)
	$(TP_SAY)
	$(Q)$(CC) $(TP_FLAGS) $(TP_FP) -MMD -MP -o $@ $<

$(addprefix $(TP_OUT)/,$(TP_CXX)): $(TP_OUT)/%: $(TP_SRC)/%.cc | $(TP_OUT)
	$(TP_SAY)
	$(Q)$(CXX) -std=c++17 $(TP_FLAGS) $(TP_FP) -MMD -MP -o $@ $<

TP_LIB_jemalloc := libjemalloc.so.2
TP_LIB_tcmalloc := libtcmalloc_minimal.so.4
TP_LIB_mimalloc  = $(notdir $(firstword $(wildcard /usr/lib/*-linux-gnu/libmimalloc.so.[23])))
$(addprefix $(TP_OUT)/interfaces_,$(TP_INTERFACES)): $(TP_OUT)/interfaces_%: $(TP_SRC)/interfaces.c | $(TP_OUT)
	$(TP_SAY)
	$(Q)$(CC) $(TP_FLAGS) $(TP_FP) -D$(shell echo $* | tr a-z A-Z) -MMD -MP -o $@ $< -l:$(TP_LIB_$*)

TP_PACKAGE_layer_apr  := apr-1
TP_PACKAGE_layer_glib := glib-2.0
$(addprefix $(TP_OUT)/,$(TP_LAYERS)): $(TP_OUT)/%: $(TP_SRC)/%.c | $(TP_OUT)
	$(TP_SAY)
	$(Q)$(CC) $(TP_FLAGS) $(TP_FP) -MMD -MP $$(pkg-config --cflags $(TP_PACKAGE_$*)) -o $@ $< $$(pkg-config --libs $(TP_PACKAGE_$*))

$(TP_OUT)/churn_nofp: $(TP_SRC)/churn.c | $(TP_OUT)
	$(TP_SAY)
	$(Q)$(CC) $(TP_FLAGS) $(TP_NOFP) -MMD -MP -o $@ $<

$(TP_OUT)/cxx_containers_nofp: $(TP_SRC)/cxx_containers.cc | $(TP_OUT)
	$(TP_SAY)
	$(Q)$(CXX) -std=c++17 $(TP_FLAGS) $(TP_NOFP) -MMD -MP -o $@ $<

$(addprefix $(TP_OUT)/,$(TP_STATIC)): $(TP_OUT)/%_static: $(TP_SRC)/%.c | $(TP_OUT)
	$(TP_SAY)
	$(Q)$(CC) $(TP_FLAGS) $(TP_FP) -static -no-pie -MMD -MP -o $@ $<

$(TP_OUT)/%_stripped: $(TP_OUT)/%
	$(TP_SAY)
	$(Q)strip -o $@ $<

# musl-gcc drops its spec file on -static-pie; the dynamic ones run with musl's own loader.
$(TP_OUT)/%_musl: $(TP_SRC)/%.c | $(TP_OUT)
	$(TP_SAY)
	$(Q)musl-gcc $(TP_FLAGS) $(TP_FP) -MMD -MP -o $@ $<

$(TP_OUT)/%_musl_static: $(TP_SRC)/%.c | $(TP_OUT)
	$(TP_SAY)
	$(Q)musl-gcc $(TP_FLAGS) $(TP_FP) -static -MMD -MP -o $@ $<

$(TP_OUT)/libescape.so: $(TP_SRC)/libescape.c | $(TP_OUT)
	$(TP_SAY)
	$(Q)$(CC) $(TP_FLAGS) $(TP_FP) -fPIC -shared -Wl,-soname,libescape.so -MMD -MP -o $@ $<

TP_PLUGIN_shifted := -DSHIFTED
TP_PLUGIN_own     := -DOWN -fno-builtin
$(TP_OUT)/libplugin_%.so: $(TP_SRC)/libplugin.c | $(TP_OUT)
	$(TP_SAY)
	$(Q)$(CC) $(TP_FLAGS) $(TP_FP) -DNAME=$* $(TP_PLUGIN_$*) -fPIC -shared -MMD -MP -o $@ $<

$(TP_OUT)/escape: $(TP_SRC)/escape.c $(TP_OUT)/libescape.so
	$(TP_SAY)
	$(Q)$(CC) $(TP_FLAGS) $(TP_FP) -MMD -MP -o $@ $< $(TP_OUT)/libescape.so -Wl,-rpath,'$$ORIGIN'

TP_CLANG := clang-19
# Debian's, where there is another.
TP_RUSTC := $(firstword $(wildcard /usr/bin/rustc) rustc)

TP_STACKS_FLAGS := -g -Wall -Wextra -Wno-unused-function -Wno-unknown-warning-option -Wno-stringop-overread -U_FORTIFY_SOURCE -fno-builtin -fomit-frame-pointer -pthread

$(TP_OUT)/stacks_O%: $(TP_SRC)/stacks.c $(TP_SRC)/stacks.h | $(TP_OUT)
	$(CC) -O$* $(TP_STACKS_FLAGS) -Wl,-z,lazy -o $@ $< -ldl

$(TP_OUT)/stacks_cxx_O%: $(TP_SRC)/stacks_cxx.cc $(TP_SRC)/stacks.h | $(TP_OUT)
	$(CXX) -std=c++17 -O$* $(TP_STACKS_FLAGS) -Wl,-z,now -o $@ $<

$(TP_OUT)/stacks_static: $(TP_SRC)/stacks.c $(TP_SRC)/stacks.h | $(TP_OUT)
	$(CC) -O2 $(TP_STACKS_FLAGS) -DNO_DLOPEN -static -no-pie -o $@ $<

$(TP_OUT)/stacks_clang_O%: $(TP_SRC)/stacks.c $(TP_SRC)/stacks.h | $(TP_OUT)
	$(TP_CLANG) -O$* $(TP_STACKS_FLAGS) -Wno-gnu-folding-constant -Wl,-z,lazy -o $@ $< -ldl

$(TP_OUT)/stacks_cxx_clang_O%: $(TP_SRC)/stacks_cxx.cc $(TP_SRC)/stacks.h | $(TP_OUT)
	$(TP_CLANG) --driver-mode=g++ -std=c++17 -O$* $(TP_STACKS_FLAGS) -Wl,-z,now -o $@ $<

$(TP_OUT)/stacks_rust_O%: $(TP_SRC)/stacks_rust.rs | $(TP_OUT)
	$(TP_RUSTC) --edition 2018 -C opt-level=$* -C force-frame-pointers=no -C force-unwind-tables=yes -o $@ $<

$(TP_OUT)/stacks_static_pie: $(TP_SRC)/stacks.c $(TP_SRC)/stacks.h | $(TP_OUT)
	$(CC) -O2 $(TP_STACKS_FLAGS) -DNO_DLOPEN -static-pie -o $@ $<

$(TP_OUT)/stacks_now: $(TP_SRC)/stacks.c $(TP_SRC)/stacks.h | $(TP_OUT)
	$(CC) -O2 $(TP_STACKS_FLAGS) -Wl,-z,now -o $@ $< -ldl

$(TP_OUT)/stacks_musl: $(TP_SRC)/stacks_musl.c $(TP_SRC)/stacks.h | $(TP_OUT)
	musl-gcc -O2 $(TP_STACKS_FLAGS) -o $@ $<

$(TP_OUT)/stacks_musl_static: $(TP_SRC)/stacks_musl.c $(TP_SRC)/stacks.h | $(TP_OUT)
	musl-gcc -O2 $(TP_STACKS_FLAGS) -static -o $@ $<

$(TP_OUT)/libstacks.so: $(TP_SRC)/libstacks.c | $(TP_OUT)
	$(CC) -O2 $(TP_STACKS_FLAGS) -fPIC -shared -o $@ $<

$(TP_OUT)/libleak_tls.so: $(TP_SRC)/leak_tls.c | $(TP_OUT)
	$(TP_SAY)
	$(Q)$(CC) $(TP_FLAGS) $(TP_FP) -fPIC -shared -MMD -MP -o $@ $<

$(TP_OUT)/leak_corpus: $(TP_SRC)/leak_corpus.cc $(TP_OUT)/libleak_tls.so
	$(TP_SAY)
	$(Q)$(CXX) -std=c++17 $(TP_FLAGS) -DNO_TABLE $(TP_FP) -MMD -MP -o $@ $< -Wl,-rpath,'$$ORIGIN' -ldl

# For the benchmark alone: LeakSanitizer's own check of the same heap.
$(TP_OUT)/leak_bench_lsan: $(TP_SRC)/leak_bench.c | $(TP_OUT)
	$(TP_SAY)
	$(Q)$(CC) -O2 -fsanitize=leak -DLSAN -o $@ $<

# Programs that take themselves under ptrace as they end.
$(TP_OUT)/odd_lsan $(TP_OUT)/odd_asan: $(TP_OUT)/odd_%san: $(TP_SRC)/odd.c | $(TP_OUT)
	$(TP_SAY)
	$(Q)$(CC) $(TP_FLAGS) $(TP_FP) -fsanitize=$(if $(filter l,$*),leak,address) -o $@ $<

$(TP_OUT)/leak_corpus_rust: $(TP_SRC)/leak_corpus.rs | $(TP_OUT)
	$(TP_SAY)
	$(Q)rustc --edition 2021 -O -g -o $@ $<

# Not optimised, as the compiler inlines an allocator into the crate that defines it.
$(TP_OUT)/own_allocator: $(TP_SRC)/own_allocator.rs | $(TP_OUT)
	$(TP_SAY)
	$(Q)rustc --edition 2021 -g -o $@ $<

# jemalloc is built as crates build it, from sources of Debian's, with Debian's cargo.
TP_CARGO := $(TP_OUT)/rust_jemalloc.cargo
$(TP_OUT)/rust_jemalloc: $(TP_SRC)/rust_jemalloc.rs $(TP_SRC)/rust_jemalloc.toml | $(TP_OUT)
	$(TP_SAY)
	$(Q)mkdir -p $(TP_CARGO)
	$(Q)cp $(TP_SRC)/rust_jemalloc.rs $(TP_CARGO)/main.rs
	$(Q)sed s/CRATE/$(TP_CRATE)/ $(TP_SRC)/rust_jemalloc.toml >$(TP_CARGO)/Cargo.toml
	$(Q)cd $(TP_CARGO) && CARGO_HOME=$(abspath $(TP_CARGO))/home RUSTC=/usr/bin/rustc /usr/bin/cargo build --release --offline --quiet \
	    --config 'source.crates-io.replace-with="debian"' --config 'source.debian.directory="$(TP_CRATES)"' >build.log 2>&1 || { cat build.log; exit 1; }
	$(Q)cp $(TP_CARGO)/target/release/rust_jemalloc $@ && rm -rf $(TP_CARGO)

$(TP_OUT)/sleeper32: $(TP_SRC)/sleeper32.c | $(TP_OUT)
	$(TP_SAY)
	$(Q)$(CC) -m32 -O1 -ffreestanding -fno-pic -fno-stack-protector -nostdlib -static -Wl,-m,elf_i386 -o $@ $<

$(TP_OUT)/plain_sleep: $(TP_SRC)/plain_sleep.c | $(TP_OUT)
	$(TP_SAY)
	$(Q)$(CC) -O1 -ffreestanding -fno-pic -no-pie -fno-stack-protector -nostdlib -static -o $@ $<

$(TP_OUT)/bare: $(TP_SRC)/bare.go | $(TP_OUT)
	$(TP_SAY)
	$(Q)CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -o $@ $<

$(TP_OUT)/moved_text $(TP_OUT)/moved_whole: $(TP_OUT)/%: $(TP_SRC)/%.c | $(TP_OUT)
	$(TP_SAY)
	$(Q)$(CC) $(TP_FLAGS) $(TP_NOFP) -fno-toplevel-reorder -MMD -MP -o $@ $<

$(TP_OUT)/mixed_heap: $(TP_SRC)/bare.go $(TP_SRC)/mixed_heap.go | $(TP_OUT)
	$(TP_SAY)
	$(Q)CGO_ENABLED=1 $(GO) build -trimpath -buildvcs=false -o $@ $^

$(TP_OUT)/libentries.so: $(TP_SRC)/libentries.c | $(TP_OUT)
	$(TP_SAY)
	$(Q)$(CC) $(TP_FLAGS) $(TP_FP) -fPIC -shared -Wl,-soname,libentries.so -MMD -MP -o $@ $<

$(TP_OUT)/entries: $(TP_SRC)/entries.c $(TP_OUT)/libentries.so
	$(TP_SAY)
	$(Q)$(CC) $(TP_FLAGS) $(TP_FP) -MMD -MP -o $@ $< $(TP_OUT)/libentries.so -Wl,-rpath,'$$ORIGIN'

# DWARF 4, as Valgrind before 3.20 reads no inlined functions from DWARF 5.
$(TP_OUT)/choose: $(TP_SRC)/choose.cc | $(TP_OUT)
	$(TP_SAY)
	$(Q)$(CXX) -g -gdwarf-4 -O1 -o $@ $<

$(TP_OUT)/choose_lsan: $(TP_SRC)/choose.cc | $(TP_OUT)
	$(TP_SAY)
	$(Q)$(CXX) -g -gdwarf-4 -O1 -fsanitize=leak -o $@ $<

# Its frames are as the compiler makes them by itself.
$(TP_OUT)/leak_grid_O%: $(TP_SRC)/leak_grid.cc | $(TP_OUT)
	$(TP_SAY)
	$(Q)$(CXX) -std=c++17 -g -O$* -Wall -Wextra -o $@ $<

$(TP_OUT)/libcount_calls.so: testdata/tools/count_calls.c | $(TP_OUT)
	$(TP_SAY)
	$(Q)$(CC) -O1 -g -Wall -fno-builtin -fPIC -shared -MMD -MP -o $@ $< -ldl

-include $(wildcard $(TP_OUT)/*.d)
