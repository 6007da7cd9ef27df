// Process sessions: shells that keep their state, and the commands that run in them one after
// another. A synchronous command reads end-of-file; an asynchronous one has a stdin that does not
// end. The log of a command is its tape: a follower gets it from the first byte, and its WebSocket
// is closed once the exit code can be read.
#include "daytona/commands.h"
#include "daytona/handlers.h"
#include "daytona/output.h"
#include "gateway/cancel_on_delete.h"
#include "http/upgrade.h"

#define BODY_MAX (8 << 20)
#define PIECE (32 * 1024)
#define INPUT_MAX (1 << 20)
#define INPUT_MS 10000
#define RESERVED "entrypoint"
#define SPLIT_SINCE 167 // the minor version of the SDK from which the server splits the output

static fallible session_box(struct http *x, struct box_ref *ref)
{
	TRY(gateway_box(x, ref));
	return commands_recover(x, ref);
}

// A session whose shell has ended goes on with a new shell.
static fallible session_look_up(struct http *x, struct box_ref *ref, struct session **out)
{
	struct str id = x->params[1];

	TRY(session_box(x, ref));
	*out = session_find(ref->box, id);
	if (*out && session_is_alive(*out))
		return OK;
	if (*out)
		session_unref(take_ptr(*out));
	return commands_know(x, ref, id) ? shells_take(ref, id, out)
					 : err_absent("no_session", "session", id);
}

static fallible session_command(struct http *x, struct box_ref *ref, struct command **out)
{
	TRY(session_box(x, ref));
	return commands_find(x, ref, x->params[1], x->params[2], out);
}

fallible daytona_session_create(struct http *x)
{
	struct shells_spec spec = {0};
	auto_session session = NULL;
	auto_box_ref ref = {0};
	auto_json body = NULL;
	struct str id = {0};

	TRY(gateway_object(x, &body));
	TRY(json_str(json_get(body, "sessionId"), "sessionId", &id));
	if (!id.len || str_is(id, RESERVED))
		return err_new(INVALID, "bad_field", "'sessionId' is missing or reserved");
	TRY(session_box(x, &ref));
	if (commands_know(x, &ref, id))
		return err_new(CONFLICT, "session_exists", "the session exists");
	TRY(shells_create(&ref, id, &spec, &session));
	commands_keep(x, &ref, id);
	return http_reply_empty(x, 201);
}

static void put_command(const struct command *command, void *arg)
{
	struct json_out *out = arg;

	json_begin(out, '{');
	json_put_text(out, "id", command->id);
	json_put_text(out, "command", command->text);
	if (command->is_over)
		json_put_int(out, "exitCode", command->exit_code);
	json_end(out, '}');
}

struct session_writer {
	struct http *x;
	const struct box_ref *ref;
	struct json_out out;
};

static void session_put(struct session *session, void *arg)
{
	struct session_writer *writer = arg;

	json_begin(&writer->out, '{');
	json_put_text(&writer->out, "sessionId", session_id(session));
	json_put_begin(&writer->out, "commands", '[');
	commands_each(writer->x, writer->ref, str_of(session_id(session)), put_command,
		      &writer->out);
	json_end(&writer->out, ']');
	json_end(&writer->out, '}');
}

fallible daytona_session_list(struct http *x)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	auto_box_ref ref = {0};
	struct session_writer writer = {x, &ref, json_to(&body)};

	TRY(session_box(x, &ref));
	json_begin(&writer.out, '[');
	session_each(ref.box, session_put, &writer);
	json_end(&writer.out, ']');
	return http_reply_json(x, 200, &body);
}

fallible daytona_session_get(struct http *x)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	auto_session session = NULL;
	auto_box_ref ref = {0};
	struct session_writer writer = {x, &ref, json_to(&body)};

	TRY(session_look_up(x, &ref, &session));
	session_put(session, &writer);
	return http_reply_json(x, 200, &body);
}

fallible daytona_session_delete(struct http *x)
{
	auto_session session = NULL;
	auto_box_ref ref = {0};

	TRY(session_look_up(x, &ref, &session));
	TRY(session_delete(session, true));
	commands_forget(x, &ref, x->params[1]);
	return http_reply_empty(x, 204);
}

// ---------------------------------------------------------------------------------------- commands

static fallible put_output(struct output *output, struct tape *tape, uint64_t until)
{
	static const struct {
		const char *text;
		enum output_part part;
	} members[] = {{"\"output\":\"", OUTPUT_MARKED},
		       {"\",\"stdout\":\"", OUTPUT_STDOUT},
		       {"\",\"stderr\":\"", OUTPUT_STDERR}};

	for (size_t i = 0; i < sizeof(members) / sizeof(*members); i++) {
		buf_text(&output->out, members[i].text);
		TRY(output_add(output, tape, until, members[i].part));
	}
	buf_char(&output->out, '"');
	return OK;
}

static fallible answer_queued(struct http *x, const struct command *command)
{
	auto_buf body = BUF_INIT(1024);
	struct json_out out = json_to(&body);

	json_begin(&out, '{');
	json_put_text(&out, "cmdId", command->id);
	json_end(&out, '}');
	return http_reply_json(x, 202, &body);
}

static fallible answer_ended(struct http *x, const struct command *command)
{
	auto_output output = {.x = x, .out = BUF_INIT(OUTPUT_OUT_MAX)};

	buf_fmt(&output.out, "{\"cmdId\":\"%s\",\"exitCode\":%d,", command->id, command->exit_code);
	TRY(put_output(&output, command->tape, tape_kept(command->tape)));
	buf_char(&output.out, '}');
	return output_end(&output);
}

fallible daytona_session_exec(struct http *x)
{
	bool is_async = false, was_async = false;
	struct commands_spec spec = {0};
	auto_session session = NULL;
	auto_command command = NULL;
	auto_box_ref ref = {0};
	auto_json body = NULL;

	TRY(gateway_object(x, &body));
	TRY(json_str(json_get(body, "command"), "command", &spec.text));
	TRY(json_bool(json_get(body, "runAsync"), "runAsync", &is_async));
	TRY(json_bool(json_get(body, "async"), "async", &was_async)); // its older name
	if (!str_trim(spec.text).len)
		return err_new(INVALID, "bad_command", "'command' is empty");
	TRY(session_look_up(x, &ref, &session));
	spec.takes_input = is_async || was_async;
	TRY(commands_start(x, &ref, session, &spec, &command));
	if (spec.takes_input)
		return answer_queued(x, command);
	auto_cancel_on_delete cancel_on_delete = cancel_on_delete_begin_reader(ref.entry, x);

	http_be_patient(x);
	TRY(http_while_away(x, HTTP_PROBE_HEAD, command_wait(command)));
	return answer_ended(x, command);
}

fallible daytona_session_command(struct http *x)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out out = json_to(&body);
	auto_command command = NULL;
	auto_box_ref ref = {0};

	TRY(session_command(x, &ref, &command));
	put_command(command, &out);
	return http_reply_json(x, 200, &body);
}

// ------------------------------------------------------------------------------------------- input

static fallible input_text(struct http *x, struct str *out)
{
	auto_json body = NULL;
	struct str data;

	TRY(gateway_object(x, &body));
	data = json_chars(json_get(body, "data"));
	if (data.len > INPUT_MAX)
		return err_new(TOO_LARGE, "body_too_large", "'data' may have %d bytes", INPUT_MAX);
	*out = str_of(
		arena_fmt(x->arena, STR_FMT "%s", STR_ARG(data), str_ends(data, "\n") ? "" : "\n"));
	return OK;
}

// The FIFO is opened by a process of the sandbox, which waits until the command reads it.
fallible daytona_session_input(struct http *x)
{
	const char *argv[] = {"sh", "-c", "[ -p \"$1\" ] && exec cat >\"$1\"", "sh", NULL, NULL};
	struct manager_exec_spec spec = {.argv = argv, .wall_ms = INPUT_MS};
	struct exec_result result;
	auto_manager_exec run = NULL;
	auto_command command = NULL;
	auto_box_ref ref = {0};

	TRY(input_text(x, &spec.stdin_bytes));
	TRY(session_command(x, &ref, &command));
	if (command->is_over)
		return err_new(GONE, "command_ended", "the command has ended");
	if (!command->takes_input)
		return err_hint(err_new(CONFLICT, "stdin_closed", "the command takes no input"),
				"run it with runAsync");
	argv[4] = command_input(x, command);
	TRY(manager_exec_start(gateway_of(x)->manager, gateway_who(x), x->params[0], &spec, &run));
	TRY(http_while_away(x, HTTP_PROBE_HEAD, manager_exec_wait(run, &result)));
	if (result.ending == ENDING_WALL_LIMIT)
		return err_new(TIMEOUT, "stdin_full", "the command does not read its input");
	if (result.exit_code != 0)
		return err_new(GONE, "command_ended",
			       "the command does not read its input any more");
	return http_reply_empty(x, 204);
}

// -------------------------------------------------------------------------------------------- logs

struct log_follower {
	int refs;
	struct task *sender; // NULL: it has ended
	struct command *command;
	struct wsock *ws;
};

static void log_follower_drop(struct log_follower *follower)
{
	if (--follower->refs > 0)
		return;
	command_unref(follower->command);
	wsock_unref(follower->ws);
	free(follower);
}

// Each frame has bytes of one stream. Clients keep the mark until the next one: it is repeated when
// the stream changes.
static fallible log_send(struct log_follower *follower, struct tape_reader *reader, char *room)
{
	enum tape_stream stream, before = TAPE_STREAMS;
	size_t len = 1;

	while (len) {
		char *bytes = room + strlen(OUTPUT_MARK_STDOUT);

		TRY(tape_read_on(reader, &stream, bytes, PIECE, &len, CLOCK_NEVER));
		if (len && stream != before) {
			memcpy(room,
			       stream == TAPE_STDERR ? OUTPUT_MARK_STDERR : OUTPUT_MARK_STDOUT,
			       strlen(OUTPUT_MARK_STDOUT));
			bytes = room;
			len += strlen(OUTPUT_MARK_STDOUT);
			before = stream;
		}
		if (len)
			TRY(wsock_send(follower->ws, WSOCK_BINARY, (struct str){bytes, len}));
	}
	return command_wait(follower->command);
}

static void log_sender_task(void *arg)
{
	struct log_follower *follower = arg;
	struct tape_reader reader = {0};
	char *room = mem_new(PIECE + 16);
	auto_err err = NULL;

	tape_attach(&reader, follower->command->tape, 0);
	err = log_send(follower, &reader, room);
	tape_detach(&reader);
	if (!err || err_kind(err) != ERR_CANCELLED)
		wsock_close(follower->ws, err ? WS_INTERNAL : WS_NORMAL,
			    err ? err_reason(err) : "the command has ended");
	free(room);
	follower->sender = NULL;
	log_follower_drop(follower);
}

static fallible log_talk(struct http *x, struct wsock *ws, void *arg)
{
	struct log_follower *follower = mem_new_of(struct log_follower);
	struct wsock_message message = {.kind = WSOCK_TEXT};
	struct err *err = OK;

	(void)x;
	follower->refs = 2;
	follower->command = arg; // takes the reference
	follower->ws = ws;
	wsock_ref(ws);
	follower->sender = task_start(task_loop(), "daytona.log", log_sender_task, follower);
	while (!err && message.kind != WSOCK_CLOSED)
		err = wsock_recv(ws, CLOCK_NEVER, &message);
	if (follower->sender)
		task_cancel(follower->sender);
	log_follower_drop(follower);
	return err;
}

static fallible log_follow(struct http *x, const struct box_ref *ref, struct command **command)
{
	auto_cancel_on_delete cancel_on_delete = cancel_on_delete_begin_reader(ref->entry, x);

	TRY(upgrade_check(x));
	return upgrade_run(x, NULL, log_talk, take_ptr(*command));
}

static bool splits_itself(const struct http *x)
{
	struct str version = http_field(x, "X-Daytona-SDK-Version"), major, minor;
	uint64_t number = 0;

	str_cut(&version, '.', &major);
	str_cut(&version, '.', &minor);
	return str_is(major, "0") && str_to_u64(minor, 0, 1000000, &number) && number < SPLIT_SINCE;
}

fallible daytona_session_logs(struct http *x)
{
	auto_output output = {.x = x, .out = BUF_INIT(OUTPUT_OUT_MAX)};
	auto_command command = NULL;
	auto_box_ref ref = {0};
	uint64_t until;

	TRY(session_command(x, &ref, &command));
	if (http_has_token(http_field(x, "Upgrade"), STR("websocket")))
		return log_follow(x, &ref, &command);
	auto_cancel_on_delete cancel_on_delete = cancel_on_delete_begin_reader(ref.entry, x);

	until = tape_kept(command->tape);
	http_be_patient(x);
	if (splits_itself(x)) {
		TRY(output_add_raw(&output, command->tape, until));
		return output.begun ? output_end(&output)
				    : http_reply(x, 200, "text/plain", buf_view(&output.out));
	}
	buf_char(&output.out, '{');
	TRY(put_output(&output, command->tape, until));
	buf_char(&output.out, '}');
	return output_end(&output);
}
