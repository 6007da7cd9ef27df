// The jail: a child that unpacks what a stranger sent. It has namespaces of its own, the ids of a
// box, no file system but the directory it fills, four capabilities over files, a short list of
// system calls, a cgroup that bounds what the kernel keeps for it, and limits on memory and time.
// What it says at the end is as hostile as what it ate.
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "warden/group.h"

// What a child says at its end, over a pipe: one record.
struct jail_report {
	uint32_t magic, ok;
	uint64_t files, bytes;
	uint32_t kind;
	char reason[40], message[256], hint[256];
};
#define JAIL_MAGIC 0x6a61696c

struct jail {
	int tree; // the directory to fill, a detached mount mapped by userns; it holds "root"
	int userns;
	const struct group_door *door; // of its cgroup
	int archive;		       // read to its end
	int report;		       // a struct jail_report goes there
	uint64_t bytes_max;
};

#define JAIL_GROUP "jail"
// The cgroup of all jails, while there are any: what the kernel keeps for them is bounded, too.
// Both may be repeated.
fallible jail_open(struct groups *groups, struct group_door *door);
void jail_close(struct groups *groups, struct group_door *door);

// Starts it. The caller closes its copies of the fds, and reaps.
fallible jail_start(const struct jail *jail, int *out_pid);

// In a new child: only stdin, stdout, stderr and `fds` stay open; these become 3 and up. -1: errno.
int jail_keep(int *fds, int count);
// Writes how it went to `fd`; frees `outcome`, NULL is success.
void jail_tell(int fd, struct err *outcome, uint64_t files, uint64_t bytes);
// Reads what a child said and how it ended: OK and the sums, or the error that it told, cleaned.
fallible jail_hear(int fd, int status, uint64_t *out_files, uint64_t *out_bytes);
