// The child is this very program with other words. It tells through a pipe when it serves; until
// then its words are kept in a file without a name, to be shown if it fails. It leads a process
// group of its own, so that Ctrl-C reaches us alone and we stop it in order, and it dies with us
// whatever happens to us.
//
// Nobody else should come to rely on a daemon that is about to go: the address it left in the data
// directory is removed again, so that the next `cove run` starts its own. And whoever relied on one
// before shall not lose by it: where sandboxes run that a daemon has left to the next one, ours is
// not that one and works in a directory of its own.
#include "cli/alone.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/secret.h"
#include "cli/interrupt.h"
#include "cli/print.h"
#include "cli/remote.h"
#include "os/fd.h"
#include "os/path.h"
#include "os/probe.h"

#define START_MS 60000
#define STOP_MS 30000
#define KEY_ROOM 1024
#define EXIT_TAKEN 5 // the exit status of a CONFLICT: another daemon holds the data directory

struct alone {
	pid_t pid;
	int pidfd;
	int words; // what it said
	char *data, *url;
	bool is_private;
};

// "/var/lib" of "/var/lib/cove", the caller's.
static char *alone_parent_of(const char *data)
{
	struct str path = str_of(data);

	while (path.len > 1 && path.at[path.len - 1] == '/')
		path.len--;
	while (path.len > 0 && path.at[path.len - 1] != '/')
		path.len--;
	return path.len ? mem_dup(path.at, path.len) : mem_str("./");
}

static void forget_private(const char *data)
{
	auto_free char *parent = alone_parent_of(data);
	auto_fd dir = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_err err = path_remove(dir, data + strlen(parent));

	if (err)
		print_note("%s could not be removed: %s", data, err_trail(err));
}

static void alone_free(struct alone *alone)
{
	if (alone->is_private)
		forget_private(alone->data);
	fd_drop(&alone->pidfd);
	fd_drop(&alone->words);
	free(alone->data);
	free(alone->url);
	free(alone);
}

// In the child: becomes the supervisor, or leaves with a status that says so.
__attribute__((noreturn)) static void alone_become(const struct alone *alone, int ready,
						   pid_t parent)
{
	char number[16];
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(1);
	dup2(null, STDIN_FILENO);
	dup2(alone->words, STDOUT_FILENO);
	dup2(alone->words, STDERR_FILENO);
	fcntl(ready, F_SETFD, 0);
	snprintf(number, sizeof(number), "%d", ready);
	unsetenv("NOTIFY_SOCKET"); // of whoever started the command line
	execl("/proc/self/exe", "cove", "serve", "--data", alone->data, "--listen", "127.0.0.1:0",
	      "--on-term", "stop", "--users-group", "none", "--ready-fd", number, (char *)NULL);
	dprintf(STDERR_FILENO, "exec: %s\n", strerror(errno));
	_exit(1);
}

static fallible alone_spawn(struct alone *alone, int *out_ready)
{
	int ends[2];
	pid_t parent = getpid();

	if (pipe2(ends, O_CLOEXEC))
		return err_sys(errno, "make a pipe");
	alone->words = memfd_create("words", MFD_CLOEXEC);
	alone->pid = fork();
	if (alone->pid == 0)
		alone_become(alone, ends[1], parent);
	close(ends[1]);
	if (alone->pid < 0) {
		close(ends[0]);
		return err_sys(errno, "fork");
	}
	alone->pidfd = (int)syscall(SYS_pidfd_open, alone->pid, 0);
	*out_ready = ends[0];
	return OK;
}

// Until it can be read. CANCELLED, if that is heeded, when we are interrupted; TIMEOUT.
static fallible await_fd(int fd, int64_t deadline, bool heed)
{
	for (;;) {
		struct pollfd fds[2] = {{.fd = fd, .events = POLLIN},
					{.fd = heed ? interrupt_fd() : -1, .events = POLLIN}};
		int64_t left = deadline - clock_ms();

		if (left <= 0)
			return err_new(TIMEOUT, "timeout", "it took too long");
		if (poll(fds, 2, (int)left) < 0 && errno != EINTR)
			return err_sys(errno, "poll");
		if (heed && interrupt_signal())
			return err_new(CANCELLED, "interrupted", "interrupted");
		if (fds[0].revents)
			return OK;
	}
}

// Up to the end of the line that tells the address. An end without one: it failed.
static fallible alone_await_ready(struct alone *alone, int ready)
{
	char line[512];
	size_t len = 0;
	int64_t deadline = clock_ms() + START_MS;
	const char *url;

	while (len < sizeof(line) - 1 && !memchr(line, '\n', len)) {
		ssize_t n;

		TRY(await_fd(ready, deadline, true), "wait for the daemon");
		n = read(ready, line + len, sizeof(line) - 1 - len);
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	line[len] = 0;
	url = strstr(line, "http://");
	if (url)
		alone->url = mem_dup(url, strcspn(url, " \r\n\""));
	return alone->url ? OK
			  : err_new(UNAVAILABLE, "no_start", "the daemon ended before it served");
}

// Its exit status, after it was asked to end (SIGTERM) or had ended by itself (0).
static int alone_await_end(struct alone *alone, int signal)
{
	int status = 0;
	struct err *err;

	if (signal)
		kill(alone->pid, signal);
	err = await_fd(alone->pidfd, clock_ms() + STOP_MS, false);
	if (err)
		kill(alone->pid, SIGKILL);
	err_free(err);
	while (waitpid(alone->pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

// The last lines of what it said: the reason is there.
static fallible alone_explain(const struct alone *alone, struct err *err)
{
	char room[800];
	off_t size = lseek(alone->words, 0, SEEK_END);
	off_t from = size > (off_t)sizeof(room) - 1 ? size - (off_t)sizeof(room) + 1 : 0;
	ssize_t n = pread(alone->words, room, sizeof(room) - 1, from);

	if (n <= 0)
		return err_hint(err, "'cove doctor' tells what this host lacks");
	room[n] = 0;
	while (n > 0 && room[n - 1] == '\n')
		room[--n] = 0;
	return err_hint(err, "it said: %s", room);
}

static fallible try_start(struct alone *alone, bool *taken)
{
	auto_fd ready = -1;
	struct err *err;
	int status;

	TRY(alone_spawn(alone, &ready));
	err = alone_await_ready(alone, ready);
	if (!err)
		return OK;
	status = alone_await_end(alone, err_kind(err) == ERR_UNAVAILABLE ? 0 : SIGTERM);
	*taken = status == EXIT_TAKEN;
	return err_kind(err) == ERR_CANCELLED ? err : alone_explain(alone, err);
}

// In `data` itself, or in a new directory beside it, on the same file system. The daemon is another
// user and must be able to pass through. NULL with errno when it cannot be made.
static struct alone *alone_prepare(const char *data, bool is_private)
{
	struct alone *alone;
	auto_free char *path = NULL;
	auto_free char *parent = alone_parent_of(data);
	char random[17];

	secret_hex(random, 8);
	path = is_private ? mem_fmt("%scove-run-%s", parent, random) : mem_str(data);
	if (is_private && (mkdir(path, 0711) || chmod(path, 0711)))
		return NULL;
	alone = mem_new_of(struct alone);
	alone->pidfd = alone->words = -1;
	alone->is_private = is_private;
	alone->data = take_ptr(path);
	return alone;
}

// Whether sandboxes of that data directory run, though nobody serves it: the warden's notes tell.
static bool has_sandboxes(const char *data)
{
	bool is_default = !strcmp(data, REMOTE_DATA_DEFAULT);
	auto_free char *path = is_default ? mem_str("/run/cove/cells")
					  : mem_fmt("%s/run/cells", data);
	DIR *notes = opendir(path);
	struct dirent *entry;
	bool found = false;

	while (notes && !found && (entry = readdir(notes)))
		found = entry->d_name[0] != '.';
	if (notes)
		closedir(notes);
	return found;
}

fallible alone_start(const char *data, struct alone **out)
{
	int first = has_sandboxes(data) ? 1 : 0;

	if (geteuid() != 0)
		return err_hint(err_new(FORBIDDEN, "not_root",
					"no daemon is running, and only root can start one"),
				"use sudo, or name a running one in COVE_URL and COVE_TOKEN");
	if (probe_is_chroot())
		return err_hint(err_new(NOT_OFFERED, "chroot", PROBE_CHROOT), PROBE_CHROOT_FIX);
	for (int i = first;; i++) {
		struct alone *alone = alone_prepare(data, i > 0);
		bool taken = false;
		struct err *err;

		if (!alone)
			return err_sys(errno, "make a directory beside %s", data);
		err = try_start(alone, &taken);
		if (!err) {
			auto_free char *path = mem_fmt("%s/url", alone->data);

			unlink(path);
			*out = alone;
			return OK;
		}
		alone_free(alone);
		if (!taken || i > 0)
			return err;
		err_free(err);
	}
}

fallible alone_remote(const struct alone *alone, struct remote *out)
{
	char key[KEY_ROOM];
	auto_free char *path = mem_fmt("%s/operator.key", alone->data);
	struct err *err;

	if (fd_get(AT_FDCWD, path, key, sizeof(key)) < 0)
		return err_sys(errno, "read %s", path);
	key[strcspn(key, "\r\n")] = 0;
	err = remote_open_at(out, alone->url, key);
	secret_wipe(key, sizeof(key));
	return err;
}

void alone_stop(struct alone *alone)
{
	alone_await_end(alone, SIGTERM);
	alone_free(alone);
}
