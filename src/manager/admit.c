// Admission by watermarks. The readings are files of /proc, opened before the daemon is confined
// and read at most every SPAN_MS; boxes admitted since the last reading count with a reserve each,
// so that a thousand creates in one loop turn do not all see the same free memory.
//
// The daemon's descriptors: since Linux 6.2 st_size of /proc/self/fd is their number; before that
// the directory is listed, less often. Boxes admitted since count with their estimate. Connections
// are bounded elsewhere: one that gets EMFILE fails alone. The disk is that of the data directory;
// its marks are a small part, so that running boxes can go on and deletes can be recorded.
//
// syscalls: pread64 fstat newfstatat getdents64 lseek close fstatfs
#include "manager/admit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"

#define MIB (1ull << 20)
#define SPAN_MS 50
#define BOX_MEMORY (8ull << 20)
#define BOX_TASKS 4
#define BOX_FILES                                                                                  \
	5 // control, listener, UDP; while in use also the exec cgroup's counter and the OOM counter
#define BOX_HOST_FILES 64 // of all processes of the box and of cove for it
#define EXEC_FILES 8	  // pipes, files of the exec cgroup, a tape
#define EXECS_FREE 8	  // commands that a box may always run
#define FILES_RESERVED 128
#define FILES_SPARED 64 // of these, for requests while boxes are adopted
#define FILES_EXECS 64	// kept from new boxes, so that commands can run in existing ones
#define GRASP_MS 10	// until an admitted box has opened its files
#define LIST_MS 250	// the least time between two listings of files
#define MARK_MAX (256ull << 20)
#define BOX_DISK (4ull << 20)
#define DISK_MARK_MAX (256ull << 20)
#define DISK_PART 50  // the mark is that part of the disk
#define INODE_PART 20 // and this part of its inodes

struct admit {
	int meminfo, loadavg;
	int file_nr; // of the host; -1: not counted
	int disk;    // -1: not counted
	uint64_t memory_total, tasks_max, files_max;
	uint32_t cpu_milli;
	struct admit_view view;
	int64_t read_at;
	uint64_t since; // boxes admitted since the last reading
	DIR *files;	// /proc/self/fd
	bool files_sized;
	uint64_t files_read, files_since;
	int64_t files_at;
};

static bool admit_read_text(int fd, char *room, size_t size)
{
	ssize_t got = pread(fd, room, size - 1, 0);

	if (got <= 0)
		return false;
	room[got] = '\0';
	return true;
}

// The number that follows `label` in a text of lines; 0 when it is absent.
static uint64_t number_behind(const char *text, const char *label)
{
	const char *at = strstr(text, label);

	return at ? strtoull(at + strlen(label), NULL, 10) : 0;
}

static void admit_measure_disk(struct admit *admit)
{
	struct admit_view *view = &admit->view;
	struct statvfs st;

	if (admit->disk < 0)
		return;
	view->disk_unknown = fstatvfs(admit->disk, &st) != 0;
	if (view->disk_unknown)
		return;
	view->disk_free = (uint64_t)st.f_bavail * st.f_frsize;
	view->disk_mark = (uint64_t)st.f_blocks * st.f_frsize / DISK_PART;
	if (view->disk_mark > DISK_MARK_MAX)
		view->disk_mark = DISK_MARK_MAX;
	view->inodes_free = st.f_files ? st.f_favail : 0;
	view->inodes_mark = st.f_files / INODE_PART;
}

// "1196 0 2462388": files open on the host, 0, and fs.file-max.
static void measure_host_files(struct admit *admit)
{
	char text[128], *at = text;

	if (admit->file_nr < 0 || !admit_read_text(admit->file_nr, text, sizeof(text)))
		return;
	admit->view.host_files = strtoull(at, &at, 10);
	(void)strtoull(at, &at, 10);
	admit->view.host_files_max = strtoull(at, &at, 10);
}

void admit_watch_disk(struct admit *admit, int dir)
{
	admit->disk = dir;
}

static void refresh(struct admit *admit, int64_t now_ms)
{
	char text[2048];

	if (admit->read_at && now_ms - admit->read_at < SPAN_MS)
		return;
	if (admit_read_text(admit->meminfo, text, sizeof(text)))
		admit->view.memory_free = number_behind(text, "MemAvailable:") * 1024;
	// "0.05 0.10 0.08 2/431 7777": the second number of the fraction is all tasks of the host.
	if (admit_read_text(admit->loadavg, text, sizeof(text)))
		admit->view.tasks = number_behind(text, "/");
	measure_host_files(admit);
	admit_measure_disk(admit);
	admit->read_at = now_ms;
	admit->since = 0;
}

static uint64_t count_files(struct admit *admit)
{
	uint64_t count = 0;
	struct stat st;

	if (fstat(dirfd(admit->files), &st) == 0 && st.st_size > 0) {
		admit->files_sized = true;
		return (uint64_t)st.st_size;
	}
	rewinddir(admit->files);
	while (readdir(admit->files))
		count++;
	return count;
}

static uint64_t files_used(struct admit *admit, int64_t now_ms)
{
	int64_t span = admit->files_sized ? GRASP_MS : LIST_MS;

	if (!admit->files_at || now_ms - admit->files_at >= span) {
		admit->files_read = count_files(admit);
		admit->files_since = 0;
		admit->files_at = now_ms;
	}
	return admit->files_read + admit->files_since;
}

static uint64_t admit_read_number(const char *path, uint64_t otherwise)
{
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
	char text[64];

	if (fd < 0 || !admit_read_text(fd, text, sizeof(text)))
		return otherwise;
	return strtoull(text, NULL, 10);
}

static fallible open_account(const char *path, int *out)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return err_sys(errno, "open %s", path);
	*out = fd;
	return OK;
}

fallible admit_open(struct admit **out)
{
	uint64_t pid_max = admit_read_number("/proc/sys/kernel/pid_max", 32768);
	uint64_t threads_max = admit_read_number("/proc/sys/kernel/threads-max", pid_max);
	auto_fd meminfo = -1, loadavg = -1;
	struct rlimit files;
	DIR *listing;
	struct admit *admit;
	char text[2048];

	TRY(open_account("/proc/meminfo", &meminfo));
	TRY(open_account("/proc/loadavg", &loadavg));
	if (!admit_read_text(meminfo, text, sizeof(text)))
		return err_sys(errno, "read /proc/meminfo");
	if (getrlimit(RLIMIT_NOFILE, &files))
		return err_sys(errno, "read the limit on files");
	listing = opendir("/proc/self/fd");
	if (!listing)
		return err_sys(errno, "open /proc/self/fd");
	admit = mem_new_of(struct admit);
	admit->files = listing;
	admit->disk = -1;
	admit->file_nr = open("/proc/sys/fs/file-nr", O_RDONLY | O_CLOEXEC);
	admit->meminfo = take_fd(&meminfo);
	admit->loadavg = take_fd(&loadavg);
	admit->memory_total = number_behind(text, "MemTotal:") * 1024;
	admit->tasks_max = pid_max < threads_max ? pid_max : threads_max;
	admit->files_max = files.rlim_max;
	admit->cpu_milli = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN) * 1000;
	admit->view.memory_mark = admit->memory_total / 20;
	if (admit->view.memory_mark > MARK_MAX)
		admit->view.memory_mark = MARK_MAX;
	*out = admit;
	return OK;
}

void admit_close(struct admit *admit)
{
	if (!admit)
		return;
	close(admit->meminfo);
	close(admit->loadavg);
	if (admit->file_nr >= 0)
		close(admit->file_nr);
	closedir(admit->files);
	free(admit);
}

uint64_t admit_memory(const struct admit *admit)
{
	return admit->memory_total;
}

uint32_t admit_cpu_milli(const struct admit *admit)
{
	return admit->cpu_milli;
}

uint64_t admit_disk(const struct admit *admit)
{
	struct statvfs st;

	if (admit->disk < 0 || fstatvfs(admit->disk, &st))
		return 0;
	return (uint64_t)st.f_blocks * st.f_frsize / MIB * MIB;
}

struct admit_view admit_look(struct admit *admit, int64_t now_ms)
{
	struct admit_view view;

	refresh(admit, now_ms);
	view = admit->view;
	view.tasks_max = admit->tasks_max;
	view.files = files_used(admit, now_ms);
	view.files_max = admit->files_max;
	return view;
}

static fallible short_of(const char *reason, const char *what)
{
	return err_hint(err_new(EXHAUSTED, reason, "this host is short of %s", what),
			"delete sandboxes that nobody needs, or try again in a moment");
}

static fallible ask_disk(const struct admit *admit, const struct admit_view *view)
{
	if (admit->disk < 0)
		return OK;
	if (view->disk_unknown)
		return err_new(UNAVAILABLE, "capacity_unknown",
			       "how much room the disk has could not be found out");
	if (view->disk_free < view->disk_mark + (admit->since + 1) * BOX_DISK ||
	    view->inodes_free < view->inodes_mark)
		return err_hint(err_new(NO_SPACE, "host_disk", "this host is short of disk space"),
				"delete sandboxes and templates that nobody needs");
	return OK;
}

fallible admit_ask(struct admit *admit, int64_t now_ms)
{
	struct admit_view view = admit_look(admit, now_ms);

	if (view.memory_free < view.memory_mark + (admit->since + 1) * BOX_MEMORY)
		return short_of("host_memory", "memory");
	if (view.tasks + (admit->since + 1) * BOX_TASKS > view.tasks_max - view.tasks_max / 20)
		return short_of("host_pids", "process numbers");
	if (view.host_files_max && view.host_files + (admit->since + 1) * BOX_HOST_FILES >
					   view.host_files_max - view.host_files_max / 10)
		return short_of("host_files", "open files: see fs.file-max");
	if (view.files + BOX_FILES + FILES_EXECS + FILES_RESERVED > view.files_max)
		return short_of("daemon_files", "file descriptors");
	TRY(ask_disk(admit, &view));
	admit->since++;
	admit->files_since += BOX_FILES;
	return OK;
}

void admit_recount(struct admit *admit)
{
	admit->files_at = 0;
}

fallible admit_adopt(struct admit *admit, int64_t now_ms, uint64_t owed)
{
	if (files_used(admit, now_ms) + owed + BOX_FILES + FILES_SPARED > admit->files_max)
		return short_of("daemon_files", "file descriptors");
	admit->files_since += BOX_FILES;
	return OK;
}

// The share falls with the number of descriptors left, so that boxes that take all they can still
// leave some for the next box.
static bool is_greedy(uint64_t left, uint32_t own)
{
	return own >= EXECS_FREE && (uint64_t)own * EXEC_FILES > left / 4;
}

fallible admit_exec(struct admit *admit, int64_t now_ms, uint32_t own)
{
	uint64_t need = files_used(admit, now_ms) + EXEC_FILES + FILES_RESERVED;

	if (need > admit->files_max || is_greedy(admit->files_max - need, own))
		return short_of("daemon_files", "file descriptors");
	admit->files_since += EXEC_FILES;
	return OK;
}
