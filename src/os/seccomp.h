// System-call filters: the three that a box lives behind, and those that our
// own processes put on themselves.
#pragma once

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

// clang-format off
//	  filter      loaded by            what it does
#define SECCOMP_FILTERS(X) \
	X(ALLOW,      "pid 1")		/* an allow list; the rest is ENOSYS, deliberate denials EPERM */ \
	X(ARGUMENTS,  "pid 1")		/* refuses by argument: ioctl, sockets, huge pages, core limits */ \
	X(CHILDREN,   "its children")	/* no clone3: pid 1 alone needs it */
// clang-format on
enum seccomp_filter {
#define X(name, by) SECCOMP_##name,
	SECCOMP_FILTERS(X)
#undef X
		SECCOMP_FILTER_COUNT
};

struct seccomp_program {
	struct sock_filter *code; // the owner frees it
	uint16_t len;
};

// Builds one of a box's filters for `arch`, an AUDIT_ARCH_ word; 0: this machine's. Both
// architectures can be built on either.
// SECCOMP_ALLOW tells a listener of sync and syncfs (SECCOMP_RET_USER_NOTIF): who loads it asks for
// one.
fallible seccomp_build(enum seccomp_filter which, uint32_t arch, struct seccomp_program *out);
// What it would tell a listener it lets pass.
void seccomp_drop_listener(struct seccomp_program *program);
// Whether a filter may have one here: the kernel lets a process have one, and in some containers
// every process has. Forks.
bool seccomp_can_listen(void);
void seccomp_free(struct seccomp_program *program);

// Processes of the host that confine themselves.
enum seccomp_process {
	SECCOMP_THREADS, // the daemon, a jail: threads at most, no code that was not there at the
			 // start
	SECCOMP_WARDEN,	 // forks, starts programs, sets up networks
};

// Only these calls (NULL-ended; those that the architecture lacks are left out) remain for this
// process and its children, some with arguments bounded by what the process is; clone3 is ENOSYS
// where there are only threads, all else is EPERM. Needs no_new_privs or CAP_SYS_ADMIN.
fallible seccomp_confine(enum seccomp_process process, const char *const *names);
// The filter that seccomp_confine() loads; `arch` as above.
fallible seccomp_build_own(enum seccomp_process process, const char *const *names, uint32_t arch,
			   struct seccomp_program *out);
