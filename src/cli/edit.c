// Line editor. The terminal is raw while a line is edited: after each key the line is painted
// again, cut to the width of the screen around the cursor. Bytes read beyond the line stay for the
// next one.
//
// Bracketed paste is enabled: line ends in pasted text do not end a cell, and its keys are no
// commands.
#include "cli/edit.h"

#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <wchar.h>

#include "base/mem.h"
#include "cli/stdio.h"
#include "cli/tty.h"

#define HISTORY_MAX 1000
#define READ 4096
#define SCREEN_MAX (64 * 1024)
#define SEQUENCE_MAX 32
#define TAB "    "
#define PASTE_ON "\033[?2004h"
#define PASTE_OFF "\033[?2004l"
#define CTRL(key) ((key) - '@')

struct edit {
	char *file;
	char *lines[HISTORY_MAX]; // oldest first
	size_t count;
	size_t shown; // of the history, while a line is edited; count: the new line
	char *draft;  // the new line, while a line of the history is shown
	char in[READ];
	size_t in_at, in_len;
	struct buf line;
	size_t cursor;
	const char *prompt;
	bool pasting;
};

// ------------------------------------------------------------------------------------- history

static void edit_add_line(struct edit *edit, struct str line)
{
	if (edit->count == HISTORY_MAX) {
		free(edit->lines[0]);
		memmove(edit->lines, edit->lines + 1, --edit->count * sizeof(*edit->lines));
	}
	edit->lines[edit->count++] = mem_dup(line.at, line.len);
}

static void write_lines(FILE *file, char *const *lines, size_t count)
{
	for (size_t i = 0; i < count; i++)
		fprintf(file, "%s\n", lines[i]);
	fclose(file);
}

static FILE *open_file(const char *path, int flags, const char *mode)
{
	int fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);

	return fd < 0 ? NULL : fdopen(fd, mode);
}

static void edit_load(struct edit *edit)
{
	FILE *file = edit->file ? open_file(edit->file, O_RDONLY, "r") : NULL;
	auto_free char *line = NULL;
	size_t room = 0, read = 0;

	if (!file)
		return;
	for (; getline(&line, &room, file) >= 0; read++)
		if (*line != '\n')
			edit_add_line(edit, (struct str){line, strcspn(line, "\n")});
	fclose(file);
	if (read <= 2 * HISTORY_MAX)
		return;
	file = open_file(edit->file, O_WRONLY | O_TRUNC, "w");
	if (file)
		write_lines(file, edit->lines, edit->count);
}

void edit_remember(struct edit *edit, struct str line)
{
	FILE *file;

	if (!line.len || memchr(line.at, 0, line.len) ||
	    (edit->count && str_is(line, edit->lines[edit->count - 1])))
		return;
	edit_add_line(edit, line);
	file = edit->file ? open_file(edit->file, O_WRONLY | O_APPEND | O_CREAT, "a") : NULL;
	if (file)
		write_lines(file, edit->lines + edit->count - 1, 1);
}

struct edit *edit_new(const char *file)
{
	struct edit *edit = mem_new_of(struct edit);

	setlocale(LC_CTYPE, "C.UTF-8"); // for character widths alone
	edit->file = file ? mem_str(file) : NULL;
	edit->line = BUF_INIT(EDIT_LINE_MAX);
	edit_load(edit);
	return edit;
}

void edit_free(struct edit *edit)
{
	if (!edit)
		return;
	for (size_t i = 0; i < edit->count; i++)
		free(edit->lines[i]);
	buf_done(&edit->line);
	free(edit->draft);
	free(edit->file);
	free(edit);
}

// ----------------------------------------------------------------------------------- the screen

// Bytes of the character at `at`, at least one.
static size_t edit_step(struct str line, size_t at)
{
	size_t len = 1;

	if (str_utf8(str_skip(line, at), &len) != STR_UTF8_GOOD)
		len = 1;
	return len;
}

static size_t back(struct str line, size_t at)
{
	if (at > 0)
		at--;
	while (at > 0 && ((unsigned char)line.at[at] & 0xc0) == 0x80)
		at--;
	return at;
}

static int width(struct str line, size_t at, size_t len)
{
	wchar_t wide = 0;
	mbstate_t state = {0};
	size_t n = mbrtowc(&wide, line.at + at, len, &state);
	int columns = n == len ? wcwidth(wide) : 1;

	return columns < 0 ? 1 : columns;
}

static void put_char(struct buf *screen, struct str line, size_t at, size_t len)
{
	unsigned char c = (unsigned char)line.at[at];

	if (c < ' ' || c == 0x7f || (len == 1 && c >= 0x80))
		buf_char(screen, '?'); // as wide as wcwidth() says
	else
		buf_add(screen, line.at + at, len);
}

// The first character to show, so that the cursor is visible.
static size_t first_shown(struct str line, size_t cursor, int columns)
{
	size_t from = cursor;
	int used = 0;

	while (from > 0) {
		size_t before = back(line, from);

		used += width(line, before, from - before);
		if (used > columns)
			break;
		from = before;
	}
	return from;
}

static fallible paint(struct edit *edit)
{
	auto_buf screen = BUF_INIT(SCREEN_MAX);
	struct str line = buf_view(&edit->line);
	uint16_t cols = 80, rows = 24;
	int columns, used = 0, cursor_at = 0;
	size_t at;

	tty_size(STDOUT_FILENO, &cols, &rows);
	columns = (int)cols - (int)strlen(edit->prompt) - 1;
	columns = columns < 8 ? 8 : columns;
	buf_fmt(&screen, "\r%s", edit->prompt);
	for (at = first_shown(line, edit->cursor, columns); at < line.len;) {
		size_t len = edit_step(line, at);

		if (at == edit->cursor)
			cursor_at = used;
		used += width(line, at, len);
		if (used > columns)
			break;
		put_char(&screen, line, at, len);
		at += len;
	}
	if (edit->cursor >= line.len)
		cursor_at = used;
	buf_fmt(&screen, "\033[K\r\033[%dC", (int)strlen(edit->prompt) + cursor_at);
	return stdio_write(STDOUT_FILENO, screen.at, screen.len);
}

// ------------------------------------------------------------------------------------- the keys

static fallible next_byte(struct edit *edit, unsigned char *out, bool *over)
{
	if (edit->in_at == edit->in_len) {
		edit->in_at = edit->in_len = 0;
		TRY(stdio_read(STDIN_FILENO, edit->in, sizeof(edit->in), &edit->in_len));
		*over = edit->in_len == 0;
		if (*over)
			return OK;
	}
	*out = (unsigned char)edit->in[edit->in_at++];
	return OK;
}

static void erase(struct edit *edit, size_t from, size_t to)
{
	struct buf *line = &edit->line;

	memmove(line->at + from, line->at + to, line->len - to);
	line->len -= to - from;
	edit->cursor = from;
}

static void insert(struct edit *edit, const char *bytes, size_t len)
{
	struct buf *line = &edit->line;

	buf_add(line, bytes, len);
	if (!buf_ok(line)) {
		line->failed = false; // full: the key does nothing
		return;
	}
	memmove(line->at + edit->cursor + len, line->at + edit->cursor,
		line->len - len - edit->cursor);
	memcpy(line->at + edit->cursor, bytes, len);
	edit->cursor += len;
}

static bool is_word(char c)
{
	return c == '_' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') ||
	       (unsigned char)c >= 0x80;
}

static size_t word_back(const struct edit *edit)
{
	size_t at = edit->cursor;

	while (at > 0 && !is_word(edit->line.at[at - 1]))
		at--;
	while (at > 0 && is_word(edit->line.at[at - 1]))
		at--;
	return at;
}

static size_t word_on(const struct edit *edit)
{
	size_t at = edit->cursor;

	while (at < edit->line.len && !is_word(edit->line.at[at]))
		at++;
	while (at < edit->line.len && is_word(edit->line.at[at]))
		at++;
	return at;
}

static void show_history(struct edit *edit, int by)
{
	const char *text;

	if ((by < 0 && edit->shown == 0) || (by > 0 && edit->shown == edit->count))
		return;
	if (edit->shown == edit->count) {
		free(edit->draft);
		edit->draft = mem_dup(edit->line.at ? edit->line.at : "", edit->line.len);
	}
	edit->shown = by < 0 ? edit->shown - 1 : edit->shown + 1;
	text = edit->shown == edit->count ? edit->draft : edit->lines[edit->shown];
	buf_clear(&edit->line);
	buf_text(&edit->line, text);
	edit->cursor = edit->line.len;
}

static void move_right(struct edit *edit)
{
	if (edit->cursor < edit->line.len)
		edit->cursor += edit_step(buf_view(&edit->line), edit->cursor);
}

static void delete_here(struct edit *edit)
{
	size_t at = edit->cursor;

	if (at < edit->line.len)
		erase(edit, at, at + edit_step(buf_view(&edit->line), at));
}

// Executes a key: ctrl and a letter, or the last byte of an ESC [ … sequence.
static void command(struct edit *edit, int key)
{
	struct str line = buf_view(&edit->line);

	switch (key) {
	case CTRL('A'):
		edit->cursor = 0;
		break;
	case CTRL('E'):
		edit->cursor = line.len;
		break;
	case CTRL('B'):
		edit->cursor = back(line, edit->cursor);
		break;
	case CTRL('F'):
		move_right(edit);
		break;
	case CTRL('D'):
		delete_here(edit);
		break;
	case CTRL('H'):
	case 0x7f:
		if (edit->cursor)
			erase(edit, back(line, edit->cursor), edit->cursor);
		break;
	case CTRL('K'):
		erase(edit, edit->cursor, line.len);
		break;
	case CTRL('U'):
		erase(edit, 0, edit->cursor);
		break;
	case CTRL('W'):
		erase(edit, word_back(edit), edit->cursor);
		break;
	case CTRL('P'):
		show_history(edit, -1);
		break;
	case CTRL('N'):
		show_history(edit, 1);
		break;
	default:
		break;
	}
}

// After ESC: ESC [ numbers letter, ESC O letter, or alt and a letter.
static fallible sequence(struct edit *edit, bool *over)
{
	static const struct {
		const char *text;
		int key;
	} rows[] = {
		{"[A", CTRL('P')},  {"[B", CTRL('N')},	{"[C", CTRL('F')},  {"[D", CTRL('B')},
		{"[H", CTRL('A')},  {"[F", CTRL('E')},	{"OA", CTRL('P')},  {"OB", CTRL('N')},
		{"OC", CTRL('F')},  {"OD", CTRL('B')},	{"OH", CTRL('A')},  {"OF", CTRL('E')},
		{"[1~", CTRL('A')}, {"[4~", CTRL('E')}, {"[3~", CTRL('D')}, {"\x7f", CTRL('W')},
	};
	char text[SEQUENCE_MAX + 1] = "";
	unsigned char c = 0;

	for (size_t len = 0; len < SEQUENCE_MAX;) {
		TRY(next_byte(edit, &c, over));
		if (*over)
			return OK;
		text[len++] = (char)c;
		text[len] = 0;
		if (!(len == 1 && (c == '[' || c == 'O')) && (text[0] != '[' || c >= '@'))
			break;
	}
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (strcmp(text, rows[i].text) == 0)
			command(edit, rows[i].key);
	if (strcmp(text, "b") == 0 || strcmp(text, "[1;5D") == 0)
		edit->cursor = word_back(edit);
	else if (strcmp(text, "f") == 0 || strcmp(text, "[1;5C") == 0)
		edit->cursor = word_on(edit);
	else if (strcmp(text, "[200~") == 0)
		edit->pasting = true;
	else if (strcmp(text, "[201~") == 0)
		edit->pasting = false;
	return OK;
}

// One key. True in *done: the line has ended, as *end says.
static fallible edit_key(struct edit *edit, enum edit_end *end, bool *done)
{
	unsigned char c = 0;
	bool over = false;

	TRY(next_byte(edit, &c, &over));
	if (!over && c == 033)
		TRY(sequence(edit, &over));
	else if (!over && (c == '\r' || c == '\n')) {
		*done = true;
		*end = edit->pasting ? EDIT_PASTED : EDIT_LINE;
	} else if (!over && c == '\t')
		insert(edit, TAB, sizeof(TAB) - 1);
	else if (!over && (c >= ' ' && c != 0x7f))
		insert(edit, &(char){(char)c}, 1);
	else if (!over && edit->pasting)
		return OK;
	else if (!over && c == CTRL('C')) {
		*done = true;
		*end = EDIT_CANCEL;
	} else if (over || (c == CTRL('D') && !edit->line.len)) {
		*done = true;
		*end = EDIT_OVER;
	} else if (c == CTRL('L'))
		TRY(stdio_write(STDOUT_FILENO, "\033[H\033[2J", 7));
	else
		command(edit, c);
	if (over) {
		*done = true;
		*end = EDIT_OVER;
	}
	return OK;
}

static fallible edit_work(struct edit *edit, enum edit_end *end)
{
	bool done = false;

	while (!done) {
		if (edit->in_at == edit->in_len) // otherwise more input is buffered: paint later
			TRY(paint(edit));
		TRY(edit_key(edit, end, &done));
	}
	edit->cursor = edit->line.len;
	return paint(edit);
}

fallible edit_line(struct edit *edit, const char *prompt, struct buf *out, enum edit_end *out_end)
{
	enum edit_end end = EDIT_OVER;
	struct err *err;

	buf_clear(&edit->line);
	edit->cursor = 0;
	edit->shown = edit->count;
	edit->prompt = prompt;
	if (!tty_raw(STDIN_FILENO))
		return err_new(INVALID, "no_terminal", "standard input is not a terminal");
	err = stdio_write(STDOUT_FILENO, PASTE_ON, sizeof(PASTE_ON) - 1);
	if (!err)
		err = edit_work(edit, &end);
	if (!err && end == EDIT_CANCEL)
		err = stdio_write(STDOUT_FILENO, "^C", 2);
	if (!err)
		err = stdio_write(STDOUT_FILENO, PASTE_OFF "\r\n", sizeof(PASTE_OFF "\r\n") - 1);
	tty_unraw();
	if (err)
		return err;
	buf_clear(out);
	buf_str(out, buf_view(&edit->line));
	*out_end = end;
	return OK;
}
