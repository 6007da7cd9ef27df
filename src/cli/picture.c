// Pictures on the terminal by two protocols: kitty takes PNG, iTerm any format of its system. The
// terminal decodes the picture. Some terminals are known by their environment. Others are asked: a
// query of kitty's protocol, followed by one that every terminal answers, so that its reply shows
// that none to the first will come.
#include "cli/picture.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/print.h"
#include "cli/stdio.h"
#include "cli/tty.h"
#include "codec/text.h"

#define ASK "\033_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\033\\\033[c"
#define ANSWER_MS 300
#define ANSWER_MAX 512
#define CODED_MAX ((size_t)64 << 20)
#define KITTY_PIECE 4096
#define NAMES_MAX 10000

bool picture_by_word(const char *word, enum picture_way *out)
{
	static const struct {
		const char *word;
		enum picture_way way;
	} rows[] = {{"none", PICTURE_SAVED}, {"kitty", PICTURE_KITTY}, {"iterm", PICTURE_ITERM}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		if (word && strcmp(word, rows[i].word) == 0) {
			*out = rows[i].way;
			return true;
		}
	}
	return false;
}

static bool by_environment(enum picture_way *out)
{
	static const struct {
		const char *name, *value; // NULL: any
		enum picture_way way;
	} rows[] = {
		{"KITTY_WINDOW_ID", NULL, PICTURE_KITTY},
		{"TERM", "xterm-kitty", PICTURE_KITTY},
		{"TERM", "xterm-ghostty", PICTURE_KITTY},
		{"TERM_PROGRAM", "ghostty", PICTURE_KITTY},
		{"TERM_PROGRAM", "iTerm.app", PICTURE_ITERM},
		{"LC_TERMINAL", "iTerm2", PICTURE_ITERM},
		{"TERM_PROGRAM", "WezTerm", PICTURE_ITERM},
		{"TERM", "dumb", PICTURE_SAVED},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const char *value = getenv(rows[i].name);

		if (value && *value && (!rows[i].value || strcmp(value, rows[i].value) == 0)) {
			*out = rows[i].way;
			return true;
		}
	}
	return false;
}

enum picture_way picture_by_answer(struct str answer)
{
	static const char kitty[] = "\033_Gi=31;OK";

	return memmem(answer.at, answer.len, kitty, sizeof(kitty) - 1) ? PICTURE_KITTY
								       : PICTURE_SAVED;
}

// The reply to the second query is the last.
static bool is_complete(const char *answer, size_t len)
{
	const char *at = memmem(answer, len, "\033[?", 3);

	return at && memchr(at, 'c', (size_t)(answer + len - at));
}

static enum picture_way by_asking(void)
{
	char answer[ANSWER_MAX];
	size_t len = 0;
	int64_t deadline = clock_ms() + ANSWER_MS, left;
	struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
	auto_err err = OK;

	if (!tty_raw(STDIN_FILENO))
		return PICTURE_SAVED;
	err = stdio_write(STDOUT_FILENO, ASK, sizeof(ASK) - 1);
	while (!err && len < sizeof(answer) && !is_complete(answer, len) &&
	       (left = deadline - clock_ms()) > 0 && poll(&in, 1, (int)left) > 0) {
		ssize_t n = read(STDIN_FILENO, answer + len, sizeof(answer) - len);

		if (n <= 0)
			break;
		len += (size_t)n;
	}
	tty_unraw();
	return picture_by_answer((struct str){answer, len});
}

enum picture_way picture_way(void)
{
	enum picture_way way;

	if (picture_by_word(getenv("COVE_PICTURES"), &way))
		return way;
	if (!isatty(STDOUT_FILENO))
		return PICTURE_SAVED;
	if (by_environment(&way))
		return way;
	return isatty(STDIN_FILENO) ? by_asking() : PICTURE_SAVED;
}

// Saves a new file in the working directory, or in the temporary directory.
static fallible save(const char *kind, struct str bytes)
{
	const char *end = strcmp(kind, "jpeg") == 0 ? "jpg" : kind, *temp = getenv("TMPDIR");
	const char *const places[] = {".", temp && *temp ? temp : "/tmp"};

	for (size_t place = 0; place < 2; place++) {
		for (int i = 1; i < NAMES_MAX; i++) {
			auto_free char *path = mem_fmt("%s/cell-%d.%s", places[place], i, end);
			int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
			struct err *err;

			if (fd < 0 && errno == EEXIST)
				continue;
			if (fd < 0)
				break;
			err = stdio_write(fd, bytes.at, bytes.len);
			close(fd);
			if (!err)
				print_note("a picture was saved as %s", path);
			return err;
		}
	}
	return err_new(NO_SPACE, "cannot_write", "a picture could not be saved: %s",
		       strerror(errno));
}

// In pieces: terminals limit their length.
static void put_kitty(struct buf *out, struct str coded)
{
	const char *begin = "a=T,f=100,";

	while (coded.len) {
		size_t len = coded.len < KITTY_PIECE ? coded.len : KITTY_PIECE;

		buf_fmt(out, "\033_G%sm=%d;", begin, len < coded.len);
		buf_add(out, coded.at, len);
		buf_text(out, "\033\\");
		coded = str_skip(coded, len);
		begin = "";
	}
}

static void put_iterm(struct buf *out, struct str coded, size_t size)
{
	buf_fmt(out, "\033]1337;File=inline=1;preserveAspectRatio=1;size=%zu:", size);
	buf_str(out, coded);
	buf_char(out, '\a');
}

static bool picture_put(struct buf *out, enum picture_way way, const char *kind, struct str bytes)
{
	bool png = strcmp(kind, "png") == 0;
	auto_buf coded = BUF_INIT(CODED_MAX);

	if (way != PICTURE_ITERM && !(way == PICTURE_KITTY && png))
		return false;
	if (strcmp(kind, "svg") == 0)
		return false;
	text_base64(&coded, bytes.at, bytes.len);
	if (!buf_ok(&coded) || !coded.len)
		return false;
	if (way == PICTURE_KITTY)
		put_kitty(out, buf_view(&coded));
	else
		put_iterm(out, buf_view(&coded), bytes.len);
	return true;
}

fallible picture_show(enum picture_way way, const char *kind, struct str bytes)
{
	auto_buf out = BUF_INIT(2 * CODED_MAX);

	if (!picture_put(&out, way, kind, bytes) || !buf_ok(&out))
		return save(kind, bytes);
	buf_char(&out, '\n');
	return stdio_write(STDOUT_FILENO, out.at, out.len);
}
