// Which file of which hierarchy has which counter, on cgroup v2, v1 and hybrid hosts. The choice
// follows warden/groups.c: exec cgroups are v2 wherever a v2 hierarchy exists, so CPU time is read
// there. Files are opened for each reading: four descriptors for each of thousands of boxes would
// use up the process's limit, and an open costs 3 us.
//
// syscalls: openat read close fstat newfstatat
#include "box/cgroup_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "os/fd.h"

#define TEXT_MAX 8192 // memory.stat has 2 KiB to 5 KiB
#define PATH_ROOM (CGROUP_FILES_DIR + ID_ROOM + 64)
#define ID_ROOM 128

static void place_tree(const struct cgroup_host *host, int mount, const char *instance,
		       struct cgroup_tree *out)
{
	*out = (struct cgroup_tree){0};
	if (mount < 0)
		return;
	out->version = host->mounts[mount].version;
	snprintf(out->dir, sizeof(out->dir), "%s/cove/%s", host->mounts[mount].path, instance);
}

fallible cgroup_files_open(const char *instance, struct cgroup_files *out)
{
	struct cgroup_host *host = &out->host;
	int unified;

	TRY(cgroup_discover(host));
	unified = host->unified;
	place_tree(host, unified >= 0 ? unified : host->where[CGROUP_CPUACCT], instance, &out->cpu);
	place_tree(host, host->where[CGROUP_CPU], instance, &out->throttle);
	place_tree(host, host->where[CGROUP_MEMORY], instance, &out->memory);
	place_tree(host, host->where[CGROUP_PIDS], instance, &out->pids);
	place_tree(host, unified, instance, &out->io);
	return OK;
}

struct reading {
	const struct cgroup_files *files;
	const char *box;
	char *room; // TEXT_MAX bytes
};

// The text of a file of the box; false: it cannot be read. *out_inode may be NULL.
static bool read_text(const struct reading *reading, const struct cgroup_tree *tree,
		      const char *file, struct str *out, uint64_t *out_inode)
{
	char path[PATH_ROOM];
	auto_fd fd = -1;
	struct stat st;
	ssize_t len;

	if (!tree->version)
		return false;
	snprintf(path, sizeof(path), "%s/%s/%s", tree->dir, reading->box, file);
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	len = fd < 0 ? -1 : read(fd, reading->room, TEXT_MAX);
	if (len <= 0)
		return false;
	if (out_inode && fstat(fd, &st) == 0)
		*out_inode = st.st_ino;
	*out = (struct str){reading->room, (size_t)len};
	return true;
}

static uint64_t read_number(const struct reading *reading, const struct cgroup_tree *tree,
			    const char *v2_file, const char *v1_file, const char *label)
{
	uint64_t number = COUNTER_UNKNOWN;
	struct str text;

	if (read_text(reading, tree, tree->version == 2 ? v2_file : v1_file, &text, NULL))
		(void)counters_number(text, label, &number);
	return number;
}

static void read_cpu(const struct reading *reading, struct counters *out)
{
	const struct cgroup_tree *tree = &reading->files->cpu;
	bool v2 = tree->version == 2;
	struct str text;

	if (!read_text(reading, tree, v2 ? "cpu.stat" : "cpuacct.usage", &text, &out->cgroup))
		return;
	if (counters_number(text, v2 ? "usage_usec" : NULL, &out->cpu_us) && !v2)
		out->cpu_us /= 1000;
}

static void read_memory(const struct reading *reading, struct counters *out)
{
	const struct cgroup_tree *tree = &reading->files->memory;
	const char *label = tree->version == 2 ? "inactive_file" : "total_inactive_file";
	uint64_t inactive = read_number(reading, tree, "memory.stat", "memory.stat", label);

	out->memory_charged = read_number(reading, tree, "memory.current", "memory.usage_in_bytes",
					  NULL);
	out->memory_working = counters_working(out->memory_charged, inactive);
}

static void read_throttled(const struct reading *reading, struct counters *out)
{
	const struct cgroup_tree *tree = &reading->files->throttle;
	bool v2 = tree->version == 2;

	out->throttled_us = read_number(reading, tree, "cpu.stat", "cpu.stat",
					v2 ? "throttled_usec" : "throttled_time");
	if (!v2 && out->throttled_us != COUNTER_UNKNOWN)
		out->throttled_us /= 1000;
}

static void read_io(const struct reading *reading, struct counters *out)
{
	struct str text;

	if (read_text(reading, &reading->files->io, "io.stat", &text, NULL))
		counters_io(text, &out->read_bytes, &out->write_bytes);
}

void cgroup_files_read(const struct cgroup_files *files, const char *box, bool full,
		       struct counters *out)
{
	auto_free char *room = mem_new(TEXT_MAX);
	struct reading reading = {files, box, room};
	const struct cgroup_tree *memory = &files->memory;

	*out = counters_unknown();
	read_cpu(&reading, out);
	if (!out->cgroup)
		return;
	read_memory(&reading, out);
	out->pids = read_number(&reading, &files->pids, "pids.current", "pids.current", NULL);
	if (!full)
		return;
	read_throttled(&reading, out);
	out->memory_peak = read_number(&reading, memory, "memory.peak", "memory.max_usage_in_bytes",
				       NULL);
	out->oom_kills = read_number(&reading, memory, "memory.events", "memory.oom_control",
				     "oom_kill");
	read_io(&reading, out);
}
