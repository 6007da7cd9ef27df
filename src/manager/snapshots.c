// Has the warden copy the disk of a sandbox, as a snapshot with a name or, for forks, as one that
// only their creates use. Meanwhile no step of the sandbox runs (pause_hold()). The warden's half
// is undone by itself when the daemon is killed; half-made forks go with their creates.
#include "manager/snapshots.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "manager/create.h"
#include "manager/pause.h"
#include "manager/snapshot_note.h"
#include "manager/usage.h"

#define ASK_MS 30000
#define COPY_MS (35 * 60 * 1000) // a stopped one on a slow disk

// ------------------------------------------------------------------------------------------ copies

// What is asked: the name under which the warden stores it, and whether it replaces that one.
struct copy_ask {
	const char *name;
	bool again;
};

static fallible order_copy(struct entry *entry, const struct copy_ask *copy, const char *note,
			   struct answer *out)
{
	struct manager *manager = entry->manager;
	struct order order = {
		.kind = ORDER_SNAPSHOT,
		.since = entry->record.created_ms,
		.again = copy->again,
	};
	int fds[ORDER_FDS_MAX];
	struct err *err;

	memcpy(order.box, entry->record.id, sizeof(order.box));
	snprintf(order.name, sizeof(order.name), "%s", copy->name);
	snprintf(order.base, sizeof(order.base), "%s",
		 entry->record.root[0] ? entry->record.root : entry->record.template);
	snprintf(order.note, sizeof(order.note), "%s", note);
	task_shield(true); // the copy goes on in the warden, whether or not the client waits
	err = ask_order(manager->ask, &order, out, fds, loop_now(manager->loop) + COPY_MS);
	task_shield(false);
	return err_while(err, "copy %s", entry->record.id);
}

static fallible check_state(const struct entry *entry)
{
	switch (entry->record.state) {
	case STATE_RUNNING:
	case STATE_PAUSED:
	case STATE_FROZEN:
	case STATE_STOPPED:
	case STATE_ARCHIVED:
		return OK;
	default:
		return err_hint(err_new(CONFLICT, "not_running",
					"the sandbox has no files that could be copied"),
				"its state is %s", state_word(entry->record.state));
	}
}

// Holds the sandbox, copies it, lets it go.
static fallible copy_held(struct entry *entry, const struct copy_ask *copy, struct answer *out,
			  char note[ORDER_NOTE_MAX])
{
	struct err *err;

	TRY(pause_hold(entry));
	err = check_state(entry);
	if (!err)
		err = snapshot_note_write(entry, note);
	if (!err)
		err = order_copy(entry, copy, note, out);
	pause_release(entry);
	return err;
}

// What the copy will take, by what the disk takes now.
static fallible ask_quota(struct entry *entry)
{
	struct order_usage usage;

	usage_ask(entry->manager, entry->record.id, &usage);
	return usage.disk == ORDER_USAGE_UNKNOWN ? OK
						 : account_ask_disk(entry->account, usage.disk);
}

static void name_made_up(const struct entry *entry, char out[TEMPLATE_NAME_MAX])
{
	uint64_t number;

	secret_random(&number, sizeof(number));
	snprintf(out, TEMPLATE_NAME_MAX, "%.20s-%08llx", entry->record.short_id,
		 (unsigned long long)number & 0xffffffff);
}

// What is copied from a tenant's sandbox is that tenant's, also when the operator asks.
static struct who copy_owner(const struct entry *entry, const struct who *who)
{
	struct who owner = *who;

	snprintf(owner.tenant, sizeof(owner.tenant), "%s", entry->record.tenant);
	return owner;
}

static fallible make_held(struct entry *entry, const struct who *who, const struct copy_ask *copy,
			  struct snapshot *out)
{
	struct manager *manager = entry->manager;
	auto_free struct answer *answer = mem_new_of(struct answer);
	struct account *account = NULL;
	struct who owner = copy_owner(entry, who);
	const char *name = copy->name;
	char kept[TEMPLATE_NAME_MAX];
	struct copy_ask stored = {kept, copy->again};
	struct err *err;

	TRY(ask_quota(entry));
	TRY(templates_claim(manager, &owner, str_of(name), kept, &account));
	*out = (struct snapshot){.template.kind = "snapshot"};
	err = copy_held(entry, &stored, answer, out->template.note);
	TRY(templates_settle(manager, &owner, str_of(name), kept, account, answer->bytes, err));
	out->template.bytes = answer->bytes;
	out->template.created_ms = clock_wall_ms();
	out->frozen_us = answer->frozen_us;
	snprintf(out->template.name, sizeof(out->template.name), "%s",
		 who->tenant[0] ? name : kept);
	event_publish(EVENT_SNAPSHOT, "tenant", entry->record.tenant, "sandbox", entry->record.id,
		      "template", name, NULL);
	return OK;
}

static fallible snapshot_ask(struct manager *manager, const struct who *who, struct str key,
			     struct str name, bool again, struct snapshot *out)
{
	char shown[TEMPLATE_NAME_MAX];
	struct entry *entry;
	struct err *err;

	TRY(access_ask(who, ACCESS_TEMPLATES));
	TRY(access_entry(manager, who, ACCESS_READ, key, &entry));
	if (name.len >= sizeof(shown))
		return err_hint(err_new(INVALID, "bad_template", "this is not a template's name"),
				"1 to 63 of a-z, 0-9 and ._-");
	if (name.len)
		snprintf(shown, sizeof(shown), STR_FMT, STR_ARG(name));
	else
		name_made_up(entry, shown);
	entry_ref(entry);
	err = make_held(entry, who, &(struct copy_ask){shown, again}, out);
	entry_unref(entry);
	return err;
}

fallible snapshots_make(struct manager *manager, const struct who *who, struct str key,
			struct str name, struct snapshot *out)
{
	return snapshot_ask(manager, who, key, name, false, out);
}

fallible snapshots_replace(struct manager *manager, const struct who *who, struct str key,
			   struct str name, struct snapshot *out)
{
	return snapshot_ask(manager, who, key, name, true, out);
}

fallible snapshots_copy(struct manager *manager, const struct who *who, struct str key,
			const char *kept, bool again, uint64_t *out_bytes)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	char note[ORDER_NOTE_MAX];
	struct entry *entry;
	struct err *err;

	TRY(access_entry(manager, who, ACCESS_READ, key, &entry));
	entry_ref(entry);
	err = copy_held(entry, &(struct copy_ask){kept, again}, answer, note);
	entry_unref(entry);
	*out_bytes = answer->bytes;
	return err;
}

// ------------------------------------------------------------------------------------------ forks

static void fork_network(const struct record *record, bool secrets, struct spec *spec)
{
	auto_policy policy = POLICY_INIT(POLICY_OFF);

	if (!record->network)
		return;
	policy_copy(record->network, &policy);
	for (size_t i = 0; i < policy.secret_count; i++) {
		if (!secrets) {
			policy_secret_done(&policy.secrets[i]);
			continue;
		}
		free(policy.secrets[i].sealed); // sealed anew for the child
		policy.secrets[i].sealed = NULL;
	}
	if (!secrets)
		policy.secret_count = 0;
	spec->network = policy_new(&policy);
	spec->mode_said = true;
}

static void fork_spec(const struct record *record, const struct fork_request *request,
		      const char *copy, struct spec *out)
{
	*out = (struct spec){
		.limits = record->limits,
		.ephemeral = record->ephemeral,
		.retention = record->retention,
	};
	out->retention.base_url = NULL;
	out->retention.token_turn = 0;
	snprintf(out->template, sizeof(out->template), "%s", record->template);
	// The child holds the layer of a pulled image itself.
	snprintf(out->root, sizeof(out->root), "%s", record->root);
	if (record->image)
		out->image_digest = mem_str(record->image);
	snprintf(out->fork, sizeof(out->fork), "%s", copy);
	snprintf(out->user, sizeof(out->user), "%s", record->user);
	snprintf(out->name, sizeof(out->name), "%s", request->name);
	if (record->workdir)
		out->workdir = mem_str(record->workdir);
	if (record->launch)
		out->launch = mem_str(record->launch);
	env_map_add(&out->env, &record->env);
	env_map_add(&out->env, &request->env);
	env_map_add(&out->labels, &record->labels);
	env_map_add(&out->labels, &request->labels);
	fork_network(record, request->secrets, out);
}

static void fork_children(struct entry *entry, const struct create_grant *grant,
			  const struct fork_request *request, const char *copy, struct fork *out)
{
	for (uint64_t i = 0; i < request->count; i++) {
		const struct record *record = NULL;
		auto_spec spec = {0};
		bool made;

		fork_spec(&entry->record, request, copy, &spec);
		ask_name_box(entry->manager->ask, spec.id);
		out[i] = (struct fork){0};
		out[i].err = create_box(entry->manager, grant, &spec, CREATE_NEW, &record, &made);
		if (!out[i].err)
			memcpy(out[i].id, record->id, sizeof(out[i].id));
	}
}

static void drop_copy(struct manager *manager, const char *copy)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	struct order order = {.kind = ORDER_FORGET};
	int fds[ORDER_FDS_MAX];
	auto_err err = OK;

	snprintf(order.name, sizeof(order.name), "%s", copy);
	task_shield(true);
	err = ask_order(manager->ask, &order, answer, fds, loop_now(manager->loop) + ASK_MS);
	task_shield(false);
	if (err)
		log_event(LOG_WARN, "fork.copy_left", "trail", err_trail(err), NULL);
}

static fallible fork_held(struct entry *entry, const struct create_grant *grant,
			  const struct fork_request *request, struct fork *out)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	char copy[TEMPLATE_NAME_MAX], note[ORDER_NOTE_MAX];
	uint64_t number;

	secret_random(&number, sizeof(number));
	snprintf(copy, sizeof(copy), ORDER_FORK "%llx", (unsigned long long)number);
	TRY(copy_held(entry, &(struct copy_ask){.name = copy}, answer, note));
	fork_children(entry, grant, request, copy, out);
	drop_copy(entry->manager, copy);
	return OK;
}

fallible snapshots_fork(struct manager *manager, const struct create_grant *grant, struct str key,
			const struct fork_request *request, struct fork *out)
{
	struct create_grant own;
	struct entry *entry;
	struct who owner;
	struct err *err;

	TRY(access_entry(manager, grant->who, ACCESS_MAKE, key, &entry));
	owner = copy_owner(entry, grant->who);
	own = (struct create_grant){.who = &owner};
	entry_ref(entry);
	err = fork_held(entry, &own, request, out);
	entry_unref(entry);
	return err;
}
