// A growing byte buffer with a ceiling and a sticky failure. Growth doubles; an append that does
// not fit adds nothing and marks the buffer as failed.
#include "base/buf.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/fault.h"
#include "base/mem.h"

#define ROOM_FIRST 64

// realloc() would leave a copy behind.
static char *buf_move(struct buf *buf, size_t size)
{
	char *at = malloc(size);

	if (!at)
		return NULL;
	if (buf->at) {
		memcpy(at, buf->at, buf->len);
		explicit_bzero(buf->at, buf->room);
	}
	free(buf->at);
	return at;
}

// Any failure to grow makes the buffer full: its owner checks buf_ok() anyway.
char *buf_space(struct buf *buf, size_t len)
{
	size_t need, room;
	char *at;

	if (buf->failed)
		return NULL;
	if (buf->at && len <= buf->room - buf->len)
		return buf->at + buf->len;
	if (__builtin_add_overflow(buf->len, len, &need) || need > buf->ceiling ||
	    need == SIZE_MAX || fault_here())
		goto full;
	room = buf->room < ROOM_FIRST / 2 ? ROOM_FIRST : buf->room * 2;
	if (room < need)
		room = need;
	if (room > buf->ceiling)
		room = buf->ceiling;
	at = buf->is_secret ? buf_move(buf, room + 1) : realloc(buf->at, room + 1);
	if (!at)
		goto full;
	buf->at = at;
	buf->room = room;
	at[buf->len] = 0;
	return at + buf->len;
full:
	buf->failed = true;
	return NULL;
}

void buf_grew(struct buf *buf, size_t len)
{
	assert(buf->at && len <= buf->room - buf->len);
	buf->len += len;
	buf->at[buf->len] = 0;
}

void buf_add(struct buf *buf, const void *bytes, size_t len)
{
	char *at = buf_space(buf, len);

	if (!at)
		return;
	if (len)
		memcpy(at, bytes, len);
	buf_grew(buf, len);
}

void buf_str(struct buf *buf, struct str s)
{
	buf_add(buf, s.at, s.len);
}

void buf_text(struct buf *buf, const char *text)
{
	buf_add(buf, text, strlen(text));
}

void buf_char(struct buf *buf, char c)
{
	buf_add(buf, &c, 1);
}

void buf_fmt(struct buf *buf, const char *fmt, ...)
{
	size_t room = buf->at && !buf->failed ? buf->room - buf->len : 0;
	va_list args, again;
	char *at;
	int len;

	va_start(args, fmt);
	va_copy(again, args);
	len = vsnprintf(room ? buf->at + buf->len : NULL, room ? room + 1 : 0, fmt, args);
	if (len < 0) {
		buf->failed = true;
	} else if ((at = buf_space(buf, (size_t)len))) {
		if ((size_t)len > room)
			vsnprintf(at, (size_t)len + 1, fmt, again);
		if (room || len)
			buf_grew(buf, (size_t)len);
	} else if (room) {
		buf->at[buf->len] = 0; // the first try wrote behind the end
	}
	va_end(again);
	va_end(args);
}

void buf_drop_front(struct buf *buf, size_t len)
{
	assert(len <= buf->len);
	if (len == 0)
		return;
	memmove(buf->at, buf->at + len, buf->len - len + 1);
	buf->len -= len;
}

void buf_clear(struct buf *buf)
{
	buf->len = 0;
	buf->failed = false;
	if (buf->at)
		buf->at[0] = 0;
}

void buf_done(struct buf *buf)
{
	if (buf->is_secret && buf->at)
		explicit_bzero(buf->at, buf->room);
	free(buf->at);
	buf->at = NULL;
	buf->len = buf->room = 0;
	buf->failed = false;
}

char *buf_take(struct buf *buf)
{
	char *text = buf->at ? take_ptr(buf->at) : mem_dup("", 0);

	buf_done(buf);
	return text;
}
