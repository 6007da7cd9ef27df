// Plays a recording (codec/cast.h) of a file, of standard input or of an execution. Output keeps
// its pace, divided by the speed; pauses are cut to a limit. On a terminal space pauses and q ends.
// The recording controls our terminal, as the program would that it shows.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/interrupt.h"
#include "cli/print.h"
#include "cli/remote.h"
#include "cli/stdio.h"
#include "cli/tty.h"
#include "codec/cast.h"

#define PIECE (64 * 1024)
#define CTRL_C 3
#define EXECUTION "exe-"
#define SPEED_MAX 1e6

struct play {
	double speed;
	uint64_t idle_us; // the longest pause; 0: none
	// The source: a file, or the reply of the daemon.
	int fd; // -1: none
	struct remote remote;
	struct cove_request *request;
	struct buf lines;
	bool ended; // nothing more to read
	// Our terminal.
	int keys; // -1: none
	bool own_keys;
	bool paused, quit;
	int64_t began_us;   // when the first event was due; moved on by pauses
	uint64_t last_us;   // time of the last event in the recording
	uint64_t played_us; // its time after limits
};

static void play_done(struct play *play)
{
	tty_restore();
	cove_request_free(play->request);
	remote_close(&play->remote);
	if (play->fd > STDERR_FILENO)
		close(play->fd);
	if (play->own_keys)
		close(play->keys);
	buf_done(&play->lines);
}

static fallible play_options(struct call *call, struct play *play)
{
	const char *speed = call_value(call, OPT_SPEED), *idle = call_value(call, OPT_IDLE);
	uint64_t ms = 0;
	char *end = NULL;

	if (speed) {
		play->speed = strtod(speed, &end);
		if (*end || end == speed || !(play->speed > 0.001) || play->speed > SPEED_MAX)
			return err_new(INVALID, "bad_value",
				       "--speed is a number such as 2 or 0.5");
	}
	if (idle && (!str_to_ms(str_of(idle), &ms) || !ms))
		return err_new(INVALID, "bad_value", "--idle is a time such as 2s or 500ms");
	play->idle_us = ms * 1000;
	return OK;
}

// A file of that name wins over an execution.
static fallible play_open(struct call *call, struct play *play)
{
	const char *word = call->words[0];
	auto_free char *path = NULL;

	if (!strcmp(word, "-")) {
		play->fd = STDIN_FILENO;
		return OK;
	}
	play->fd = open(word, O_RDONLY | O_CLOEXEC);
	if (play->fd >= 0)
		return OK;
	if (errno != ENOENT || strncmp(word, EXECUTION, strlen(EXECUTION)) != 0)
		return err_new(NOT_FOUND, "no_file", "cannot open '%s': %s", word, strerror(errno));
	TRY(remote_open(&play->remote, call));
	path = remote_path("/v1/executions", word, "/cast");
	TRY(remote_did(&play->remote, cove_request_open(play->remote.cove, "GET", path, NULL,
							&play->request, &play->remote.error)));
	return remote_did(&play->remote, cove_request_finish(play->request, &play->remote.error));
}

static fallible play_read(struct play *play)
{
	char *room = buf_space(&play->lines, PIECE);
	size_t n = 0;

	if (!room)
		return err_new(INVALID, "bad_cast",
			       "this is no recording of a terminal: a line is too long");
	if (play->request)
		TRY(remote_did(&play->remote, cove_request_read(play->request, room, PIECE, &n,
								&play->remote.error)));
	else
		TRY(stdio_read(play->fd, room, PIECE, &n));
	buf_grew(&play->lines, n);
	play->ended = n == 0;
	return OK;
}

// The next line, with its length in the buffer; at == NULL: none.
static fallible play_line(struct play *play, struct str *out, size_t *used)
{
	for (;;) {
		struct str all = buf_view(&play->lines);
		const char *end = all.len ? memchr(all.at, '\n', all.len) : NULL;

		if (end || play->ended) {
			*out = (struct str){all.at, end ? (size_t)(end - all.at) : all.len};
			*used = out->len + (end != NULL);
			if (!*used)
				out->at = NULL;
			return OK;
		}
		TRY(play_read(play));
	}
}

static void play_keys(struct play *play)
{
	if (play->keys < 0)
		play->keys = STDIN_FILENO;
	if (play->fd == STDIN_FILENO) {
		play->keys = open("/dev/tty", O_RDWR | O_CLOEXEC);
		play->own_keys = play->keys >= 0;
	}
	if (play->keys < 0 || !isatty(STDOUT_FILENO) || !isatty(play->keys) ||
	    !tty_raw(play->keys)) {
		if (play->own_keys)
			close(play->keys);
		play->own_keys = false;
		play->keys = -1;
	}
}

static void play_key(struct play *play, int64_t *paused_at)
{
	char key;

	if (read(play->keys, &key, 1) != 1)
		return;
	play->quit = key == 'q' || key == CTRL_C;
	if (key != ' ')
		return;
	if (play->paused)
		play->began_us += clock_us() - *paused_at;
	*paused_at = clock_us();
	play->paused = !play->paused;
}

// Waits until `at_us` of the recording is due.
static fallible play_wait(struct play *play, uint64_t at_us)
{
	int64_t paused_at = 0;

	while (!play->quit) {
		int64_t left = play->began_us + (int64_t)((double)at_us / play->speed) - clock_us();
		struct pollfd fds[2] = {{.fd = play->keys, .events = POLLIN},
					{.fd = interrupt_fd(), .events = POLLIN}};
		int64_t ms = (left + 999) / 1000;

		if (left <= 0 && !play->paused)
			return OK;
		if (poll(fds, 2,
			 play->paused ? -1
			 : ms < 1000  ? (int)ms
				      : 1000) < 0 &&
		    errno != EINTR)
			return err_sys(errno, "poll");
		if (interrupt_signal())
			return err_new(CANCELLED, "interrupted", "interrupted");
		if (fds[0].revents)
			play_key(play, &paused_at);
	}
	return OK;
}

static fallible play_event(struct play *play, struct str line)
{
	auto_json json = NULL;
	struct cast_event event;
	uint64_t pause;

	TRY(cast_read_event(line, &json, &event));
	pause = event.at_us > play->last_us ? event.at_us - play->last_us : 0;
	if (play->idle_us && pause > play->idle_us)
		pause = play->idle_us;
	play->last_us = event.at_us > play->last_us ? event.at_us : play->last_us;
	play->played_us += pause;
	if (event.kind != 'o')
		return OK;
	TRY(play_wait(play, play->played_us));
	return play->quit ? OK : stdio_write(STDOUT_FILENO, event.text.at, event.text.len);
}

static fallible play_all(struct play *play)
{
	struct str line;
	size_t used;

	while (!play->quit) {
		TRY(play_line(play, &line, &used));
		if (!line.at)
			return OK;
		if (str_trim(line).len)
			TRY(play_event(play, line));
		buf_drop_front(&play->lines, used);
	}
	return OK;
}

static fallible play_head(struct play *play)
{
	auto_json json = NULL;
	struct cast_head head;
	uint16_t cols, rows;
	struct str line;
	size_t used;

	TRY(play_line(play, &line, &used));
	TRY(cast_read_head(line.at ? line : STR(""), &json, &head));
	buf_drop_front(&play->lines, used);
	if (tty_size(STDOUT_FILENO, &cols, &rows) && (cols < head.width || rows < head.height))
		print_note("the recording has %u columns and %u rows, this terminal %u and %u",
			   head.width, head.height, cols, rows);
	return OK;
}

fallible play_run(struct call *call)
{
	on_exit_call(play_done) struct play play = {
		.speed = 1, .fd = -1, .keys = -1, .lines = BUF_INIT(CAST_LINE_MAX + PIECE)};

	TRY(play_options(call, &play));
	TRY(play_open(call, &play));
	TRY(play_head(&play));
	interrupt_arm(play.remote.cove);
	play_keys(&play);
	play.began_us = clock_us();
	return play_all(&play);
}
