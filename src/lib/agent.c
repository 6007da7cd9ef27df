// Agent sessions and their runs. A handle is an id. Records are given as JSON: the server's fields
// are the interface. Events of a run go on over lost connections (lib/events).
#include "base/mem.h"
#include "codec/text.h"
#include "lib/fields.h"
#include "lib/http_call.h"

#define AGENTS "/v1/agent-sessions"
#define BODY_MAX ((size_t)8 << 20)

struct cove_agent {
	struct cove *cove;
	char *id, *base; // "/v1/agent-sessions/ID"
};

struct cove_agent *cove_agent_at(struct cove *cove, const char *id)
{
	struct cove_agent *agent = mem_new_of(struct cove_agent);
	auto_buf base = BUF_INIT(1 << 20);

	buf_text(&base, AGENTS "/");
	text_percent(&base, str_of(id));
	agent->cove = cove;
	agent->id = mem_str(id);
	agent->base = buf_take(&base);
	return agent;
}

const char *cove_agent_id(const struct cove_agent *agent)
{
	return agent->id;
}

void cove_agent_free(struct cove_agent *agent)
{
	if (!agent)
		return;
	free(agent->id);
	free(agent->base);
	free(agent);
}

static fallible agent_create(struct cove *cove, const struct cove_agent_spec *spec,
			     struct cove_agent **out)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out json = json_to(&body);
	auto_json answer = NULL;

	json_begin(&json, '{');
	fields_put_text(&json, "org", spec->org);
	fields_put_text(&json, "user", spec->user);
	fields_put_text(&json, "bot", spec->bot);
	fields_put_text(&json, "session", spec->id);
	fields_names(&json, "aliases", spec->aliases);
	fields_put_text(&json, "isolation", spec->isolated ? "session" : NULL);
	fields_put_text(&json, "template", spec->from);
	fields_put_text(&json, "image", spec->image);
	fields_put_text(&json, "profile", spec->profile);
	fields_network(&json, spec->network, spec->allow);
	fields_names(&json, "secrets", spec->secrets);
	TRY(fields_volumes(&json, spec->volumes));
	fields_files(&json, spec->files, spec->file_count);
	if (spec->argv) {
		json_key(&json, "runner");
		json_begin(&json, '{');
		fields_names(&json, "argv", spec->argv);
		TRY(fields_pairs(&json, "env", spec->env));
		json_end(&json, '}');
	}
	json_end(&json, '}');
	TRY(http_call_json(cove, "POST", AGENTS, &body, &answer));
	*out = cove_agent_at(cove, fields_text(answer, "id"));
	return OK;
}

enum cove_kind cove_agent_create(struct cove *cove, const struct cove_agent_spec *spec,
				 struct cove_agent **out, struct cove_error *error)
{
	return private_call(cove, agent_create(cove, spec, out), error);
}

// Its path, or that of a run; with what is behind it.
static char *agent_path(const struct cove_agent *agent, const char *run, const char *rest)
{
	auto_buf path = BUF_INIT(1 << 20);

	buf_text(&path, agent->base);
	if (run) {
		buf_text(&path, "/runs/");
		text_percent(&path, str_of(run));
	}
	buf_text(&path, rest);
	return buf_take(&path);
}

enum cove_kind cove_agent_info(struct cove_agent *agent, const char *run, char **out_json,
			       struct cove_error *error)
{
	auto_free char *path = agent_path(agent, run, "");

	return cove_ask(agent->cove, "GET", path, NULL, 0, out_json, NULL, error);
}

static fallible agent_run(struct cove_agent *agent, const char *input, int64_t timeout_ms,
			  char **out_run)
{
	auto_free char *path = agent_path(agent, NULL, "/runs");
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out json = json_to(&body);
	auto_json answer = NULL;

	json_begin(&json, '{');
	if (input) {
		json_key(&json, "input");
		json_add_raw(&json, str_of(input));
	}
	fields_put_number(&json, "timeout", (double)timeout_ms);
	json_end(&json, '}');
	TRY(http_call_json(agent->cove, "POST", path, &body, &answer));
	*out_run = mem_str(fields_text(answer, "id"));
	return OK;
}

enum cove_kind cove_agent_run(struct cove_agent *agent, const char *input, int64_t timeout_ms,
			      char **out_run, struct cove_error *error)
{
	return private_call(agent->cove, agent_run(agent, input, timeout_ms, out_run), error);
}

enum cove_kind cove_agent_events(struct cove_agent *agent, const char *run, const char *after,
				 struct cove_events **out, struct cove_error *error)
{
	auto_free char *path = agent_path(agent, run, "/events");

	return cove_events_open(agent->cove, path, after, out, error);
}

enum cove_kind cove_agent_answer(struct cove_agent *agent, const char *question, const char *answer,
				 struct cove_error *error)
{
	auto_free char *path = agent_path(agent, NULL, "/answer");
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out json = json_to(&body);

	json_begin(&json, '{');
	fields_put_text(&json, "question", question);
	json_key(&json, "answer");
	json_add_raw(&json, str_of(answer));
	json_end(&json, '}');
	return private_call(agent->cove,
			    http_call_text(agent->cove, "POST", path, NULL, &body, NULL), error);
}

enum cove_kind cove_agent_interrupt(struct cove_agent *agent, struct cove_error *error)
{
	auto_free char *path = agent_path(agent, NULL, "/interrupt");

	return private_call(agent->cove,
			    http_call_text(agent->cove, "POST", path, NULL, NULL, NULL), error);
}

static fallible agent_logs(struct cove_agent *agent, char **out_log)
{
	auto_free char *path = agent_path(agent, NULL, "/logs");
	auto_json answer = NULL;

	TRY(http_call_json(agent->cove, "GET", path, NULL, &answer));
	*out_log = mem_str(fields_text(answer, "log"));
	return OK;
}

enum cove_kind cove_agent_logs(struct cove_agent *agent, char **out_log, struct cove_error *error)
{
	return private_call(agent->cove, agent_logs(agent, out_log), error);
}

enum cove_kind cove_agent_delete(struct cove_agent *agent, struct cove_error *error)
{
	return private_call(agent->cove,
			    http_call_text(agent->cove, "DELETE", agent->base, NULL, NULL, NULL),
			    error);
}
