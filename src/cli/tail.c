// Output pieces for --tail: keeps as many pieces as hold the wanted lines, and prints each
// to its stream.
#include "cli/tail.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/stdio.h"

void tail_done(struct tail *tail)
{
	for (size_t i = tail->first; i < tail->count; i++)
		free(tail->pieces[i].bytes);
	free(tail->pieces);
	*tail = (struct tail){0};
}

static size_t count_newlines(const char *bytes, size_t len)
{
	size_t count = 0;

	for (const char *at = bytes, *end = bytes + len;
	     (at = memchr(at, '\n', (size_t)(end - at))); at++)
		count++;
	return count;
}

// The last line of a piece may continue in the next, so one more newline is kept.
static void drop_old(struct tail *tail)
{
	while (tail->first + 1 < tail->count) {
		struct tail_piece *oldest = &tail->pieces[tail->first];

		if (tail->newlines - oldest->newlines <= tail->wanted)
			break;
		tail->newlines -= oldest->newlines;
		free(oldest->bytes);
		tail->first++;
	}
	if (tail->first > tail->count / 2) {
		tail->count -= tail->first;
		memmove(tail->pieces, tail->pieces + tail->first,
			tail->count * sizeof(*tail->pieces));
		tail->first = 0;
	}
}

void tail_add(struct tail *tail, bool is_stderr, const void *bytes, size_t len)
{
	size_t newlines = count_newlines(bytes, len);

	if (!len)
		return;
	tail->total += len;
	tail->pieces = mem_grow(tail->pieces, tail->count + 1, sizeof(*tail->pieces));
	tail->pieces[tail->count++] = (struct tail_piece){
		.is_stderr = is_stderr,
		.bytes = mem_dup(bytes, len),
		.len = len,
		.newlines = newlines,
	};
	tail->newlines += newlines;
	drop_old(tail);
}

// The start of the wanted lines: the piece, and the byte in it.
static size_t find_start(const struct tail *tail, size_t *out_at)
{
	size_t left = tail->wanted + 1; // including the one before the first wanted line
	bool is_last = true;

	*out_at = 0;
	for (size_t i = tail->count; i-- > tail->first;) {
		const struct tail_piece *piece = &tail->pieces[i];

		for (size_t at = piece->len; at-- > 0; is_last = false) {
			if (is_last && piece->bytes[at] != '\n')
				left--; // an unterminated line
			if (piece->bytes[at] != '\n' || --left)
				continue;
			*out_at = at + 1;
			return i;
		}
	}
	return tail->first;
}

fallible tail_print(const struct tail *tail)
{
	size_t at, i = find_start(tail, &at);

	if (!tail->wanted)
		return OK;
	for (; i < tail->count; i++, at = 0)
		TRY(stdio_write(tail->pieces[i].is_stderr ? STDERR_FILENO : STDOUT_FILENO,
				tail->pieces[i].bytes + at, tail->pieces[i].len - at));
	return OK;
}
