// How a box's plan travels to the zygote, and which masks its /proc needs.
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "warden/builder.h"

// What tells of the host or could change it; /proc/pressure opens for writing too.
// clang-format off
static const char *const still[] = {
	"/proc/sys", "/proc/irq", "/proc/bus", "/proc/driver", "/proc/sysrq-trigger",
};
static const char *const blank[] = {
	"/proc/kcore", "/proc/keys", "/proc/key-users", "/proc/kallsyms", "/proc/kmsg",
	"/proc/kpagecount", "/proc/kpageflags", "/proc/kpagecgroup", "/proc/vmallocinfo",
	"/proc/slabinfo", "/proc/zoneinfo", "/proc/pagetypeinfo", "/proc/timer_list",
	"/proc/sched_debug", "/proc/latency_stats", "/proc/config.gz", "/proc/iomem",
	"/proc/ioports", "/proc/modules", "/proc/cmdline", "/proc/partitions", "/proc/diskstats",
	"/proc/interrupts", "/proc/consoles", "/proc/cgroups",
};
// /proc/fs names every mounted device of the host, the neighbours' disks among them.
static const char *const empty[] = {
	"/proc/acpi", "/proc/scsi", "/proc/asound", "/proc/pressure", "/proc/fs",
};
// clang-format on

static void keep_existing(int proc, const char *const *names, size_t count, bool directories,
			  const char **out)
{
	size_t kept = 0;

	for (size_t i = 0; i < count && kept + 1 < BUILDER_MASKS_MAX; i++) {
		struct stat st;

		if (fstatat(proc, names[i] + strlen("/proc/"), &st, AT_SYMLINK_NOFOLLOW))
			continue;
		if (S_ISLNK(st.st_mode) || (directories && !S_ISDIR(st.st_mode)))
			continue;
		out[kept++] = names[i];
	}
	out[kept] = NULL;
}

void builder_find_masks(struct builder_kit *kit, int proc)
{
	keep_existing(proc, still, sizeof(still) / sizeof(*still), false, kit->still);
	keep_existing(proc, blank, sizeof(blank) / sizeof(*blank), false, kit->blank);
	keep_existing(proc, empty, sizeof(empty) / sizeof(*empty), true, kit->empty);
}

int builder_pack(const struct builder_plan *plan, const struct builder_fds *fds, int *out)
{
	int n = 0;

	out[n++] = fds->control;
	out[n++] = fds->listen;
	out[n++] = fds->userns;
	out[n++] = fds->root;
	out[n++] = fds->disk;
	if (plan->has_usr)
		out[n++] = fds->usr;
	if (plan->has_into)
		out[n++] = fds->into;
	for (int i = 0; i < plan->task_count; i++)
		out[n++] = fds->tasks[i];
	for (int i = 0; i < plan->leaf_count; i++)
		out[n++] = fds->leaf[i];
	return n;
}

bool builder_unpack(const struct builder_plan *plan, const int *flat, int count,
		    struct builder_fds *out)
{
	int n = 0;

	if (plan->task_count > GROUP_JOINS_MAX || plan->leaf_count > GROUP_LEAF_JOINS ||
	    count != 5 + plan->has_usr + plan->has_into + plan->task_count + plan->leaf_count)
		return false;
	memset(out, -1, sizeof(*out));
	out->control = flat[n++];
	out->listen = flat[n++];
	out->userns = flat[n++];
	out->root = flat[n++];
	out->disk = flat[n++];
	if (plan->has_usr)
		out->usr = flat[n++];
	if (plan->has_into)
		out->into = flat[n++];
	for (int i = 0; i < plan->task_count; i++)
		out->tasks[i] = flat[n++];
	for (int i = 0; i < plan->leaf_count; i++)
		out->leaf[i] = flat[n++];
	return true;
}
