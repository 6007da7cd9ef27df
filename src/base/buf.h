// A string under construction. It has a fixed ceiling and a sticky failure: append ten times, check
// buf_ok() once. The bytes are always followed by a NUL that is not counted.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/str.h"

struct buf {
	char *at;
	size_t len;
	size_t room;	// allocated, without the NUL
	size_t ceiling; // never grows past this
	bool failed;	// an append did not fit: nothing of it was added, nor of any later one
	bool is_secret; // rooms that it leaves are wiped
};

#define BUF_INIT(limit) ((struct buf){.ceiling = (limit)})
#define BUF_SECRET(limit) ((struct buf){.ceiling = (limit), .is_secret = true})

void buf_add(struct buf *buf, const void *bytes, size_t len);
void buf_str(struct buf *buf, struct str s);
void buf_text(struct buf *buf, const char *text);
void buf_char(struct buf *buf, char c);
void buf_fmt(struct buf *buf, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// Room for `len` more bytes to be written in place, or NULL (and failed). Then buf_grew().
char *buf_space(struct buf *buf, size_t len);
void buf_grew(struct buf *buf, size_t len);
void buf_drop_front(struct buf *buf, size_t len);
void buf_clear(struct buf *buf); // empty and unfailed, keeps the room
void buf_done(struct buf *buf);
static inline bool buf_ok(const struct buf *buf)
{
	return !buf->failed;
}
static inline struct str buf_view(const struct buf *buf)
{
	return (struct str){buf->at, buf->len};
}
char *buf_take(struct buf *buf); // the caller owns the text; the buf is empty again

#define auto_buf on_exit_call(buf_done) struct buf
