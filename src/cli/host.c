// DATA/lock is held by the supervisor and tells of it: "PID GENERATION WORD". The signal goes to a
// pidfd, opened before the lock is read a second time: a number that changed hands meanwhile is
// never signalled. Then the words are read until they say how it went.
#include "cli/host.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/print.h"
#include "cli/remote.h"
#include "os/fd.h"

#define STEP_MS 20
#define DRAIN_MS 120000
#define UPGRADE_MS 120000
#define RELOAD_MS 30000
#define LINE_ROOM 64

struct keeper {
	int lock, pidfd;
	int pid;
	char line[LINE_ROOM]; // what the lock said when it was signalled
};

static void keeper_done(struct keeper *keeper)
{
	fd_drop(&keeper->lock);
	fd_drop(&keeper->pidfd);
}
#define auto_keeper on_exit_call(keeper_done) struct keeper

static bool read_line(int lock, char line[LINE_ROOM])
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

static fallible find(const char *data, struct keeper *out)
{
	auto_free char *path = mem_fmt("%s/lock", data);
	char again[LINE_ROOM];

	*out = (struct keeper){.lock = -1, .pidfd = -1};
	out->lock = open(path, O_RDONLY | O_CLOEXEC);
	if (out->lock < 0 && errno == EACCES)
		return err_hint(err_new(FORBIDDEN, "not_root", "%s cannot be read", path),
				"use sudo");
	if (out->lock < 0 || !read_line(out->lock, out->line))
		return none(data);
	if (flock(out->lock, LOCK_SH | LOCK_NB) == 0)
		return none(data); // nobody holds it
	out->pid = (int)strtol(out->line, NULL, 10);
	out->pidfd = out->pid > 1 ? (int)syscall(SYS_pidfd_open, out->pid, 0) : -1;
	if (out->pidfd < 0 || !read_line(out->lock, again) ||
	    (int)strtol(again, NULL, 10) != out->pid)
		return none(data);
	memcpy(out->line, again, sizeof(out->line));
	return OK;
}

static fallible send(const struct keeper *keeper, int number)
{
	if (syscall(SYS_pidfd_send_signal, keeper->pidfd, number, NULL, 0) == 0)
		return OK;
	if (errno == EPERM)
		return err_hint(err_new(FORBIDDEN, "not_root", "cove belongs to root"), "use sudo");
	return err_sys(errno, "signal cove");
}

// Whether it has ended, within a step.
static bool has_ended(const struct keeper *keeper)
{
	struct pollfd one = {.fd = keeper->pidfd, .events = POLLIN};

	return poll(&one, 1, STEP_MS) > 0;
}

fallible host_drain(struct call *call)
{
	const char *data = remote_data(call);
	int64_t deadline = clock_ms() + DRAIN_MS;
	char line[LINE_ROOM];
	auto_keeper keeper;

	TRY(find(data, &keeper));
	TRY(send(&keeper, SIGINT));
	while (!has_ended(&keeper))
		if (clock_ms() > deadline)
			return err_hint(err_new(TIMEOUT, "timeout", "cove has not ended yet"),
					"its log tells what it waits for");
	if (!read_line(keeper.lock, line) || strcmp(word_of(line), "drained") != 0)
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
	auto_keeper keeper;

	TRY(find(data, &keeper));
	TRY(send(&keeper, SIGHUP));
	do {
		if (has_ended(&keeper))
			return err_new(UNAVAILABLE, "ended", "cove ended meanwhile");
		if (clock_ms() > deadline)
			return err_hint(err_new(TIMEOUT, "timeout", "cove has not answered yet"),
					"its log tells what it waits for");
		read_line(keeper.lock, line);
	} while (strcmp(line, keeper.line) == 0 ||
		 (!str_starts(str_of(word_of(line)), "reloaded") &&
		  !str_starts(str_of(word_of(line)), "refused")));
	if (str_starts(str_of(word_of(line)), "refused"))
		return err_hint(err_new(INVALID, "bad_config",
					"the new configuration is not right; the old one stays"),
				"the log of cove says what is wrong with it "
				"(serve.reload_refused)");
	if (!call_has(call, OPT_QUIET))
		print_note("cove (pid %d) has read its configuration anew", keeper.pid);
	return OK;
}

fallible host_upgrade(struct call *call)
{
	const char *data = remote_data(call);
	int64_t begun = clock_ms();
	char line[LINE_ROOM];
	auto_keeper keeper;

	TRY(find(data, &keeper));
	TRY(send(&keeper, SIGUSR2));
	for (;;) {
		if (has_ended(&keeper))
			return err_hint(err_new(UNAVAILABLE, "ended", "cove ended meanwhile"),
					"its log tells why; the sandboxes run on, and the next "
					"start finds them");
		read_line(keeper.lock, line);
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
					"its log tells what it waits for");
	}
	if (!call_has(call, OPT_QUIET))
		print_note("cove (pid %d) runs the new binary, after %lld ms", keeper.pid,
			   (long long)(clock_ms() - begun));
	return OK;
}
