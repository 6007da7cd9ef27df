// Disk usage of run logs. The log of an ended run stays as a file in its session's directory. Files
// are counted once when the daemon starts, and in memory from then on. A log that finds no space
// has the oldest ended log of its session removed, by the time of its last line.
//
// syscalls: openat getdents64 newfstatat unlinkat close fcntl fstat lseek
#include "agent/logs.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "loop/offload.h"

#define BLOCK 4096
#define LOGS_FLOOR (1ull << 20) // bytes that count in no quota

static uint64_t file_bytes(const struct stat *st)
{
	return ((uint64_t)st->st_size + BLOCK - 1) / BLOCK * BLOCK;
}

static DIR *folder_open(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *list = fd >= 0 ? fdopendir(fd) : NULL;

	if (fd >= 0 && !list)
		close(fd);
	return list;
}

// The oldest log of a directory, except those of runs that have not ended.
struct eviction {
	int dir;
	const char *folder;
	char (*running)[LEASE_RUN_LEN + 1];
	size_t running_count;
	char name[LEASE_RUN_LEN + 1]; // "": none
	uint64_t bytes;
};

static bool eviction_spares(const struct eviction *eviction, const char *name)
{
	for (size_t i = 0; i < eviction->running_count; i++)
		if (!strcmp(eviction->running[i], name))
			return true;
	return strlen(name) != LEASE_RUN_LEN;
}

static void eviction_run(void *arg)
{
	struct eviction *eviction = arg;
	DIR *list = folder_open(eviction->dir, eviction->folder);
	struct timespec oldest = {0};
	struct dirent *entry;
	struct stat st;

	while (list && (entry = readdir(list))) {
		if (eviction_spares(eviction, entry->d_name) ||
		    fstatat(dirfd(list), entry->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		if (eviction->name[0] &&
		    (st.st_mtim.tv_sec > oldest.tv_sec ||
		     (st.st_mtim.tv_sec == oldest.tv_sec && st.st_mtim.tv_nsec >= oldest.tv_nsec)))
			continue;
		oldest = st.st_mtim;
		memcpy(eviction->name, entry->d_name, sizeof(eviction->name));
		eviction->bytes = file_bytes(&st);
	}
	if (eviction->name[0] && unlinkat(dirfd(list), eviction->name, 0))
		eviction->name[0] = '\0';
	if (list)
		closedir(list);
}

// No space: removes one ended log. Waits for the disk.
static bool logs_evict(void *arg)
{
	struct agent_session *agent = arg;
	struct eviction eviction = {.dir = agent->agents->dir, .folder = agent->directory};

	eviction.running = mem_new((agent->run_count + 1) * sizeof(*eviction.running));
	list_each (at, &agent->runs)
		memcpy(eviction.running[eviction.running_count++],
		       link_of(at, struct run, link)->id, sizeof(*eviction.running));
	agent_ref(agent);
	offload_run(eviction_run, &eviction);
	free(eviction.running);
	if (eviction.name[0]) {
		tape_budget_refund(agent->logs, eviction.bytes);
		log_event(LOG_INFO, "run.log_removed", "session", agent->id, "run", eviction.name,
			  NULL);
	}
	agent_unref(agent);
	return eviction.name[0];
}

void logs_open(struct agent_session *agent)
{
	const struct agent_sessions *agents = agent->agents;
	uint64_t max = limits_kept_output(&LIMITS_DEFAULT);

	agent->logs = tape_budget_new(max);
	tape_budget_on_lack(agent->logs, logs_evict, agent);
	if (agents->output_of)
		tape_budget_set(agent->logs, max, LOGS_FLOOR,
				agents->output_of(agents->output_arg, agent->tenant));
}

void logs_bind(struct agent_session *agent, struct tape *log)
{
	if (agent->logs)
		tape_bound(log, agent->logs);
}

void logs_removed(struct agent_session *agent)
{
	if (agent->logs)
		tape_budget_refund(agent->logs, tape_budget_used(agent->logs));
}

struct folder {
	char *name;
	uint64_t bytes;
};

struct count {
	int dir;
	struct folder *folders;
	size_t folder_count;
};

static uint64_t folder_bytes(int dir, const char *name)
{
	DIR *list = folder_open(dir, name);
	struct dirent *entry;
	uint64_t bytes = 0;
	struct stat st;

	while (list && (entry = readdir(list)))
		if (!fstatat(dirfd(list), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) &&
		    S_ISREG(st.st_mode))
			bytes += file_bytes(&st);
	if (list)
		closedir(list);
	return bytes;
}

static void count_run(void *arg)
{
	struct count *count = arg;
	DIR *list = folder_open(count->dir, ".");
	struct dirent *entry;

	while (list && (entry = readdir(list))) {
		if (entry->d_name[0] == '.')
			continue;
		count->folders = mem_grow(count->folders, count->folder_count + 1,
					  sizeof(struct folder));
		count->folders[count->folder_count++] = (struct folder){
			mem_str(entry->d_name), folder_bytes(count->dir, entry->d_name)};
	}
	if (list)
		closedir(list);
}

void logs_count(struct agent_sessions *agents)
{
	struct count count = {.dir = agents->dir};
	struct map *by_directory = map_new();

	offload_run(count_run, &count);
	list_each (at, &agents->all) {
		struct agent_session *agent = link_of(at, struct agent_session, link);

		map_put(by_directory, str_of(agent->directory), agent);
	}
	for (size_t i = 0; i < count.folder_count; i++) {
		struct folder *folder = &count.folders[i];
		struct agent_session *agent = map_get(by_directory, str_of(folder->name));

		// Includes the bytes written since the daemon started, which are already counted.
		if (agent && agent->logs && folder->bytes > tape_budget_used(agent->logs))
			tape_budget_charge(agent->logs,
					   folder->bytes - tape_budget_used(agent->logs));
		free(folder->name);
	}
	free(count.folders);
	map_free(by_directory);
}
