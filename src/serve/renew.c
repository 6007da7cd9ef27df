// The words are "1;name=value;…": a version, then what there is. A name that is not known is passed
// over, so that an older or a newer image can be renewed to as long as it finds what it needs.
#include "serve/renew.h"

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

static bool renew_take_int(struct str text, int *out)
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
		if (*count == most || !renew_take_int(word, &out[(*count)++]))
			return false;
	return true;
}

static bool renew_take_text(struct str text, char *out, size_t size)
{
	if (text.len >= size)
		return false;
	memcpy(out, text.at, text.len);
	out[text.len] = 0;
	return true;
}

static bool renew_take_word(struct str name, struct str value, struct renew *renew)
{
	int number = 0, count = 0;

	if (str_is(name, "lock"))
		return renew_take_int(value, &renew->lock);
	if (str_is(name, "key"))
		return renew_take_int(value, &renew->key);
	if (str_is(name, "holds"))
		return renew_take_int(value, &renew->holds);
	if (str_is(name, "ready"))
		return take_list(value, renew->ready, 2, &count) && count == 2;
	if (str_is(name, "listeners"))
		return take_list(value, renew->listeners, RENEW_LISTENERS, &renew->listener_count);
	if (str_is(name, "previews"))
		return take_list(value, renew->previews, RENEW_LISTENERS, &renew->preview_count);
	if (str_is(name, "preview"))
		return renew_take_text(value, renew->preview, sizeof(renew->preview));
	if (str_is(name, "users"))
		return renew_take_int(value, &renew->users);
	if (str_is(name, "warden"))
		return renew_take_int(value, &renew->warden);
	if (str_is(name, "daemon"))
		return renew_take_int(value, &renew->daemon);
	if (str_is(name, "listen"))
		return renew_take_text(value, renew->listen, sizeof(renew->listen));
	if (str_is(name, "url"))
		return renew_take_text(value, renew->url, sizeof(renew->url));
	if (!str_is(name, "generation"))
		return true;
	if (!renew_take_int(value, &number))
		return false;
	renew->generation = (unsigned)number;
	return true;
}

fallible renew_take(bool *out_is, struct renew *out)
{
	struct renew renew = {.lock = -1, .key = -1, .ready = {-1, -1}};
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
		good = str_cut(&word, '=', &name) && renew_take_word(name, word, &renew);
	if (!good || renew.lock < 0 || renew.key < 0 || renew.ready[0] < 0 || !renew.listener_count)
		return err_new(INVALID, "bad_renewal", "what the last image left cannot be read");
	*out = renew;
	return OK;
}

fallible renew_program(char **out)
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

static fallible renew_await(pid_t pid, int *out_status)
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

fallible renew_check(const char *program)
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
	TRY(renew_await(pid, &status));
	if (status)
		return err_hint(err_new(UNAVAILABLE, "bad_binary", "%s cannot be started", program),
				"try '%s version', and put a binary there that works", program);
	return OK;
}

static void keep_open(const struct renew *renew, bool on)
{
	int flags = on ? 0 : FD_CLOEXEC;

	fcntl(renew->lock, F_SETFD, flags);
	fcntl(renew->key, F_SETFD, flags);
	if (renew->holds)
		fcntl(renew->holds, F_SETFD, flags);
	if (renew->users)
		fcntl(renew->users, F_SETFD, flags);
	fcntl(renew->ready[0], F_SETFD, flags);
	fcntl(renew->ready[1], F_SETFD, flags);
	for (int i = 0; i < renew->listener_count; i++)
		fcntl(renew->listeners[i], F_SETFD, flags);
	for (int i = 0; i < renew->preview_count; i++)
		fcntl(renew->previews[i], F_SETFD, flags);
}

fallible renew_become(const char *program, char **argv, const struct renew *renew)
{
	auto_buf text = BUF_INIT(4096);
	struct err *err;

	buf_fmt(&text,
		"1;generation=%u;lock=%d;key=%d;holds=%d;ready=%d,%d;warden=%d;daemon=%d;"
		"listeners=",
		renew->generation, renew->lock, renew->key, renew->holds, renew->ready[0],
		renew->ready[1], (int)renew->warden, (int)renew->daemon);
	for (int i = 0; i < renew->listener_count; i++)
		buf_fmt(&text, "%s%d", i ? "," : "", renew->listeners[i]);
	buf_fmt(&text, ";listen=%s;url=%s;previews=", renew->listen, renew->url);
	for (int i = 0; i < renew->preview_count; i++)
		buf_fmt(&text, "%s%d", i ? "," : "", renew->previews[i]);
	buf_fmt(&text, ";preview=%s;users=%d", renew->preview, renew->users);
	if (!buf_ok(&text) || setenv(VARIABLE, text.at, 1))
		return err_sys(ENOMEM, "write down what the new binary must know");
	keep_open(renew, true);
	execv(program, argv);
	err = err_sys(errno, "execute %s", program);
	keep_open(renew, false);
	unsetenv(VARIABLE);
	return err;
}
