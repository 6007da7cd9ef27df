// Sessions: a shell that keeps its state, and commands in it. Output is in one answer, not a
// stream. A timeout is reported like that of a separate command, although the server's answers
// differ.
#include "base/mem.h"
#include "lib/box.h"
#include "lib/fields.h"
#include "lib/sink.h"

#define BODY_MAX ((size_t)4 << 20)
#define LATE_MAX ((size_t)32 << 10) // of each stream, with a timeout

struct cove_session {
	struct cove_box *box;
	char *id;
};

struct cove_session *cove_session_at(struct cove_box *box, const char *id)
{
	struct cove_session *session = mem_new_of(struct cove_session);

	session->box = box;
	session->id = mem_str(id);
	return session;
}

const char *cove_session_id(const struct cove_session *session)
{
	return session->id;
}

void cove_session_free(struct cove_session *session)
{
	if (!session)
		return;
	free(session->id);
	free(session);
}

static fallible lib_session_create(struct cove_box *box, const struct cove_session_options *options,
				   struct cove_session **out)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	auto_json answer = NULL;
	struct json_out json = json_to(&body);

	json_begin(&json, '{');
	if (options->id)
		json_put_text(&json, "id", options->id);
	if (options->cwd)
		json_put_text(&json, "cwd", options->cwd);
	if (options->timeout_ms > 0)
		json_put_int(&json, "commandTimeoutMs", options->timeout_ms);
	TRY(fields_pairs(&json, "env", options->env));
	json_end(&json, '}');
	TRY(lib_box_post(box, "/api/session/create", &body, &answer));
	if (!*fields_text(answer, "id") && !options->id)
		return err_new(BAD_PEER, "bad_reply", "the daemon made a session but gave no id");
	*out = cove_session_at(box, *fields_text(answer, "id") ? fields_text(answer, "id")
							       : options->id);
	return OK;
}

enum cove_kind cove_session_create(struct cove_box *box, const struct cove_session_options *options,
				   struct cove_session **out, struct cove_error *error)
{
	static const struct cove_session_options none;

	return private_call(box->cove, lib_session_create(box, options ? options : &none, out),
			    error);
}

// The server reports a timeout as an error in a session, and as status 124 with a line on stderr
// elsewhere. Here both become the latter.
static fallible take_late(struct cove *cove, struct cove_output *out)
{
	const struct json *context = cove->refusal ? json_get(cove->refusal, "context") : NULL;
	struct sink_both both = SINK_BOTH;
	struct cove_result result = {
		.exit_code = 124,
		.ended = "wall_limit",
		.session_restarted = fields_flag(context, "sessionRestarted"),
		.duration_ms = fields_number(context, "timeoutMs", 0),
	};

	buf_text(&both.out, fields_text(context, "stdout"));
	buf_text(&both.err, fields_text(context, "stderr"));
	result.stdout_truncated = both.out.len >= LATE_MAX;
	result.stderr_truncated = both.err.len >= LATE_MAX;
	buf_fmt(&both.err, "Command timed out after %lldms", (long long)result.duration_ms);
	sink_output(&both, &result, out);
	sink_both_done(&both);
	private_begin(cove);
	return OK;
}

// The session's own message for a directory that it cannot enter.
static bool did_not_enter(const struct json *answer, const char *cwd)
{
	auto_free char *words = mem_fmt("Failed to change directory to '%s'", cwd ? cwd : "");
	auto_buf told = BUF_INIT(PRIVATE_BODY_MAX);
	auto_err err = cwd ? fields_bytes(answer, "stderr", &told) : OK;
	size_t len = strlen(words);

	return cwd && !err && fields_number(answer, "exitCode", 0) == 1 && told.len >= len &&
	       told.len <= len + 1 && !memcmp(told.at, words, len);
}

static fallible lib_session_run(struct cove_session *session, const struct cove_command *command,
				struct cove_output *out)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	auto_json answer = NULL;
	struct json_out json = json_to(&body);
	struct err *err;

	json_begin(&json, '{');
	TRY(fields_command(&json, command, session->id));
	json_put_text(&json, "encoding", "base64");
	json_end(&json, '}');
	err = lib_box_post(session->box, "/api/execute", &body, &answer);
	if (err && strcmp(err_reason(err), "command_timeout") == 0) {
		err_free(err);
		return take_late(session->box->cove, out);
	}
	TRY(err);
	if (did_not_enter(answer, command->cwd))
		return fields_no_cwd(err_new(INVALID, "no_cwd", "no such directory"),
				     session->box->cove, command->cwd);
	return sink_answer(answer, out);
}

enum cove_kind cove_session_exec(struct cove_session *session, const struct cove_command *command,
				 struct cove_output *out, struct cove_error *error)
{
	return private_call(session->box->cove, lib_session_run(session, command, out), error);
}

static fallible lib_session_end(struct cove_session *session)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out json = json_to(&body);

	json_begin(&json, '{');
	json_put_text(&json, "sessionId", session->id);
	json_end(&json, '}');
	return lib_box_post(session->box, "/api/session/delete", &body, NULL);
}

enum cove_kind cove_session_delete(struct cove_session *session, struct cove_error *error)
{
	return private_call(session->box->cove, lib_session_end(session), error);
}
