// The table of conversations: found by id, and by alias within an owner. What is being made is in
// it already, with its names reserved, but is found by nobody until it is durable.
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "conv/inner.h"
#include "conv/runs.h"
#include "fleet/access.h"

int64_t convs_now(const struct convs *convs)
{
	return convs->wall_base + clock_ms() - convs->mono_base;
}

fallible conv_absent(struct str id)
{
	return err_absent("no_session", "session", id);
}

fallible conv_starting(void)
{
	return err_hint(err_new(UNAVAILABLE, "starting", "cove is still finding out what there is"),
			"try again in a moment");
}

fallible conv_draining(void)
{
	return err_new(UNAVAILABLE, "draining", "cove is shutting down");
}

struct seam_site conv_site(const struct conv *conv)
{
	return (struct seam_site){
		.session = conv->id,
		.sandbox = conv->box,
		.tenant = conv->tenant,
		.directory = conv->directory,
		.class = conv->class,
		.isolated = conv->route.kind == OWNER_SES,
	};
}

struct run *conv_first(const struct conv *conv)
{
	if (link_empty(&conv->runs))
		return NULL;
	return link_of(conv->runs.next, struct run, link);
}

struct run *conv_running(const struct conv *conv)
{
	struct run *run = conv_first(conv);

	return run && run->state == RUN_RUNNING ? run : NULL;
}

void conv_unreserve(struct conv *conv)
{
	conv->convs->reserved -= conv->reserved;
	conv->reserved = 0;
}

void conv_note_alive(struct conv *conv)
{
	conv->output_at = conv->heard_at = conv->beat_at = loop_now(conv->convs->loop);
	conv->pinged_at = 0;
}

static void conv_close_logs(struct conv *conv)
{
	if (!conv->logs)
		return;
	tape_budget_on_lack(conv->logs, NULL, NULL);
	tape_budget_leave(conv->logs);
	tape_budget_drop(take_ptr(conv->logs));
}

struct conv *conv_new(struct convs *convs)
{
	struct conv *conv = mem_new_of(struct conv);

	conv->convs = convs;
	conv->holds = 1;
	lease_init(&conv->lease);
	link_init(&conv->runs);
	link_init(&conv->wishes);
	bell_init(&conv->wake);
	bell_init(&conv->changed);
	return conv;
}

void conv_hold(struct conv *conv)
{
	conv->holds++;
}

void conv_drop(struct conv *conv)
{
	if (--conv->holds)
		return;
	list_each (at, &conv->runs)
		runs_unlist(link_of(at, struct run, link));
	conv_close_logs(conv);
	for (size_t i = 0; i < conv->alias_count; i++)
		free(conv->aliases[i]);
	for (char **arg = conv->argv; arg && *arg; arg++)
		free(*arg);
	free(conv->argv);
	pairs_done(&conv->env);
	free(conv->id);
	free(conv->key);
	free(conv->org);
	free(conv->user);
	free(conv->bot);
	free(conv->sandbox);
	free(conv);
}

bool conv_key(const char *tenant, struct str id, char out[CONV_KEY_MAX + 1])
{
	int len = snprintf(out, CONV_KEY_MAX + 1, "%s%s" STR_FMT, tenant, tenant[0] ? "__" : "",
			   STR_ARG(id));

	return len <= CONV_KEY_MAX;
}

const char *conv_id_of(const char *tenant, const char *key)
{
	size_t len = strlen(tenant);

	if (len && !strncmp(key, tenant, len) && !strncmp(key + len, "__", 2))
		return key + len + 2;
	return key;
}

void conv_alias_key(const char *tenant, const struct owner *owner, struct str alias,
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

static void alias_key(const struct conv *conv, size_t i, struct buf *out)
{
	struct owner owner = {str_of(conv->org), str_of(conv->user), str_of(conv->bot), {0}};

	conv_alias_key(conv->tenant, &owner, str_of(conv->aliases[i]), out);
}

static struct conv_share *conv_table_share_of(struct convs *convs, const char *tenant)
{
	struct str name = tenant[0] ? str_of(tenant) : STR(" "); // no tenant is called so
	struct conv_share *share = map_get(convs->shares, name);

	if (!share) {
		share = mem_new_of(struct conv_share);
		map_put(convs->shares, name, share);
	}
	return share;
}

bool conv_list(struct conv *conv)
{
	struct convs *convs = conv->convs;

	if (!map_put(convs->by_key, str_of(conv->key), conv))
		return false;
	for (size_t i = 0; i < conv->alias_count; i++) {
		auto_buf key = BUF_INIT(4096);

		alias_key(conv, i, &key);
		map_put(convs->by_alias, buf_view(&key), conv);
	}
	conv->share = conv_table_share_of(convs, conv->tenant);
	conv->listed = true;
	link_add(&convs->all, &conv->link);
	convs->count++;
	return true;
}

void conv_unlist(struct conv *conv)
{
	struct convs *convs = conv->convs;

	if (!conv->listed)
		return;
	conv->listed = false;
	conv_unreserve(conv);
	map_take(convs->by_key, str_of(conv->key));
	for (size_t i = 0; i < conv->alias_count; i++) {
		auto_buf key = BUF_INIT(4096);

		alias_key(conv, i, &key);
		if (map_get(convs->by_alias, buf_view(&key)) == conv)
			map_take(convs->by_alias, buf_view(&key));
	}
	link_drop(&conv->link);
	convs->count--;
	bell_ring(&conv->changed);
	bell_ring(&conv->wake);
	conv_drop(conv);
}

struct conv *convs_named(const struct convs *convs, const struct who *who, struct str id)
{
	char key[CONV_KEY_MAX + 1];

	return conv_key(who->tenant, id, key) ? map_get(convs->by_key, str_of(key)) : NULL;
}

fallible convs_find(struct convs *convs, const struct who *who, struct str id, bool even,
		    struct conv **out)
{
	struct conv *conv;

	TRY(access_ask(who, ACCESS_READ));
	conv = convs_named(convs, who, id);
	if (!conv || !conv->born || conv->lone || !access_sees(who, conv->tenant, "") ||
	    (conv->deleting && !even))
		return conv_absent(id);
	conv_hold(conv);
	*out = conv;
	return OK;
}

const char *conv_name(const struct conv *conv, const struct who *who)
{
	return who->tenant[0] ? conv->id : conv->key;
}

const char *conv_box(const struct conv *conv)
{
	return conv->box;
}

const char *conv_directory(const struct conv *conv)
{
	return conv->directory;
}

bool conv_is_deleting(const struct conv *conv)
{
	return conv->deleting;
}

const struct lease *conv_lease(const struct conv *conv)
{
	return &conv->lease;
}

struct conv_refusal convs_refusal(const struct convs *convs)
{
	return convs->refusal;
}
