// Our terminal: raw mode, its restoration from signal handlers, size and resize notification. The
// saved settings are global, because signal handlers need them.
#include "cli/tty.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "cli/interrupt.h"
#include "cli/stdio.h"

// Signal handlers have no arguments.
static struct {
	struct termios was;
	volatile sig_atomic_t fd; // plus 1; 0: not changed
	bool typing_ahead;
	int pipe[2];
} state = {.pipe = {-1, -1}};

void tty_restore(void)
{
	int fd = (int)state.fd - 1;
	int saved = errno;

	if (fd >= 0)
		tcsetattr(fd, TCSANOW, &state.was); // does not wait for stopped output
	state.typing_ahead = false;
	state.fd = 0;
	errno = saved;
}

static bool tty_save(int fd)
{
	return state.fd || tcgetattr(fd, &state.was) == 0;
}

static bool tty_change(int fd, const struct termios *mode, int when)
{
	state.fd = fd + 1;
	interrupt_undoing(tty_restore);
	return tcsetattr(fd, when, mode) == 0;
}

// In canonical mode the kernel stores ctrl-d as the end of a line: a reader that turns that mode
// off later reads a NUL.
bool tty_type_ahead(int fd)
{
	struct termios keys;

	if (!tty_save(fd))
		return false;
	keys = state.was;
	keys.c_lflag &= ~(tcflag_t)ICANON;
	keys.c_cc[VMIN] = 1;
	keys.c_cc[VTIME] = 0;
	state.typing_ahead = true;
	return tty_change(fd, &keys, TCSADRAIN);
}

void tty_unraw(void)
{
	if (!state.fd || !state.typing_ahead)
		tty_restore();
	else
		tty_type_ahead((int)state.fd - 1);
}

bool tty_raw(int fd)
{
	struct termios raw;

	if (!tty_save(fd))
		return false;
	raw = state.was;
	cfmakeraw(&raw);
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	return tty_change(fd, &raw, TCSADRAIN);
}

static bool tty_silent(int fd)
{
	struct termios silent;

	if (tcgetattr(fd, &state.was) != 0)
		return false;
	silent = state.was;
	silent.c_lflag &= ~(tcflag_t)(ECHO | ECHOE | ECHOK | ECHONL);
	return tty_change(fd, &silent, TCSAFLUSH);
}

bool tty_size(int fd, uint16_t *out_cols, uint16_t *out_rows)
{
	struct winsize size;

	if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0)
		return false;
	*out_cols = size.ws_col;
	*out_rows = size.ws_row;
	return true;
}

size_t tty_columns(void)
{
	const char *text = getenv("COLUMNS");
	uint16_t cols = 0, rows;
	uint64_t number;

	if (text && str_to_u64(str_of(text), 1, UINT16_MAX, &number))
		return (size_t)number;
	return tty_size(STDOUT_FILENO, &cols, &rows) ? cols : 0;
}

static void on_resize(int signal)
{
	int saved = errno;

	(void)signal;
	if (write(state.pipe[1], "!", 1) < 0) {
		// full: it is known already
	}
	errno = saved;
}

int tty_resized_fd(void)
{
	struct sigaction act = {.sa_handler = on_resize, .sa_flags = SA_RESTART};

	if (state.pipe[0] < 0 && pipe2(state.pipe, O_CLOEXEC | O_NONBLOCK) == 0)
		sigaction(SIGWINCH, &act, NULL);
	return state.pipe[0];
}

// Up to the end, or of one line.
static fallible tty_read_value(int fd, bool line, struct buf *out)
{
	size_t n = 1;

	while (n && buf_ok(out)) {
		char c;

		TRY(stdio_read(fd, &c, 1, &n));
		if (n && line && c == '\n')
			return OK;
		if (n)
			buf_char(out, c);
	}
	if (!buf_ok(out))
		return err_new(TOO_LARGE, "bad_value", "the value is too long");
	if (out->len && out->at[out->len - 1] == '\n')
		out->len--;
	return OK;
}

fallible tty_read_secret(const char *prompt, bool whole, struct buf *out)
{
	auto_fd tty = -1;
	struct err *err;

	if (!isatty(STDIN_FILENO))
		return tty_read_value(STDIN_FILENO, !whole, out);
	tty = open("/dev/tty", O_RDWR | O_CLOEXEC);
	if (tty < 0 || !tty_silent(tty))
		return err_new(UNAVAILABLE, "no_terminal", "there is no terminal to ask at");
	dprintf(tty, "%s: ", prompt);
	err = tty_read_value(tty, true, out);
	tty_restore();
	dprintf(tty, "\n");
	return err;
}
