// Agent runs over HTTP: /v1/agent-runs. A run is a background process of a sandbox whose id begins
// with "run-", as 'cove agent run' starts them: its record, output and end are those of processes,
// so that a run outlives its caller and a restart of the daemon, and there is no second state of
// it. A run on a terminal is a terminal of such an id, for as long as the sandbox has it: its
// output is read there. The sandbox is marked unsynced, durably, before the command starts. A run
// is looked up in the sandboxes that the caller may see.
#include <stdio.h>

#include "base/mem.h"
#include "base/secret.h"
#include "box/term.h"
#include "gateway/gateway.h"
#include "manager/adopt_queue.h"
#include "manager/unsynced.h"
#include "toolbox/handlers.h"
#include "toolbox/process.h"
#include "toolbox/stream_json.h"

#define RUN_BOX 12	   // digits of the worktree, or of the sandbox
#define RUN_ID_MAX 32	   // with its NUL
#define RUN_TEXT_MAX 65536 // of a prompt
#define REPLY_MAX (16u << 20)
#define RUN_SETTLED_MS 30000
#define RUN_STOP_MS 10000

static fallible agent_runs_absent(struct str id)
{
	return err_hint(err_new(NOT_FOUND, "no_run", "there is no run '" STR_FMT "'", STR_ARG(id)),
			"GET /v1/agent-runs lists them");
}

static bool agent_runs_may_see(const struct http *x, const struct entry *entry)
{
	return entry->listed && access_sees(gateway_who(x), entry->record.tenant, entry->record.id);
}

// After a start of the daemon: waits until the sandboxes that the caller may see are adopted. A run
// is not absent because its sandbox is not known yet. UNAVAILABLE not_adopted.
static fallible agent_runs_settle(struct http *x)
{
	int64_t deadline = loop_now(gateway_of(x)->loop) + RUN_SETTLED_MS;
	struct entry *pending;

	do {
		struct err *err = OK;

		pending = NULL;
		list_each (at, &gateway_of(x)->manager->entries) {
			struct entry *entry = link_of(at, struct entry, link);

			if (entry->adopting && agent_runs_may_see(x, entry))
				pending = entry;
		}
		if (pending) {
			entry_ref(pending);
			err = adopt_await(pending, deadline);
			entry_unref(pending);
		}
		TRY(err);
	} while (pending);
	return OK;
}

// The sandboxes that have run and that the caller may see. `each` returns true to end; it must not
// wait.
typedef bool agent_runs_each_fn(struct entry *entry, void *arg);
static fallible agent_runs_each_box(struct http *x, agent_runs_each_fn *each, void *arg)
{
	TRY(access_ask(gateway_who(x), ACCESS_USE));
	list_each (at, &gateway_of(x)->manager->entries) {
		struct entry *entry = link_of(at, struct entry, link);

		if (entry->box && agent_runs_may_see(x, entry) && each(entry, arg))
			break;
	}
	return OK;
}

struct run_search {
	struct str id;
	struct entry *entry; // of the run; NULL: not found
	bool on_terminal;
};

static bool agent_runs_is_in(struct entry *entry, void *arg)
{
	struct run_search *search = arg;
	auto_proc proc = procs_find(entry->box, search->id);
	auto_term term = proc ? NULL : term_find(entry->box, search->id);

	if (proc || term)
		search->entry = entry;
	search->on_terminal = term != NULL;
	return proc || term;
}

// Names the process or terminal of the run in the request, as the routes of its sandbox do.
static fallible agent_runs_resolve(struct http *x, bool *out_on_terminal)
{
	struct run_search search = {.id = x->params[0]};

	if (str_starts(search.id, UNSYNCED_RUN)) {
		TRY(agent_runs_each_box(x, agent_runs_is_in, &search));
		if (!search.entry) {
			TRY(agent_runs_settle(x));
			TRY(agent_runs_each_box(x, agent_runs_is_in, &search));
		}
	}
	if (!search.entry)
		return agent_runs_absent(search.id);
	*out_on_terminal = search.on_terminal;
	x->params[1] = search.id;
	x->params[0] = str_of(arena_fmt(x->arena, "%s", search.entry->record.id));
	return OK;
}

static void agent_runs_put(struct json_out *out, const char *box, const struct proc_view *view)
{
	json_put_text(out, "id", view->id);
	json_put_text(out, "sandbox", box);
	json_put_text(out, "state", proc_status_word(view->status));
	json_put_text(out, "command", view->command);
	json_put_time(out, "startedAt", view->started_ms);
	if (!view->ended_ms)
		return;
	json_put_time(out, "endedAt", view->ended_ms);
	if (view->exit_code >= 0)
		json_put_int(out, "exitCode", view->exit_code);
	if (view->error)
		json_put_text(out, "error", view->error);
}

static fallible agent_runs_answer(const struct process *process, int status)
{
	auto_buf body = BUF_INIT(STREAM_JSON_OUT_MAX);
	struct json_out out = json_to(&body);
	struct proc_view view = proc_look(process->proc);

	json_begin(&out, '{');
	agent_runs_put(&out, process->ref.entry->record.id, &view);
	json_end(&out, '}');
	return http_reply_json(process->x, status, &body);
}

// ------------------------------------------------------------------------------------- terminals

// The state is a word of processes.
static const char *agent_runs_put_term(struct json_out *out, const char *box, struct term *term)
{
	struct term_view view = term_view(term);
	struct exec_result result = {0};
	bool lost = false;
	bool ended = term_ended(term, &result, &lost);
	const char *state = !ended	       ? "running"
			    : lost	       ? "error"
			    : result.signal    ? "killed"
			    : result.exit_code ? "failed"
					       : "completed";

	json_put_text(out, "id", view.id);
	json_put_text(out, "sandbox", box);
	json_put_text(out, "state", state);
	json_put_text(out, "command", view.shown);
	json_put_bool(out, "terminal", true);
	json_put_time(out, "startedAt", view.started_ms);
	if (ended && !lost)
		json_put_int(out, "exitCode", result.exit_code);
	return state;
}

static fallible agent_runs_term(struct http *x, struct box_ref *ref, struct term **out)
{
	TRY(gateway_box(x, ref));
	*out = term_find(ref->box, x->params[1]);
	return *out ? OK : agent_runs_absent(x->params[1]);
}

static fallible agent_runs_answer_term(struct http *x, const struct box_ref *ref, struct term *term)
{
	auto_buf body = BUF_INIT(STREAM_JSON_OUT_MAX);
	struct json_out out = json_to(&body);

	json_begin(&out, '{');
	agent_runs_put_term(&out, ref->entry->record.id, term);
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

// Its end is told to those who are attached, who forget it then.
static fallible agent_runs_stop_term(struct http *x)
{
	int64_t deadline = loop_now(gateway_of(x)->loop) + RUN_STOP_MS;
	struct exec_result result;
	auto_box_ref ref = {0};
	auto_term term = NULL;
	bool lost;

	TRY(agent_runs_term(x, &ref, &term));
	term_kill(term);
	while (!term_ended(term, &result, &lost))
		TRY(term_await(term, term_view(term).bytes, deadline));
	return agent_runs_answer_term(x, &ref, term);
}

// --------------------------------------------------------------------------------------- create

// A run of a worktree's sandbox has the digits of the worktree, which 'cove agent' looks for.
static void agent_runs_name(const struct record *record, char out[RUN_ID_MAX])
{
	bool has_worktree = !strncmp(record->name, "wt-", 3) && strlen(record->name) > 3 + RUN_BOX;
	const char *digits = has_worktree ? record->name + 3 : record->id + sizeof("box-") - 1;
	char random[9];

	secret_hex(random, 4);
	snprintf(out, RUN_ID_MAX, UNSYNCED_RUN "%.*s-%s", RUN_BOX, digits, random);
}

// Words of argv that are "{prompt}", "{session}" or "{model}" are replaced, whole. Each text is a
// variable, too. No shell reads any of them.
static fallible agent_runs_texts(const struct json *json, struct exec_request *request,
				 struct arena *arena)
{
	static const struct {
		const char *key, *word, *variable;
	} texts[] = {
		{"prompt", "{prompt}", "COVE_AGENT_PROMPT"},
		{"session", "{session}", "COVE_AGENT_SESSION"},
		{"model", "{model}", "COVE_AGENT_MODEL"},
	};
	const char **argv = (const char **)request->spec.argv;

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct str text = {0};
		const char *copy;

		request->field = texts[i].key;
		TRY(json_str(json_get(json, texts[i].key), texts[i].key, &text));
		if (!text.at)
			continue;
		if (text.len > RUN_TEXT_MAX || memchr(text.at, 0, text.len))
			return err_new(INVALID, "bad_field", "'%s' may have %d bytes, and no NUL",
				       texts[i].key, RUN_TEXT_MAX);
		copy = arena_dup(arena, text.at, text.len);
		env_map_set(&request->env, str_of(texts[i].variable), text);
		for (size_t j = 0; argv[j]; j++)
			if (!strcmp(argv[j], texts[i].word))
				argv[j] = copy;
	}
	request->field = NULL;
	return OK;
}

static fallible agent_runs_read(struct http *x, const struct json *json, struct str *out_box,
				struct exec_request *request)
{
	static const char *const known[] = {"sandbox", "argv", "prompt", "session",
					    "model",   "env",  "cwd",	 "timeoutMs",
					    "user",    "id",   NULL};

	if (!json)
		return err_new(INVALID, "bad_field", "the body is empty");
	TRY(json_want(json, "body", JSON_OBJECT));
	TRY(json_only(json, known));
	TRY(json_str(json_get(json, "sandbox"), "sandbox", out_box));
	if (!out_box->len || !json_get(json, "argv"))
		return err_new(INVALID, "bad_field", "'sandbox' and 'argv' are required");
	TRY(exec_request_read(x, json, request));
	request->session = request->in_session = (struct str){0};
	return agent_runs_texts(json, request, x->arena);
}

// An id that the client chose, and may know before the run begins.
static fallible agent_runs_read_id(const struct json *json, char out[RUN_ID_MAX])
{
	struct str id = {0};
	const size_t prefix = sizeof(UNSYNCED_RUN) - 1;

	TRY(json_str(json_get(json, "id"), "id", &id));
	for (size_t i = prefix; i < id.len; i++)
		if (!id.at[i] || !strchr("0123456789abcdef-", id.at[i]))
			id.len = 1;
	if (id.at && (!str_starts(id, UNSYNCED_RUN) || id.len == prefix || id.len >= RUN_ID_MAX))
		return err_new(INVALID, "bad_field",
			       "'id' must be " UNSYNCED_RUN
			       " and up to %zu hexadecimal digits and -",
			       RUN_ID_MAX - 1 - prefix);
	snprintf(out, RUN_ID_MAX, STR_FMT, STR_ARG(id));
	return OK;
}

// `id` "": one is chosen.
static fallible agent_runs_spawn(struct process *process, const struct exec_request *request,
				 char id[RUN_ID_MAX])
{
	struct entry *entry = process->ref.entry;
	struct spawn spec = {.shown = request->shown, .keep_error = true};
	int64_t before = entry->record.unsynced_ms, marked;
	struct err *err;

	TRY(unsynced_may(entry));
	if (!*id)
		agent_runs_name(&entry->record, id);
	spec.id = str_of(id);
	unsynced_mark(entry);
	marked = entry->record.unsynced_ms;
	TRY(entry_keep_now(entry), "mark %s", entry->record.id);
	err = spawn_process(&process->ref, &request->spec, &spec, &process->proc);
	// If nothing began, the mark is that of before, unless it was set meanwhile. An error of
	// the way to pid 1 does not tell: the mark stays.
	if (err && entry->record.unsynced_ms == marked && err_kind(err) != ERR_UNAVAILABLE &&
	    err_kind(err) != ERR_TIMEOUT && err_kind(err) != ERR_CANCELLED &&
	    err_kind(err) != ERR_INTERNAL) {
		entry->record.unsynced_ms = before;
		err_free(entry_keep_now(entry));
	}
	TRY(err);
	process->tape = proc_tape(process->proc);
	tape_ref(process->tape);
	return OK;
}

static fallible agent_runs_make(struct http *x, const struct json *json,
				struct exec_request *request)
{
	auto_process process = {.x = x};
	char id[RUN_ID_MAX] = "";

	TRY(access_ask(gateway_who(x), ACCESS_MAKE));
	TRY(agent_runs_read(x, json, &x->params[0], request));
	TRY(agent_runs_read_id(json, id));
	TRY(gateway_box(x, &process.ref));
	TRY(agent_runs_spawn(&process, request, id));
	http_set(x, "Location",
		 str_of(arena_fmt(x->arena, "/v1/agent-runs/%s", proc_look(process.proc).id)));
	return agent_runs_answer(&process, 202);
}

fallible toolbox_agent_runs_create(struct http *x)
{
	auto_exec_request request = {.field = "body"};
	auto_json json = NULL;

	TRY(gateway_json(x, &json, NULL));
	return agent_runs_make(x, json, &request);
}

// ---------------------------------------------------------------------------------------- shown

struct run_list {
	struct json_out *out;
	struct str state; // at == NULL: any
	const char *box;
};

static void agent_runs_list_one(struct proc *proc, void *arg)
{
	struct run_list *list = arg;
	struct proc_view view = proc_look(proc);

	if (!str_starts(str_of(view.id), UNSYNCED_RUN) ||
	    (list->state.at && !str_is(list->state, proc_status_word(view.status))))
		return;
	json_begin(list->out, '{');
	agent_runs_put(list->out, list->box, &view);
	json_end(list->out, '}');
}

static void agent_runs_list_term(struct term *term, void *arg)
{
	struct run_list *list = arg;
	auto_buf one = BUF_INIT(STREAM_JSON_OUT_MAX);
	struct json_out out = json_to(&one);
	const char *state;

	if (!str_starts(str_of(term_view(term).id), UNSYNCED_RUN))
		return;
	json_begin(&out, '{');
	state = agent_runs_put_term(&out, list->box, term);
	json_end(&out, '}');
	if (!list->state.at || str_is(list->state, state))
		json_add_raw(list->out, buf_view(&one));
}

static bool agent_runs_list_box(struct entry *entry, void *arg)
{
	struct run_list *list = arg;

	list->box = entry->record.id;
	procs_each(entry->box, agent_runs_list_one, list);
	term_each(entry->box, agent_runs_list_term, list);
	return false;
}

fallible toolbox_agent_runs_list(struct http *x)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	struct run_list list = {.out = &out, .state = http_query(x, "state")};

	TRY(access_ask(gateway_who(x), ACCESS_USE));
	TRY(agent_runs_settle(x));
	json_begin(&out, '{');
	json_put_begin(&out, "items", '[');
	TRY(agent_runs_each_box(x, agent_runs_list_box, &list));
	json_end(&out, ']');
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

fallible toolbox_agent_runs_get(struct http *x)
{
	auto_process process = {.x = x};
	bool on_terminal = false;

	TRY(agent_runs_resolve(x, &on_terminal));
	if (on_terminal) {
		auto_box_ref ref = {0};
		auto_term term = NULL;

		TRY(agent_runs_term(x, &ref, &term));
		return agent_runs_answer_term(x, &ref, term);
	}
	TRY(process_find(&process));
	return agent_runs_answer(&process, 200);
}

fallible toolbox_agent_runs_stop(struct http *x)
{
	auto_process process = {.x = x};
	bool on_terminal = false;
	struct err *err;

	TRY(agent_runs_resolve(x, &on_terminal));
	if (on_terminal)
		return agent_runs_stop_term(x);
	TRY(process_find(&process));
	err = proc_stop(process.proc);
	if (err && err_kind(err) == ERR_NOT_FOUND) { // it has ended
		err_free(err);
		err = OK;
	}
	TRY(err);
	return agent_runs_answer(&process, 200);
}

fallible toolbox_agent_runs_stream(struct http *x)
{
	bool on_terminal = false;

	TRY(agent_runs_resolve(x, &on_terminal));
	if (on_terminal)
		return err_hint(err_new(CONFLICT, "on_terminal", "the run is on a terminal"),
				"GET /v1/sandboxes/{id}/api/terminals/{run}/log has its output, "
				"the WebSocket of terminals attaches to it");
	return process_serve(x, "process.logs", toolbox_process_stream);
}

// The files of the worktree's copy that git does not ignore.
fallible toolbox_agent_runs_changes(struct http *x)
{
	bool on_terminal = false;

	TRY(agent_runs_resolve(x, &on_terminal));
	x->url.query = STR("path=%2Fworkspace&gitignore=true&exclude=**%2F.git%2F*");
	return path_arg_serve(x, "file.read", toolbox_files_pack);
}
