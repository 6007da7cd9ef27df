// Agent sessions and their runs in memory: phases, references, and the table of sessions by key,
// and by alias within an owner. A session under creation is already in the table, with its names
// reserved, but lookups find it only when it is durable. A run is counted in its tenant's share
// from runs_weigh() on, and listed in its session until it ends.
#include <stdio.h>
#include <stdlib.h>

#include "agent/private.h"
#include "base/clock.h"
#include "base/mem.h"
#include "manager/access.h"

#define RUN_COST 1024 // bytes of a run besides its input

int64_t agents_now(const struct agent_sessions *agents)
{
	return agents->wall_base + clock_ms() - agents->mono_base;
}

fallible agent_absent(struct str id)
{
	return err_absent("no_session", "session", id);
}

fallible agent_starting(void)
{
	return err_hint(
		err_new(UNAVAILABLE, "starting", "cove is starting and adopting its sandboxes"),
		"try again in a moment");
}

fallible agent_draining(void)
{
	return err_new(UNAVAILABLE, "draining", "cove is shutting down");
}

struct backend_site agent_local(const struct agent_session *agent)
{
	return (struct backend_site){
		.session = agent->id,
		.sandbox = agent->box,
		.tenant = agent->tenant,
		.directory = agent->directory,
		.class = agent->class,
		.isolated = agent->route.kind == OWNER_SES,
		.choices = &agent->choices,
	};
}

struct run *agent_first(const struct agent_session *agent)
{
	if (link_empty(&agent->runs))
		return NULL;
	return link_of(agent->runs.next, struct run, link);
}

struct run *agent_running(const struct agent_session *agent)
{
	struct run *run = agent_first(agent);

	return run && run->state == RUN_RUNNING ? run : NULL;
}

// ------------------------------------------------------------------------------- phases

// A change that the table does not have does not happen.
struct agent_row {
	uint8_t from;
	enum agent_change change;
	uint8_t to;
};

static const struct agent_row agent_phases[] = {
	{AGENT_NEW, AGENT_LISTED, AGENT_CREATING},
	{AGENT_NEW, AGENT_LOADED, AGENT_ADOPTING},
	{AGENT_CREATING, AGENT_COMMITTED, AGENT_LIVE},
	{AGENT_CREATING, AGENT_UNLISTED, AGENT_GONE},
	{AGENT_ADOPTING, AGENT_RECONCILED, AGENT_LIVE},
	{AGENT_ADOPTING, AGENT_UNLISTED, AGENT_GONE},
	{AGENT_LIVE, AGENT_UNLISTED, AGENT_GONE},
};

static const struct agent_row agent_deletions[] = {
	{DELETION_NONE, AGENT_DELETE, DELETION_REQUESTED},
	{DELETION_REQUESTED, AGENT_DELETE_UNDONE, DELETION_NONE},
	{DELETION_REQUESTED, AGENT_FORCE, DELETION_FORCED},
	{DELETION_FORCED, AGENT_FORCE_UNDONE, DELETION_REQUESTED},
	{DELETION_REQUESTED, AGENT_VERIFIED, DELETION_VERIFIED},
	{DELETION_FORCED, AGENT_VERIFIED, DELETION_VERIFIED},
};

static const struct agent_row *agent_find_row(const struct agent_row *rows, size_t count,
					      unsigned from, enum agent_change change)
{
	for (size_t i = 0; i < count; i++)
		if (rows[i].from == from && rows[i].change == change)
			return &rows[i];
	return NULL;
}

bool agent_move(struct agent_session *agent, enum agent_change change)
{
	const struct agent_row *phase = agent_find_row(
		agent_phases, sizeof(agent_phases) / sizeof(*agent_phases), agent->phase, change);
	const struct agent_row *deletion = agent_find_row(
		agent_deletions, sizeof(agent_deletions) / sizeof(*agent_deletions),
		agent->deletion, change);

	if (phase)
		agent->phase = (enum agent_phase)phase->to;
	if (deletion)
		agent->deletion = (enum agent_deletion)deletion->to;
	return phase || deletion;
}

// --------------------------------------------------------------------------------- runs

const char *runs_state_word(enum run_state state)
{
	static const char *const words[] = {
#define X(name, word) [RUN_##name] = word,
		RUN_STATES(X)
#undef X
	};

	return words[state];
}

void runs_weigh(struct run *run)
{
	run->cost = run->input.len + RUN_COST;
	run->agent->share->bytes += run->cost;
}

void runs_free(struct run *run)
{
	if (!run)
		return;
	if (run->log)
		tape_unref(run->log);
	if (run->cost)
		run->agent->share->bytes -= run->cost;
	free((char *)run->input.at);
	free((char *)run->result.at);
	free(run->message);
	free(run->asked);
	env_map_done(&run->env);
	free(run);
}

void runs_list(struct run *run)
{
	link_add(&run->agent->runs, &run->link);
	run->agent->run_count++;
}

void runs_unlist(struct run *run)
{
	link_drop(&run->link);
	run->agent->run_count--;
	runs_free(run);
}

// ----------------------------------------------------------------------------- sessions

void agent_unreserve(struct agent_session *agent)
{
	agent->agents->reserved -= agent->reserved;
	agent->reserved = 0;
}

void agent_note_alive(struct agent_session *agent)
{
	agent->output_at = agent->received_at = agent->beat_at = loop_now(agent->agents->loop);
	agent->pinged_at = 0;
}

struct agent_session *agent_new(struct agent_sessions *agents)
{
	struct agent_session *agent = mem_new_of(struct agent_session);

	agent->agents = agents;
	agent->refs = 1;
	lease_init(&agent->lease);
	link_init(&agent->runs);
	link_init(&agent->commands);
	condition_init(&agent->wake);
	condition_init(&agent->changed);
	return agent;
}

void agent_ref(struct agent_session *agent)
{
	agent->refs++;
}

void agent_unref(struct agent_session *agent)
{
	if (--agent->refs)
		return;
	list_each (at, &agent->runs)
		runs_unlist(link_of(at, struct run, link));
	if (agent->logs) {
		tape_budget_on_lack(agent->logs, NULL, NULL);
		tape_budget_leave(agent->logs);
		tape_budget_drop(agent->logs);
	}
	for (size_t i = 0; i < agent->alias_count; i++)
		free(agent->aliases[i]);
	mem_free_list(agent->argv);
	env_map_done(&agent->env);
	choices_done(&agent->choices);
	free(agent->id);
	free(agent->key);
	free(agent->org);
	free(agent->user);
	free(agent->bot);
	free(agent->sandbox);
	free(agent);
}

bool agent_key(const char *tenant, struct str id, char out[AGENT_KEY_MAX + 1])
{
	int len = snprintf(out, AGENT_KEY_MAX + 1, "%s%s" STR_FMT, tenant, tenant[0] ? "__" : "",
			   STR_ARG(id));

	return len <= AGENT_KEY_MAX;
}

const char *agent_id_of(const char *tenant, const char *key)
{
	size_t len = strlen(tenant);

	if (len && !strncmp(key, tenant, len) && !strncmp(key + len, "__", 2))
		return key + len + 2;
	return key;
}

void agent_alias_key(const char *tenant, const struct owner *owner, struct str alias,
		     struct buf *out)
{
	buf_fmt(out, "%s%c", tenant, '\1');
	buf_str(out, owner->org);
	buf_char(out, '\1');
	buf_str(out, owner->user);
	buf_char(out, '\1');
	buf_str(out, owner->bot);
	buf_char(out, '\1');
	buf_str(out, alias);
}

static void alias_key(const struct agent_session *agent, size_t i, struct buf *out)
{
	struct owner owner = {str_of(agent->org), str_of(agent->user), str_of(agent->bot), {0}};

	agent_alias_key(agent->tenant, &owner, str_of(agent->aliases[i]), out);
}

static struct agent_share *agent_table_share_of(struct agent_sessions *agents, const char *tenant)
{
	struct str name = tenant[0] ? str_of(tenant) : STR(" "); // not a valid tenant name
	struct agent_share *share = map_get(agents->shares, name);

	if (!share) {
		share = mem_new_of(struct agent_share);
		map_put(agents->shares, name, share);
	}
	return share;
}

uint64_t agents_share(const struct agent_sessions *agents, const char *tenant)
{
	const struct agent_share *share = map_get(agents->shares,
						  tenant[0] ? str_of(tenant) : STR(" "));

	return share ? share->bytes : 0;
}

bool agent_list(struct agent_session *agent, enum agent_change change)
{
	struct agent_sessions *agents = agent->agents;

	if (!map_put(agents->by_key, str_of(agent->key), agent))
		return false;
	for (size_t i = 0; i < agent->alias_count; i++) {
		auto_buf key = BUF_INIT(4096);

		alias_key(agent, i, &key);
		map_put(agents->by_alias, buf_view(&key), agent);
	}
	agent->share = agent_table_share_of(agents, agent->tenant);
	agent->share->bytes += choices_bytes(&agent->choices);
	agent_move(agent, change);
	link_add(&agents->all, &agent->link);
	agents->count++;
	return true;
}

void agent_unlist(struct agent_session *agent)
{
	struct agent_sessions *agents = agent->agents;

	if (!agent_move(agent, AGENT_UNLISTED))
		return;
	agent_unreserve(agent);
	agent->share->bytes -= choices_bytes(&agent->choices);
	map_take(agents->by_key, str_of(agent->key));
	for (size_t i = 0; i < agent->alias_count; i++) {
		auto_buf key = BUF_INIT(4096);

		alias_key(agent, i, &key);
		if (map_get(agents->by_alias, buf_view(&key)) == agent)
			map_take(agents->by_alias, buf_view(&key));
	}
	link_drop(&agent->link);
	agents->count--;
	condition_signal(&agent->changed);
	condition_signal(&agent->wake);
	agent_unref(agent);
}

struct agent_session *agents_named(const struct agent_sessions *agents, const struct who *who,
				   struct str id)
{
	char key[AGENT_KEY_MAX + 1];

	return agent_key(who->tenant, id, key) ? map_get(agents->by_key, str_of(key)) : NULL;
}

fallible agents_find(struct agent_sessions *agents, const struct who *who, struct str id, bool even,
		     struct agent_session **out)
{
	struct agent_session *agent;

	TRY(access_ask(who, ACCESS_READ));
	agent = agents_named(agents, who, id);
	if (!agent || !agent_is_durable(agent) || agent->lone ||
	    !access_sees(who, agent->tenant, "") || (agent->deletion && !even))
		return agent_absent(id);
	agent_ref(agent);
	*out = agent;
	return OK;
}

const char *agent_name(const struct agent_session *agent, const struct who *who)
{
	return who->tenant[0] ? agent->id : agent->key;
}

const char *agent_box(const struct agent_session *agent)
{
	return agent->box;
}

const char *agent_directory(const struct agent_session *agent)
{
	return agent->directory;
}

struct agent_refusal agents_refusal(const struct agent_sessions *agents)
{
	return agents->refusal;
}
