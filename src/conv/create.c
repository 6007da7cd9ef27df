// From an owner to a conversation. The id of its sandbox is derived here, once, and is durable with
// the record before anything is provisioned. Names are reserved before the first wait, so that two
// who ask for one alias at the same time get the same conversation.
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "conv/admission.h"
#include "conv/book.h"
#include "conv/inner.h"
#include "conv/logs.h"
#include "conv/slot.h"
#include "fleet/access.h"

static char *copy(struct str text)
{
	return text.at ? mem_dup(text.at, text.len) : NULL;
}

// Owners of different tenants never share a sandbox, whatever they call themselves.
static void full_tag(const struct convs *convs, const char *tenant, struct buf *out)
{
	if (tenant[0])
		buf_fmt(out, "tenant-%s%s", tenant, convs->tag[0] ? ":" : "");
	buf_text(out, convs->tag);
}

// What is a session's alone is named after its key: another tenant's of the same id has its own.
static void route(struct conv *conv, struct owner *owner, bool isolated)
{
	auto_buf tag = BUF_INIT(OWNER_TAG_MAX);
	char first[ID_BOX_LEN + 1];

	owner->session = str_of(conv->key);
	owner_directory(owner->session, conv->directory);
	full_tag(conv->convs, conv->tenant, &tag);
	owner_derive(owner, isolated, buf_view(&tag), &conv->route);
	memcpy(first, conv->route.id, sizeof(first));
	if (!isolated)
		slot_choose(conv->convs, first, conv->route.id);
	memcpy(conv->box, conv->route.id, sizeof(conv->box));
	conv->sandbox = mem_str(conv->route.id);
	owner_class_of(str_of(conv->box), &conv->class);
}

static struct conv *draft(struct convs *convs, const struct who *who, const struct conv_spec *spec,
			  const struct owner *owner)
{
	struct conv *conv = conv_new(convs);
	bool isolated = spec->isolated || owner_is_chosen(str_of(convs->isolate), owner->org);
	struct owner own = *owner;
	char key[CONV_KEY_MAX + 1];
	size_t count = 0;

	snprintf(conv->tenant, sizeof(conv->tenant), "%s", who->tenant);
	conv->id = copy(owner->session);
	conv_key(conv->tenant, owner->session, key);
	conv->key = mem_str(key);
	conv->org = copy(owner->org);
	conv->user = copy(owner->user);
	conv->bot = copy(owner->bot);
	route(conv, &own, isolated);
	for (size_t i = 0; i < spec->alias_count; i++)
		conv->aliases[conv->alias_count++] = copy(spec->aliases[i]);
	while (spec->argv && spec->argv[count])
		count++;
	conv->argv = mem_new((count + 1) * sizeof(*conv->argv));
	for (size_t i = 0; i < count; i++)
		conv->argv[i] = mem_str(spec->argv[i]);
	for (size_t i = 0; spec->env && i < spec->env->count; i++)
		pairs_set(&conv->env, str_of(spec->env->at[i].name),
			  str_of(spec->env->at[i].value));
	conv->created_ms = conv->used_ms = convs_now(convs);
	conv->reconciled = true; // nothing of it can live yet
	return conv;
}

static fallible ask_class(const struct conv *conv)
{
	const struct convs *convs = conv->convs;
	uint64_t max = convs->class_max[conv->class], count = 0;

	if (!max)
		return OK;
	// Sandboxes, not sessions: those of one owner count once.
	list_each (at, &convs->all) {
		const struct conv *other = link_of(at, struct conv, link);
		bool first = other->class == conv->class;

		if (strcmp(other->box, conv->box) == 0)
			return OK;
		for (struct link *before = at->prev; first && before != &convs->all;
		     before = before->prev)
			first = strcmp(link_of(before, struct conv, link)->box, other->box) != 0;
		count += first;
	}
	if (count < max)
		return OK;
	return err_hint(
		err_new(EXHAUSTED, "class_full", "class %s is full", owner_class_word(conv->class)),
		"delete sessions that nobody needs");
}

static fallible make_durable(struct conv *conv)
{
	struct book_change change = {.session = true, .lease = &conv->lease};

	TRY(store_ready(conv->convs->store));
	TRY(admission_ask(conv));
	TRY(book_commit(conv, &change));
	conv->convs->refusal = conv->room; // others may have asked meanwhile
	return OK;
}

static fallible taken(void)
{
	return err_hint(err_new(CONFLICT, "session_taken", "this session id was used before"),
			"leave it out, and one is made");
}

static fallible conv_create_make(struct convs *convs, const struct who *who,
				 const struct conv_spec *spec, const struct owner *owner,
				 struct conv **out)
{
	struct conv *conv = draft(convs, who, spec, owner);
	struct err *err = ask_class(conv);

	if (!err && !conv_list(conv))
		err = taken();
	if (err) {
		conv_drop(conv);
		return err;
	}
	logs_open(conv);
	err = make_durable(conv);
	if (err) {
		conv_unlist(conv);
		return err;
	}
	conv->born = true;
	log_event(LOG_INFO, "session.created", "session", conv->id, "sandbox", conv->box, "tenant",
		  conv->tenant, NULL);
	bell_ring(&conv->changed);
	keeper_start(conv);
	*out = conv;
	return OK;
}

static struct conv *find_alias(struct convs *convs, const struct who *who,
			       const struct owner *owner, struct str alias)
{
	auto_buf key = BUF_INIT(4096);

	conv_alias_key(who->tenant, owner, alias, &key);
	return map_get(convs->by_alias, buf_view(&key));
}

// The conversation of the aliases, once it is settled whether there will be one; NULL: none.
static fallible conv_create_resume(struct convs *convs, const struct who *who,
				   const struct conv_spec *spec, const struct owner *owner,
				   struct conv **out)
{
	struct conv *found;

	do {
		found = NULL;
		for (size_t i = 0; i < spec->alias_count; i++) {
			struct conv *conv = find_alias(convs, who, owner, spec->aliases[i]);

			if (conv && found && conv != found)
				return err_new(CONFLICT, "alias_taken",
					       "the aliases name different sessions");
			found = conv ? conv : found;
		}
		if (found && (!found->born || found->deleting)) {
			struct err *err;

			if (found->deleting)
				return err_new(CONFLICT, "alias_taken",
					       "the session of that alias is being deleted");
			conv_hold(found);
			err = bell_wait(&found->changed, CLOCK_NEVER);
			conv_drop(found);
			TRY(err);
		}
	} while (found && !found->born);
	*out = found;
	return OK;
}

// "tenant-acme:x" is how the organisation x of the tenant acme is called when its sandbox is named.
static fallible conv_create_check_shadow(const struct who *who, struct str org)
{
	if (who->tenant[0] || !org.at || !str_starts(org, "tenant-") ||
	    !memchr(org.at, ':', org.len))
		return OK;
	return err_new(INVALID, "invalid_owner", "'org' must not be 'tenant-…:…'");
}

fallible convs_create(struct convs *convs, const struct who *who, const struct conv_spec *spec,
		      struct conv **out, bool *out_made)
{
	char session[OWNER_SESSION_LEN + 1];
	struct owner owner = spec->owner;
	struct conv *conv = NULL;

	TRY(access_ask(who, ACCESS_MAKE));
	if (convs->closing || convs->draining)
		return conv_draining();
	if (!owner.session.at) {
		owner_new_session(session);
		owner.session = str_of(session);
	}
	TRY(owner_check(&owner));
	TRY(conv_create_check_shadow(who, owner.org));
	for (size_t i = 0; i < spec->alias_count; i++)
		TRY(owner_check_part(spec->aliases[i], "alias"));
	TRY(conv_create_resume(convs, who, spec, &owner, &conv));
	*out_made = !conv;
	if (!conv)
		TRY(conv_create_make(convs, who, spec, &owner, &conv));
	*out = conv;
	return OK;
}
