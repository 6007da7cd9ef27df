// The supervisor: root, small, parses only its configuration. It holds the lock and the listeners
// for life, so that clients of a dead daemon wait in the backlog for the next one. It starts the
// warden and the daemon, and restarts whichever dies. Signals:
// SIGTERM          --on-term: `stop` ends the processes of sandboxes, `handoff` leaves them
// SIGINT           ends them (`cove drain`, Ctrl-C); the daemon stops first, then the warden
// SIGUSR2          `cove upgrade`: executes the new binary in place (reexec.c), then replaces the
//                  children; neither is started before both old ones are gone
// SIGHUP           `cove reload` (reload.c)
// A child that exits before the first success ends the supervisor, except with EX_TEMPFAIL.
// Sandboxes that outlive their warden are reparented to the supervisor, which reaps them.
#include "serve/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/weak.h"
#include "manager/contexts.h"
#include "os/fd.h"
#include "os/probe.h"
#include "serve/agents.h"
#include "serve/child.h"
#include "serve/config.h"
#include "serve/daemon.h"
#include "serve/data_dir.h"
#include "serve/document.h"
#include "serve/listen.h"
#include "serve/previews.h"
#include "serve/reexec.h"
#include "serve/reload.h"
#include "serve/stuck.h"

#define STOP_MS 30000
#define AGAIN_MAX 20	 // starts of a child that exits with EX_TEMPFAIL before the first success
#define REPLACE_MS 10000 // beyond the daemon's grace: then it is killed, and its boxes live on

enum { WARDEN, DAEMON, CHILDREN };

struct serve {
	struct config config;
	struct config asked; // as it was read, before it was adapted
	struct data_dir home;
	struct child children[CHILDREN];
	struct listeners listeners;
	int key, cert, live, ready[2], signals;
	struct stuck hung;
	int argc;
	char **argv;				      // of this process, for the next image
	char *program;				      // its binary
	unsigned generation;			      // number of the image of this process
	unsigned again;				      // starts after EX_TEMPFAIL
	bool served;				      // the daemon has been ready once
	enum { STOP_NOT, STOP_LEAVE, STOP_END } stop; // SIGTERM came; and sandboxes must stop
	int64_t replace_by;			      // when an old child is killed
	unsigned refusals;			      // refused binaries and settings
	unsigned reloads;
	bool reloading; // the daemon has not confirmed yet
	int status;
};

// In the lock file, for the command line.
static void serve_set_state(const struct serve *serve, const char *word)
{
	data_dir_set_state(&serve->home, serve->generation, word);
}

// sd_notify(3) without a library: one datagram of NAME=VALUE lines to the socket in NOTIFY_SOCKET.
// The variable stays in our environment for the image that `cove upgrade` executes, and is removed
// from that of the children: the service manager accepts messages of its main process only.
static void serve_notify(const char *text)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	size_t len = path ? strlen(path) : 0;
	auto_fd fd = -1;

	if (!len || len >= sizeof(to.sun_path))
		return;
	memcpy(to.sun_path, path, len);
	if (*path == '@') // abstract namespace
		to.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&to,
			     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) < 0)
		log_event(LOG_WARN, "serve.not_notified", "text", text, NULL);
}

// The key's hash is passed in a memfd: not in argv, the environment or on disk.
static fallible share_key(struct serve *serve)
{
	serve->key = memfd_create("key", MFD_CLOEXEC);
	if (serve->key < 0 ||
	    pwrite(serve->key, serve->home.key_hash, SECRET_HASH, 0) != SECRET_HASH)
		return err_sys(errno, "hand over the hash of the key");
	return OK;
}

static fallible serve_watch_signals(struct serve *serve)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGUSR2);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGCHLD);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);  // ignored in children until they handle it; blocked here
	signal(SIGUSR1, SIG_IGN); // likewise
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		return err_sys(errno, "block signals");
	serve->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return serve->signals < 0 ? err_sys(errno, "make a signalfd") : OK;
}

static void keep(struct child *child, int fd)
{
	child->keep[child->keep_count++] = fd;
}

// The configuration for the children.
static struct config config_inside(const struct serve *serve)
{
	struct config config = serve->config;

	config.uid = serve->home.uid;
	config.gid = serve->home.gid;
	config.fd_lock = (uint64_t)serve->home.lock;
	config.fd_key = (uint64_t)serve->key;
	config.fd_live = (uint64_t)serve->live;
	config.fd_holds = (uint64_t)serve->hung.page;
	config.fd_cert = (uint64_t)serve->cert;
	config.fd_ready = (uint64_t)serve->ready[1];
	return config;
}

static void prepare_children(struct serve *serve)
{
	struct child *warden = &serve->children[WARDEN], *daemon = &serve->children[DAEMON];
	struct config config = config_inside(serve);

	// A signal that comes before a child handles it stays pending. Not SIGTERM for the daemon:
	// only our death sends that.
	for (int i = 0; i < CHILDREN; i++) {
		sigemptyset(&serve->children[i].blocked);
		sigaddset(&serve->children[i].blocked, SIGINT);
		sigaddset(&serve->children[i].blocked, i == WARDEN ? SIGTERM : SIGUSR2);
	}
	warden->role = "warden";
	warden->argv = child_warden_argv(&config);
	keep(warden, serve->home.lock);
	keep(warden, serve->hung.page);
	daemon->role = "daemon";
	warden->config = daemon->config = &serve->config;
	daemon->argv = child_daemon_argv(&config);
	keep(daemon, serve->home.lock);
	keep(daemon, serve->key);
	keep(daemon, serve->live);
	keep(daemon, serve->hung.page);
	keep(daemon, serve->cert);
	keep(daemon, serve->ready[1]);
	for (int i = 0; i < serve->listeners.count; i++)
		keep(daemon, serve->listeners.fds[i]);
	if (serve->listeners.users)
		keep(daemon, serve->listeners.users);
	warden->again_at = daemon->again_at = clock_ms();
}

// Children have another working directory: make the path absolute.
static fallible make_absolute(char **path)
{
	char *whole = realpath(*path, NULL);

	if (!whole)
		return err_sys(errno, "find %s", *path);
	free(*path);
	*path = whole;
	return OK;
}

static fallible serve_open_anew(struct serve *serve)
{
	TRY(data_dir_open(&serve->config, &serve->home));
	TRY(make_absolute(&serve->config.data));
	TRY(make_absolute(&serve->config.run));
	TRY(listen_open(&serve->config, &serve->listeners));
	TRY(share_key(serve));
	if (pipe2(serve->ready, O_CLOEXEC))
		return err_sys(errno, "make a pipe");
	return OK;
}

// Takes over the descriptors of the last image; the configuration is read again, except the
// addresses.
static fallible serve_go_on(struct serve *serve, const struct reexec *reexec)
{
	TRY(data_dir_open_again(&serve->config, reexec->lock, &serve->home));
	TRY(make_absolute(&serve->config.data));
	TRY(make_absolute(&serve->config.run));
	memcpy(serve->ready, reexec->ready, sizeof(serve->ready));
	TRY(listen_again(&serve->config, reexec, &serve->listeners));
	if (!reexec->users && serve->listeners.users) // the last image had none
		TRY(data_dir_publish(&serve->home, serve->listeners.url, serve->listeners.socket));
	serve->config.fd_ready = 0; // the first image has answered
	serve->generation = (unsigned)reexec->generation;
	serve->served = true;
	close(reexec->key); // the key may have changed
	return share_key(serve);
}

// Replaces the children of the last image: the daemon hands its boxes over at once, the warden
// follows.
static void replace_children(struct serve *serve, const struct reexec *reexec)
{
	struct child *warden = &serve->children[WARDEN], *daemon = &serve->children[DAEMON];

	warden->pid = reexec->warden;
	daemon->pid = reexec->daemon;
	warden->old = warden->pid != 0;
	daemon->old = daemon->pid != 0;
	log_event(LOG_INFO, "serve.renewed", NULL);
}

// Each box takes three descriptors of the daemon and of the warden, which inherit the limit. The
// hard limit is raised to the kernel's bound where CAP_SYS_RESOURCE allows it.
static void raise_files(void)
{
	char text[32] = "";
	struct rlimit files, most;

	if (getrlimit(RLIMIT_NOFILE, &files))
		return;
	files.rlim_cur = files.rlim_max;
	most = files;
	if (fd_get(AT_FDCWD, "/proc/sys/fs/nr_open", text, sizeof(text) - 1) > 0)
		most.rlim_cur = most.rlim_max = strtoull(text, NULL, 10);
	if (most.rlim_max <= files.rlim_max || setrlimit(RLIMIT_NOFILE, &most))
		setrlimit(RLIMIT_NOFILE, &files);
}

static fallible serve_prepare(struct serve *serve, int argc, char **argv)
{
	struct reexec reexec;
	bool renewed = false;
	uint32_t warm;

	TRY(serve_watch_signals(
		serve)); // a signal during the start stays pending until serve_loop()
	TRY(config_read(argc, argv, &serve->config));
	TRY(config_read(argc, argv, &serve->asked));
	TRY(serve_agents_check(&serve->config));
	TRY(warm_read(serve->config.warm, &warm));
	unsetenv("COVE_TOKEN");
	weak_open();
	log_open("serve", STDERR_FILENO);
	log_set(serve->config.log_level, serve->config.log_format);
	if (WEAK_BUILD)
		log_event(LOG_ERROR, "serve.weak", "message",
			  "this is a weak build, for tests only: its defences can be off", "off",
			  getenv("COVE_WEAKEN"), NULL);
	if (geteuid() != 0)
		return err_hint(err_new(FORBIDDEN, "not_root",
					"cove serve makes sandboxes and needs root for that"),
				"use sudo; only the small warden keeps the rights, the daemon that "
				"serves the API has none");
	if (probe_is_chroot())
		return err_hint(err_new(NOT_OFFERED, "chroot", PROBE_CHROOT), PROBE_CHROOT_FIX);
	raise_files();
	umask(022);
	// Inherited descriptors are not for the children.
	close_range(3, UINT_MAX, CLOSE_RANGE_CLOEXEC);
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
		return err_sys(errno, "become the parent of orphans");
	TRY(reexec_program(&serve->program));
	TRY(reexec_take(&renewed, &reexec));
	TRY(renewed ? serve_go_on(serve, &reexec) : serve_open_anew(serve));
	TRY(stuck_open(&serve->hung, renewed ? reexec.holds : 0));
	TRY(reload_open(&serve->config, &serve->live));
	TRY(previews_open_cert(&serve->config, &serve->cert));
	prepare_children(serve);
	if (renewed)
		replace_children(serve, &reexec);
	serve_set_state(serve, "starting");
	return OK;
}

// The command line waits for a word that differs from the one before.
static void set_numbered_state(const struct serve *serve, const char *what, unsigned number)
{
	char word[24];

	snprintf(word, sizeof(word), "%s-%u", what, number);
	serve_set_state(serve, word);
}

static void confirm_reload(struct serve *serve)
{
	serve->reloading = false;
	set_numbered_state(serve, "reloaded", ++serve->reloads);
}

static void serve_announce(struct serve *serve)
{
	char byte;

	if (read(serve->ready[0], &byte, 1) != 1)
		return;
	if (byte != DAEMON_RELOADED)
		serve_set_state(serve, "serving");
	if (serve->reloading)
		confirm_reload(serve);
	if (byte == DAEMON_RELOADED || serve->served)
		return;
	serve->served = true;
	auto_err err = data_dir_publish(&serve->home, serve->listeners.url,
					serve->listeners.socket);

	if (err)
		log_event(LOG_WARN, "serve.unpublished", "trail", err_trail(err), NULL);
	serve_notify("READY=1");
	log_event(LOG_INFO, "serve.ready", "url", serve->listeners.url, "data", serve->config.data,
		  NULL);
	if (serve->config.fd_ready) {
		dprintf((int)serve->config.fd_ready, "%s\n", serve->listeners.url);
		close((int)serve->config.fd_ready);
		serve->config.fd_ready = 0;
	}
}

// `ending`: sandboxes must stop.
static void serve_begin_stop(struct serve *serve, bool ending)
{
	if (!serve->stop) {
		serve_notify("STOPPING=1");
		log_event(LOG_INFO, "serve.stopping", "sandboxes", ending ? "end" : "stay", NULL);
	}
	if (serve->stop != STOP_END)
		serve->stop = ending ? STOP_END : STOP_LEAVE;
	if (serve->children[DAEMON].pid)
		kill(serve->children[DAEMON].pid, serve->stop == STOP_END ? SIGINT : SIGUSR2);
}

// Executes the new binary in place. On failure nothing has changed.
static void upgrade(struct serve *serve)
{
	struct reexec reexec = {
		.generation = (int)serve->generation + 1,
		.lock = serve->home.lock,
		.key = serve->key,
		.holds = stuck_page(&serve->hung, &serve->children[WARDEN]),
		.ready = {serve->ready[0], serve->ready[1]},
		.warden = serve->children[WARDEN].pid,
		.daemon = serve->children[DAEMON].pid,
	};
	struct err *failed;

	listen_renew(&serve->config, &serve->listeners, &reexec);
	log_event(LOG_INFO, "serve.upgrading", "binary", serve->program, NULL);
	failed = reexec_check(serve->program);
	if (!failed)
		failed = reexec_become(serve->program, serve->argv, &reexec);
	auto_err err = failed;

	log_event(LOG_ERROR, "serve.upgrade_failed", "message", err_message(err), "trail",
		  err_trail(err), NULL);
	set_numbered_state(serve, "refused", ++serve->refusals);
}

// The files may have changed under the same names.
static bool serve_reload_cert(struct serve *serve)
{
	auto_err err = previews_refresh_cert(&serve->config, serve->cert);

	if (err)
		log_event(LOG_ERROR, "serve.reload_refused", "message", err_message(err), "trail",
			  err_trail(err), NULL);
	return !err;
}

static void serve_reload(struct serve *serve)
{
	struct child *daemon = &serve->children[DAEMON];
	struct config config;

	if (!reload_now(serve->argc - 2, serve->argv + 2, &serve->asked, &serve->config,
			serve->live) ||
	    !serve_reload_cert(serve)) {
		set_numbered_state(serve, "refused", ++serve->refusals);
		return;
	}
	log_set(serve->config.log_level, serve->config.log_format);
	config = config_inside(serve);
	mem_free_list(daemon->argv);
	daemon->argv = child_daemon_argv(&config);
	serve->reloading = daemon->pid && !kill(daemon->pid, SIGHUP);
	if (!serve->reloading)
		confirm_reload(serve);
}

static void destroy_child(struct serve *serve, struct child *child, int status)
{
	char how[32];
	bool refused = !serve->served && WIFEXITED(status) && WEXITSTATUS(status);

	if (refused && WEXITSTATUS(status) == EX_TEMPFAIL)
		refused = ++serve->again >= AGAIN_MAX;
	snprintf(how, sizeof(how), WIFSIGNALED(status) ? "signal %d" : "status %d",
		 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	log_event(serve->stop ? LOG_INFO : LOG_WARN, "serve.child_ended", "role", child->role,
		  "how", how, NULL);
	kill_point("supervisor.child_ended", child->role);
	child_ended(child, clock_ms());
	if (refused && !serve->stop) {
		serve->status = WEXITSTATUS(status);
		serve_begin_stop(serve, false); // boxes that were not adopted stay
	}
	if (serve->stop == STOP_END && status && !serve->status)
		serve->status = 1; // processes may be left
}

static void serve_reap(struct serve *serve)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (int i = 0; i < CHILDREN; i++)
			if (serve->children[i].pid == pid)
				destroy_child(serve, &serve->children[i], status);
}

static void serve_handle_signals(struct serve *serve)
{
	struct signalfd_siginfo info;

	while (read(serve->signals, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGUSR2 && !serve->stop)
			upgrade(serve);
		else if (info.ssi_signo == SIGHUP && !serve->stop)
			serve_reload(serve);
		else if (info.ssi_signo == SIGINT || info.ssi_signo == SIGTERM)
			serve_begin_stop(serve, info.ssi_signo == SIGINT ||
							!strcmp(serve->config.on_term, "stop"));
	}
	serve_reap(serve);
}

// Replaces one old child at a time, the daemon first. Returns how long to wait for it, -1: none
// left.
static int replace_next(struct serve *serve)
{
	struct child *daemon = &serve->children[DAEMON], *warden = &serve->children[WARDEN];
	struct child *child = daemon->old ? daemon : warden;
	int64_t now = clock_ms();

	if (!child->old)
		return -1;
	if (child->again_at) { // not signalled yet
		child->again_at = 0;
		serve->replace_by = now + REPLACE_MS +
				    (child == daemon ? (int64_t)serve->config.grace_ms : 0);
		kill(child->pid, child == daemon ? SIGUSR2 : SIGTERM);
	} else if (now >= serve->replace_by) {
		log_event(LOG_ERROR, "serve.child_stuck", "role", child->role, NULL);
		kill(child->pid, SIGKILL);
		serve->replace_by = now + REPLACE_MS;
	}
	return (int)(serve->replace_by - now);
}

// Starts children that are due; returns how long until the next is due, in ms.
static int start_due(struct serve *serve)
{
	int64_t now = clock_ms(), next = -1;

	for (int i = 0; i < CHILDREN; i++) {
		struct child *child = &serve->children[i];

		// A draining daemon needs a warden, but not the other way round. A new daemon waits
		// for the new warden.
		if (child->pid || (i == DAEMON && (serve->stop || serve->children[WARDEN].old)))
			continue;
		if (child->again_at <= now) {
			auto_err err = child_start(child);

			kill_point("supervisor.child_started", child->role);
			if (err) {
				log_event(LOG_ERROR, "serve.no_child", "trail", err_trail(err),
					  NULL);
				child_ended(child, now);
			}
		}
		if (!child->pid && (next < 0 || child->again_at - now < next))
			next = child->again_at - now;
	}
	return (int)next;
}

static void wait_for_news(struct serve *serve, int wait_ms)
{
	struct pollfd watched[] = {
		{.fd = serve->signals, .events = POLLIN},
		{.fd = serve->ready[0], .events = POLLIN},
	};

	if (wait_ms < 0 || wait_ms > STUCK_LOOK_MS)
		wait_ms = STUCK_LOOK_MS;
	if (poll(watched, 2, wait_ms) < 0)
		return;
	if (watched[1].revents & POLLIN)
		serve_announce(serve);
	if (watched[0].revents & POLLIN)
		serve_handle_signals(serve);
	stuck_look(&serve->hung, &serve->children[DAEMON], &serve->children[WARDEN]);
}

static void stop_child(struct serve *serve, struct child *child, int signal_number,
		       int64_t patience_ms)
{
	int64_t deadline = clock_ms() + patience_ms;

	if (child->pid)
		kill(child->pid, signal_number);
	while (child->pid && clock_ms() < deadline)
		wait_for_news(serve, 100);
	if (!child->pid)
		return;
	log_event(LOG_ERROR, "serve.child_stuck", "role", child->role, NULL);
	serve->status = serve->status ? serve->status : 1;
	kill(child->pid, SIGKILL);
	while (child->pid)
		wait_for_news(serve, 100);
}

static int serve_loop(struct serve *serve)
{
	while (!serve->stop) {
		int replacing = replace_next(serve), due = start_due(serve);

		wait_for_news(serve,
			      replacing >= 0 && (due < 0 || replacing < due) ? replacing : due);
	}
	serve_set_state(serve, serve->stop == STOP_END ? "draining" : "leaving");
	// The daemon was signalled already; a second signal would end its grace period.
	int64_t patience = STOP_MS + (int64_t)serve->config.grace_ms;
	struct child *daemon = &serve->children[DAEMON];
	int64_t deadline = clock_ms() + patience;

	while (daemon->pid && clock_ms() < deadline) {
		start_due(serve);
		wait_for_news(serve, 100);
	}
	if (daemon->pid)
		stop_child(serve, daemon, serve->stop == STOP_END ? SIGINT : SIGUSR2, 1000);
	// Boxes that no daemon could stop are stopped now, and only a warden can do that.
	if (serve->stop == STOP_END && !serve->children[WARDEN].pid) {
		serve->children[WARDEN].again_at = clock_ms();
		start_due(serve);
	}
	stop_child(serve, &serve->children[WARDEN], serve->stop == STOP_END ? SIGINT : SIGTERM,
		   STOP_MS);
	data_dir_withdraw(&serve->home);
	serve_set_state(serve, serve->status		 ? "failed"
			       : serve->stop == STOP_END ? "drained"
							 : "left");
	log_event(LOG_INFO, "serve.stopped", NULL);
	return serve->status;
}

static int serve_describe(void (*describe_by)(struct buf *out))
{
	auto_buf text = BUF_INIT(256 * 1024);

	describe_by(&text);
	return fd_write_all(STDOUT_FILENO, text.at, text.len) ? 1 : 0;
}

int serve_main(int argc, char **argv)
{
	static struct serve serve; // one per process
	struct err *failed;

	if (argc == 3 && !strcmp(argv[2], "--options"))
		return serve_describe(config_describe);
	if (argc == 3 && !strcmp(argv[2], "--example"))
		return serve_describe(config_example);
	if (argc == 3 && !strcmp(argv[2], "--document"))
		return serve_describe(document_write);
	serve.argc = argc;
	serve.argv = argv;
	failed = serve_prepare(&serve, argc - 2, argv + 2);
	if (!failed)
		return serve_loop(&serve);
	auto_err err = failed;

	if (err_kind(err) == ERR_INTERNAL)
		fprintf(stderr, "cove: %s\n", err_trail(err));
	else
		fprintf(stderr, "cove: %s\n", err_message(err));
	if (err_hint_of(err))
		fprintf(stderr, "hint: %s\n", err_hint_of(err));
	return err_exit(err);
}
