// Re-exec of the supervisor. The state for the next image is one variable: "1;name=value;…", a
// version and the fields. Unknown names are ignored, so that older and newer images can replace
// each other as long as they find the fields they need.
#include "serve/reexec.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"

#define VARIABLE "COVE_RENEW"
#define CHECK_MS 10000
#define GONE " (deleted)"

static bool reexec_take_int(struct str text, int *out)
{
	uint64_t number;

	if (!str_to_u64(text, 0, INT32_MAX, &number))
		return false;
	*out = (int)number;
	return true;
}

static bool take_list(struct str text, int *out, int most, int *count)
{
	struct str word;

	*count = 0;
	while (text.len && str_cut(&text, ',', &word))
		if (*count == most || !reexec_take_int(word, &out[(*count)++]))
			return false;
	return true;
}

static bool reexec_take_text(struct str text, char *out, size_t size)
{
	if (text.len >= size)
		return false;
	memcpy(out, text.at, text.len);
	out[text.len] = 0;
	return true;
}

static bool reexec_take_word(struct str name, struct str value, struct reexec *reexec)
{
	int number = 0, count = 0;

	if (str_is(name, "lock"))
		return reexec_take_int(value, &reexec->lock);
	if (str_is(name, "key"))
		return reexec_take_int(value, &reexec->key);
	if (str_is(name, "holds"))
		return reexec_take_int(value, &reexec->holds);
	if (str_is(name, "ready"))
		return take_list(value, reexec->ready, 2, &count) && count == 2;
	if (str_is(name, "listeners"))
		return take_list(value, reexec->listeners, REEXEC_LISTENERS,
				 &reexec->listener_count);
	if (str_is(name, "previews"))
		return take_list(value, reexec->previews, REEXEC_LISTENERS, &reexec->preview_count);
	if (str_is(name, "preview"))
		return reexec_take_text(value, reexec->preview, sizeof(reexec->preview));
	if (str_is(name, "users"))
		return reexec_take_int(value, &reexec->users);
	if (str_is(name, "warden"))
		return reexec_take_int(value, &reexec->warden);
	if (str_is(name, "daemon"))
		return reexec_take_int(value, &reexec->daemon);
	if (str_is(name, "listen"))
		return reexec_take_text(value, reexec->listen, sizeof(reexec->listen));
	if (str_is(name, "url"))
		return reexec_take_text(value, reexec->url, sizeof(reexec->url));
	if (!str_is(name, "generation"))
		return true;
	if (!reexec_take_int(value, &number))
		return false;
	reexec->generation = (unsigned)number;
	return true;
}

fallible reexec_take(bool *out_is, struct reexec *out)
{
	struct reexec reexec = {.lock = -1, .key = -1, .ready = {-1, -1}};
	auto_free char *text = NULL;
	struct str rest, word, name;
	bool good = true;

	*out_is = getenv(VARIABLE) != NULL;
	if (!*out_is)
		return OK;
	text = mem_str(getenv(VARIABLE));
	unsetenv(VARIABLE);
	rest = str_of(text);
	str_cut(&rest, ';', &word); // the version
	while (good && rest.len && str_cut(&rest, ';', &word))
		good = str_cut(&word, '=', &name) && reexec_take_word(name, word, &reexec);
	if (!good || reexec.lock < 0 || reexec.key < 0 || reexec.ready[0] < 0 ||
	    !reexec.listener_count)
		return err_new(INVALID, "bad_renewal", "what the last image left cannot be read");
	*out = reexec;
	return OK;
}

fallible reexec_program(char **out)
{
	char path[PATH_MAX / 2];
	ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);
	struct str name;

	if (len <= 0)
		return err_sys(errno, "find our own binary");
	name = (struct str){path, (size_t)len};
	if (str_ends(name, GONE))
		name.len -= strlen(GONE);
	*out = mem_dup(name.at, name.len);
	return OK;
}

static fallible reexec_await(pid_t pid, int *out_status)
{
	struct pollfd one = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
	int came;

	do
		came = poll(&one, 1, CHECK_MS);
	while (came < 0 && errno == EINTR);
	if (came <= 0)
		kill(pid, SIGKILL);
	if (one.fd >= 0)
		close(one.fd);
	while (waitpid(pid, out_status, 0) < 0)
		if (errno != EINTR)
			return err_sys(errno, "wait for the new binary");
	return OK;
}

fallible reexec_check(const char *program)
{
	int status = 0;
	pid_t pid = fork();

	if (pid < 0)
		return err_sys(errno, "fork to try the new binary");
	if (pid == 0) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);

		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		execl(program, "cove", "serve", "--options", (char *)NULL);
		_exit(127);
	}
	TRY(reexec_await(pid, &status));
	if (status)
		return err_hint(err_new(UNAVAILABLE, "bad_binary", "%s cannot be started", program),
				"try '%s version', and put a binary there that works", program);
	return OK;
}

static void keep_open(const struct reexec *reexec, bool on)
{
	int flags = on ? 0 : FD_CLOEXEC;

	fcntl(reexec->lock, F_SETFD, flags);
	fcntl(reexec->key, F_SETFD, flags);
	if (reexec->holds)
		fcntl(reexec->holds, F_SETFD, flags);
	if (reexec->users)
		fcntl(reexec->users, F_SETFD, flags);
	fcntl(reexec->ready[0], F_SETFD, flags);
	fcntl(reexec->ready[1], F_SETFD, flags);
	for (int i = 0; i < reexec->listener_count; i++)
		fcntl(reexec->listeners[i], F_SETFD, flags);
	for (int i = 0; i < reexec->preview_count; i++)
		fcntl(reexec->previews[i], F_SETFD, flags);
}

fallible reexec_become(const char *program, char **argv, const struct reexec *reexec)
{
	auto_buf text = BUF_INIT(4096);
	struct err *err;

	buf_fmt(&text,
		"1;generation=%u;lock=%d;key=%d;holds=%d;ready=%d,%d;warden=%d;daemon=%d;"
		"listeners=",
		reexec->generation, reexec->lock, reexec->key, reexec->holds, reexec->ready[0],
		reexec->ready[1], (int)reexec->warden, (int)reexec->daemon);
	for (int i = 0; i < reexec->listener_count; i++)
		buf_fmt(&text, "%s%d", i ? "," : "", reexec->listeners[i]);
	buf_fmt(&text, ";listen=%s;url=%s;previews=", reexec->listen, reexec->url);
	for (int i = 0; i < reexec->preview_count; i++)
		buf_fmt(&text, "%s%d", i ? "," : "", reexec->previews[i]);
	buf_fmt(&text, ";preview=%s;users=%d", reexec->preview, reexec->users);
	if (!buf_ok(&text) || setenv(VARIABLE, text.at, 1))
		return err_sys(ENOMEM, "write down what the new binary must know");
	keep_open(reexec, true);
	execv(program, argv);
	err = err_sys(errno, "execute %s", program);
	keep_open(reexec, false);
	unsetenv(VARIABLE);
	return err;
}
