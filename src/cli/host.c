// Signals the supervisor of this host. DATA/lock holds "PID GENERATION WORD". The signal goes to a
// pidfd, opened before the lock is read a second time: a reused pid is never signalled. Then the
// file is read until it reports the result.
//
// The pid alone is not trusted: the process must be root's, run a program of our name, and hold the
// flock on this very file, as /proc/PID/fdinfo shows.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/weak.h"
#include "cli/print.h"
#include "cli/remote.h"
#include "os/fd.h"

#define STEP_MS 20
#define DRAIN_MS 120000
#define UPGRADE_MS 120000
#define RELOAD_MS 30000
#define LINE_ROOM 64
#define PATH_ROOM 1024

struct supervisor {
	int lock, pidfd;
	int pid;
	char line[LINE_ROOM]; // the lock's text when it was signalled
};

static void supervisor_done(struct supervisor *keeper)
{
	fd_drop(&keeper->lock);
	fd_drop(&keeper->pidfd);
}
#define auto_supervisor on_exit_call(supervisor_done) struct supervisor

static bool cli_host_read_line(int lock, char line[LINE_ROOM])
{
	ssize_t len = pread(lock, line, LINE_ROOM - 1, 0);

	line[len > 0 ? len : 0] = 0;
	line[strcspn(line, "\n")] = 0;
	while (*line && line[strlen(line) - 1] == ' ')
		line[strlen(line) - 1] = 0;
	return len > 0;
}

static unsigned long generation_of(const char *line)
{
	const char *at = strchr(line, ' ');

	return at ? strtoul(at, NULL, 10) : 0;
}

static const char *word_of(const char *line)
{
	const char *at = strrchr(line, ' ');

	return at ? at + 1 : "";
}

static fallible none(const char *data)
{
	return err_hint(err_new(NOT_FOUND, "not_running", "no cove serves %s", data),
			"start one with 'cove serve', or name another directory with --data");
}

static bool is_root(int proc)
{
	char text[2048]; // the field is well before the end
	const char *at;
	ssize_t len = fd_get(proc, "status", text, sizeof(text));

	at = len > 0 ? strstr(text, "\nUid:\t") : NULL;
	return at && str_starts(str_of(at + 6), "0\t0\t0\t0\n");
}

// A replaced binary is "/usr/bin/cove (deleted)".
static bool name_of_exe(int proc, const char *link, char out[PATH_ROOM])
{
	static const char gone[] = " (deleted)";
	ssize_t len = readlinkat(proc, link, out, PATH_ROOM - 1);
	const char *slash;

	if (len <= 0)
		return false;
	out[len] = 0;
	if (str_ends(str_of(out), gone))
		out[(size_t)len - (sizeof(gone) - 1)] = 0;
	slash = strrchr(out, '/');
	if (slash)
		memmove(out, slash + 1, strlen(slash));
	return true;
}

static bool is_our_program(int proc)
{
	char theirs[PATH_ROOM], ours[PATH_ROOM];

	return name_of_exe(proc, "exe", theirs) && name_of_exe(AT_FDCWD, "/proc/self/exe", ours) &&
	       !strcmp(theirs, ours);
}

// "lock: 1: FLOCK ADVISORY WRITE PID DEVICE:INODE 0 EOF", with the pid that took it.
static bool says_flock(const char *text, int pid)
{
	struct str rest = str_of(text), line;
	char holder[32];

	snprintf(holder, sizeof(holder), " WRITE %d ", pid);
	while (rest.len && str_cut(&rest, '\n', &line))
		if (str_starts(line, "lock:") && memmem(line.at, line.len, " FLOCK ", 7) &&
		    memmem(line.at, line.len, holder, strlen(holder)))
			return true;
	return false;
}

static bool holds_flock(int proc, int pid, int lock)
{
	int fd = openat(proc, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct stat want, st;
	struct dirent *entry;
	char text[1024];
	bool holds = false;

	if (!dir)
		fd_drop(&fd);
	if (fstat(lock, &want))
		want = (struct stat){0};
	while (dir && !holds && (entry = readdir(dir))) {
		auto_free char *info = mem_fmt("fdinfo/%s", entry->d_name);

		if (fstatat(dirfd(dir), entry->d_name, &st, 0) || st.st_dev != want.st_dev ||
		    st.st_ino != want.st_ino)
			continue;
		holds = fd_get(proc, info, text, sizeof(text)) > 0 && says_flock(text, pid);
	}
	if (dir)
		closedir(dir);
	return holds;
}

// While the process of the open pidfd lives /proc/PID is that process.
static bool is_cove(const struct supervisor *keeper)
{
	auto_free char *path = mem_fmt("/proc/%d", keeper->pid);
	auto_fd proc = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (weak(LOCK_HOLDER))
		return true;
	return proc >= 0 && is_root(proc) && is_our_program(proc) &&
	       holds_flock(proc, keeper->pid, keeper->lock) &&
	       syscall(SYS_pidfd_send_signal, keeper->pidfd, 0, NULL, 0) == 0;
}

static fallible cli_host_find(const char *data, struct supervisor *out)
{
	auto_free char *path = mem_fmt("%s/lock", data);
	char again[LINE_ROOM];

	*out = (struct supervisor){.lock = -1, .pidfd = -1};
	out->lock = open(path, O_RDONLY | O_CLOEXEC);
	if (out->lock < 0 && errno == EACCES)
		return err_hint(err_new(FORBIDDEN, "not_root", "%s cannot be read", path),
				"use sudo");
	if (out->lock < 0 || !cli_host_read_line(out->lock, out->line))
		return none(data);
	if (flock(out->lock, LOCK_SH | LOCK_NB) == 0)
		return none(data); // the lock is free
	out->pid = (int)strtol(out->line, NULL, 10);
	out->pidfd = out->pid > 1 ? (int)syscall(SYS_pidfd_open, out->pid, 0) : -1;
	if (out->pidfd < 0 || !cli_host_read_line(out->lock, again) ||
	    (int)strtol(again, NULL, 10) != out->pid)
		return none(data);
	if (!is_cove(out))
		return err_hint(err_new(CONFLICT, "bad_lock",
					"the lock of %s names process %d, which is not the cove "
					"that holds it",
					data, out->pid),
				"nothing was signalled; look at that process and at cove's log");
	memcpy(out->line, again, sizeof(out->line));
	return OK;
}

static fallible cli_host_send(const struct supervisor *keeper, int number)
{
	if (syscall(SYS_pidfd_send_signal, keeper->pidfd, number, NULL, 0) == 0)
		return OK;
	if (errno == EPERM)
		return err_hint(err_new(FORBIDDEN, "not_root", "cove belongs to root"), "use sudo");
	return err_sys(errno, "signal cove");
}

// Whether it ends within a step.
static bool has_ended(const struct supervisor *keeper)
{
	struct pollfd one = {.fd = keeper->pidfd, .events = POLLIN};

	return poll(&one, 1, STEP_MS) > 0;
}

fallible host_drain(struct call *call)
{
	const char *data = remote_data(call);
	int64_t deadline = clock_ms() + DRAIN_MS;
	char line[LINE_ROOM];
	auto_supervisor keeper;

	TRY(cli_host_find(data, &keeper));
	TRY(cli_host_send(&keeper, SIGINT));
	while (!has_ended(&keeper))
		if (clock_ms() > deadline)
			return err_hint(err_new(TIMEOUT, "timeout", "cove has not ended yet"),
					"its log says what it waits for");
	if (!cli_host_read_line(keeper.lock, line) || strcmp(word_of(line), "drained") != 0)
		return err_hint(err_new(UNAVAILABLE, "leftovers",
					"cove ended, but not everything was verified gone"),
				"start it again and look at its log, or at 'cove verify'");
	if (!call_has(call, OPT_QUIET))
		print_note("all sandboxes have ended, and so has cove (pid %d)", keeper.pid);
	return OK;
}

fallible host_reload(struct call *call)
{
	const char *data = remote_data(call);
	int64_t deadline = clock_ms() + RELOAD_MS;
	char line[LINE_ROOM];
	auto_supervisor keeper;

	TRY(cli_host_find(data, &keeper));
	TRY(cli_host_send(&keeper, SIGHUP));
	do {
		if (has_ended(&keeper))
			return err_new(UNAVAILABLE, "ended", "cove ended meanwhile");
		if (clock_ms() > deadline)
			return err_hint(err_new(TIMEOUT, "timeout", "cove has not answered yet"),
					"its log says what it waits for");
		cli_host_read_line(keeper.lock, line);
	} while (strcmp(line, keeper.line) == 0 ||
		 (!str_starts(str_of(word_of(line)), "reloaded") &&
		  !str_starts(str_of(word_of(line)), "refused")));
	if (str_starts(str_of(word_of(line)), "refused"))
		return err_hint(err_new(INVALID, "bad_config",
					"the new configuration is not right; the old one stays"),
				"the log of cove says what is wrong with it "
				"(serve.reload_refused)");
	if (!call_has(call, OPT_QUIET))
		print_note("cove (pid %d) has reloaded its configuration", keeper.pid);
	return OK;
}

fallible host_upgrade(struct call *call)
{
	const char *data = remote_data(call);
	int64_t begun = clock_ms();
	char line[LINE_ROOM];
	auto_supervisor keeper;

	TRY(cli_host_find(data, &keeper));
	TRY(cli_host_send(&keeper, SIGUSR2));
	for (;;) {
		if (has_ended(&keeper))
			return err_hint(err_new(UNAVAILABLE, "ended", "cove ended meanwhile"),
					"its log says why; the sandboxes run on, and the next "
					"start finds them");
		cli_host_read_line(keeper.lock, line);
		if (generation_of(line) > generation_of(keeper.line) &&
		    !strcmp(word_of(line), "serving"))
			break;
		if (generation_of(line) == generation_of(keeper.line) &&
		    strcmp(line, keeper.line) != 0 && str_starts(str_of(word_of(line)), "refused"))
			return err_hint(err_new(UNAVAILABLE, "bad_binary",
						"the new binary does not start; the old one "
						"goes on"),
					"put a binary there that works; the log of cove names it");
		if (clock_ms() - begun > UPGRADE_MS)
			return err_hint(err_new(TIMEOUT, "timeout",
						"the new binary does not "
						"serve yet"),
					"its log says what it waits for");
	}
	if (!call_has(call, OPT_QUIET))
		print_note("cove (pid %d) runs the new binary, after %lld ms", keeper.pid,
			   (long long)(clock_ms() - begun));
	return OK;
}
