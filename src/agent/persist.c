// Rows of agent sessions: JSON bodies with a version, written and read. The columns beside a body
// are for lookups; where both have a value the column wins, so that a record without its sandbox
// can be detected and repaired.
#include "agent/persist.h"

#include <stdio.h>
#include <stdlib.h>

#include "agent/faults.h"
#include "base/mem.h"
#include "codec/json.h"

#define BODY_VERSION 1
#define BODY_MAX (AGENT_INPUT_MAX * 3)
#define LEASE_TEXT_MAX 8192
#define NUMBER_MAX (1ull << 53)

static void persist_agent_write_session(struct buf *buf, const struct agent_session *agent)
{
	struct json_out out = json_to(buf);

	json_begin(&out, '{');
	json_put_int(&out, "v", BODY_VERSION);
	json_put_text(&out, "org", agent->org);
	json_put_text(&out, "user", agent->user);
	json_put_text(&out, "bot", agent->bot);
	json_put_text(&out, "kind", owner_kind_word(agent->route.kind));
	json_put_text(&out, "key", agent->route.key);
	json_put_text(&out, "tag", agent->route.tag);
	json_put_text(&out, "directory", agent->directory);
	json_key(&out, "aliases");
	json_begin(&out, '[');
	for (size_t i = 0; i < agent->alias_count; i++)
		json_add_text(&out, agent->aliases[i]);
	json_end(&out, ']');
	json_key(&out, "argv");
	json_begin(&out, '[');
	for (char **arg = agent->argv; arg && *arg; arg++)
		json_add_text(&out, *arg);
	json_end(&out, ']');
	json_key(&out, "env");
	env_map_write(&out, &agent->env);
	json_put_begin(&out, "choices", '{');
	choices_put(&out, &agent->choices, false);
	json_end(&out, '}');
	json_put_int(&out, "created", agent->created_ms);
	json_put_int(&out, "used", agent->used_ms);
	json_put_bool(&out, "deleting", agent->deletion != DELETION_NONE);
	json_put_bool(&out, "forced", agent->deletion == DELETION_FORCED);
	json_put_bool(&out, "prepared", agent->prepared);
	json_end(&out, '}');
}

static void persist_agent_write_run(struct buf *buf, const struct run *run)
{
	struct json_out out = json_to(buf);

	json_begin(&out, '{');
	json_put_int(&out, "v", BODY_VERSION);
	json_key(&out, "input");
	json_add_raw(&out, run->input);
	json_key(&out, "env");
	env_map_write(&out, &run->env);
	json_put_int(&out, "timeout", (int64_t)run->timeout_ms);
	json_put_int(&out, "created", run->created_ms);
	json_put_int(&out, "started", run->started_ms);
	json_put_int(&out, "ended", run->ended_ms);
	json_put_int(&out, "grace", run->grace_ms);
	json_put_int(&out, "tries", (int64_t)run->tries);
	json_put_int(&out, "generation", (int64_t)run->generation);
	json_put_int(&out, "run_generation", (int64_t)run->run_generation);
	json_put_text(&out, "instance", run->instance);
	json_put_bool(&out, "active", run->active);
	json_put_text(&out, "code", run->code);
	json_put_text(&out, "message", run->message);
	json_put_text(&out, "question", run->question);
	json_put_text(&out, "asked", run->asked);
	if (run->result.at) {
		json_key(&out, "result");
		json_add_raw(&out, run->result);
	}
	json_end(&out, '}');
}

// ---------------------------------------------------------------------------- reading

static bool persist_agent_has_version(const struct json *object)
{
	uint64_t version = 0;
	auto_err err = json_u64(json_get(object, "v"), "v", 1, BODY_VERSION, &version);

	return !err && version == BODY_VERSION;
}

static bool number(const struct json *object, const char *key, uint64_t *out)
{
	auto_err err = json_u64(json_get(object, key), key, 0, NUMBER_MAX, out);

	return !err;
}

static bool number_ms(const struct json *object, const char *key, int64_t *out)
{
	uint64_t value = 0;

	if (!number(object, key, &value))
		return false;
	*out = (int64_t)value;
	return true;
}

static bool flag(const struct json *object, const char *key, bool *out)
{
	auto_err err = json_bool(json_get(object, key), key, out);

	return !err;
}

// An owned copy of a text; absent: NULL.
static bool text(const struct json *object, const char *key, char **out)
{
	struct str got = {0};
	auto_err err = json_str(json_get(object, key), key, &got);

	if (err)
		return false;
	free(*out);
	*out = got.at ? mem_dup(got.at, got.len) : NULL;
	return true;
}

static bool text_into(const struct json *object, const char *key, char *room, size_t size)
{
	struct str got = STR("");
	auto_err err = json_str(json_get(object, key), key, &got);

	if (err || got.len >= size)
		return false;
	memcpy(room, got.at, got.len);
	room[got.len] = '\0';
	return true;
}

static bool persist_agent_list(const struct json *array, size_t max, char **room, size_t *out_count)
{
	size_t count = array ? json_count(array) : 0;

	if (count > max || (array && json_type(array) != JSON_ARRAY))
		return false;
	for (size_t i = 0; i < count; i++) {
		struct str got = {0};
		auto_err err = json_str(json_at(array, i), "item", &got);

		if (err || !got.at)
			return false;
		room[i] = mem_dup(got.at, got.len);
		*out_count = i + 1;
	}
	return true;
}

static bool read_kind(const struct json *object, enum owner_kind *out)
{
	char word[16];

	if (!text_into(object, "kind", word, sizeof(word)))
		return false;
	for (int kind = 0; kind <= OWNER_LEGACY; kind++) {
		if (strcmp(owner_kind_word((enum owner_kind)kind), word) == 0) {
			*out = (enum owner_kind)kind;
			return true;
		}
	}
	return false;
}

static bool persist_agent_read_owner(const struct json *object, struct agent_session *out)
{
	return text(object, "org", &out->org) && text(object, "user", &out->user) &&
	       text(object, "bot", &out->bot) && out->user && read_kind(object, &out->route.kind) &&
	       text_into(object, "key", out->route.key, sizeof(out->route.key)) &&
	       text_into(object, "tag", out->route.tag, sizeof(out->route.tag));
}

// Absent in records of an older version, which used the id.
static bool read_directory(const struct json *object, const struct store_agent *row,
			   char out[ID_BOX_LEN + 1])
{
	enum owner_kind kind;

	out[0] = '\0';
	if (!text_into(object, "directory", out, ID_BOX_LEN + 1))
		return false;
	if (!out[0])
		owner_directory(str_of(agent_id_of(row->tenant, row->id)), out);
	return owner_is_id(str_of(out), &kind) && kind == OWNER_SES;
}

// A record of an older version has none: its sandbox is of the template `host`.
static bool persist_agent_read_choices(const struct json *object, struct choices *out)
{
	const struct json *choices = json_get(object, "choices");

	if (!choices)
		choices_set_template(out, "host");
	else if (json_type(choices) == JSON_OBJECT)
		choices_load(choices, out);
	return out->text[CHOICE_TEMPLATE] != NULL;
}

bool persist_agent_read_session(const struct store_agent *row, struct agent_session *out)
{
	auto_json object = NULL;
	auto_err err = row->unreadable ? OK : json_read(row->body, &object);
	auto_err bad_env = OK;
	bool deleting = false, forced = false;
	size_t args = 0;

	if (err || !object || json_type(object) != JSON_OBJECT ||
	    !persist_agent_has_version(object) || !persist_agent_read_owner(object, out) ||
	    !flag(object, "deleting", &deleting) || !flag(object, "forced", &forced))
		return false;
	if (deleting)
		out->deletion = forced ? DELETION_FORCED : DELETION_REQUESTED;
	out->argv = mem_new((AGENT_ARGS_MAX + 1) * sizeof(*out->argv));
	bad_env = env_map_read_env(json_get(object, "env"), &out->env);
	return !bad_env &&
	       persist_agent_list(json_get(object, "argv"), AGENT_ARGS_MAX, out->argv, &args) &&
	       persist_agent_list(json_get(object, "aliases"), AGENT_ALIASES_MAX, out->aliases,
				  &out->alias_count) &&
	       number_ms(object, "created", &out->created_ms) &&
	       number_ms(object, "used", &out->used_ms) &&
	       flag(object, "prepared", &out->prepared) &&
	       persist_agent_read_choices(object, &out->choices) &&
	       read_directory(object, row, out->directory);
}

bool persist_agent_read_lease(const struct store_agent *row, struct lease *out)
{
	bool whole = !row->unreadable && lease_read(row->body, out);

	if (row->unreadable)
		*out = (struct lease){0};
	// The column survives an unreadable body.
	if (row->generation > out->next_generation)
		out->next_generation = row->generation;
	return whole;
}

// Part of a body as text: serialised again, since trees are not kept.
static struct str persist_agent_raw(const struct json *value)
{
	auto_buf buf = BUF_INIT(AGENT_INPUT_MAX * 2);
	struct json_out out = json_to(&buf);
	size_t len;

	if (!value)
		return (struct str){0};
	json_add_value(&out, value);
	len = buf.len;
	return buf_ok(&buf) ? (struct str){buf_take(&buf), len} : (struct str){0};
}

static bool persist_agent_read_state(const char *word, enum run_state *out)
{
	for (int state = 0; state < RUN_STATE_COUNT; state++) {
		if (strcmp(runs_state_word((enum run_state)state), word) == 0) {
			*out = (enum run_state)state;
			return true;
		}
	}
	return false;
}

bool persist_agent_read_run(const struct store_agent *row, struct run *out)
{
	auto_json object = NULL;
	auto_err err = row->unreadable ? OK : json_read(row->body, &object);
	auto_err bad_env = OK;

	if (err || !object || json_type(object) != JSON_OBJECT ||
	    !persist_agent_has_version(object) ||
	    !persist_agent_read_state(row->state, &out->state) ||
	    strlen(row->id) >= sizeof(out->id))
		return false;
	snprintf(out->id, sizeof(out->id), "%s", row->id);
	out->stored = out->state;
	out->version = row->version;
	out->deadline_ms = row->deadline_ms;
	out->input = persist_agent_raw(json_get(object, "input"));
	out->result = persist_agent_raw(json_get(object, "result"));
	if (!out->input.at)
		out->input = (struct str){mem_str("null"), 4};
	bad_env = env_map_read_env(json_get(object, "env"), &out->env);
	return !bad_env && number(object, "timeout", &out->timeout_ms) &&
	       number_ms(object, "created", &out->created_ms) &&
	       number_ms(object, "started", &out->started_ms) &&
	       number_ms(object, "ended", &out->ended_ms) &&
	       number_ms(object, "grace", &out->grace_ms) && number(object, "tries", &out->tries) &&
	       number(object, "generation", &out->generation) &&
	       number(object, "run_generation", &out->run_generation) &&
	       text_into(object, "instance", out->instance, sizeof(out->instance)) &&
	       flag(object, "active", &out->active) &&
	       text_into(object, "code", out->code, sizeof(out->code)) &&
	       text(object, "message", &out->message) &&
	       text_into(object, "question", out->question, sizeof(out->question)) &&
	       text(object, "asked", &out->asked);
}

// ---------------------------------------------------------------------------- writing

struct draft {
	struct store_agent_change rows[PERSIST_AGENT_RUNS_MAX + 2];
	struct buf bodies[PERSIST_AGENT_RUNS_MAX + 2];
	size_t count;
};

static struct store_agent *persist_agent_add_row(struct draft *draft, enum store_agent_kind kind,
						 const struct agent_session *agent,
						 struct buf **out_body)
{
	struct store_agent_change *change = &draft->rows[draft->count];

	*out_body = &draft->bodies[draft->count++];
	**out_body = BUF_INIT(BODY_MAX);
	*change = (struct store_agent_change){
		.way = STORE_AGENT_PUT,
		.row = {.kind = kind,
			.id = agent->key,
			.session = agent->key,
			.tenant = agent->tenant,
			.box = agent->sandbox,
			.state = ""},
	};
	return &change->row;
}

static void draft_session(struct draft *draft, const struct agent_session *agent)
{
	struct buf *body;
	struct store_agent *row = persist_agent_add_row(draft, STORE_SESSION, agent, &body);

	persist_agent_write_session(body, agent);
	row->state = agent->deletion ? "deleting" : "live";
	row->version = agent->version;
	row->body = buf_view(body);
}

static void draft_lease(struct draft *draft, const struct agent_session *agent,
			const struct lease *lease)
{
	struct buf *body;
	struct store_agent *row = persist_agent_add_row(draft, STORE_LEASE, agent, &body);

	lease_write(body, lease);
	row->state = lease_state_word(lease->state);
	row->deadline_ms = lease_deadline(lease);
	row->generation = lease->next_generation;
	row->version = agent->lease_version;
	row->body = buf_view(body);
}

static void draft_run(struct draft *draft, const struct agent_session *agent, const struct run *run)
{
	struct buf *body;
	struct store_agent *row = persist_agent_add_row(draft, STORE_RUN, agent, &body);

	persist_agent_write_run(body, run);
	row->id = run->id;
	row->state = runs_state_word(run->state);
	row->deadline_ms = run->deadline_ms;
	row->made_ms = run->created_ms;
	row->generation = run->generation;
	row->version = run->version;
	row->body = buf_view(body);
}

static fallible draft_commit(const struct agent_session *agent, const struct draft *draft)
{
	for (size_t i = 0; i < draft->count; i++)
		if (!buf_ok(&draft->bodies[i]))
			return err_new(TOO_LARGE, "run_too_large", "the run is too large to store");
	TRY(faults_meet(FAULT_PERSIST, agent->id));
	return store_agent_commit(agent->agents->store, draft->rows, draft->count);
}

fallible persist_agent_commit(struct agent_session *agent,
			      const struct persist_agent_change *change)
{
	struct draft *draft = mem_new_of(struct draft);
	struct err *err;

	if (change->session)
		draft_session(draft, agent);
	if (change->lease)
		draft_lease(draft, agent, change->lease);
	for (size_t i = 0; i < change->run_count; i++)
		draft_run(draft, agent, change->runs[i]);
	err = draft_commit(agent, draft);
	for (size_t i = 0; i < draft->count; i++)
		buf_done(&draft->bodies[i]);
	free(draft);
	if (err)
		return err;
	agent->version += change->session;
	agent->lease_version += change->lease != NULL;
	for (size_t i = 0; i < change->run_count; i++) {
		change->runs[i]->version++;
		change->runs[i]->stored = change->runs[i]->state;
	}
	if (change->lease && change->lease != &agent->lease)
		agent->lease = *change->lease;
	return OK;
}

fallible persist_agent_run(struct run *run)
{
	return persist_agent_commit(run->agent,
				    &(struct persist_agent_change){.runs = {run}, .run_count = 1});
}

fallible persist_agent_drop(struct agent_session *agent)
{
	auto_arena arena = arena_new();
	struct store_agent *runs = NULL;
	auto_free struct store_agent_change *changes = NULL;
	size_t count = 0;

	TRY(store_agent_runs(agent->agents->store, agent->key, arena, &runs, &count));
	changes = mem_new((count + 2) * sizeof(*changes));
	for (size_t i = 0; i < count; i++)
		changes[i] = (struct store_agent_change){
			.way = STORE_AGENT_DROP, .row = {.kind = STORE_RUN, .id = runs[i].id}};
	changes[count++] = (struct store_agent_change){
		.way = STORE_AGENT_DROP, .row = {.kind = STORE_LEASE, .id = agent->key}};
	if (!agent->lone)
		changes[count++] = (struct store_agent_change){
			.way = STORE_AGENT_DROP, .row = {.kind = STORE_SESSION, .id = agent->key}};
	TRY(faults_meet(FAULT_PERSIST, agent->id));
	return store_agent_commit(agent->agents->store, changes, count);
}
