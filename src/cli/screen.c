// Shows a terminal of a sandbox. Bytes pass both ways; the two detach keys are filtered out.
// Besides that the window may be resized, a signal may end us, or the connection may be lost: then
// it is opened again for a while, and the daemon sends the last output first, onto a cleared
// screen.
#include "cli/screen.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/interrupt.h"
#include "cli/print.h"
#include "cli/status.h"
#include "cli/stdio.h"
#include "cli/tty.h"

#define PIECE 1024
#define KEY_FIRST 0x10	// ctrl-p
#define KEY_SECOND 0x11 // ctrl-q
#define RETRY_MS 500
#define GIVE_UP_MS 60000
#define CLEAN "\033[0m\033[H\033[2J"

struct screen {
	struct remote *remote;
	struct cove_terminal *terminal;
	bool with_input, raw;
	bool detached, ended;
	bool key_held; // a ctrl-p that may be the first detach key
};

// Copies typed bytes without the detach keys. A single first key is passed on with what follows.
static size_t sift(struct screen *screen, const char *from, size_t len, char *to)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		if (screen->key_held && from[i] == KEY_SECOND) {
			screen->detached = true;
			return n;
		}
		if (screen->key_held)
			to[n++] = KEY_FIRST;
		screen->key_held = from[i] == KEY_FIRST;
		if (!screen->key_held)
			to[n++] = from[i];
	}
	return n;
}

static fallible type(struct screen *screen)
{
	char typed[PIECE], sent[PIECE + 1];
	ssize_t n = read(STDIN_FILENO, typed, sizeof(typed));
	size_t len;

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return OK;
	if (n <= 0) { // end of file of the terminal
		screen->with_input = false;
		sent[0] = 4;
		len = 1;
	} else if (screen->raw) {
		len = sift(screen, typed, (size_t)n, sent);
	} else {
		len = (size_t)n;
		memcpy(sent, typed, len);
	}
	if (!len)
		return OK;
	return remote_did(screen->remote,
			  cove_terminal_write(screen->terminal, sent, len, &screen->remote->error));
}

// Shows all available output; TIMEOUT: no more for now.
static fallible screen_show(struct screen *screen)
{
	char room[PIECE];

	for (;;) {
		size_t len = 0;
		enum cove_kind kind = cove_terminal_read(screen->terminal, room, sizeof(room), 0,
							 &len, &screen->remote->error);

		if (kind == COVE_TIMEOUT)
			return OK;
		TRY(remote_did(screen->remote, kind));
		if (len == 0) {
			screen->ended = true;
			return OK;
		}
		TRY(stdio_write(STDOUT_FILENO, room, len));
	}
}

static bool own_size(uint16_t *out_cols, uint16_t *out_rows)
{
	return tty_size(STDOUT_FILENO, out_cols, out_rows) ||
	       tty_size(STDIN_FILENO, out_cols, out_rows);
}

static fallible screen_resize(struct screen *screen)
{
	char room[64];
	uint16_t cols, rows;

	while (read(tty_resized_fd(), room, sizeof(room)) > 0)
		;
	if (!own_size(&cols, &rows))
		return OK;
	return remote_did(screen->remote, cove_terminal_resize(screen->terminal, cols, rows,
							       &screen->remote->error));
}

static fallible screen_turn(struct screen *screen)
{
	struct pollfd fds[4] = {
		{.fd = cove_terminal_fd(screen->terminal), .events = POLLIN},
		{.fd = screen->with_input ? STDIN_FILENO : -1, .events = POLLIN},
		{.fd = tty_resized_fd(), .events = POLLIN},
		{.fd = interrupt_fd(), .events = POLLIN},
	};

	TRY(screen_show(screen));
	if (screen->ended)
		return OK;
	// Also wakes periodically: the library handles pings while it reads.
	if (poll(fds, 4, 10000) < 0 && errno != EINTR)
		return err_sys(errno, "poll");
	if (interrupt_signal())
		return err_new(CANCELLED, "interrupted", "interrupted");
	if (fds[2].revents)
		TRY(screen_resize(screen));
	return fds[1].revents ? type(screen) : OK;
}

static fallible screen_rest(int ms)
{
	struct pollfd wait = {.fd = interrupt_fd(), .events = POLLIN};

	poll(&wait, 1, ms);
	return interrupt_signal() ? err_new(CANCELLED, "interrupted", "interrupted") : OK;
}

static bool is_loss(const struct err *err)
{
	return err_kind(err) == ERR_BAD_PEER || err_kind(err) == ERR_UNAVAILABLE;
}

static fallible again(struct screen *screen)
{
	int64_t end = clock_ms() + GIVE_UP_MS;

	for (;;) {
		struct err *err = remote_did(
			screen->remote,
			cove_terminal_reattach(screen->terminal, &screen->remote->error));

		if (!err && screen->raw)
			err = stdio_write(STDOUT_FILENO, CLEAN, sizeof(CLEAN) - 1);
		if (!err)
			err = screen_resize(screen);
		if (!err)
			return OK;
		if (!is_loss(err) || clock_ms() > end)
			return err;
		err_free(err);
		TRY(screen_rest(RETRY_MS));
	}
}

static fallible play(struct screen *screen)
{
	while (!screen->ended && !screen->detached) {
		struct err *err = screen_turn(screen);

		if (err && is_loss(err) && !interrupt_signal()) {
			err_free(err);
			err = again(screen);
		}
		if (err)
			return err;
	}
	return OK;
}

fallible screen_run(struct call *call, struct remote *remote, struct cove_box *box,
		    const struct cove_terminal_options *options, bool with_input)
{
	struct cove_terminal_options here = *options;
	struct screen screen = {.remote = remote, .with_input = with_input};
	struct err *err;

	own_size(&here.cols, &here.rows);
	interrupt_arm(remote->cove);
	TRY(remote_did(remote, cove_terminal_open(box, &here, &screen.terminal, &remote->error)));
	screen.raw = with_input && tty_raw(STDIN_FILENO);
	err = options->existing ? screen_resize(&screen) : OK; // the terminal keeps its size
	if (!err)
		err = play(&screen);
	tty_restore();
	if (!err && screen.ended)
		cove_terminal_ended(screen.terminal, &call->exit);
	if (!err && screen.detached && !call_has(call, OPT_QUIET)) {
		fputc('\n', stderr);
		if (call->verb->id == VERB_AGENT_RUN || call->verb->id == VERB_AGENT_RECONNECT)
			print_note("detached; 'cove agent reconnect %s' comes back",
				   cove_terminal_id(screen.terminal));
		else if (options->agent_session)
			print_note("detached; 'cove agent-session attach %s' comes back",
				   call->words[0]);
		else
			print_note("detached; 'cove attach %s %s' comes back", call->words[0],
				   cove_terminal_id(screen.terminal));
	}
	cove_terminal_close(screen.terminal);
	return err;
}
