// Re-exec of the supervisor. The state for the next image is one variable: "1;name=value;…", a
// version and the fields. Unknown names are ignored, so that older and newer images can replace
// each other as long as they find the fields they need.
#include "serve/reexec.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
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

enum reexec_kind { NUMBER, FD, FDS, TEXT }; // FD: it stays open across the exec

#define AT(field) offsetof(struct reexec, field)
#define SIZE(field) sizeof(((struct reexec *)0)->field)

// FDS: `size` is in bytes; the count is at `count`, 0: all of them.
static const struct reexec_field {
	const char *name;
	enum reexec_kind kind;
	size_t at, size, count;
} fields[] = {
	{"generation", NUMBER, AT(generation), 0, 0},
	{"lock", FD, AT(lock), 0, 0},
	{"key", FD, AT(key), 0, 0},
	{"holds", FD, AT(holds), 0, 0},
	{"ready", FDS, AT(ready), SIZE(ready), 0},
	{"warden", NUMBER, AT(warden), 0, 0},
	{"daemon", NUMBER, AT(daemon), 0, 0},
	{"listeners", FDS, AT(listeners), SIZE(listeners), AT(listener_count)},
	{"listen", TEXT, AT(listen), SIZE(listen), 0},
	{"url", TEXT, AT(url), SIZE(url), 0},
	{"previews", FDS, AT(previews), SIZE(previews), AT(preview_count)},
	{"preview", TEXT, AT(preview), SIZE(preview), 0},
	{"users", FD, AT(users), 0, 0},
};
#define FIELDS (sizeof(fields) / sizeof(*fields))

static int *reexec_int(const struct reexec *reexec, size_t at)
{
	return (int *)((char *)reexec + at);
}

// The numbers of a field, and how many.
static int *reexec_list(const struct reexec *reexec, const struct reexec_field *field, int *count)
{
	*count = field->kind != FDS ? 1
		 : field->count	    ? *reexec_int(reexec, field->count)
				    : (int)(field->size / sizeof(int));
	return reexec_int(reexec, field->at);
}

static bool field_read(const struct reexec_field *field, struct str value, struct reexec *reexec)
{
	int most = field->kind == FDS ? (int)(field->size / sizeof(int)) : 1, count = 0;
	char *text = (char *)reexec + field->at;
	struct str word;
	uint64_t number;

	if (field->kind == TEXT) {
		if (value.len >= field->size)
			return false;
		memcpy(text, value.at, value.len);
		text[value.len] = 0;
		return true;
	}
	while (value.len && str_cut(&value, ',', &word)) {
		if (count == most || !str_to_u64(word, 0, INT32_MAX, &number))
			return false;
		reexec_int(reexec, field->at)[count++] = (int)number;
	}
	if (field->count)
		*reexec_int(reexec, field->count) = count;
	return field->count || count == most;
}

static void field_write(const struct reexec_field *field, const struct reexec *reexec,
			struct buf *out)
{
	int count, *list = reexec_list(reexec, field, &count);

	buf_fmt(out, ";%s=", field->name);
	if (field->kind == TEXT)
		buf_text(out, (const char *)reexec + field->at);
	else
		for (int i = 0; i < count; i++)
			buf_fmt(out, "%s%d", i ? "," : "", list[i]);
}

// True also for a name that this version does not know.
static bool reexec_take_word(struct str name, struct str value, struct reexec *reexec)
{
	for (size_t i = 0; i < FIELDS; i++)
		if (str_is(name, fields[i].name))
			return field_read(&fields[i], value, reexec);
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
	for (size_t i = 0; i < FIELDS; i++) {
		int count, *list = reexec_list(reexec, &fields[i], &count);

		for (int k = 0; k < count && (fields[i].kind == FD || fields[i].kind == FDS); k++)
			if (list[k] > 0)
				fcntl(list[k], F_SETFD, on ? 0 : FD_CLOEXEC);
	}
}

fallible reexec_become(const char *program, char **argv, const struct reexec *reexec)
{
	auto_buf text = BUF_INIT(4096);
	struct err *err;

	buf_text(&text, "1");
	for (size_t i = 0; i < FIELDS; i++)
		field_write(&fields[i], reexec, &text);
	if (!buf_ok(&text) || setenv(VARIABLE, text.at, 1))
		return err_sys(ENOMEM, "write down what the new binary must know");
	keep_open(reexec, true);
	execv(program, argv);
	err = err_sys(errno, "execute %s", program);
	keep_open(reexec, false);
	unsetenv(VARIABLE);
	return err;
}
