// A sandbox for one verb: created, used, and removed, also after errors and signals. Without a
// running daemon one is started for the same time: a child that runs this program as `cove serve`.
// A pipe reports when it serves; until then its stderr goes to a memfd, shown if it fails. It has
// its own process group, so that Ctrl-C reaches only us and we stop it in order, and it dies with
// us (PR_SET_PDEATHSIG).
//
// No other client should use a daemon that is about to end: its address in the data directory is
// removed. If a data directory has sandboxes that were left for a next daemon, ours is not that one
// and uses a private directory.
#include "cli/temporary_box.h"

#include <assert.h>
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
#include "cli/status.h"
#include "lib/private.h"
#include "os/fd.h"
#include "os/path.h"
#include "os/probe.h"

#define START_MS 60000
#define STOP_MS 30000
#define KEY_ROOM 1024
#define EXIT_TAKEN 5 // the exit status of a CONFLICT: another daemon holds the data directory

struct embedded {
	pid_t pid;
	int pidfd;
	int words; // its stderr
	char *data, *url;
	bool is_private;
};

// "/var/lib" of "/var/lib/cove", owned by the caller.
static char *embedded_parent_of(const char *data)
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
	auto_free char *parent = embedded_parent_of(data);
	auto_fd dir = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_err err = path_remove(dir, data + strlen(parent));

	if (err)
		print_note("%s could not be removed: %s", data, err_trail(err));
}

static void embedded_free(struct embedded *embedded)
{
	if (embedded->is_private)
		forget_private(embedded->data);
	fd_drop(&embedded->pidfd);
	fd_drop(&embedded->words);
	free(embedded->data);
	free(embedded->url);
	free(embedded);
}

// In the child: executes the supervisor, or exits.
__attribute__((noreturn)) static void embedded_become(const struct embedded *embedded, int ready,
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
	dup2(embedded->words, STDOUT_FILENO);
	dup2(embedded->words, STDERR_FILENO);
	fcntl(ready, F_SETFD, 0);
	snprintf(number, sizeof(number), "%d", ready);
	unsetenv("NOTIFY_SOCKET"); // of our own service manager
	execl("/proc/self/exe", "cove", "serve", "--data", embedded->data, "--listen",
	      "127.0.0.1:0", "--on-term", "stop", "--users-group", "none", "--ready-fd", number,
	      (char *)NULL);
	dprintf(STDERR_FILENO, "exec: %s\n", strerror(errno));
	_exit(1);
}

static fallible embedded_spawn(struct embedded *embedded, int *out_ready)
{
	int ends[2];
	pid_t parent = getpid();

	if (pipe2(ends, O_CLOEXEC))
		return err_sys(errno, "make a pipe");
	embedded->words = memfd_create("words", MFD_CLOEXEC);
	embedded->pid = fork();
	if (embedded->pid == 0)
		embedded_become(embedded, ends[1], parent);
	close(ends[1]);
	if (embedded->pid < 0) {
		close(ends[0]);
		return err_sys(errno, "fork");
	}
	embedded->pidfd = (int)syscall(SYS_pidfd_open, embedded->pid, 0);
	*out_ready = ends[0];
	return OK;
}

// Waits until it is readable. CANCELLED, if interruptible, after a signal; TIMEOUT.
static fallible await_fd(int fd, int64_t deadline, bool load_config)
{
	for (;;) {
		struct pollfd fds[2] = {
			{.fd = fd, .events = POLLIN},
			{.fd = load_config ? interrupt_fd() : -1, .events = POLLIN}};
		int64_t left = deadline - clock_ms();

		if (left <= 0)
			return err_new(TIMEOUT, "timeout", "it took too long");
		if (poll(fds, 2, (int)left) < 0 && errno != EINTR)
			return err_sys(errno, "poll");
		if (load_config && interrupt_signal())
			return err_new(CANCELLED, "interrupted", "interrupted");
		if (fds[0].revents)
			return OK;
	}
}

// Reads the line with the address. EOF without one: it failed.
static fallible embedded_await_ready(struct embedded *embedded, int ready)
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
		embedded->url = mem_dup(url, strcspn(url, " \r\n\""));
	return embedded->url
		       ? OK
		       : err_new(UNAVAILABLE, "no_start", "the daemon ended before it served");
}

// Its exit status, after SIGTERM or (0) by itself.
static int embedded_await_end(struct embedded *embedded, int signal)
{
	int status = 0;
	struct err *err;

	if (signal)
		kill(embedded->pid, signal);
	err = await_fd(embedded->pidfd, clock_ms() + STOP_MS, false);
	if (err)
		kill(embedded->pid, SIGKILL);
	err_free(err);
	while (waitpid(embedded->pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

// Adds the last lines of its stderr, which have the reason.
static fallible embedded_explain(const struct embedded *embedded, struct err *err)
{
	char room[800];
	off_t size = lseek(embedded->words, 0, SEEK_END);
	off_t from = size > (off_t)sizeof(room) - 1 ? size - (off_t)sizeof(room) + 1 : 0;
	ssize_t n = pread(embedded->words, room, sizeof(room) - 1, from);

	if (n <= 0)
		return err_hint(err, "'cove doctor' shows what this host lacks");
	room[n] = 0;
	while (n > 0 && room[n - 1] == '\n')
		room[--n] = 0;
	return err_hint(err, "it said: %s", room);
}

static fallible try_start(struct embedded *embedded, bool *taken)
{
	auto_fd ready = -1;
	struct err *err;
	int status;

	TRY(embedded_spawn(embedded, &ready));
	err = embedded_await_ready(embedded, ready);
	if (!err)
		return OK;
	status = embedded_await_end(embedded, err_kind(err) == ERR_UNAVAILABLE ? 0 : SIGTERM);
	*taken = status == EXIT_TAKEN;
	return err_kind(err) == ERR_CANCELLED ? err : embedded_explain(embedded, err);
}

// In `data` itself, or in a new directory beside it, on the same file system. The daemon has
// another user and must be able to traverse it. NULL with errno on failure.
static struct embedded *embedded_prepare(const char *data, bool is_private)
{
	struct embedded *embedded;
	auto_free char *path = NULL;
	auto_free char *parent = embedded_parent_of(data);
	char random[17];

	secret_hex(random, 8);
	path = is_private ? mem_fmt("%scove-run-%s", parent, random) : mem_str(data);
	if (is_private && (mkdir(path, 0711) || chmod(path, 0711)))
		return NULL;
	embedded = mem_new_of(struct embedded);
	embedded->pidfd = embedded->words = -1;
	embedded->is_private = is_private;
	embedded->data = take_ptr(path);
	return embedded;
}

// Whether sandboxes of that data directory run without a daemon: the warden's state files tell.
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

// Starts `cove serve` on a free port, in `data` or, when another daemon holds that, in a private
// directory beside it, and waits until it serves. FORBIDDEN not_root; UNAVAILABLE no_start with its
// stderr as the hint.
static fallible embedded_start(const char *data, struct embedded **out)
{
	int first = has_sandboxes(data) ? 1 : 0;

	if (geteuid() != 0)
		return err_hint(err_new(FORBIDDEN, "not_root",
					"no daemon is running, and only root can start one"),
				"use sudo, or name a running one in COVE_URL and COVE_TOKEN");
	if (probe_is_chroot())
		return err_hint(err_new(NOT_OFFERED, "chroot", PROBE_CHROOT), PROBE_CHROOT_FIX);
	for (int i = first;; i++) {
		struct embedded *embedded = embedded_prepare(data, i > 0);
		bool taken = false;
		struct err *err;

		if (!embedded)
			return err_sys(errno, "make a directory beside %s", data);
		err = try_start(embedded, &taken);
		if (!err) {
			auto_free char *path = mem_fmt("%s/url", embedded->data);

			unlink(path);
			*out = embedded;
			return OK;
		}
		embedded_free(embedded);
		if (!taken || i > 0)
			return err;
		err_free(err);
	}
}

// Opens a client with its address and key.
static fallible embedded_remote(const struct embedded *embedded, struct remote *out)
{
	char key[KEY_ROOM];
	auto_free char *path = mem_fmt("%s/operator.key", embedded->data);
	struct err *err;

	if (fd_get(AT_FDCWD, path, key, sizeof(key)) < 0)
		return err_sys(errno, "read %s", path);
	key[strcspn(key, "\r\n")] = 0;
	err = remote_open_at(out, embedded->url, key);
	secret_wipe(key, sizeof(key));
	return err;
}

// Stops it with its boxes, and removes its private directory. Waits. Frees it.
static void embedded_stop(struct embedded *embedded)
{
	embedded_await_end(embedded, SIGTERM);
	embedded_free(embedded);
}

// Connects to the daemon, or starts one when there is none.
static fallible temporary_box_reach(struct call *call, struct remote *remote,
				    struct embedded **out_alone)
{
	const char *url = getenv("COVE_URL");
	bool named = call_has(call, OPT_URL) || (url && *url);
	struct err *err = remote_open(remote, call);

	named |= !err && remote->cove->by_context;
	if (!err && !named)
		err = remote_ask(remote, "GET", "/v1/health", NULL, NULL, NULL);
	if (!err || named || err_kind(err) != ERR_UNAVAILABLE)
		return err;
	remote_close(remote);
	err_free(err);
	if (call_has(call, OPT_KEEP))
		return err_hint(err_new(UNAVAILABLE, "no_daemon",
					"no daemon is running that could keep the sandbox"),
				"start one with 'cove serve', or leave --keep out");
	TRY(embedded_start(remote_data(call), out_alone));
	assert(*out_alone);
	return embedded_remote(*out_alone, remote);
}

// Also after an error or a signal: with a second client, which no signal cancels.
static void remove_box(const struct remote *remote, const char *id)
{
	auto_remote fresh = {0};
	auto_cove_box box = NULL;
	auto_err err = remote_open_at(&fresh, cove_url(remote->cove), cove_token(remote->cove));

	if (!err) {
		box = cove_box_at(fresh.cove, id);
		err = remote_did(&fresh, cove_box_delete(box, &fresh.error));
	}
	if (err && err_kind(err) != ERR_NOT_FOUND)
		print_note("sandbox %s could not be removed: %s", id, err_message(err));
}

static fallible in_a_box(struct call *call, struct remote *remote, const struct cove_box_spec *spec,
			 temporary_box_fn *work, void *arg)
{
	auto_cove_box box = NULL;
	struct err *err;

	// Not interruptible: a box whose id was not read could not be removed.
	interrupt_shield(true);
	err = remote_did(remote, cove_box_create(remote->cove, spec, &box, &remote->error));
	interrupt_shield(false);
	if (err)
		return err;
	err = status_end(call, work(call, remote, box, arg));
	if (!call_has(call, OPT_KEEP))
		remove_box(remote, cove_box_id(box));
	else if (!call_has(call, OPT_QUIET))
		print_note("kept %s", cove_box_id(box));
	return err;
}

static fallible with_daemon(struct call *call, const struct cove_box_spec *spec,
			    temporary_box_fn *work, void *arg, struct embedded **embedded)
{
	auto_remote remote = {0};
	struct err *err;

	interrupt_arm(NULL);
	err = temporary_box_reach(call, &remote, embedded);
	remote.call = call;
	interrupt_arm(err ? NULL : remote.cove);
	if (!err && interrupt_signal())
		err = err_new(CANCELLED, "interrupted", "interrupted");
	if (!err)
		err = in_a_box(call, &remote, spec, work, arg);
	interrupt_arm(NULL);
	return err;
}

fallible temporary_box_run(struct call *call, const struct cove_box_spec *spec,
			   temporary_box_fn *work, void *arg)
{
	struct embedded *embedded = NULL;
	struct err *err = with_daemon(call, spec, work, arg, &embedded);

	if (err && interrupt_signal())
		call->exit = STATUS_SIGNALED + interrupt_signal();
	if (embedded)
		embedded_stop(embedded);
	return err;
}
