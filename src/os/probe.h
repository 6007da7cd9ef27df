// Features of this kernel and host, each tested once in a throw-away child.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define PROBE_ROWS_MAX 24
// Either is enough for sandboxes to have a network.
#define PROBE_SK_LOOKUP "steering by sk_lookup"
#define PROBE_NFT "steering by nft"

struct probe_row {
	const char *feature;
	bool required; // without it cove does not start
	bool ok;
	char found[96];	     // the result, in a few words
	const char *without; // the effect of its absence
	const char *fix;     // what the operator can do
};

// Fills at most `max` rows and returns how many. `data` is the state directory: some features
// depend on its file system. Leaves nothing behind. Needs root; blocks for some milliseconds.
size_t probe_all(int data, struct probe_row *rows, size_t max);

// True in a chroot, where the kernel makes no user namespace: its root is not that of its mount
// namespace. False for another root by pivot_root, as in a container.
bool probe_is_chroot(void);
#define PROBE_CHROOT                                                                               \
	"this is a chroot, and the kernel makes no user namespaces in one: no sandbox can be made"
#define PROBE_CHROOT_FIX                                                                           \
	"enter it by 'systemd-nspawn -D DIR', or by unshare --mount and pivot_root, instead of "   \
	"chroot; or run cove on the host itself"
