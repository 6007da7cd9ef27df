// Processes of a sandbox: exec -d and -i, ps BOX, logs, kill. Output is read by offset and followed
// across restarts of the daemon; the exit status of a watched process becomes ours.
#include "cli/jobs.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/collection.h"
#include "cli/interrupt.h"
#include "cli/print.h"
#include "cli/status.h"
#include "cli/stdio.h"
#include "codec/text.h"

#define PIECE (64 * 1024)

static fallible begin(struct remote *remote, struct cove_box *box, const struct body *body,
		      bool open_stdin, struct cove_process **out)
{
	struct cove_process_options options = {.command = body->command, .open_stdin = open_stdin};

	return remote_did(remote, cove_process_start(box, &options, out, &remote->error));
}

fallible jobs_start(struct call *call, struct remote *remote, struct cove_box *box,
		    const struct body *body)
{
	auto_cove_process process = NULL;

	TRY(begin(remote, box, body, false, &process));
	if (call_has(call, OPT_JSON))
		print_line("{\"processId\": \"%s\"}", cove_process_id(process));
	else
		print_line("%s", cove_process_id(process));
	return OK;
}

// Shows all pieces that have come; *ended when there will be no more.
static fallible jobs_show(struct remote *remote, struct cove_process *process, int64_t timeout_ms,
			  bool *ended)
{
	for (;;) {
		struct cove_piece piece = {0};
		enum cove_kind kind = cove_process_next(process, timeout_ms, &piece,
							&remote->error);

		if (kind == COVE_TIMEOUT && timeout_ms == 0)
			return OK;
		TRY(remote_did(remote, kind));
		if (piece.ended) {
			*ended = true;
			return OK;
		}
		TRY(stdio_write(piece.is_stderr ? STDERR_FILENO : STDOUT_FILENO, piece.bytes,
				piece.len));
	}
}

// Shows the output to its end, and tells how the process ended.
static fallible jobs_await(struct remote *remote, struct cove_process *process,
			   struct cove_result *out)
{
	bool ended = false;

	while (!ended)
		TRY(jobs_show(remote, process, -1, &ended));
	return remote_did(remote, cove_process_wait(process, -1, out, &remote->error));
}

fallible jobs_watch(struct call *call, struct remote *remote, struct cove_process *process)
{
	struct cove_result result = {0};

	TRY(jobs_await(remote, process, &result));
	return status_take(call, &result);
}

// A process that has closed its stdin, or ended, is no error.
static fallible jobs_feed(struct remote *remote, struct cove_process *process, char *room,
			  bool *open)
{
	size_t n = 0;
	enum cove_kind kind;

	TRY(stdio_read(STDIN_FILENO, room, PIECE, &n), "read standard input");
	kind = n ? cove_process_write(process, room, n, &remote->error)
		 : cove_process_close_stdin(process, &remote->error);
	if (!n || kind == COVE_CONFLICT || kind == COVE_NOT_FOUND || kind == COVE_GONE)
		*open = false;
	else
		return remote_did(remote, kind);
	return OK;
}

static fallible cli_jobs_talk(struct remote *remote, struct cove_process *process)
{
	auto_free char *room = mem_new(PIECE);
	bool open = true, ended = false;

	while (!ended) {
		struct pollfd fds[3] = {{.fd = open ? STDIN_FILENO : -1, .events = POLLIN},
					{.events = POLLIN},
					{.fd = interrupt_fd(), .events = POLLIN}};

		TRY(jobs_show(remote, process, 0, &ended));
		if (ended)
			break;
		fds[1].fd = cove_process_fd(process);
		if (poll(fds, 3, -1) < 0 && errno != EINTR)
			return err_sys(errno, "poll");
		if (interrupt_signal())
			return err_new(CANCELLED, "interrupted", "interrupted");
		if (fds[0].revents)
			TRY(jobs_feed(remote, process, room, &open));
	}
	return OK;
}

fallible jobs_talk(struct call *call, struct remote *remote, struct cove_box *box,
		   const struct body *body)
{
	struct cove_result result = {0};
	auto_cove_process process = NULL;
	struct err *err;

	TRY(begin(remote, box, body, true, &process));
	err = cli_jobs_talk(remote, process);
	if (err && err_kind(err) == ERR_CANCELLED &&
	    cove_process_interrupt(process, &remote->error) != COVE_OK)
		print_note("the command could not be ended and may still run");
	TRY(err);
	TRY(remote_did(remote, cove_process_wait(process, -1, &result, &remote->error)));
	return status_take(call, &result);
}

// The command on one line.
static char *shown(const char *command)
{
	char *text = mem_str(command);

	for (char *at = text; *at; at++)
		*at = (unsigned char)*at < ' ' || *at == 0x7f ? ' ' : *at;
	return text;
}

struct row {
	const char *id, *kind, *status, *start_time, *command;
	int64_t pid;
	const char *exit_code;
};

static void add_cells(struct grid *grid, const struct row *row)
{
	auto_free char *command = shown(row->command);
	int64_t since = print_when(str_of(row->start_time));
	auto_buf age = BUF_INIT(32);
	char pid[32];

	if (since >= 0)
		print_age(clock_wall_ms() - since, &age);
	snprintf(pid, sizeof(pid), "%lld", (long long)row->pid);
	grid_add(grid, row->id);
	grid_add(grid, row->kind);
	grid_add(grid, row->pid ? pid : "-");
	grid_add(grid, row->status);
	grid_add(grid, row->exit_code);
	grid_add(grid, age.len ? age.at : "-");
	grid_add(grid, command);
}

static int add_process(void *arg, const struct cove_process_info *info)
{
	char code[32];

	snprintf(code, sizeof(code), "%d", info->exit_code);
	add_cells(arg, &(struct row){info->id, "process", info->status, info->start_time,
				     info->command, info->pid, info->ended ? code : "-"});
	return 0;
}

static int add_terminal(void *arg, const struct cove_terminal_info *info)
{
	char status[32];

	snprintf(status, sizeof(status), "%u attached", info->attached);
	add_cells(arg, &(struct row){info->id, "terminal",
				     info->ended      ? "ended"
				     : info->attached ? status
						      : "detached",
				     info->started_at, info->command, info->pid, "-"});
	return 0;
}

static int add_terminal_json(void *arg, const struct cove_terminal_info *info)
{
	struct json_out *out = arg;

	json_begin(out, '{');
	json_put_text(out, "id", info->id);
	json_put_text(out, "kind", "terminal");
	json_put_int(out, "pid", info->pid);
	json_put_text(out, "command", info->command);
	json_put_text(out, "status", info->ended ? "ended" : "running");
	json_put_text(out, "startTime", info->started_at);
	json_put_int(out, "attached", info->attached);
	json_end(out, '}');
	return 0;
}

static int print_id(void *arg, const struct cove_process_info *info)
{
	(void)arg;
	print_line("%s", info->id);
	return 0;
}

static int add_json(void *arg, const struct cove_process_info *info)
{
	struct json_out *out = arg;

	json_begin(out, '{');
	json_put_text(out, "id", info->id);
	json_put_text(out, "kind", "process");
	json_put_int(out, "pid", info->pid);
	json_put_text(out, "command", info->command);
	json_put_text(out, "status", info->status);
	json_put_text(out, "startTime", info->start_time);
	if (info->ended) {
		json_put_text(out, "endTime", info->end_time);
		json_put_int(out, "exitCode", info->exit_code);
	}
	json_end(out, '}');
	return 0;
}

static fallible list_json(struct remote *remote, struct cove_box *box)
{
	auto_buf text = BUF_INIT(REMOTE_REPLY_MAX);
	struct json_out out = json_to(&text);

	json_begin(&out, '[');
	TRY(remote_did(remote, cove_process_list(box, add_json, &out, &remote->error)));
	TRY(remote_did(remote, cove_terminal_list(box, add_terminal_json, &out, &remote->error)));
	json_end(&out, ']');
	print_json(buf_view(&text));
	return OK;
}

fallible jobs_list(struct call *call, struct remote *remote, struct cove_box *box)
{
	static const char *const heads[] = {"ID",   "KIND", "PID",    "STATUS",
					    "EXIT", "AGE",  "COMMAND"};
	auto_grid grid = {.columns = sizeof(heads) / sizeof(*heads)};

	if (call_has(call, OPT_JSON))
		return list_json(remote, box);
	if (call_has(call, OPT_QUIET)) // the ids that 'cove kill' takes
		return remote_did(remote, cove_process_list(box, print_id, NULL, &remote->error));
	for (size_t i = 0; i < grid.columns; i++)
		grid_add(&grid, heads[i]);
	TRY(remote_did(remote, cove_process_list(box, add_process, &grid, &remote->error)));
	TRY(remote_did(remote, cove_terminal_list(box, add_terminal, &grid, &remote->error)));
	grid_print(&grid, stdout);
	return OK;
}

// The list is in order of start.
static int jobs_keep_last(void *arg, const struct cove_process_info *info)
{
	char **last = arg;

	free(*last);
	*last = mem_str(info->id);
	return 0;
}

// The named process, else the one started last; owned by the caller.
static fallible jobs_choose(struct call *call, struct remote *remote, struct cove_box *box,
			    char **out)
{
	auto_free char *last = NULL;

	if (call->word_count > 1) {
		*out = mem_str(call->words[1]);
		return OK;
	}
	TRY(remote_did(remote, cove_process_list(box, jobs_keep_last, &last, &remote->error)));
	if (!last)
		return err_hint(err_new(NOT_FOUND, "no_process", "nothing was started there yet"),
				"'cove exec -d BOX COMMAND' starts a process");
	*out = take_ptr(last);
	return OK;
}

struct match {
	const char *id;
	bool found;
};

static int match_id(void *arg, const struct cove_process_info *info)
{
	struct match *match = arg;

	match->found |= strcmp(info->id, match->id) == 0;
	return 0;
}

bool jobs_has(struct cove_box *box, const char *id)
{
	struct match match = {.id = id};

	return cove_process_list(box, match_id, &match, NULL) == COVE_OK && match.found;
}

static int put_out(void *arg, const void *bytes, size_t len)
{
	struct err **err = arg;

	*err = stdio_write(STDOUT_FILENO, bytes, len);
	return *err != NULL;
}

static int put_err(void *arg, const void *bytes, size_t len)
{
	struct err **err = arg;

	*err = stdio_write(STDERR_FILENO, bytes, len);
	return *err != NULL;
}

struct cove_sink jobs_sink(struct err **err)
{
	return (struct cove_sink){.on_stdout = put_out, .on_stderr = put_err, .arg = err};
}

// Whether the stored output is complete.
static fallible kept_whole(struct remote *remote, struct cove_process *process)
{
	struct cove_process_info info = {0};
	struct cove_result result = {0};

	TRY(remote_did(remote, cove_process_info(process, &info, &remote->error)));
	result.stdout_truncated = info.truncated;
	result.output_bytes = info.output_bytes;
	result.missed_bytes = info.output_bytes - info.kept_bytes;
	return status_whole(&result);
}

static fallible so_far(struct remote *remote, struct cove_process *process)
{
	struct err *err = OK;
	struct cove_sink sink = jobs_sink(&err);
	enum cove_kind kind = cove_process_logs(process, false, &sink, &remote->error);

	TRY(err);
	TRY(remote_did(remote, kind));
	return kept_whole(remote, process);
}

struct tail_piece {
	bool is_stderr;
	char *bytes;
	size_t len, newlines;
};

// The last lines of the output, with the stream that each piece came from.
struct tail {
	size_t wanted; // lines
	struct tail_piece *pieces;
	size_t first, count; // pieces before the first are freed
	size_t newlines;     // in the pieces that are kept
};

static void tail_done(struct tail *tail)
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

// Copies the piece, and frees those before the wanted lines.
static void tail_add(struct tail *tail, bool is_stderr, const void *bytes, size_t len)
{
	size_t newlines = count_newlines(bytes, len);

	if (!len)
		return;
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

// Prints the wanted lines to stdout and stderr. An unterminated line counts.
static fallible tail_print(const struct tail *tail)
{
	size_t at, i = find_start(tail, &at);

	if (!tail->wanted)
		return OK;
	for (; i < tail->count; i++, at = 0)
		TRY(stdio_write(tail->pieces[i].is_stderr ? STDERR_FILENO : STDOUT_FILENO,
				tail->pieces[i].bytes + at, tail->pieces[i].len - at));
	return OK;
}

// Times of the lines of output: printed before each, or used to omit old ones. Pieces of both
// streams come in order.
struct stamp {
	uint64_t offset;
	int64_t ms; // wall clock
};

struct stamps {
	bool shown;	  // before each line
	int64_t since_ms; // older lines are omitted; 0: none
	uint64_t old;	  // bytes written before the times were asked
	struct stamp *at; // of those
	size_t count;
	uint64_t offset;     // of the next byte
	bool is_inside[2];   // of a line: stdout, stderr
	bool is_left_out[2]; // that line
};

static void stamps_done(struct stamps *stamps)
{
	free(stamps->at);
	*stamps = (struct stamps){0};
}

// "10m" is a span before now, "2026-01-31T08:00:00Z" a time.
static fallible stamps_read(const struct call *call, struct stamps *out)
{
	const char *since = call_value(call, OPT_SINCE);
	uint64_t span;

	out->shown = call_has(call, OPT_TIMESTAMPS);
	if (!since)
		return OK;
	if (str_to_u64(str_of(since), 0, UINT32_MAX, &span)) // bare numbers are seconds
		out->since_ms = clock_wall_ms() - (int64_t)span * 1000;
	else if (str_to_ms(str_of(since), &span))
		out->since_ms = clock_wall_ms() - (int64_t)span;
	else
		out->since_ms = print_when(str_of(since));
	if (out->since_ms > 0)
		return OK;
	return err_hint(err_new(INVALID, "bad_value", "--since '%s' is no TIME", since),
			"for example --since 10m or --since 2026-01-31T08:00:00Z");
}

static int64_t milliseconds(struct str iso)
{
	const char *dot = memchr(iso.at, '.', iso.len);
	int64_t ms = print_when(iso);

	return ms < 0 ? 0 : ms + (dot ? strtol(dot + 1, NULL, 10) % 1000 : 0);
}

static fallible stamps_ask(struct remote *remote, const char *box, const char *process,
			   struct stamps *stamps)
{
	auto_buf rest = BUF_INIT(4096);
	auto_json answer = NULL;
	struct json *times;

	buf_text(&rest, "/api/process/");
	text_percent(&rest, str_of(process));
	buf_text(&rest, "?times=true");

	auto_free char *path = remote_path(BOXES_PATH, box, rest.at);

	TRY(remote_ask(remote, "GET", path, NULL, NULL, &answer));
	TRY(json_u64(json_get(answer, "outputBytes"), "outputBytes", 0, INT64_MAX, &stamps->old));
	times = json_get(answer, "outputTimes");
	for (size_t i = 0; times && i < json_count(times); i++) {
		struct stamp stamp = {0};
		struct str time = STR("");

		TRY(json_str(json_get(json_at(times, i), "time"), "time", &time));
		stamp.ms = milliseconds(time);
		TRY(json_u64(json_get(json_at(times, i), "offset"), "offset", 0, INT64_MAX,
			     &stamp.offset));
		stamps->at = mem_grow(stamps->at, stamps->count + 1, sizeof(*stamps->at));
		stamps->at[stamps->count++] = stamp;
	}
	return OK;
}

// The time of the byte at the offset; 0: unknown.
static int64_t time_of(const struct stamps *stamps, uint64_t offset)
{
	int64_t ms = 0;

	if (offset >= stamps->old)
		return clock_wall_ms();
	for (size_t i = 0; i < stamps->count && stamps->at[i].offset <= offset; i++)
		ms = stamps->at[i].ms;
	return ms;
}

static void stamps_put_time(int64_t ms, struct buf *out)
{
	if (ms)
		clock_iso(ms, out);
	else
		buf_char(out, '-');
	buf_char(out, ' ');
}

static void stamps_pass(struct stamps *stamps, bool is_stderr, struct str bytes, struct buf *out)
{
	bool *inside = &stamps->is_inside[is_stderr], *left_out = &stamps->is_left_out[is_stderr];

	while (bytes.len) {
		const char *end = memchr(bytes.at, '\n', bytes.len);
		size_t len = end ? (size_t)(end - bytes.at) + 1 : bytes.len;

		if (!*inside) {
			int64_t ms = time_of(stamps, stamps->offset);

			*left_out = ms && ms < stamps->since_ms; // an unknown time is not old
			if (stamps->shown && !*left_out)
				stamps_put_time(ms, out);
		}
		if (!*left_out)
			buf_add(out, bytes.at, len);
		*inside = !end;
		stamps->offset += len;
		bytes = str_skip(bytes, len);
	}
}

struct lines {
	struct stamps stamps;
	struct tail tail; // of the earlier output
	struct buf shown;
	bool has_tail;
};

static void lines_done(struct lines *lines)
{
	stamps_done(&lines->stamps);
	tail_done(&lines->tail);
	buf_done(&lines->shown);
}

// The next piece of output, in order of arrival.
static fallible next_lines(struct remote *remote, struct cove_process *process, struct lines *lines,
			   bool *ended)
{
	bool is_old = lines->stamps.offset < lines->stamps.old;
	struct cove_piece piece = {0};

	TRY(remote_did(remote, cove_process_next(process, -1, &piece, &remote->error)));
	*ended = piece.ended;
	if (piece.ended)
		return OK;
	buf_clear(&lines->shown);
	stamps_pass(&lines->stamps, piece.is_stderr, (struct str){piece.bytes, piece.len},
		    &lines->shown);
	if (is_old && lines->has_tail) {
		tail_add(&lines->tail, piece.is_stderr, lines->shown.at, lines->shown.len);
		return OK;
	}
	return stdio_write(piece.is_stderr ? STDERR_FILENO : STDOUT_FILENO, lines->shown.at,
			   lines->shown.len);
}

// With --tail, --since or --timestamps.
static fallible show_lines(struct call *call, struct remote *remote, const char *id,
			   struct cove_process *process)
{
	on_exit_call(lines_done) struct lines lines = {.shown = BUF_INIT(REMOTE_REPLY_MAX)};
	const char *tail = call_value(call, OPT_TAIL);
	struct cove_result result = {0};
	uint64_t wanted = 0;
	bool ended = false;

	if (tail && !str_to_u64(str_of(tail), 0, INT32_MAX, &wanted))
		return err_hint(err_new(INVALID, "bad_value", "--tail '%s' is no NUMBER", tail),
				"for example --tail 20");
	lines.tail.wanted = (size_t)wanted;
	lines.has_tail = tail != NULL;
	TRY(stamps_read(call, &lines.stamps));
	TRY(stamps_ask(remote, call->words[0], id, &lines.stamps));
	while (!ended && lines.stamps.offset < lines.stamps.old)
		TRY(next_lines(remote, process, &lines, &ended));
	TRY(tail_print(&lines.tail));
	while (!ended && call_has(call, OPT_FOLLOW))
		TRY(next_lines(remote, process, &lines, &ended));
	if (!ended)
		return kept_whole(remote, process);
	TRY(remote_did(remote, cove_process_wait(process, -1, &result, &remote->error)));
	return status_whole(&result);
}

static fallible logs(struct call *call, struct remote *remote, const char *id,
		     struct cove_process *process)
{
	struct cove_result result = {0};

	if (call_has(call, OPT_TAIL) || call_has(call, OPT_SINCE) || call_has(call, OPT_TIMESTAMPS))
		return show_lines(call, remote, id, process);
	if (!call_has(call, OPT_FOLLOW))
		return so_far(remote, process);
	TRY(jobs_await(remote, process, &result));
	return status_whole(&result);
}

fallible jobs_logs(struct call *call)
{
	auto_remote remote = {0};
	auto_cove_box box = NULL;
	auto_free char *id = NULL;
	auto_cove_process process = NULL;

	TRY(remote_open(&remote, call));
	interrupt_arm(remote.cove);
	box = cove_box_at(remote.cove, call->words[0]);
	TRY(jobs_choose(call, &remote, box, &id));
	process = cove_process_at(box, id);
	return status_end(call, logs(call, &remote, id, process));
}

// "KILL", "SIGKILL", "sigkill", "9".
static fallible jobs_read_signal(const char *text, int *out)
{
	const char *name = strncasecmp(text, "SIG", 3) == 0 ? text + 3 : text;
	uint64_t number;

	if (str_to_u64(str_of(text), 1, 64, &number)) {
		*out = (int)number;
		return OK;
	}
	for (int i = 1; i < NSIG; i++) {
		const char *known = sigabbrev_np(i);

		if (known && strcasecmp(known, name) == 0) {
			*out = i;
			return OK;
		}
	}
	return err_hint(err_new(INVALID, "bad_signal", "there is no signal '%s'", text),
			"for example -s TERM, -s KILL or -s 9");
}

fallible jobs_kill(struct call *call)
{
	auto_remote remote = {0};
	auto_cove_box box = NULL;
	bool all = call_has(call, OPT_ALL);
	const char *word = call_value(call, OPT_SIGNAL);
	uint64_t count = 0;
	int number = 0;

	if (word)
		TRY(jobs_read_signal(word, &number));
	if (all == (call->word_count > 1) || (all && word))
		return err_hint(err_new(INVALID, "bad_words",
					"'cove kill' needs BOX PROCESS... or BOX --all"),
				"'cove ps BOX' lists the processes");
	TRY(remote_open(&remote, call));
	interrupt_arm(remote.cove);
	box = cove_box_at(remote.cove, call->words[0]);
	if (all) {
		TRY(remote_did(&remote, cove_process_kill_all(box, &count, &remote.error)));
		if (!call_has(call, OPT_QUIET))
			print_line("%llu", (unsigned long long)count);
		return OK;
	}
	for (int i = 1; i < call->word_count; i++) {
		auto_cove_process process = cove_process_at(box, call->words[i]);

		TRY(remote_did(&remote, word ? cove_process_signal(process, number, &remote.error)
					     : cove_process_kill(process, &remote.error)));
		if (!call_has(call, OPT_QUIET))
			print_line("%s", call->words[i]);
	}
	return OK;
}
