// The supervisor: root, tiny, reads nothing but its configuration. It holds the lock and the
// listeners for life, so clients of a daemon that died wait in the backlog for the next one. It
// starts the warden and the daemon and starts again whichever dies.
//
// Before anything has worked, a child that leaves by itself has said why in the log: then there is
// no point in trying again, and we leave with its status.
//
// SIGTERM: the daemon first (it drains and ends all boxes), then the warden.
#include "serve/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/weak.h"
#include "loop/dial.h"
#include "os/fd.h"
#include "serve/child.h"
#include "serve/config.h"
#include "serve/home.h"

#define LISTENERS_MAX 4
#define STOP_MS 30000

enum { WARDEN, DAEMON, CHILDREN };

struct serve {
	struct config config;
	struct home home;
	struct child children[CHILDREN];
	int listeners[LISTENERS_MAX];
	int listener_count;
	int key, ready[2], signals;
	char url[128];
	bool served;   // the daemon has answered once
	bool stopping; // SIGTERM came
	int status;
};

static fallible open_listeners(struct serve *serve)
{
	auto_buf bound = BUF_INIT(1024), fds = BUF_INIT(128);
	struct str rest = str_of(serve->config.listen), address;

	while (rest.len && str_cut(&rest, ',', &address)) {
		struct str host = str_trim(address);
		uint16_t port;
		int fd;

		if (serve->listener_count == LISTENERS_MAX)
			return err_new(INVALID, "bad_config", "--listen may name %d addresses",
				       LISTENERS_MAX);
		TRY(dial_listen(host, &fd, &port));
		while (host.len && host.at[host.len - 1] != ':')
			host.len--;
		buf_fmt(&bound, "%s" STR_FMT "%u", bound.len ? "," : "", STR_ARG(host), port);
		buf_fmt(&fds, "%s%d", fds.len ? "," : "", fd);
		if (!serve->listener_count) {
			bool any = str_is(host, "0.0.0.0:") || str_is(host, "[::]:");

			snprintf(serve->url, sizeof(serve->url), "http://" STR_FMT "%u",
				 STR_ARG(any ? STR("127.0.0.1:") : host), port);
		}
		serve->listeners[serve->listener_count++] = fd;
	}
	if (!serve->listener_count || !buf_ok(&bound))
		return err_new(INVALID, "bad_config", "--listen names no address");
	free(serve->config.listen);
	serve->config.listen = buf_take(&bound);
	free(serve->config.fd_listen);
	serve->config.fd_listen = buf_take(&fds);
	return OK;
}

// The key's hash travels in a file without a name: in no argv, no environment, on no disk.
static fallible share_key(struct serve *serve)
{
	serve->key = memfd_create("key", MFD_CLOEXEC);
	if (serve->key < 0 ||
	    pwrite(serve->key, serve->home.key_hash, SECRET_HASH, 0) != SECRET_HASH)
		return err_sys(errno, "hand over the hash of the key");
	return OK;
}

static fallible watch_signals(struct serve *serve)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGCHLD);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		return err_sys(errno, "block signals");
	serve->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return serve->signals < 0 ? err_sys(errno, "make a signalfd") : OK;
}

static char **daemon_words(const struct config *config)
{
	char **argv = mem_new((CONFIG_ARGS_MAX + 3) * sizeof(*argv));
	int count = 0;

	argv[count++] = mem_str("cove");
	argv[count++] = mem_str("daemon");
	config_args(config, argv, &count);
	return argv;
}

// The warden is told as little as it needs; see warden/warden.h.
static char **warden_words(const struct config *config)
{
	char **argv = mem_new(9 * sizeof(*argv));
	int count = 0;

	argv[count++] = mem_str("cove");
	argv[count++] = mem_str("warden");
	argv[count++] = mem_fmt("--data=%s", config->data);
	argv[count++] = mem_fmt("--run=%s", config->run);
	argv[count++] = mem_fmt("--uid=%u", (unsigned int)config->uid);
	argv[count++] = mem_fmt("--gid=%u", (unsigned int)config->gid);
	argv[count++] = mem_fmt("--fd-lock=%d", (int)config->fd_lock);
	if (*config->disk)
		argv[count++] = mem_fmt("--disk=%s", config->disk);
	return argv;
}

static void keep(struct child *child, int fd)
{
	child->keep[child->keep_count++] = fd;
}

static void prepare_children(struct serve *serve)
{
	struct child *warden = &serve->children[WARDEN], *daemon = &serve->children[DAEMON];
	struct config config = serve->config;

	config.uid = serve->home.uid;
	config.gid = serve->home.gid;
	config.fd_lock = (uint64_t)serve->home.lock;
	config.fd_key = (uint64_t)serve->key;
	config.fd_ready = (uint64_t)serve->ready[1];
	warden->role = "warden";
	warden->argv = warden_words(&config);
	keep(warden, serve->home.lock);
	daemon->role = "daemon";
	daemon->argv = daemon_words(&config);
	keep(daemon, serve->home.lock);
	keep(daemon, serve->key);
	keep(daemon, serve->ready[1]);
	for (int i = 0; i < serve->listener_count; i++)
		keep(daemon, serve->listeners[i]);
	warden->again_at = daemon->again_at = clock_ms();
}

// Children work elsewhere: a relative name would mean another place to them.
static fallible make_absolute(char **path)
{
	char *whole = realpath(*path, NULL);

	if (!whole)
		return err_sys(errno, "find %s", *path);
	free(*path);
	*path = whole;
	return OK;
}

static fallible prepare(struct serve *serve, int argc, char **argv)
{
	struct rlimit files;

	TRY(config_read(argc, argv, &serve->config));
	if (*serve->config.log_level)
		setenv("COVE_LOG_LEVEL", serve->config.log_level, 1);
	if (*serve->config.log_format)
		setenv("COVE_LOG_FORMAT", serve->config.log_format, 1);
	unsetenv("COVE_TOKEN");
	weak_open();
	log_open("serve", STDERR_FILENO);
	if (WEAK_BUILD)
		log_event(LOG_ERROR, "serve.weak", "message",
			  "this is a weak build, for tests only: its defences can be off", "off",
			  getenv("COVE_WEAKEN"), NULL);
	if (geteuid() != 0)
		return err_hint(err_new(FORBIDDEN, "not_root",
					"cove serve makes sandboxes and needs root for that"),
				"use sudo; only the small warden keeps the rights, the daemon that "
				"serves the API has none");
	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	umask(022);
	// Whatever we were started with is not for our children.
	close_range(3, UINT_MAX, CLOSE_RANGE_CLOEXEC);
	TRY(home_open(&serve->config, &serve->home));
	TRY(make_absolute(&serve->config.data));
	TRY(make_absolute(&serve->config.run));
	TRY(open_listeners(serve));
	TRY(share_key(serve));
	if (pipe2(serve->ready, O_CLOEXEC))
		return err_sys(errno, "make a pipe");
	TRY(watch_signals(serve));
	prepare_children(serve);
	return OK;
}

static void announce(struct serve *serve)
{
	char byte;

	if (read(serve->ready[0], &byte, 1) != 1 || serve->served)
		return;
	serve->served = true;
	auto_err err = home_publish(&serve->home, serve->url);

	if (err)
		log_event(LOG_WARN, "serve.unpublished", "trail", err_trail(err), NULL);
	log_event(LOG_INFO, "serve.ready", "url", serve->url, "data", serve->config.data, NULL);
	if (serve->config.fd_ready) {
		dprintf((int)serve->config.fd_ready, "%s\n", serve->url);
		close((int)serve->config.fd_ready);
		serve->config.fd_ready = 0;
	}
}

static void begin_stop(struct serve *serve)
{
	if (!serve->stopping)
		log_event(LOG_INFO, "serve.stopping", NULL);
	serve->stopping = true;
	if (serve->children[DAEMON].pid)
		kill(serve->children[DAEMON].pid, SIGTERM);
}

static void bury_child(struct serve *serve, struct child *child, int status)
{
	char how[32];
	bool refused = !serve->served && WIFEXITED(status) && WEXITSTATUS(status);

	snprintf(how, sizeof(how), WIFSIGNALED(status) ? "signal %d" : "status %d",
		 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	log_event(serve->stopping ? LOG_INFO : LOG_WARN, "serve.child_ended", "role", child->role,
		  "how", how, NULL);
	child_ended(child, clock_ms());
	if (refused && !serve->stopping) {
		serve->status = WEXITSTATUS(status);
		begin_stop(serve);
	}
}

static void reap(struct serve *serve)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (int i = 0; i < CHILDREN; i++)
			if (serve->children[i].pid == pid)
				bury_child(serve, &serve->children[i], status);
}

static void hear_signals(struct serve *serve)
{
	struct signalfd_siginfo info;

	while (read(serve->signals, &info, sizeof(info)) == sizeof(info))
		if (info.ssi_signo != SIGCHLD)
			begin_stop(serve);
	reap(serve);
}

// Starts what is due; returns how long nothing will be, in ms.
static int start_due(struct serve *serve)
{
	int64_t now = clock_ms(), next = -1;

	for (int i = 0; i < CHILDREN; i++) {
		struct child *child = &serve->children[i];

		// A daemon that drains still needs a warden, but never the other way round.
		if (child->pid || (serve->stopping && i == DAEMON))
			continue;
		if (child->again_at <= now) {
			auto_err err = child_start(child);

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

	if (poll(watched, 2, wait_ms) < 0)
		return;
	if (watched[1].revents & POLLIN)
		announce(serve);
	if (watched[0].revents & POLLIN)
		hear_signals(serve);
}

static void stop_child(struct serve *serve, struct child *child, int64_t patience_ms)
{
	int64_t deadline = clock_ms() + patience_ms;

	if (child->pid)
		kill(child->pid, SIGTERM);
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

static int run(struct serve *serve)
{
	while (!serve->stopping)
		wait_for_news(serve, start_due(serve));
	// SIGTERM has reached the daemon by then; a second one would end its grace.
	int64_t patience = STOP_MS + (int64_t)serve->config.grace_ms;
	struct child *daemon = &serve->children[DAEMON];
	int64_t deadline = clock_ms() + patience;

	while (daemon->pid && clock_ms() < deadline) {
		start_due(serve);
		wait_for_news(serve, 100);
	}
	if (daemon->pid)
		stop_child(serve, daemon, 1000);
	stop_child(serve, &serve->children[WARDEN], STOP_MS);
	home_withdraw(&serve->home);
	log_event(LOG_INFO, "serve.stopped", NULL);
	return serve->status;
}

static int describe(void)
{
	auto_buf text = BUF_INIT(64 * 1024);

	config_describe(&text);
	return fd_write_all(STDOUT_FILENO, text.at, text.len) ? 1 : 0;
}

int serve_main(int argc, char **argv)
{
	static struct serve serve; // one a process, and it lives as long
	struct err *failed;

	if (argc == 3 && !strcmp(argv[2], "--options"))
		return describe();
	failed = prepare(&serve, argc - 2, argv + 2);
	if (!failed)
		return run(&serve);
	auto_err err = failed;

	if (err_kind(err) == ERR_INTERNAL)
		fprintf(stderr, "cove: %s\n", err_trail(err));
	else
		fprintf(stderr, "cove: %s\n", err_message(err));
	if (err_hint_of(err))
		fprintf(stderr, "hint: %s\n", err_hint_of(err));
	return err_exit(err);
}
