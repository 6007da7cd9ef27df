// Creates an agent session. The id of its sandbox is derived from the owner, once, and is durable
// with the record before anything is provisioned. Names are reserved before the first wait, so that
// two concurrent creates of one alias get the same session.
#include <stdio.h>
#include <stdlib.h>

#include "agent/admission.h"
#include "agent/fallback_box.h"
#include "agent/logs.h"
#include "agent/persist.h"
#include "agent/private.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "manager/access.h"
#include "types/event.h"

static char *copy(struct str text)
{
	return text.at ? mem_dup(text.at, text.len) : NULL;
}

// Owners of different tenants never share a sandbox, whatever their names are.
static void full_tag(const struct agent_sessions *agents, const char *tenant, struct buf *out)
{
	if (tenant[0])
		buf_fmt(out, "tenant-%s%s", tenant, agents->tag[0] ? ":" : "");
	buf_text(out, agents->tag);
}

// Resources of one session are named after its key: a session of another tenant with the same id
// has its own.
static void route(struct agent_session *agent, struct owner *owner, bool isolated)
{
	auto_buf tag = BUF_INIT(OWNER_LABEL_MAX);
	char first[ID_BOX_LEN + 1];

	owner->session = str_of(agent->key);
	owner_directory(owner->session, agent->directory);
	full_tag(agent->agents, agent->tenant, &tag);
	owner_derive(owner, isolated, buf_view(&tag), &agent->route);
	memcpy(first, agent->route.id, sizeof(first));
	if (!isolated)
		fallback_choose(agent->agents, first, agent->route.id);
	memcpy(agent->box, agent->route.id, sizeof(agent->box));
	agent->sandbox = mem_str(agent->route.id);
	owner_class_of(str_of(agent->box), &agent->class);
}

static struct agent_session *draft(struct agent_sessions *agents, const struct who *who,
				   const struct agent_spec *spec, const struct owner *owner)
{
	struct agent_session *agent = agent_new(agents);
	bool isolated = spec->isolated || owner_is_chosen(str_of(agents->isolate), owner->org);
	struct owner own = *owner;
	char key[AGENT_KEY_MAX + 1];
	size_t count = 0;

	snprintf(agent->tenant, sizeof(agent->tenant), "%s", who->tenant);
	agent->id = copy(owner->session);
	agent_key(agent->tenant, owner->session, key);
	agent->key = mem_str(key);
	agent->org = copy(owner->org);
	agent->user = copy(owner->user);
	agent->bot = copy(owner->bot);
	route(agent, &own, isolated);
	for (size_t i = 0; i < spec->alias_count; i++)
		agent->aliases[agent->alias_count++] = copy(spec->aliases[i]);
	while (spec->argv && spec->argv[count])
		count++;
	agent->argv = mem_new((count + 1) * sizeof(*agent->argv));
	for (size_t i = 0; i < count; i++)
		agent->argv[i] = mem_str(spec->argv[i]);
	for (size_t i = 0; spec->env && i < spec->env->count; i++)
		env_map_set(&agent->env, str_of(spec->env->at[i].name),
			    str_of(spec->env->at[i].value));
	agent->created_ms = agent->used_ms = agents_now(agents);
	return agent;
}

// Another session that lives in its sandbox; NULL: none.
static const struct agent_session *agent_create_find_sibling(const struct agent_session *agent)
{
	list_each (at, &agent->agents->all) {
		const struct agent_session *other = link_of(at, struct agent_session, link);

		if (!other->lone && !strcmp(other->box, agent->box))
			return other;
	}
	return NULL;
}

// A sandbox is made the same way for all its sessions: as the first of them chose. Waits.
static fallible agent_create_settle(struct agent_session *agent, const struct who *who,
				    const struct choices *asked)
{
	const struct backend *backend = agent->agents->backend;
	const struct agent_session *sibling = agent_create_find_sibling(agent);
	struct backend_site local = agent_local(agent);
	auto_choices choices = {0};

	if (sibling)
		TRY(choices_join(asked, &sibling->choices, &choices));
	else
		choices_copy(asked, &choices);
	TRY(backend->check(backend->arg, who, &local, &choices));
	choices_done(&agent->choices);
	agent->choices = choices;
	choices = (struct choices){0};
	return OK;
}

static fallible agent_create_ask_share(const struct agent_session *agent)
{
	const struct agent_sessions *agents = agent->agents;

	if (!agent->choices.text[CHOICE_FILES] ||
	    agents_share(agents, agent->tenant) + choices_bytes(&agent->choices) <=
		    agents->input_share)
		return OK;
	return err_hint(err_new(EXHAUSTED, "too_much_input",
				"the agent sessions already have too many bytes of files"),
			"put files into a template, or delete sessions that are not needed");
}

static fallible ask_class(const struct agent_session *agent)
{
	const struct agent_sessions *agents = agent->agents;
	uint64_t max = agents->class_max[agent->class], count = 0;

	if (!max)
		return OK;
	// Counts sandboxes, not sessions: sessions of one owner share one.
	list_each (at, &agents->all) {
		const struct agent_session *other = link_of(at, struct agent_session, link);
		bool first = other->class == agent->class;

		if (strcmp(other->box, agent->box) == 0)
			return OK;
		for (struct link *before = at->prev; first && before != &agents->all;
		     before = before->prev)
			first = strcmp(link_of(before, struct agent_session, link)->box,
				       other->box) != 0;
		count += first;
	}
	if (count < max)
		return OK;
	return err_hint(err_new(EXHAUSTED, "class_full", "class %s is full",
				owner_class_word(agent->class)),
			"delete sessions that are not needed");
}

static fallible make_durable(struct agent_session *agent)
{
	struct persist_agent_change change = {.session = true, .lease = &agent->lease};

	TRY(store_ready(agent->agents->store));
	TRY(admission_ask(agent));
	TRY(persist_agent_commit(agent, &change));
	agent->agents->refusal = agent->room; // other creates may have been refused meanwhile
	return OK;
}

// The session of the aliases, once it is known whether it will exist; NULL: none.
static fallible agent_create_resume(struct agent_sessions *agents, const struct who *who,
				    const struct agent_spec *spec, const struct owner *owner,
				    struct agent_session **out)
{
	struct agent_session *found;

	for (;;) {
		struct err *err;

		found = NULL;
		for (size_t i = 0; i < spec->alias_count; i++) {
			auto_buf key = BUF_INIT(4096);
			struct agent_session *agent;

			agent_alias_key(who->tenant, owner, spec->aliases[i], &key);
			agent = map_get(agents->by_alias, buf_view(&key));
			if (agent && found && agent != found)
				return err_new(CONFLICT, "alias_taken",
					       "the aliases name different sessions");
			found = agent ? agent : found;
		}
		if (found && found->deletion)
			return err_new(CONFLICT, "alias_taken",
				       "the session of that alias is being deleted");
		if (!found || agent_is_durable(found))
			break;
		agent_ref(found);
		err = condition_wait(&found->changed, CLOCK_NEVER);
		agent_unref(found); // may free it: its create may have failed
		TRY(err);
	}
	*out = found;
	return OK;
}

// Its choices stand: no session of that alias, and none in that sandbox, was made meanwhile. *out
// is the session of the alias, if there is one.
static fallible agent_create_agree(struct agent_session *agent, const struct who *who,
				   const struct agent_spec *spec, const struct owner *owner,
				   struct agent_session **out)
{
	const struct agent_session *sibling;

	do {
		TRY(agent_create_settle(agent, who, &spec->choices));
		TRY(agent_create_resume(agent->agents, who, spec, owner, out));
		sibling = agent_create_find_sibling(agent);
	} while (!*out && sibling && !choices_agree(&agent->choices, &sibling->choices));
	if (*out)
		return OK;
	TRY(agent_create_ask_share(agent));
	TRY(ask_class(agent));
	if (agent_list(agent, AGENT_LISTED))
		return OK;
	return err_hint(err_new(CONFLICT, "session_taken", "this session id was used before"),
			"omit it to get a new one");
}

static fallible agent_create_make(struct agent_sessions *agents, const struct who *who,
				  const struct agent_spec *spec, const struct owner *owner,
				  struct agent_session **out, bool *out_made)
{
	struct agent_session *agent = draft(agents, who, spec, owner), *found = NULL;
	struct err *err = agent_create_agree(agent, who, spec, owner, &found);

	if (err || found) {
		agent_unref(agent);
		*out = found;
		return err;
	}
	logs_open(agent);
	err = make_durable(agent);
	if (err) {
		agent_unlist(agent);
		return err;
	}
	agent_move(agent, AGENT_COMMITTED);
	log_event(LOG_INFO, "agent_session.created", "session", agent->id, "sandbox", agent->box,
		  "tenant", agent->tenant, NULL);
	event_publish(EVENT_SESSION_MADE, "session", agent->id, "sandbox", agent->box, "tenant",
		      agent->tenant, NULL);
	condition_signal(&agent->changed);
	actor_start(agent);
	*out = agent;
	*out_made = true;
	return OK;
}

// "tenant-acme:x" is the derived name of organisation x of tenant acme: no organisation may have
// it.
static fallible agent_create_check_shadow(const struct who *who, struct str org)
{
	if (who->tenant[0] || !org.at || !str_starts(org, "tenant-") ||
	    !memchr(org.at, ':', org.len))
		return OK;
	return err_new(INVALID, "invalid_owner", "'org' must not be 'tenant-…:…'");
}

fallible agents_create(struct agent_sessions *agents, const struct create_grant *grant,
		       const struct agent_spec *spec, struct agent_session **out, bool *out_made)
{
	const struct who *who = grant->who;
	char session[OWNER_SESSION_LEN + 1];
	struct owner owner = spec->owner;
	struct agent_session *agent = NULL;
	auto_choices same = {0};

	if (agents->closing || agents->draining)
		return agent_draining();
	if (!owner.session.at) {
		owner_new_session(session);
		owner.session = str_of(session);
	}
	TRY(owner_check(&owner));
	TRY(agent_create_check_shadow(who, owner.org));
	for (size_t i = 0; i < spec->alias_count; i++)
		TRY(owner_check_part(spec->aliases[i], "alias"));
	TRY(agent_create_resume(agents, who, spec, &owner, &agent));
	*out_made = false;
	if (!agent)
		TRY(agent_create_make(agents, who, spec, &owner, &agent, out_made));
	if (!*out_made)
		TRY(choices_join(&spec->choices, &agent->choices, &same));
	*out = agent;
	return OK;
}
