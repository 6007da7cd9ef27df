// System-call filters: the three of a box, and those that our own processes load for themselves.
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
// architectures can be built on either. SECCOMP_ALLOW notifies a listener of sync and syncfs
// (SECCOMP_RET_USER_NOTIF): load it with SECCOMP_FILTER_FLAG_NEW_LISTENER.
fallible seccomp_build(enum seccomp_filter which, uint32_t arch, struct seccomp_program *out);
// Changes notifications to plain allows.
void seccomp_drop_listener(struct seccomp_program *program);
// Whether a listener is possible here: the kernel allows one per process, and some containers have
// it already. Forks.
bool seccomp_can_listen(void);
void seccomp_free(struct seccomp_program *program);

// Processes of the host that confine themselves.
enum seccomp_process {
	SECCOMP_THREADS, // the daemon, a jail: threads at most, no code that was not there at the
			 // start
	SECCOMP_WARDEN,	 // forks, starts programs, sets up networks
};

// Allows only these calls (NULL-terminated; those that the architecture lacks are skipped) for this
// process and its children, some with restricted arguments; clone3 is ENOSYS for processes with
// threads only, everything else is EPERM. Needs no_new_privs or CAP_SYS_ADMIN.
fallible seccomp_confine(enum seccomp_process process, const char *const *names);
// The filter that seccomp_confine() loads; `arch` as above.
fallible seccomp_build_own(enum seccomp_process process, const char *const *names, uint32_t arch,
			   struct seccomp_program *out);
