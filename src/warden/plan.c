// The message with a box's plan to the zygote, as a flat array of descriptors, and the list of
// /proc names that this kernel needs masked. Both are computed once at start or per box without
// state.
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "warden/builder.h"

#define P "/h/proc/" // where the builder masks it

// Names that reveal or change state of the host. /proc/pressure can be opened for writing too.
// clang-format off
static const char *const still[] = {
	P "sys", P "irq", P "bus", P "driver", P "sysrq-trigger",
};
static const char *const blank[] = {
	P "kcore", P "keys", P "key-users", P "kallsyms", P "kmsg",
	P "kpagecount", P "kpageflags", P "kpagecgroup", P "vmallocinfo",
	P "slabinfo", P "zoneinfo", P "pagetypeinfo", P "timer_list",
	P "sched_debug", P "latency_stats", P "config.gz", P "iomem",
	P "ioports", P "modules", P "cmdline", P "partitions", P "diskstats",
	P "interrupts", P "consoles", P "cgroups",
};
// /proc/fs names every mounted device of the host, other boxes' disks included.
static const char *const empty[] = {
	P "acpi", P "scsi", P "asound", P "pressure", P "fs",
};
// clang-format on

static void keep_existing(int proc, const char *const *names, size_t count, bool directories,
			  const char **out)
{
	size_t kept = 0;

	for (size_t i = 0; i < count && kept + 1 < BUILDER_MASKS_MAX; i++) {
		struct stat st;

		if (fstatat(proc, names[i] + strlen(P), &st, AT_SYMLINK_NOFOLLOW))
			continue;
		if (S_ISLNK(st.st_mode) || (directories && !S_ISDIR(st.st_mode)))
			continue;
		out[kept++] = names[i];
	}
	out[kept] = NULL;
}

void builder_find_masks(struct builder_init_config *init_config, int proc)
{
	keep_existing(proc, still, sizeof(still) / sizeof(*still), false, init_config->still);
	keep_existing(proc, blank, sizeof(blank) / sizeof(*blank), false, init_config->blank);
	keep_existing(proc, empty, sizeof(empty) / sizeof(*empty), true, init_config->empty);
}

int builder_pack(const struct builder_plan *plan, const struct builder_fds *fds, int *out)
{
	int n = 0;

	out[n++] = fds->control;
	out[n++] = fds->listen;
	out[n++] = fds->userns;
	if (plan->has_into)
		out[n++] = fds->into;
	for (int i = 0; i < plan->task_count; i++)
		out[n++] = fds->tasks[i];
	for (int i = 0; i < plan->cgroup_count; i++)
		out[n++] = fds->exec_cgroup[i];
	return n;
}

bool builder_unpack(const struct builder_plan *plan, const int *flat, int count,
		    struct builder_fds *out)
{
	int n = 0;

	if (plan->task_count > GROUP_JOINS_MAX || plan->cgroup_count > GROUP_CGROUP_JOINS ||
	    count != 3 + plan->has_into + plan->task_count + plan->cgroup_count)
		return false;
	memset(out, -1, sizeof(*out));
	out->control = flat[n++];
	out->listen = flat[n++];
	out->userns = flat[n++];
	if (plan->has_into)
		out->into = flat[n++];
	for (int i = 0; i < plan->task_count; i++)
		out->tasks[i] = flat[n++];
	for (int i = 0; i < plan->cgroup_count; i++)
		out->exec_cgroup[i] = flat[n++];
	return true;
}
