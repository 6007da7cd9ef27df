// An error is one block: the part for the tenant (kind, reason, message, hint) and the trail for
// the log. Each text is bounded, so that an error with a peer's text stays small.
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"

#define REASON_MAX 40
#define WORDS_MAX 1024
#define NAME_SHOWN_MAX 64
#define TRAIL_MAX 4096

struct err {
	enum err_kind kind;
	char reason[REASON_MAX];
	char *message, *hint;
	struct buf trail;
};

static const char neutral[] = "an internal error; the operator's log has the details";

static const struct {
	const char *word;
	int http, exit;
	bool retry;
} kinds[] = {
#define X(kind, word, http, exit, retry) [ERR_##kind] = {word, http, exit, retry},
	ERR_KINDS(X)
#undef X
};

// Bounded, and cut between two characters.
static __attribute__((format(printf, 1, 0))) char *words(const char *fmt, va_list args)
{
	char text[WORDS_MAX];
	int len = vsnprintf(text, sizeof(text), fmt, args);

	if (len < 0)
		return mem_str(fmt);
	if ((size_t)len >= sizeof(text)) {
		len = sizeof(text) - 1;
		while (len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80)
			len--;
	}
	return mem_dup(text, (size_t)len);
}

static void set_face(struct err *err, enum err_kind kind, const char *reason, char *message)
{
	err->kind = kind;
	snprintf(err->reason, sizeof(err->reason), "%s", reason);
	free(err->message);
	err->message = message;
	free(err->hint);
	err->hint = NULL;
}

static struct err *err_born(enum err_kind kind, const char *reason, char *message)
{
	struct err *err = mem_new_of(struct err);

	err->trail = BUF_INIT(TRAIL_MAX);
	set_face(err, kind, reason, message);
	return err;
}

static void trail_errno(struct err *err, int errnum)
{
	const char *name = strerrorname_np(errnum), *text = strerrordesc_np(errnum);

	if (name && text)
		buf_fmt(&err->trail, ": %s (%s)", text, name);
	else
		buf_fmt(&err->trail, ": errno %d", errnum);
}

// The text of an "internal" error may contain host paths: it goes to the trail only. That holds for
// err_sys() with an errno of 0 too, so the reason decides, not the number.
struct err *err_new_at(const char *file, int line, enum err_kind kind, int errnum,
		       const char *reason, const char *fmt, ...)
{
	bool ours = kind == ERR_INTERNAL && strcmp(reason, "internal") == 0;
	struct err *err;
	va_list args;
	char *text;

	va_start(args, fmt);
	text = words(fmt, args);
	va_end(args);
	err = err_born(kind, reason, ours ? mem_str(neutral) : text);
	buf_fmt(&err->trail, "%s:%d: %s: %s", file, line, err->reason, text);
	if (errnum)
		trail_errno(err, errnum);
	if (ours)
		free(text);
	return err;
}

struct err *err_absent(const char *reason, const char *noun, struct str name)
{
	bool shown = name.len > 0 && name.len <= NAME_SHOWN_MAX;

	for (size_t i = 0; shown && i < name.len; i++)
		shown = name.at[i] > ' ' && name.at[i] <= '~' && name.at[i] != '\'';
	return shown ? err_new(NOT_FOUND, reason, "there is no %s '" STR_FMT "'", noun,
			       STR_ARG(name))
		     : err_new(NOT_FOUND, reason, "there is no such %s", noun);
}

struct err *err_from(enum err_kind kind, const char *reason, const char *message, const char *hint)
{
	struct err *err = err_born(kind, reason, mem_dup(message, strnlen(message, WORDS_MAX)));

	if (hint && *hint)
		err->hint = mem_dup(hint, strnlen(hint, WORDS_MAX));
	buf_fmt(&err->trail, "a peer said: %s: %s", err->reason, err->message);
	return err;
}

struct err *err_hint(struct err *err, const char *fmt, ...)
{
	va_list args;

	if (!err)
		return OK;
	va_start(args, fmt);
	free(err->hint);
	err->hint = words(fmt, args);
	va_end(args);
	return err;
}

struct err *err_while(struct err *err, const char *fmt, ...)
{
	auto_free char *text = NULL;
	va_list args;

	if (!err)
		return OK;
	va_start(args, fmt);
	text = words(fmt, args);
	va_end(args);
	buf_fmt(&err->trail, "; while: %s", text);
	return err;
}

struct err *err_recast(struct err *err, enum err_kind kind, const char *reason, const char *fmt,
		       ...)
{
	va_list args;

	if (!err)
		return OK;
	va_start(args, fmt);
	set_face(err, kind, reason, words(fmt, args));
	va_end(args);
	buf_fmt(&err->trail, "; seen as: %s: %s", err->reason, err->message);
	return err;
}

enum err_kind err_kind(const struct err *err)
{
	return err->kind;
}

const char *err_reason(const struct err *err)
{
	return err->reason;
}

const char *err_word(const struct err *err)
{
	return kinds[err->kind].word;
}

int err_http(const struct err *err)
{
	return kinds[err->kind].http;
}

int err_exit(const struct err *err)
{
	return kinds[err->kind].exit;
}

bool err_may_retry(const struct err *err)
{
	return kinds[err->kind].retry;
}

const char *err_message(const struct err *err)
{
	return err->message;
}

const char *err_hint_of(const struct err *err)
{
	return err->hint;
}

const char *err_trail(const struct err *err)
{
	return err->trail.at ? err->trail.at : err->message;
}

void err_free(struct err *err)
{
	if (!err)
		return;
	free(err->message);
	free(err->hint);
	buf_done(&err->trail);
	free(err);
}

void err_drop_(struct err **err)
{
	err_free(*err);
}
