// Splits the stdout of an interpreter into text and framed events, byte by byte. A frame that turns
// out to be malformed is passed on as text. Pieces of an event are joined up to CELL_EVENT_MAX;
// nothing is ever lost or reordered.
#include "protocol/cell.h"

#include <string.h>

#define MARK 0x1e
#define SIGN (1 + CELL_KEY)
#define HEAD 5

void cell_put_key(struct buf *out, const char *key)
{
	buf_fmt(out, "%.*s\n", CELL_KEY, key);
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// False: not the header of a frame.
static bool cell_read_head(struct cell *cell)
{
	size_t len = 0;

	if (cell->head[0] != '+' && cell->head[0] != '.')
		return false;
	for (size_t i = 1; i < HEAD; i++) {
		int value = digit(cell->head[i]);

		if (value < 0)
			return false;
		len = len * 16 + (size_t)value;
	}
	cell->left = len;
	return true;
}

// Passes on as text what looked like the beginning of a frame.
static void cell_give_back(struct cell *cell)
{
	size_t sign = cell->matched < SIGN ? cell->matched : SIGN;
	size_t head = cell->matched - sign;

	cell->matched = 0;
	if (sign)
		cell->text(cell->arg, (struct str){cell->sign, sign});
	if (head)
		cell->text(cell->arg, (struct str){cell->head, head});
}

static void end_piece(struct cell *cell)
{
	if (cell->head[0] == '.') {
		if (buf_ok(&cell->body))
			cell->event(cell->arg, buf_view(&cell->body));
		buf_done(&cell->body);
		cell->body = BUF_INIT(CELL_EVENT_MAX);
	}
	cell->matched = 0;
}

static void cell_take_key(struct cell *cell, struct str *bytes)
{
	while (bytes->len && cell->keyed <= CELL_KEY) {
		if (cell->keyed < CELL_KEY)
			cell->sign[1 + cell->keyed] = bytes->at[0];
		cell->keyed++;
		*bytes = str_skip(*bytes, 1);
	}
	if (cell->keyed > CELL_KEY && !cell->sign[0]) {
		cell->sign[0] = MARK;
		cell->body = BUF_INIT(CELL_EVENT_MAX);
	}
}

// Text, up to a possible frame.
static void cell_take_text(struct cell *cell, struct str *bytes)
{
	const char *mark = memchr(bytes->at, MARK, bytes->len);
	size_t len = mark ? (size_t)(mark - bytes->at) : bytes->len;

	if (len)
		cell->text(cell->arg, (struct str){bytes->at, len});
	*bytes = str_skip(*bytes, len + (mark ? 1 : 0));
	cell->matched = mark ? 1 : 0;
}

static void cell_take_head(struct cell *cell, struct str *bytes)
{
	char c = bytes->at[0];

	if (cell->matched < SIGN && c != cell->sign[cell->matched]) {
		cell_give_back(cell); // this byte is examined again: it may begin another
		return;
	}
	if (cell->matched >= SIGN)
		cell->head[cell->matched - SIGN] = c;
	cell->matched++;
	*bytes = str_skip(*bytes, 1);
	if (cell->matched < SIGN + HEAD)
		return;
	if (!cell_read_head(cell))
		cell_give_back(cell);
	else if (!cell->left)
		end_piece(cell);
}

static void take_piece(struct cell *cell, struct str *bytes)
{
	size_t len = bytes->len < cell->left ? bytes->len : cell->left;

	buf_add(&cell->body, bytes->at, len);
	*bytes = str_skip(*bytes, len);
	cell->left -= len;
	if (!cell->left)
		end_piece(cell);
}

void cell_read(struct cell *cell, struct str bytes)
{
	cell_take_key(cell, &bytes);
	while (bytes.len) {
		if (cell->matched == SIGN + HEAD)
			take_piece(cell, &bytes);
		else if (cell->matched)
			cell_take_head(cell, &bytes);
		else
			cell_take_text(cell, &bytes);
	}
}

void cell_end(struct cell *cell)
{
	if (cell->matched < SIGN + HEAD)
		cell_give_back(cell);
}

void cell_done(struct cell *cell)
{
	buf_done(&cell->body);
}
