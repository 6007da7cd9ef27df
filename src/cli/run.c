// A run is: a box, a command in it whose output is ours, the box removed, the command's status ours
// too. Whatever interrupts it, Ctrl-C above all, the box is removed. Statuses that are not the
// command's: 124 its time ran out, 125 cove itself failed, 126 not executable, 127 not found.
#include "cli/run.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/alone.h"
#include "cli/body.h"
#include "cli/boxes.h"
#include "cli/flow.h"
#include "cli/interrupt.h"
#include "cli/print.h"
#include "cli/remote.h"
#include "loop/task.h"

#define PIECE (64 * 1024)
#define EXIT_CANNOT_INVOKE 126
#define EXIT_NOT_FOUND 127
#define EXIT_SIGNALED 128

// -i: our own stdin, to its end. It travels inside one request, so its size is bounded.
static fallible read_input(const struct call *call, struct buf *input)
{
	size_t n = 1;

	if (!call_has(call, OPT_INTERACTIVE))
		return OK;
	while (n > 0) {
		char *room = buf_space(input, PIECE);

		if (!room)
			return err_hint(err_new(TOO_LARGE, "stdin_too_large",
						"standard input exceeds 1 MiB"),
					"let the command fetch it from a file of the sandbox");
		TRY(flow_read(STDIN_FILENO, room, PIECE, &n), "read standard input");
		buf_grew(input, n);
	}
	return OK;
}

// What ended the command, when it was not the command.
static void tell_ending(const struct call *call, const struct flow *flow)
{
	static const struct {
		const char *word, *text;
	} endings[] = {
		{"oom", "the command exceeded its memory limit and was killed (see --memory)"},
		{"cpu_limit", "the command used up its CPU time and was killed (see --cpu-time)"},
		{"wall_limit", "the command ran out of time and was killed (see --timeout)"},
		{"killed_by_api", "the command was killed by request"},
		{"box_lost", "the sandbox was lost while the command ran"},
	};

	if (call_has(call, OPT_QUIET))
		return;
	for (size_t i = 0; i < sizeof(endings) / sizeof(*endings); i++)
		if (strcmp(flow->ended, endings[i].word) == 0)
			print_note("%s", endings[i].text);
	if (flow->truncated)
		print_note(
			"the command wrote more than is kept; the rest was dropped (see --output)");
}

static fallible follow(struct call *call, struct remote *remote, const char *path,
		       const struct buf *body)
{
	on_exit_call(flow_done) struct flow flow;
	auto_free char *room = mem_new(PIECE);
	size_t got = 1;
	int status = 0;

	flow_init(&flow, STDOUT_FILENO, STDERR_FILENO);
	TRY(http_client_ask(remote->client, "POST", path, buf_view(body), &status));
	TRY(remote_accept(remote, status));
	while (got > 0) {
		TRY(http_client_read(remote->client, room, PIECE, &got));
		TRY(flow_feed(&flow, (struct str){room, got}));
	}
	if (!flow.done)
		return err_new(BAD_PEER, "cut_stream",
			       "the daemon went away before the command ended");
	tell_ending(call, &flow);
	call->exit = strcmp(flow.ended, "box_lost") == 0 ? 0 : flow.exit_code;
	if (strcmp(flow.ended, "box_lost") == 0)
		return err_new(BAD_PEER, "box_lost", "there is no status to hand on");
	return OK;
}

static fallible whole(struct call *call, struct remote *remote, const char *path,
		      const struct buf *body)
{
	auto_buf text = BUF_INIT(REMOTE_REPLY_MAX);
	auto_json answer = NULL;
	uint64_t code = 0;

	TRY(remote_ask(remote, "POST", path, body, &text, &answer));
	if (answer)
		TRY(json_u64(json_get(answer, "exitCode"), "exitCode", 0, 255, &code));
	print_json(buf_view(&text));
	call->exit = (int)code;
	return OK;
}

// The command in the box; the status goes to call->exit.
static fallible conduct(struct call *call, struct remote *remote, const char *box,
			const struct buf *body)
{
	bool json = call_has(call, OPT_JSON);
	auto_free char *path = remote_path(BOXES_PATH "/", box,
					   json ? "/api/execute" : "/api/execute/stream");

	return json ? whole(call, remote, path, body) : follow(call, remote, path, body);
}

// Statuses that a failure has of its own; 0: the usual one.
static int status_of(const struct remote *remote, const struct err *err)
{
	if (interrupt_signal())
		return EXIT_SIGNALED + interrupt_signal();
	if (strcmp(err_reason(err), "pipe_closed") == 0)
		return EXIT_SIGNALED + SIGPIPE;
	if (strcmp(remote->code, "COMMAND_NOT_FOUND") == 0)
		return EXIT_NOT_FOUND;
	if (strcmp(remote->code, "COMMAND_PERMISSION_DENIED") == 0)
		return EXIT_CANNOT_INVOKE;
	return 0;
}

static fallible end_of(struct call *call, const struct remote *remote, struct err *err)
{
	if (err)
		call->exit = status_of(remote, err);
	return err;
}

fallible run_exec(struct call *call)
{
	auto_remote remote = {0};
	auto_buf input = BUF_INIT(BODY_MAX + PIECE), body = BUF_INIT(4 * BODY_MAX);
	struct body_exec exec = {.argv = call->words + 1,
				 .count = call->word_count - 1,
				 .with_env = true,
				 .streamed = !call_has(call, OPT_JSON)};

	if (exec.count > 0 && strcmp(exec.argv[0], "--") == 0) {
		exec.argv++;
		exec.count--;
	}
	TRY(read_input(call, &input));
	if (call_has(call, OPT_INTERACTIVE))
		exec.input = (struct str){input.at ? input.at : "", input.len};
	TRY(body_execute(call, &exec, &body));
	TRY(remote_open(&remote, call));
	interrupt_arm(call->loop, task_current());
	return end_of(call, &remote, conduct(call, &remote, call->words[0], &body));
}

// Reaches the daemon, or starts one of our own when there is none here.
static fallible reach(struct call *call, struct remote *remote, struct alone **out_alone)
{
	const char *url = getenv("COVE_URL");
	bool named = call_has(call, OPT_URL) || (url && *url);
	struct err *err = remote_open(remote, call);

	if (!err && !named)
		err = remote_ask(remote, "GET", "/v1/health", NULL, NULL, NULL);
	if (!err || named || err_kind(err) != ERR_UNAVAILABLE)
		return err;
	remote_close(remote);
	err_free(err);
	if (call_has(call, OPT_KEEP))
		return err_hint(err_new(UNAVAILABLE, "no_daemon",
					"no daemon is running that could keep the sandbox"),
				"start one with 'cove serve', or leave --keep out");
	TRY(alone_start(remote_data(call), out_alone));
	return alone_remote(*out_alone, call->loop, remote);
}

// Also after a failure or an interruption, when the connection may be in the midst of a reply: a
// fresh one, and waits that no longer see the cancellation.
static void remove_box(const struct remote *remote, const char *id)
{
	auto_remote fresh = {0};
	auto_free char *path = remote_path(BOXES_PATH "/", id, "");
	auto_err err = NULL;

	task_shield(true);
	err = remote_open_at(&fresh, remote->loop, remote->url, remote->token);
	if (!err)
		err = remote_ask(&fresh, "DELETE", path, NULL, NULL, NULL);
	if (err && err_kind(err) != ERR_NOT_FOUND)
		print_note("sandbox %s could not be removed: %s", id, err_message(err));
}

static fallible in_a_box(struct call *call, struct remote *remote, const struct buf *create,
			 const struct buf *body)
{
	auto_free char *id = NULL;
	auto_buf text = BUF_INIT(REMOTE_REPLY_MAX);
	struct err *err;

	// Not to be cut short: a box whose id nobody has read could not be removed.
	task_shield(true);
	err = boxes_make(remote, create, &id, &text);
	task_shield(false);
	if (err)
		return err;
	err = end_of(call, remote, conduct(call, remote, id, body));
	if (!call_has(call, OPT_KEEP))
		remove_box(remote, id);
	else if (!call_has(call, OPT_QUIET))
		print_note("kept %s", id);
	return err;
}

fallible run_run(struct call *call)
{
	auto_remote remote = {0};
	auto_buf input = BUF_INIT(BODY_MAX + PIECE), create = BUF_INIT(BODY_MAX);
	auto_buf body = BUF_INIT(4 * BODY_MAX);
	struct body_exec exec = {.argv = call->words,
				 .count = call->word_count,
				 .streamed = !call_has(call, OPT_JSON)};
	struct alone *alone = NULL;
	struct err *err;

	if (call_has(call, OPT_KEEP) && call_has(call, OPT_RM))
		return err_new(INVALID, "keep_or_rm", "--keep and --rm contradict each other");
	TRY(read_input(call, &input));
	if (call_has(call, OPT_INTERACTIVE))
		exec.input = (struct str){input.at ? input.at : "", input.len};
	TRY(body_create(call, &create));
	TRY(body_execute(call, &exec, &body));
	interrupt_arm(call->loop, task_current());
	err = reach(call, &remote, &alone);
	if (!err)
		err = in_a_box(call, &remote, &create, &body);
	if (err && interrupt_signal())
		call->exit = EXIT_SIGNALED + interrupt_signal();
	if (alone) {
		task_shield(true);
		alone_stop(alone);
	}
	return err;
}
