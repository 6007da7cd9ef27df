# cove: the tree is the build. A .c file in a folder of src/ is in the program, a *_test.c under
# test/unit/ is a test, a *_fuzz.c under fuzz/ is a fuzzer. Nothing is listed twice: the folders and
# who sees whom come from src/FLOORS, what pid 1 is made of comes from its #include lines, and what
# the seccomp filters allow comes from the `// syscalls:` lines of the sources that each role links.
#
# Everything lands in build/<variant>/. VERBOSE=1 shows the commands.
#
# make            build/cove, with pid 1 and the dashboard inside: one file to install (WEB=0: no dashboard)
# make lib        build/libcove.so, build/libcove.a: the client library for C programs
# make run        build, start `cove serve` on 127.0.0.1:8484, show one command in a sandbox
# make test       every unit test, whole story and hostile row, as TAP
# make unit       only the unit tests           (also: make e2e, make hostile; V=asan and so on)
# make deps       install the Debian packages that building, running and testing need
# make bench      one table: cove beside bwrap, crun, runc, podman and a bare spawn
# make lint       floors, circles, bans, lengths, format, tidy, each header alone, shell scripts
# make asan       unit tests and short stories under ASan and UBSan
# make tsan       the same under TSan
# make fuzz       every fuzzer, FUZZ_SECONDS=60 each
# make weak       a build for the hostile rows alone: each defence can be switched off, to see it missed
# make torture    fail every n-th allocation and system call over create, exec, delete
# make spin       the lease and its keeper, model-checked
# make soak       the stories with the counts of a release
# make vm         the suites in virtual machines: arm64 and amd64, cgroup v2
# make install    PREFIX=/usr/local DESTDIR=    (and make uninstall)
# make deb        a Debian package in build/   (and make check-deb: it is installed, in a sandbox)
# make clean      forget everything that was built

V     ?= release
O     ?= build/$(V)
ARCH  ?= $(firstword $(subst -, ,$(shell $(CC) -dumpmachine 2>/dev/null)))
JOBS  ?= $(shell nproc)
TESTS ?= $(shell expr $(JOBS) + 1) # at a time: they wait most of theirs

# ---------------------------------------------------------------------------------- the compiler

ifeq ($(origin CC),default)
CC := $(if $(filter fuzz,$(V)),clang,gcc)
endif
AWK       := LC_ALL=C awk
NM        ?= nm
# make again, on all processors unless the caller said how many
again     = $(MAKE) --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j$(JOBS))
say       = $(if $(VERBOSE),,@printf '  %-6s %s\n' '$(1)' '$(@:$(O)/%=%)' &&) # VERBOSE=1 shows the commands
is_clang  := $(findstring clang,$(shell $(CC) --version 2>/dev/null | head -n1))
sanitized := $(filter asan tsan fuzz,$(V))
is_weak   := $(filter weak,$(V))
$(if $(is_weak),$(if $(findstring build/release,$(O)),$(error the weak build has a directory of its own)))

CFLAGS_release := -O2 -g
CFLAGS_amd64   := -O2 -g
CFLAGS_arm64   := -O2 -g
CFLAGS_debug   := -O0 -g3
CFLAGS_torture := -O1 -g1 -DCOVE_FAULT
CFLAGS_weak    := -O1 -g1 -DCOVE_WEAK
CFLAGS_asan    := -O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=undefined
CFLAGS_tsan    := -O1 -g1 -fsanitize=thread
CFLAGS_fuzz    := -O1 -g1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined
LDFLAGS_fuzz   := -fsanitize=address,undefined

HARDEN_x86_64  := -fcf-protection=branch # shadow stacks would miss the switch of tasks
HARDEN_aarch64 := -mbranch-protection=standard
# clang 14 knows no stack clash protection on aarch64 and says so as an error.
HARDEN := -fstack-protector-strong $(HARDEN_$(ARCH)) \
          $(if $(is_clang),$(if $(filter x86_64,$(ARCH)),-fstack-clash-protection),-fstack-clash-protection)
WARN   := -Wall -Wextra -Werror -Wshadow -Wvla -Wformat=2 -Wundef -Wwrite-strings \
          -Wstrict-prototypes -Wmissing-prototypes $(if $(is_clang),-Wno-gnu-statement-expression)

# SYSROOT=DIR compiles for another architecture, against the headers and libraries unpacked there.
SYSROOT_FLAGS := $(if $(SYSROOT),--sysroot=$(SYSROOT))
# The flags of this tree are put in front, so that CPPFLAGS, CFLAGS, LDFLAGS of the caller win.
cppflags = -D_GNU_SOURCE -iquote src -iquote test -iquote $(O) -MMD -MP \
           $(if $(sanitized)$(filter debug torture,$(V)),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3) $(CPPFLAGS)
# char is unsigned on every architecture, as it is on arm64: what a byte is does not depend on the host.
bytes    = -funsigned-char
cflags   = -std=gnu17 $(bytes) -fPIE -ffunction-sections -fno-omit-frame-pointer $(HARDEN) $(CFLAGS_$(V)) $(WARN) \
           $(if $(sanitized)$(filter debug,$(V)),$(calm),-Wframe-larger-than=4096) $(SYSROOT_FLAGS) $(CFLAGS)
# Instrumented code confuses gcc's guesses about lengths and paths; the release build makes them.
calm     = $(if $(is_clang),,-Wno-format-truncation -Wno-format-overflow -Wno-maybe-uninitialized)
wraps    = $(if $(filter torture,$(V)),$(patsubst %,-Wl$(comma)--wrap=%,\
           $(shell sed -n 's|^// wraps: *||p' src/base/fault.c 2>/dev/null)))
ldflags  = -pie -Wl,-z,relro,-z,now,-z,noexecstack,-z,separate-code,--as-needed,--gc-sections $(SYSROOT_FLAGS) \
           $(filter -fsanitize%,$(if $(filter fuzz,$(V)),$(LDFLAGS_fuzz),$(CFLAGS_$(V)))) $(wraps) $(LDFLAGS)
ldlibs   = -lseccomp -ljson-c -larchive -linih -lssl -lcrypto -lwslay -lzstd -lsqlite3 -lpthread $(LDLIBS)

# -------------------------------------------------------------------------------------- the house

comma := ,
floor_lines := $(shell $(AWK) '/^[a-z]/ { gsub(/[ \t]+/, ","); print }' src/FLOORS)
$(foreach l,$(floor_lines),$(eval sees_$(firstword $(subst $(comma), ,$(l))) := $(wordlist 2,99,$(subst $(comma), ,$(l)))))
FLOORS := $(filter-out main,$(foreach l,$(floor_lines),$(firstword $(subst $(comma), ,$(l)))))
# A floor with everything that it can reach, itself first.
reach = $(call uniq,$(1) $(foreach f,$(sees_$(1)),$(call reach,$(f))))
uniq  = $(if $(1),$(firstword $(1)) $(call uniq,$(filter-out $(firstword $(1)),$(1))))

sources = $(wildcard src/$(1)/*.c) $(wildcard src/$(1)/*.S)
objects = $(patsubst %,$(O)/%.o,$(basename $(call sources,$(1))))
archive = $(if $(strip $(call sources,$(1))),$(O)/$(1).a)

tests   := $(patsubst %.c,$(O)/%,$(wildcard test/unit/*/*_test.c))
fuzzers := $(patsubst %.c,$(O)/%,$(wildcard fuzz/*_fuzz.c))
# Programs that run inside a box, under whatever C library the box has: static.
lone    := $(foreach c,$(wildcard test/e2e/*.c test/hostile/*.c),$(O)/test/box/$(basename $(notdir $(c))))
inmates := $(lone) $(if $(wildcard test/audit/*.c),$(O)/test/box/box-audit)
gens    := $(O)/gen/version.h
roles   := daemon warden
lists   := $(roles:%=$(O)/gen/syscalls_%.o)
pid1    := $(O)/cove-init

# V=amd64 and V=arm64 are cross builds: see test/vm/run.
.PHONY: all lib tests objects inmates help
all: build/$(if $(filter release,$(V)),,$(V)/)cove $(if $(filter release,$(V)),lib)
tests: $(tests) inmates
all_objects := $(O)/src/main.o $(foreach f,$(FLOORS),$(call objects,$(f)))
objects: $(all_objects) # everything compiles, whether or not it links yet
inmates: $(inmates)
	@$(if $(filter release,$(V)),mkdir -p build/test && cp -u --remove-destination $^ build/test/)

build/cove: build/release/cove
	@cp $< $@.new && mv $@.new $@

$(O)/cove: $(O)/src/main.o $(lists) $(foreach f,$(call reach,main),$(call archive,$(f)))
	$(call say,LINK)$(CC) $(ldflags) -o $@ $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(ldlibs)

$(O)/%.o: %.c | $(gens)
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(cppflags) $(cflags) $(cflags_$(firstword $(subst /, ,$*))) -c -o $@ $<
$(O)/%.o: %.S | $(gens)
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(cppflags) $(cflags) -c -o $@ $<

# One archive a floor. The warden's also carries pid 1, the box's the drivers of interpreters, the
# cloudflare folder's the description of the API, api's the dashboard.
drivers := $(patsubst %,$(O)/kernels_%.o,boot_py python_py python_pyc figures_py boot_js node_js typescript_js)
define floor_rule
$(O)/$(1).a: $(call objects,$(1)) $(if $(filter warden,$(1)),$(O)/pid1.o) $(if $(filter cloudflare,$(1)),$(O)/openapi.o) \
          $(if $(filter box,$(1)),$(drivers)) $(if $(filter api,$(1)),$(O)/dashboard.o)
	@rm -f $$@.new && ar rcsD $$@.new $$^ && mv $$@.new $$@
endef
$(foreach f,$(FLOORS),$(eval $(call floor_rule,$(f))))

# A test of a floor links that floor and the floors that it sees, nothing above: a call that runs
# upstairs does not link.
floor_of = $(word 3,$(subst /, ,$(patsubst $(O)/%,%,$(1))))
links = $(call reach,$(1)) $(peer_$(1))
peer_box := init # no arrow joins the two, but a box's test talks to the real pid 1
peer_agent := init # so do artifacts
cflags_test = -DCOVE_INIT='"$(abspath $(pid1))"' $(big_frames) $(calm)
cflags_fuzz = $(big_frames)
big_frames = -Wno-frame-larger-than # the small stacks are the tasks', not the tests'
.SECONDEXPANSION:
$(tests): $(O)/%: $(O)/%.o $$(foreach f,$$(call links,$$(call floor_of,$$@)),$$(call archive,$$f)) \
          $$(if $$(filter init box agent,$$(call floor_of,$$@)),$(pid1)) $$(if $$(filter serve warden,$$(call floor_of,$$@)),$(lists))
	$(call say,LINK)$(CC) $(ldflags) -o $@ $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(ldlibs)

# A fuzzer links the rooms that it includes, and what they see.
rooms_of = $(call uniq,$(foreach r,$(shell sed -n 's|^.include "\([a-z]*\)/.*|\1|p' $(1)),$(call reach,$(r))))
$(fuzzers): $(O)/%: $(O)/%.o $$(foreach f,$$(call rooms_of,$$*.c),$$(call archive,$$f))
	$(call say,LINK)$(CC) $(ldflags) -fsanitize=fuzzer -o $@ $< -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(ldlibs)

# What lives in init/ has a main() of its own; as part of a test it gets out of the test's way.
$(O)/src/init/%.o: CFLAGS += -Dmain=cove_init_main -Wno-missing-prototypes

# -------------------------------------------------------------------------------------------- lib
# libcove is the room lib/ with all that it needs of the rooms below, compiled once more to be
# shared. Only what <cove.h> declares can be seen from outside, in the static one too.

LIBCOVE := 0
pic_floors := $(call reach,lib)
pic_objects = $(patsubst $(O)/%,$(O)/pic/%,$(call objects,$(1)))
libs := $(O)/libcove.so $(O)/libcove.a $(O)/libcove.pc

$(O)/pic/%.o: %.c | $(gens)
	@mkdir -p $(@D)
	$(call say,PIC)$(CC) $(cppflags) $(cflags) -fPIC -fvisibility=hidden -c -o $@ $<
$(O)/pic/below.a: $(foreach f,$(filter-out lib,$(pic_floors)),$(call pic_objects,$(f)))
	@rm -f $@.new && ar rcsD $@.new $^ && mv $@.new $@
$(O)/libcove.so.$(LIBCOVE): src/lib/libcove.map $(call pic_objects,lib) $(O)/pic/below.a
	$(call say,LINK)$(CC) -shared $(filter-out -pie,$(ldflags)) -Wl,-z,defs,-soname,$(@F),--version-script=$< -o $@ \
		$(filter-out $<,$^) $(ldlibs)
$(O)/libcove.so: $(O)/libcove.so.$(LIBCOVE)
	@ln -sfn $(<F) $@
$(O)/libcove.a: $(call pic_objects,lib) $(O)/pic/below.a
	$(call say,AR)$(CC) -r -nostdlib $(SYSROOT_FLAGS) -o $(O)/pic/libcove.o $^ && \
		$(OBJCOPY) --wildcard --keep-global-symbol='cove_*' $(O)/pic/libcove.o && \
		rm -f $@.new && ar rcsD $@.new $(O)/pic/libcove.o && mv $@.new $@
.PHONY: always
$(O)/libcove.pc: dist/libcove.pc always # PREFIX may be another one each time
	$(call replace,sed 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@VERSION@|'"$$(cat VERSION)"'|' $<)
lib: $(libs)
	@$(if $(filter build/release,$(O)),cp -P --remove-destination $(O)/libcove.* build/)

# ------------------------------------------------------------------------------------------ pid 1
# Static, against musl, with the same compiler but another C library: so the headers and start
# files are named one by one, which also works for a foreign architecture and needs no wrapper.

PID1_CC ?= $(if $(is_clang),gcc,$(CC))
MUSL    ?= $(ARCH)-linux-musl
musl_inc  = $(SYSROOT)/usr/include/$(MUSL)
musl_lib  = $(SYSROOT)/usr/lib/$(MUSL)
gcc_file  = $(shell $(PID1_CC) -print-file-name=$(1))
pid1_srcs := $(shell $(AWK) -f tools/closure.awk $(wildcard src/init/*.c) /dev/null)
pid1_objs := $(patsubst %.c,$(O)/pid1/%.o,$(pid1_srcs))
pid1_flags = -std=gnu17 $(bytes) -D_GNU_SOURCE -D_FORTIFY_SOURCE=0 -DCOVE_PID1 $(if $(is_weak),-DCOVE_WEAK) -iquote src -iquote $(O) -MMD -MP -nostdinc \
             -isystem $(musl_inc) -isystem $(call gcc_file,include) -isystem $(O)/uapi \
             -Os -g -fPIE -ffunction-sections -fdata-sections -fno-asynchronous-unwind-tables \
             -fstack-protector-strong -fstack-clash-protection $(HARDEN_$(ARCH)) $(WARN) -Wframe-larger-than=8192

# The kernel's own headers, without glibc's beside them.
$(O)/uapi:
	@mkdir -p $@.new && ln -sfn $(SYSROOT)/usr/include/linux $(SYSROOT)/usr/include/asm-generic \
		$(SYSROOT)/usr/include/$(ARCH)-linux-gnu/asm $@.new/ && rm -rf $@ && mv -T $@.new $@

$(O)/pid1/%.o: %.c | $(gens) $(O)/uapi
	@mkdir -p $(@D)
	$(call say,MUSL)$(PID1_CC) $(pid1_flags) -c -o $@ $<

static = -nostdlib -static-pie -Wl,-z,relro,-z,now,-z,noexecstack,-z,separate-code,--gc-sections,--build-id=none
with_musl = $(musl_lib)/rcrt1.o $(musl_lib)/crti.o $(call gcc_file,crtbeginS.o) $(1) \
            -Wl,--start-group $(musl_lib)/libc.a $(call gcc_file,libgcc.a) -Wl,--end-group \
            $(call gcc_file,crtendS.o) $(musl_lib)/crtn.o

$(pid1): $(pid1_objs)
	$(call say,LINK)$(PID1_CC) $(static) -o $@.full $(call with_musl,$^)
	@$(OBJCOPY) --strip-all $@.full $@

OBJCOPY ?= $(if $(SYSROOT),$(ARCH)-linux-gnu-)objcopy
$(O)/pid1.o $(O)/openapi.o $(O)/dashboard.o $(drivers): $(O)/%.o: tools/embed.S
	$(call say,AS)$(CC) $(SYSROOT_FLAGS) $(HARDEN_$(ARCH)) -DEMBED_NAME=$* -DEMBED_FILE='"$(lastword $^)"' -c -o $@ $<
$(O)/pid1.o: $(pid1)
$(O)/openapi.o: docs/openapi.json
$(O)/dashboard.o: build/web/dashboard.pack
build/web/dashboard.pack: web/package-lock.json web/build.mjs tools/web $(wildcard web/src/*) $(if $(filter 0,$(WEB))$(wildcard build/web/none),always)
	$(call say,WEB)WEB=$(WEB) tools/web $@
$(O)/kernels_boot_py.o: src/kernels/boot.py
$(O)/kernels_python_py.o: src/kernels/python.py
$(O)/kernels_python_pyc.o: build/kernels/python.pyc
$(O)/kernels_figures_py.o: src/kernels/figures.py
$(O)/kernels_boot_js.o: src/kernels/boot.js
$(O)/kernels_node_js.o: src/kernels/node.js
$(O)/kernels_typescript_js.o: build/kernels/typescript.js
build/kernels/python.pyc: src/kernels/python.py tools/pyc
	@mkdir -p $(@D)
	$(call say,PYC)tools/pyc $< $@
build/kernels/typescript.js: src/kernels/typescript/package-lock.json tools/bundle.js tools/typescript
	$(call say,NPM)tools/typescript $@

vpath %.c test/e2e test/hostile
$(lone): $(O)/test/box/%: $(O)/box/%.o
$(O)/test/box/box-audit: $(patsubst %.c,$(O)/box/%.o,$(wildcard test/audit/*.c))
$(inmates):
	@mkdir -p $(@D)
	$(call say,LINK)$(PID1_CC) $(static) -o $@ $(call with_musl,$^)
$(O)/box/%.o: %.c | $(O)/uapi
	@mkdir -p $(@D)
	$(call say,MUSL)$(PID1_CC) $(pid1_flags) -iquote test -Wno-frame-larger-than -c -o $@ $<

# -------------------------------------------------------------------------------------- generated
# A generated file is only touched when its text changes, so nothing is rebuilt for nothing.

replace = @mkdir -p $(@D) && { $(1); } > $@.new && if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

# What a role of the binary is made of is what a link with its entry point takes out of the archives.
# Only the map of that link is kept: no library is looked at, and nothing has to be resolved.
$(roles:%=$(O)/gen/%.map): $(O)/gen/%.map: $(foreach f,$(call reach,main),$(call archive,$(f)))
	@mkdir -p $(@D)
	@$(CC) $(SYSROOT_FLAGS) -no-pie -nostdlib -Wl,-e,$*_main,-u,$*_main,--unresolved-symbols=ignore-all,-Map=$@.new -o /dev/null \
		-Wl,--start-group $^ -Wl,--end-group && mv $@.new $@
$(lists:.o=.c): $(O)/gen/syscalls_%.c: $(O)/gen/%.map tools/syscalls.awk
	$(call replace,$(AWK) -f tools/syscalls.awk -v name=syscalls_$* $<)
$(lists): %.o: %.c
	$(call say,CC)$(CC) $(cppflags) $(cflags) -c -o $@ $<

$(O)/gen/version.h: VERSION
	$(call replace,printf '#define COVE_VERSION "%s"\n' "$$(cat VERSION)$(if $(is_weak),-weak)")

# ------------------------------------------------------------------------------- running, testing
# Tests print TAP; tools/tap runs each under a time limit and keeps what it printed in TAP_DIR, where
# tools/tally counts. Each story has a cove of its own, so several run at once. One that counts or
# times what is the whole host's says so in a line "# alone: why", and has it to itself.

# The thread sanitizer adds a thread, and a process with two cannot enter a user namespace. What makes
# boxes has one thread by law, as what only computes has, so there is nothing to find.
UNIT    ?= $(filter-out $(unfit_$(V):%=$(O)/test/unit/%),$(tests))
unfit_tsan := init/% types/% protocol/% os/% warden/%
unfit_asan := types/lease_explore_test # which calls what lease_test does, for minutes
E2E     ?= $(sort $(wildcard test/kernels/*.t test/e2e/*.t))
HOSTILE ?= $(sort $(wildcard test/hostile/*.t))
unexport COVE_URL COVE_TOKEN # of a cove that happens to run here
export COVE_BIN = $(abspath $(O)/cove)
export COVE_TEST_TYPESCRIPT = $(abspath build/kernels/typescript.js)
export COVE_AUDIT = $(abspath $(O)/test/box/box-audit)
export COVE_WEAK_BIN ?= $(abspath build/weak/cove)
export COVE_SYSFUZZ = $(abspath $(O)/test/box/sysfuzz)
export COVE_E2E_SHORT := $(or $(COVE_E2E_SHORT),$(if $(sanitized),1))
# gcc 12's thread sanitizer knows fewer random bits of an address than newer kernels use, and some
# tests fork daemons that start threads again. The leak check
# costs seconds at every exit and needs calls that the daemon's filter forbids: unit tests only.
# Whatever ends make ends prove, and with it each test, which undoes what it began.
with_parent = setpriv --pdeathsig TERM
prove = $(if $(strip $(1)),TAP_DIR=$(O)/tap $(if $(filter tsan,$(V)),TSAN_OPTIONS=die_after_fork=0 setarch -R) $(with_parent) prove --exec '$(with_parent) tools/tap' -f $(2) $(1),true)
alone   = $(if $(strip $(1)),$(shell grep -ls '^[#] alone:' $(1)))
stories = { export ASAN_OPTIONS=detect_leaks=0; told=0; $(call prove,$(filter-out $(call alone,$(1)),$(1)),-j $(TESTS)) || told=1; \
	$(call prove,$(call alone,$(1))) || told=1; [ $$told = 0 ]; }

.PHONY: test space test-built unit e2e hostile weak asan tsan run deps bench bench-built soak
test: need := build run test
test: space deps
	+@$(again) test-built
space:
	@tools/space $(TESTS)
test-built: $(O)/cove $(tests) inmates $(if $(sanitized),,lib weak)
	@[ -n "$$TAP_AGAIN" ] || rm -rf $(O)/tap; code=0; \
	$(call prove,$(UNIT),-j $(TESTS)) || code=1; \
	$(call stories,$(HOSTILE) $(E2E)) || code=1; \
	tools/tally $(O)/tap || code=1; exit $$code
unit: $(tests)
	@$(call prove,$(UNIT),-j $(TESTS))
e2e: $(O)/cove inmates $(if $(sanitized),,lib)
	@$(call stories,$(E2E))
# Never installed, never packed: it lies beside what is.
weak:
	+@$(again) V=weak O=build/weak build/weak/cove
hostile: $(O)/cove inmates weak
	@$(call stories,$(HOSTILE))

# Sanitizer builds run the unit tests and a few whole stories with smaller counts.
SHORT_E2E ?= $(sort $(wildcard $(patsubst %,test/e2e/%.t,smoke life exec http)))
asan tsan: deps
	+@$(again) V=$@ test-built E2E="$(SHORT_E2E)" HOSTILE=
asan tsan: need := build run test

deps:
	@tools/deps $(or $(need),build run test)

run: deps
	+@$(again) build/cove
	@LISTEN='$(LISTEN)' DATA='$(DATA)' RUN_ONCE='$(RUN_ONCE)' tools/run build/cove
run: need := build run

bench: need := build run bench
bench: deps
	+@$(again) bench-built
bench-built: $(O)/cove $(O)/test/bench/bench
	@test/bench/run $(O)/test/bench/bench $(O)/cove
$(O)/test/bench/bench: $(patsubst %.c,$(O)/%.o,$(wildcard test/bench/*.c))
	$(call say,LINK)$(CC) $(ldflags) -o $@ $^ $(ldlibs)

# The same stories with the counts of a release: lifecycles, kills and crashes by the thousand.
soak: need := build run test
soak: deps
	+@$(again) weak
	+@TEST_SECONDS=$${TEST_SECONDS:-86400} $(again) e2e COVE_SOAK=1 E2E="$(sort $(wildcard test/soak/*.t)) $(E2E)"

# ---------------------------------------------------------------------------- fuzz, torture, lint

FUZZ_SECONDS ?= 60
TORTURE_STRIDE ?= 1
.PHONY: fuzz fuzz-built fuzzers torture vm vm-built lint spin
# Safety first, then liveness; both must find no error in every state that can be reached.
spin: need := build spin
spin: deps
	@rm -rf build/spin && mkdir -p build/spin && cd build/spin && spin -a ../../test/spin/lease.pml >/dev/null && \
		$(CC) -O2 -w -DSAFETY -DNOCLAIM -o safety pan.c && $(CC) -O2 -w -o liveness pan.c && \
		./safety -m100000 | tee log && ./liveness -a -f -m100000 | tee -a log && test $$(grep -c 'errors: 0' log) = 2
fuzz: need := build fuzz
fuzz: deps
	+@$(again) V=fuzz fuzz-built
fuzzers: $(fuzzers)
fuzz-built: fuzzers
	@rm -rf $(O)/tap; TAP_DIR=$(O)/tap FUZZ_SECONDS=$(FUZZ_SECONDS) TEST_SECONDS=$$(($(FUZZ_SECONDS) + 300)) \
		prove -j $(JOBS) --exec 'tools/tap tools/fuzz' -f $(fuzzers)

torture: need := build run test
torture: deps
	+@$(again) V=torture build/torture/cove
	@rm -rf build/torture/tap; COVE_BIN=$(abspath build/torture/cove) TAP_DIR=build/torture/tap \
		TEST_SECONDS=7200 TORTURE_STRIDE=$(TORTURE_STRIDE) prove --exec tools/tap -f test/torture/run

# The machines are emulated, and do not keep two processors busy: they run beside each other.
VM_ARCHES ?= arm64 amd64
vm vm-built: need := build run test vm
vm-built: deps # what nothing else needs: the machines, and cove for the foreign one
	@for arch in $(VM_ARCHES); do VM_PREPARE=1 test/vm/run $$arch || exit 1; done
vm: vm-built
	+@$(again) all tests weak
	@trap 'trap - INT TERM; kill 0' INT TERM; for arch in $(VM_ARCHES); do mkdir -p build/vm/$$arch; rm -f build/vm/$$arch/status; \
	{ test/vm/run $$arch; echo $$? >build/vm/$$arch/status; } >build/vm/$$arch/log 2>&1 & done; wait; \
	code=0; for arch in $(VM_ARCHES); do cat build/vm/$$arch/log; [ "$$(cat build/vm/$$arch/status)" = 0 ] || code=1; done; exit $$code

lint: need := build lint
lint: deps
	+@$(again) lint-tree
	@tools/web --check
	+@$(again) -k O=build/lint CC=clang lint-files
.PHONY: lint-tree lint-files
house  := $(wildcard src/*.c src/*/*.[chS])
mine   := $(house) $(wildcard test/*.h test/*/*.[ch] test/unit/*/*.[ch] fuzz/*.[ch])
shown  := $(wildcard examples/*.c) # they know no more than <cove.h>
scripts := $(shell grep -lsE '^\#!(/bin/|/usr/bin/env )(ba)?sh' $(wildcard tools/* .ci/* test/*/* dist/* dist/*/*))
lint-tree: $(all_objects) | $(gens)
	@$(AWK) -f tools/floors.awk src/FLOORS $(house)
	@$(NM) -A -P $(all_objects) | tools/calls src/FLOORS
	@$(AWK) -f tools/cycles.awk $(mine)
	@$(AWK) -f tools/bans.awk $(mine) $(shown)
	@$(AWK) -f tools/web_bans.awk $(wildcard web/src/*)
	@$(AWK) -f tools/statics.awk $(filter %.c,$(house))
	@tools/check-words tools/words $(shell git ls-files README.md CHANGELOG.md src docs man test fuzz web ':!fuzz/corpus' ':!web/package-lock.json' ':!test/old')
	@$(AWK) -f tools/openings.awk $(filter %.c,$(house))
	@$(AWK) -f tools/width.awk README.md CHANGELOG.md $(wildcard docs/*.md src/*/README.md)
	@clang-format --dry-run -Werror $(filter %.c %.h,$(mine) $(shown)) 2>&1 | grep 'error:' && exit 1; true
	@shellcheck -S warning $(scripts)
	@for f in $(patsubst fuzz/%_fuzz.c,%,$(wildcard fuzz/*_fuzz.c)); do \
		git ls-files --error-unmatch fuzz/corpus/$$f >/dev/null || exit 1; done
	@git ls-files -s 'test/*.t' | $(AWK) '$$1 != 100755 { print $$4 ": not executable"; bad = 1 } END { exit bad }'
lint-files: $(patsubst %.c,build/lint/%.tidy,$(filter %.c,$(mine))) $(patsubst %.h,build/lint/%.alone,$(filter %.h,$(mine)))
# A compile unit is looked at again when it or a header that it includes has changed. What the compiler
# warns of is an error, too. A path that the analyzer did not walk to its end after so many steps finds
# nothing more in ours, and takes most of the time.
build/lint/%.tidy: %.c .clang-tidy | $(gens)
	@mkdir -p $(@D)
	@clang $(filter-out -MMD -MP,$(cppflags)) $(cflags_test) -MM -MP -MT $@ -MF $@.d $<
	$(call say,TIDY)clang-tidy --quiet $< -- $(filter-out -MMD -MP,$(cppflags)) $(cflags_test) $(cflags) \
		-Xclang -analyzer-config -Xclang max-nodes=10000 2>$@.log \
		|| { cat $@.log; exit 1; }
	@touch $@
build/lint/%.alone: %.h | $(gens)
	@mkdir -p $(@D)
	@echo '#include "$(<:src/%=%)"' | $(CC) $(filter-out -MMD -MP,$(cppflags)) $(cflags) -iquote . -Wno-unused-function \
		-MD -MP -MT $@ -MF $@.d -fsyntax-only -x c -
	@touch $@

# ------------------------------------------------------------------------------------- installing

PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
UNITDIR ?= $(if $(filter /usr,$(PREFIX)),/lib/systemd/system,/etc/systemd/system)
.PHONY: install uninstall deb check-deb clean
install: build/cove lib
	@$(if $(is_weak),$(error the weak build is for tests alone))
	install -D -m 755 build/cove $(DESTDIR)$(PREFIX)/bin/cove
	install -d $(DESTDIR)$(UNITDIR)
	sed 's|@PREFIX@|$(PREFIX)|g' dist/cove.service > $(DESTDIR)$(UNITDIR)/cove.service
	mkdir -p build/share && build/cove help --man > build/share/cove.1
	for shell in bash zsh fish; do build/cove completion $$shell > build/share/$$shell || exit 1; done
	build/cove serve --example > build/share/cove.conf
	install -D -m 644 build/share/cove.conf $(DESTDIR)$(PREFIX)/share/doc/cove/cove.conf
	install -D -m 644 build/share/cove.1 $(DESTDIR)$(PREFIX)/share/man/man1/cove.1
	install -D -m 644 man/libcove.3 $(DESTDIR)$(PREFIX)/share/man/man3/libcove.3
	install -D -m 644 src/lib/cove.h $(DESTDIR)$(PREFIX)/include/cove.h
	install -D -m 644 build/libcove.so.$(LIBCOVE) $(DESTDIR)$(LIBDIR)/libcove.so.$(LIBCOVE)
	ln -sfn libcove.so.$(LIBCOVE) $(DESTDIR)$(LIBDIR)/libcove.so
	install -D -m 644 build/libcove.a $(DESTDIR)$(LIBDIR)/libcove.a
	install -D -m 644 build/libcove.pc $(DESTDIR)$(LIBDIR)/pkgconfig/libcove.pc
	@[ -n "$(DESTDIR)" ] || ldconfig || true
	install -D -m 644 build/share/bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/cove
	install -D -m 644 build/share/zsh $(DESTDIR)$(PREFIX)/share/zsh/vendor-completions/_cove
	install -D -m 644 build/share/fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/cove.fish
	@[ -n "$(DESTDIR)" ] || tools/users
	@[ -n "$(DESTDIR)" ] || { echo "Start the service:  systemctl daemon-reload && systemctl enable --now cove"; \
		echo "Let a user in:      usermod -aG cove-users NAME"; }
uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/cove $(DESTDIR)$(UNITDIR)/cove.service \
		$(addprefix $(DESTDIR)$(PREFIX)/share/,man/man1/cove.1 bash-completion/completions/cove \
		zsh/vendor-completions/_cove fish/vendor_completions.d/cove.fish man/man3/libcove.3 doc/cove/cove.conf) \
		$(DESTDIR)$(PREFIX)/include/cove.h $(addprefix $(DESTDIR)$(LIBDIR)/,libcove.so libcove.so.$(LIBCOVE) \
		libcove.a pkgconfig/libcove.pc)
deb: need := build deb
deb: deps
	+@$(again) build/cove lib
	@dist/debian/build

# What a host would get: unpacked, looked at, run, and installed in a sandbox.
check-deb: deb
	@tools/deps deb-check
	@rm -rf build/deb-check; TAP_DIR=build/deb-check/tap prove --exec tools/tap -f test/deb/package.t

clean:
	rm -rf build

help:
	@sed -n 's/^# make //p' Makefile

-include $(shell find $(O) -name '*.d' 2>/dev/null)
