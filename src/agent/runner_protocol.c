// Parser and writer of the runner protocol: one JSON object per line. The parser does no I/O and
// bounds every field; a message that lacks a required field is INVALID as a whole.
#include "agent/runner_protocol.h"

#include <stdlib.h>

#include "base/mem.h"

#define NUMBER_MAX (1ull << 53)

static const char *const kinds[] = {
#define X(name, word) [RUNNER_##name] = word,
	RUNNER_KINDS(X)
#undef X
};

void runner_free(struct runner_message *message)
{
	if (!message)
		return;
	json_free(message->tree);
	free(message);
}

static fallible find_kind(const struct json *tree, enum runner_kind *out)
{
	struct str type = {0};

	TRY(json_str(json_get(tree, "type"), "type", &type));
	for (int i = 0; i < RUNNER_KIND_COUNT; i++) {
		if (str_is(type, kinds[i])) {
			*out = (enum runner_kind)i;
			return OK;
		}
	}
	return err_new(INVALID, "bad_message", "the runner sent an unknown message type");
}

static fallible want(struct str text, const char *what, size_t max)
{
	if (text.at && text.len && text.len <= max)
		return OK;
	return err_new(INVALID, "bad_message", "a message of the runner lacks '%s'", what);
}

static fallible read_hello(const struct json *tree, struct runner_message *out)
{
	uint64_t port = 0;

	TRY(json_str(json_get(tree, "session"), "session", &out->session));
	TRY(json_str(json_get(tree, "instance"), "instance", &out->instance));
	TRY(json_str(json_get(tree, "version"), "version", &out->version));
	TRY(json_u64(json_get(tree, "generation"), "generation", 0, NUMBER_MAX, &out->generation));
	TRY(json_u64(json_get(tree, "protocol"), "protocol", 0, NUMBER_MAX, &out->protocol));
	TRY(json_u64(json_get(tree, "port"), "port", 0, UINT16_MAX, &port));
	out->port = (uint16_t)port;
	return OK;
}

static fallible agent_runner_read_run(const struct json *tree, struct runner_message *out)
{
	TRY(want(out->run, "run", LEASE_RUN_LEN));
	TRY(json_u64(json_get(tree, "run_generation"), "run_generation", 0, NUMBER_MAX,
		     &out->run_generation));
	TRY(json_u64(json_get(tree, "seq"), "seq", 0, NUMBER_MAX, &out->seq));
	if (out->kind == RUNNER_QUESTION) {
		TRY(json_str(json_get(tree, "question"), "question", &out->question));
		TRY(want(out->question, "question", RUNNER_ID_MAX));
	}
	if (out->kind == RUNNER_RESULT) {
		TRY(json_str(json_get(tree, "status"), "status", &out->status));
		if (!str_is(out->status, "completed") && !str_is(out->status, "failed") &&
		    !str_is(out->status, "interrupted"))
			return err_new(INVALID, "bad_message", "a result has no known status");
	}
	if (out->kind >= RUNNER_OUTPUT && out->kind <= RUNNER_RESULT && !out->seq)
		return err_new(INVALID, "bad_message", "a message of the runner lacks 'seq'");
	return OK;
}

static fallible read_fields(const struct json *tree, struct runner_message *out)
{
	TRY(json_want(tree, "line", JSON_OBJECT));
	TRY(find_kind(tree, &out->kind));
	TRY(json_u64(json_get(tree, "connection"), "connection", 0, NUMBER_MAX, &out->connection));
	TRY(json_str(json_get(tree, "run"), "run", &out->run));
	switch (out->kind) {
	case RUNNER_HELLO:
		return read_hello(tree, out);
	case RUNNER_PONG:
		return json_u64(json_get(tree, "number"), "number", 0, NUMBER_MAX, &out->number);
	case RUNNER_HEARTBEAT:
		return OK;
	default:
		return agent_runner_read_run(tree, out);
	}
}

fallible runner_read(struct str line, struct runner_message **out)
{
	struct runner_message *message;
	struct json *tree = NULL;
	struct err *err;

	TRY(json_read(line, &tree));
	message = mem_new_of(struct runner_message);
	message->tree = tree;
	message->bytes = line.len;
	err = read_fields(tree, message);
	if (err) {
		runner_free(message);
		return err;
	}
	*out = message;
	return OK;
}

// ------------------------------------------------------------------------------- saying

static struct json_out agent_runner_begin(struct buf *out, const char *type)
{
	struct json_out json = json_to(out);

	json_begin(&json, '{');
	json_put_text(&json, "type", type);
	return json;
}

static void end(struct buf *out, struct json_out *json)
{
	json_end(json, '}');
	buf_char(out, '\n');
}

static void put_fence(struct json_out *json, const struct run *run)
{
	json_put_text(json, "run", run->id);
	json_put_int(json, "run_generation", (int64_t)run->run_generation);
}

// An empty line first: the previous daemon may have been cut off within a line.
void runner_attach(struct buf *out, const struct agent_session *agent, uint64_t connection,
		   uint64_t seq)
{
	struct json_out json;

	buf_char(out, '\n');
	json = agent_runner_begin(out, "attach");
	json_put_int(&json, "protocol", RUNNER_PROTOCOL);
	json_put_text(&json, "session", agent->id);
	json_put_text(&json, "instance", agent->lease.instance);
	json_put_int(&json, "generation", (int64_t)agent->lease.generation);
	json_put_int(&json, "connection", (int64_t)connection);
	json_put_int(&json, "seq", (int64_t)seq);
	end(out, &json);
}

void runner_run(struct buf *out, const struct run *run, uint64_t connection)
{
	struct json_out json = agent_runner_begin(out, "run");

	put_fence(&json, run);
	json_put_int(&json, "connection", (int64_t)connection);
	json_key(&json, "input");
	json_add_raw(&json, run->input);
	json_key(&json, "env");
	env_map_write(&json, &run->env);
	json_put_int(&json, "timeout_ms", (int64_t)run->timeout_ms);
	end(out, &json);
}

void runner_ack(struct buf *out, const struct run *run, uint64_t seq)
{
	struct json_out json = agent_runner_begin(out, "ack");

	json_put_text(&json, "run", run->id);
	json_put_int(&json, "seq", (int64_t)seq);
	end(out, &json);
}

void runner_ping(struct buf *out, uint64_t number)
{
	struct json_out json = agent_runner_begin(out, "ping");

	json_put_int(&json, "number", (int64_t)number);
	end(out, &json);
}

void runner_interrupt(struct buf *out, const struct run *run)
{
	struct json_out json = agent_runner_begin(out, "interrupt");

	put_fence(&json, run);
	end(out, &json);
}

void runner_answer(struct buf *out, const struct run *run, struct str question, struct str answer)
{
	struct json_out json = agent_runner_begin(out, "answer");

	put_fence(&json, run);
	json_put_str(&json, "question", question);
	json_key(&json, "answer");
	json_add_raw(&json, answer);
	end(out, &json);
}
