// The jail: a child that unpacks an untrusted archive, or writes untrusted files as one. It has its
// own namespaces, the ids of a box, no file system but the directory that it fills, four
// capabilities over files, a short list of system calls, a cgroup that bounds kernel memory, and
// limits on memory and time. Its report is untrusted.
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "protocol/order.h"
#include "warden/group.h"

// The report of a child, written to a pipe: one record.
struct jail_report {
	uint32_t magic, ok;
	uint64_t files, bytes;
	struct order_dropped dropped;
	char digest[ORDER_DIGEST + 1], diff_id[ORDER_DIGEST + 1];
	uint32_t kind;
	char reason[40], message[256], hint[256];
};
#define JAIL_MAGIC 0x6a61696c

struct jail {
	int tree; // the directory to fill, a detached mount idmapped by userns; it holds "root"
	int userns;
	const struct group_door *door; // of its cgroup
	int archive;		       // read to its end
	int report;		       // a struct jail_report goes there
	uint64_t bytes_max;
	// Of a layer of an image; digest NULL: of none.
	const char *digest; // of its tar, unpacked, in hex
	int parent, into;   // the root below and the new one: its files are linked there first; -1
	// Of an export, which fills no directory: `archive` is written. NULL: of none.
	struct export_trees *trees;
	bool zstd;
	bool raw; // the archive of a disk: see unpack_raw() and export_write()
};

#define JAIL_GROUP "jail"
// The cgroup of all jails, while there are any: it bounds kernel memory too. Both may be repeated.
fallible jail_open(struct groups *groups, struct group_door *door);
void jail_close(struct groups *groups, struct group_door *door);

// Starts the child. The caller closes its copies of the fds, and reaps.
fallible jail_start(const struct jail *jail, int *out_pid);

// Writes the result to `fd`: files, bytes and dropped of `sums`; frees `outcome`, NULL is success.
void jail_report_write(int fd, struct err *outcome, const struct answer *sums);
// Reads a child's report and judges its exit status: OK and the sums in *out, or the reported
// error, sanitized.
fallible jail_report_read(int fd, int status, struct answer *out);
