// Routes for agent sessions. Bodies are in snake_case, times in Unix milliseconds. Unknown fields
// are refused.
//
// The events of a run are the lines of its log. Each has an id, the offset after its line: a client
// that resumes with it, as `offset` or as Last-Event-ID, continues there, even after a restart of
// the daemon.
#include "api/sessions.h"

#include <stdio.h>

#include "agent/session.h"
#include "base/clock.h"
#include "base/mem.h"
#include "codec/sse.h"
#include "codec/text.h"
#include "gateway/gateway.h"
#include "http/upgrade.h"
#include "manager/access.h"

#define REPLY_MAX (4 << 20)
#define PAGE_DEFAULT 100
#define PAGE_MAX 1000
#define TIMEOUT_MAX (30ull * 24 * 3600 * 1000)
#define READ 16384

static fallible agents_of(const struct http *x, struct agent_sessions **out)
{
	*out = gateway_of(x)->agents;
	if (*out)
		return OK;
	return err_new(UNAVAILABLE, "state_corrupt", "the stored sessions cannot be read");
}

static void write_room(struct json_out *out, const struct agent_refusal *room)
{
	json_begin(out, '{');
	json_put_int(out, "available_mb", (int64_t)(room->available >> 20));
	json_put_int(out, "threshold_mb", (int64_t)(room->threshold >> 20));
	json_put_int(out, "cleaned", room->cleaned);
	json_put_int(out, "skipped", room->skipped);
	json_end(out, '}');
}

// A refused cold start reports the numbers of the admission check.
static fallible sessions_explain(struct http *x, struct agent_sessions *agents, struct err *err)
{
	struct agent_refusal why = agents_refusal(agents);
	auto_buf context = BUF_INIT(512);
	struct json_out out = json_to(&context);
	struct error_response_detail detail = {0};

	if (!err || strncmp(err_reason(err), "capacity_", 9) != 0)
		return err;
	write_room(&out, &why);
	detail.context = buf_view(&context);
	return error_response_answer(x, err, &detail);
}

// ------------------------------------------------------------------------------- create

// Reads an owner's id or an alias. A NUL is refused here, because the id may become a C string;
// other control characters are refused later.
static fallible sessions_read_id(const struct json *value, const char *what, struct str *out)
{
	struct str id;

	if (!value)
		return OK;
	TRY(json_want(value, what, JSON_STRING));
	id = json_chars(value);
	if (memchr(id.at, 0, id.len))
		return owner_check_part(id, what);
	*out = id;
	return OK;
}

static fallible sessions_read_owner(const struct json *object, struct owner *out)
{
	TRY(sessions_read_id(json_get(object, "org"), "org", &out->org));
	TRY(sessions_read_id(json_get(object, "user"), "user", &out->user));
	TRY(sessions_read_id(json_get(object, "bot"), "bot", &out->bot));
	return sessions_read_id(json_get(object, "session"), "session", &out->session);
}

static fallible read_isolation(const struct json *object, bool *out)
{
	struct str word = STR("shared");

	TRY(json_str(json_get(object, "isolation"), "isolation", &word));
	*out = str_is(word, "session");
	if (*out || str_is(word, "shared"))
		return OK;
	return err_new(INVALID, "bad_field", "'isolation' must be session or shared");
}

static fallible read_aliases(const struct json *array, struct agent_spec *out)
{
	if (!array)
		return OK;
	TRY(json_want(array, "aliases", JSON_ARRAY));
	if (json_count(array) > AGENT_ALIASES_MAX)
		return err_new(INVALID, "bad_field", "'aliases' has more than %d",
			       AGENT_ALIASES_MAX);
	for (size_t i = 0; i < json_count(array); i++) {
		struct str alias = {0};

		TRY(sessions_read_id(json_at(array, i), "alias", &alias));
		if (!alias.at)
			return err_new(INVALID, "bad_field", "'aliases' must be strings");
		out->aliases[out->alias_count++] = alias;
	}
	return OK;
}

static fallible read_runner(struct http *x, const struct json *object, struct agent_spec *out,
			    struct env_map *env)
{
	static const char *const known[] = {"argv", "env", NULL};
	const struct json *argv;
	size_t count;

	if (!object)
		return err_new(INVALID, "bad_field", "'runner' is missing");
	TRY(json_want(object, "runner", JSON_OBJECT));
	TRY(json_only(object, known));
	TRY(env_map_read_env(json_get(object, "env"), env));
	argv = json_get(object, "argv");
	if (!argv)
		return err_new(INVALID, "bad_field", "'runner.argv' is missing");
	TRY(json_want(argv, "runner.argv", JSON_ARRAY));
	count = json_count(argv);
	if (!count || count > AGENT_ARGS_MAX)
		return err_new(INVALID, "bad_field", "'runner.argv' must have 1 to %d words",
			       AGENT_ARGS_MAX);
	out->argv = arena_take(x->arena, (count + 1) * sizeof(*out->argv));
	for (size_t i = 0; i < count; i++) {
		struct str word = {0};

		TRY(json_str(json_at(argv, i), "runner.argv", &word));
		if (!word.at)
			return err_new(INVALID, "bad_field", "'runner.argv' must be strings");
		out->argv[i] = arena_dup(x->arena, word.at, word.len);
	}
	out->env = env;
	return OK;
}

// Reports what was cleaned up to make room.
static void write_cleaned(struct buf *body, const struct agent_sessions *agents, bool made)
{
	struct agent_refusal room = agents_refusal(agents);
	struct json_out out;

	if (!made || (!room.cleaned && !room.skipped) || !buf_ok(body))
		return;
	body->len--; // the closing brace
	buf_text(body, ",\"capacity\":");
	out = json_to(body);
	write_room(&out, &room);
	buf_char(body, '}');
}

fallible api_sessions_create(struct http *x)
{
	static const char *const known[] = {"org",     "user",	 "bot",	     "session", "isolation",
					    "aliases", "runner", "template", "network", "secrets",
					    "profile", "files",	 "image",    "volumes", NULL};
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	auto_choices choices = {0};
	struct agent_spec spec = {0};
	struct create_grant grant;
	auto_pairs env = {0};
	auto_json json = NULL;
	struct agent_sessions *agents;
	struct agent_session *agent;
	struct err *err;
	bool made;

	TRY(agents_of(x, &agents));
	TRY(access_create(gateway_who(x), &grant));
	TRY(gateway_json(x, &json, NULL));
	TRY(json_want(json, "body", JSON_OBJECT));
	TRY(json_only(json, known));
	TRY(sessions_read_owner(json, &spec.owner));
	TRY(read_isolation(json, &spec.isolated));
	TRY(read_aliases(json_get(json, "aliases"), &spec));
	TRY(read_runner(x, json_get(json, "runner"), &spec, &env));
	TRY(choices_read(json, &choices));
	spec.choices = choices;
	err = agents_create(agents, &grant, &spec, &agent, &made);
	if (err)
		return sessions_explain(x, agents, err);
	agent_write(&out, agent, gateway_who(x));
	write_cleaned(&body, agents, made);
	http_set(x, "Location",
		 str_of(arena_fmt(x->arena, "/v1/agent-sessions/%s",
				  agent_name(agent, gateway_who(x)))));
	return http_reply_json(x, made ? 201 : 200, &body);
}

// -------------------------------------------------------------------------------- shown

static fallible sessions_find(struct http *x, bool even, struct agent_session **out)
{
	struct agent_sessions *agents;

	TRY(agents_of(x, &agents));
	return agents_find(agents, gateway_who(x), x->params[0], even, out);
}

fallible api_sessions_get(struct http *x)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	auto_agent agent = NULL;

	TRY(sessions_find(x, true, &agent));
	agent_write(&out, agent, gateway_who(x));
	return http_reply_json(x, 200, &body);
}

static fallible read_limit(struct http *x, uint64_t *out)
{
	struct str limit = http_query(x, "limit");

	*out = PAGE_DEFAULT;
	if (!limit.at || str_to_u64(limit, 1, PAGE_MAX, out))
		return OK;
	return err_new(INVALID, "bad_field", "'limit' must be within 1 and %d", PAGE_MAX);
}

fallible api_sessions_list(struct http *x)
{
	struct str cursor = http_query(x, "cursor");
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	struct agent_sessions *agents;
	uint64_t max;

	TRY(agents_of(x, &agents));
	TRY(access_ask(gateway_who(x), ACCESS_READ));
	TRY(read_limit(x, &max));
	agents_write_page(agents, gateway_who(x), cursor, max, &out);
	return http_reply_json(x, 200, &body);
}

fallible api_sessions_delete(struct http *x)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	auto_agent agent = NULL;
	bool gone;

	TRY(access_ask(gateway_who(x), ACCESS_MAKE));
	TRY(sessions_find(x, true, &agent));
	TRY(agent_delete(agent, &gone));
	if (gone)
		return http_reply_empty(x, 204);
	agent_write(&out, agent, gateway_who(x));
	return http_reply_json(x, 202, &body);
}

fallible api_sessions_logs(struct http *x)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	auto_agent agent = NULL;

	TRY(access_ask(gateway_who(x), ACCESS_USE));
	TRY(sessions_find(x, true, &agent));
	agent_write_logs(agent, gateway_who(x), &out);
	return http_reply_json(x, 200, &body);
}

static void put_query(struct buf *query, const char *key, struct str value, const char *otherwise)
{
	buf_fmt(query, "&%s=", key);
	text_percent(query, value.len ? value : str_of(otherwise));
}

// A session has one terminal, in its own directories, by which its processes are identified: it has
// no runner's marks. The request is passed to the sandbox's own terminal route, with its
// connection.
fallible api_sessions_terminal(struct http *x)
{
	auto_buf query = BUF_INIT(HTTP1_HEAD_MAX);
	const struct route *route = NULL;
	auto_agent agent = NULL;
	const char *name;
	struct err *err;

	TRY(access_ask(gateway_who(x), ACCESS_USE));
	TRY(upgrade_check(x));
	TRY(sessions_find(x, false, &agent));
	err = agent_enter(agent);
	if (err)
		return sessions_explain(x, gateway_of(x)->agents, err);
	name = agent_directory(agent);
	buf_fmt(&query, "terminal=%s&cwd=/workspace/%s&env=COVE_WORKSPACE=/workspace/%s", name,
		name, name);
	buf_fmt(&query, "&env=HOME=/home/%s&env=COVE_DIRECTORY=%s", name, name);
	put_query(&query, "command", http_query(x, "shell"), "bash");
	put_query(&query, "cols", http_query(x, "cols"), "80");
	put_query(&query, "rows", http_query(x, "rows"), "24");
	if (!buf_ok(&query))
		return err_new(INVALID, "bad_field", "'shell' is too long");
	x->url.path = str_of(arena_fmt(x->arena, "/v1/sandboxes/%s/ws/pty", agent_box(agent)));
	x->url.query = (struct str){arena_dup(x->arena, query.at, query.len), query.len};
	TRY(router_find(gateway_of(x)->routes, x, &route));
	return route->handle(x);
}

// --------------------------------------------------------------------------------- runs

// A part of the body as sent: the runner gets exactly these bytes.
static struct str sessions_raw(struct http *x, const struct json *value)
{
	auto_buf buf = BUF_INIT(AGENT_INPUT_MAX * 2);
	struct json_out out = json_to(&buf);

	if (!value)
		return STR("null");
	json_add_value(&out, value);
	if (!buf_ok(&buf))
		return (struct str){0};
	return (struct str){arena_dup(x->arena, buf.at, buf.len), buf.len};
}

fallible api_sessions_run(struct http *x)
{
	static const char *const known[] = {"input", "env", "timeout", NULL};
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	struct agent_run_spec spec = {0};
	auto_agent agent = NULL;
	auto_pairs env = {0};
	auto_json json = NULL;
	struct err *err;

	TRY(access_ask(gateway_who(x), ACCESS_USE));
	TRY(sessions_find(x, false, &agent));
	TRY(gateway_json(x, &json, NULL));
	TRY(json_want(json, "body", JSON_OBJECT));
	TRY(json_only(json, known));
	TRY(env_map_read_env(json_get(json, "env"), &env));
	TRY(json_u64(json_get(json, "timeout"), "timeout", 0, TIMEOUT_MAX, &spec.timeout_ms));
	spec.input = sessions_raw(x, json_get(json, "input"));
	spec.env = &env;
	if (!spec.input.at || spec.input.len > AGENT_INPUT_MAX)
		return err_new(TOO_LARGE, "input_too_large", "'input' is larger than %d bytes",
			       AGENT_INPUT_MAX);
	err = agent_run(agent, gateway_who(x), &spec, &out);
	if (err)
		return sessions_explain(x, gateway_of(x)->agents, err);
	return http_reply_json(x, 202, &body);
}

fallible api_sessions_runs(struct http *x)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	auto_agent agent = NULL;
	uint64_t max;

	TRY(sessions_find(x, true, &agent));
	TRY(read_limit(x, &max));
	TRY(agent_write_runs(agent, gateway_who(x), http_query(x, "cursor"), max, &out));
	return http_reply_json(x, 200, &body);
}

fallible api_sessions_get_run(struct http *x)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	auto_agent agent = NULL;

	TRY(sessions_find(x, true, &agent));
	TRY(agent_write_run(agent, gateway_who(x), x->params[1], &out));
	return http_reply_json(x, 200, &body);
}

fallible api_sessions_interrupt(struct http *x)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	auto_agent agent = NULL;

	TRY(access_ask(gateway_who(x), ACCESS_USE));
	TRY(sessions_find(x, false, &agent));
	TRY(agent_interrupt(agent));
	agent_write(&out, agent, gateway_who(x));
	return http_reply_json(x, 202, &body);
}

fallible api_sessions_answer(struct http *x)
{
	static const char *const known[] = {"question", "answer", NULL};
	struct str question = {0}, answer;
	auto_agent agent = NULL;
	auto_json json = NULL;

	TRY(access_ask(gateway_who(x), ACCESS_USE));
	TRY(sessions_find(x, false, &agent));
	TRY(gateway_json(x, &json, NULL));
	TRY(json_want(json, "body", JSON_OBJECT));
	TRY(json_only(json, known));
	TRY(json_str(json_get(json, "question"), "question", &question));
	answer = sessions_raw(x, json_get(json, "answer"));
	if (!answer.at)
		return err_new(TOO_LARGE, "answer_too_large", "'answer' is too large");
	TRY(agent_answer(agent, question, answer));
	return http_reply_empty(x, 202);
}

// -------------------------------------------------------------------------------- events

struct stream_of {
	struct http *x;
	struct tape_reader reader;
	uint64_t offset; // of the first line
	struct buf line, out;
};

// A line is {"type":"…", and its type is the event's name.
static struct str sessions_type_of(struct str line)
{
	struct str rest = str_skip(line, line.len < 9 ? line.len : 9), type = {0};

	str_cut(&rest, '"', &type);
	return type;
}

// An event's id is the offset after its line. A line that is not kept (`kept` is false) has no
// offset: its id is that of the line before.
static void tell_lines(struct stream_of *of, bool kept)
{
	const char *end;

	while (of->line.len && (end = memchr(of->line.at, '\n', of->line.len))) {
		size_t len = (size_t)(end - of->line.at);
		struct str line = {of->line.at, len};
		uint64_t rest = kept ? of->line.len - len - 1 : 0;
		char id[24];

		snprintf(id, sizeof(id), "%llu", (unsigned long long)(of->reader.offset - rest));
		if (agent_log_line_is_whole(line))
			sse_put(&of->out, sessions_type_of(line), str_of(id), line);
		buf_drop_front(&of->line, len + 1);
	}
}

static fallible sessions_flush(struct stream_of *of)
{
	if (!buf_ok(&of->out) || !buf_ok(&of->line))
		return err_new(INTERNAL, "internal", "an event did not fit");
	if (of->out.len)
		TRY(http_write(of->x, of->out.at, of->out.len));
	buf_clear(&of->out);
	return OK;
}

static fallible sessions_read_some(struct stream_of *of, char *room, bool *out_end)
{
	uint64_t passed = of->reader.passed;
	enum tape_stream stream;
	size_t got = 0;

	TRY(http_while_away(of->x, HTTP_PROBE_EVENT,
			    tape_read_on(&of->reader, &stream, room, READ, &got, CLOCK_NEVER)));
	*out_end = got == 0;
	// A cut mark that was not kept either: this reader already has the lines.
	if (passed != of->reader.passed && str_starts((struct str){room, got}, AGENT_CUT_MARK))
		return OK;
	buf_add(&of->line, room, got);
	tell_lines(of, passed == of->reader.passed);
	return sessions_flush(of);
}

static fallible sessions_send(struct stream_of *of)
{
	char *room = arena_take(of->x->arena, READ);
	bool end = false;

	http_set(of->x, "Cache-Control", STR("no-cache"));
	TRY(http_begin(of->x, 200, "text/event-stream"));
	while (!end)
		TRY(sessions_read_some(of, room, &end));
	return http_end(of->x);
}

fallible api_sessions_events(struct http *x)
{
	struct str from = http_query(x, "offset");
	struct stream_of of = {
		.x = x,
		.line = BUF_INIT(AGENT_INPUT_MAX * 3),
		.out = BUF_INIT(AGENT_INPUT_MAX * 6),
	};
	auto_agent agent = NULL;
	auto_tape tape = NULL;
	struct err *err;

	TRY(access_ask(gateway_who(x), ACCESS_USE));
	if (!from.at)
		from = http_field(x, "Last-Event-ID");
	if (from.at && from.len && !str_to_u64(from, 0, INT64_MAX, &of.offset))
		return err_new(INVALID, "bad_offset", "'offset' is not a number");
	TRY(sessions_find(x, true, &agent));
	TRY(agent_log(agent, x->params[1], &tape));
	if (of.offset > tape_kept(tape))
		return err_new(INVALID, "bad_offset", "the offset is past the end of the log");
	tape_attach(&of.reader, tape, of.offset);
	err = sessions_send(&of);
	tape_detach(&of.reader);
	buf_done(&of.line);
	buf_done(&of.out);
	return err;
}
