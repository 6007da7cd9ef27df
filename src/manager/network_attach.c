// Network attach and its reconciler. The record holds the wanted state; `attach_link` the actual
// one: the number of the warden's connection over which the network was attached, 0 when detached.
// Every change of either calls attach_settle(), which makes them agree, one run at a time per box;
// so the order of a PATCH, a wake and a new warden does not matter.
//
// A policy is in force the moment it is set: every verdict reads it. Only a change between `off`
// and the other modes takes an order to the warden.
#include "manager/network_attach.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "box/net.h"
#include "box/session.h"
#include "codec/text.h"
#include "manager/access.h"
#include "manager/ca_install.h"
#include "manager/life.h"
#include "manager/named_secrets.h"

#define STEP_MS 10000
#define ATTACH_FILES 2ull // the listener and the UDP socket
#define FAR_BOXES 256	  // room for so many more: the limit is far away
#define AGAIN_MS 500	  // after a failure, doubled each time
#define AGAIN_MAX_MS 30000
#define GATHER_MS 5 // each round visits all boxes: signals within this time share one
#define AT_ONCE 32
#define LATE_AT_ONCE 8

bool attach_is_wanted(const struct record *record)
{
	return record->network && record->network->mode != POLICY_OFF;
}

// ------------------------------------------------------------------------------------ request

// While no warden is connected the last host report holds: the change is recorded, and done later.
static bool can_host(const struct manager *manager)
{
	const struct order_host *host = ask_last_host(manager->ask);

	return manager->egress && host && strcmp(host->net, "none") != 0;
}

static fallible ask_mode(const struct manager *manager, const struct account *account,
			 enum policy_mode mode)
{
	enum policy_mode most = tenant_network(&account->tenant);

	if (mode > most)
		return err_hint(err_new(FORBIDDEN, "network_not_allowed",
					"this tenant may have network mode '%s' at most",
					policy_mode_word(most)),
				"the operator decides: cove tenant set NAME --network MODE");
	if (mode != POLICY_OFF && !can_host(manager))
		return err_hint(err_new(NOT_OFFERED, "no_network",
					"this host offers network mode 'off' only"),
				"'cove doctor' tells what is missing");
	return OK;
}

fallible attach_fit(const struct manager *manager, const struct account *account, struct spec *spec)
{
	if (!spec->network || !spec->mode_said) {
		auto_policy none = POLICY_INIT(POLICY_OFF);

		if (!spec->network)
			spec->network = policy_new(&none);
		spec->network->mode = can_host(manager) ? tenant_network(&account->tenant)
							: POLICY_OFF;
	}
	return ask_mode(manager, account, spec->network->mode);
}

fallible attach_read(const struct entry *entry, const struct json *network, struct policy **out)
{
	const struct policy *old = entry->record.network;
	auto_policy policy = POLICY_INIT(POLICY_OFF);

	TRY(policy_read(network, old ? old->mode : POLICY_OFF, &policy));
	TRY(policy_inherit(&policy, old));
	TRY(named_secrets_fill(entry->manager, entry->record.tenant, &policy));
	TRY(ask_mode(entry->manager, entry->account, policy.mode));
	TRY(attach_seal(entry, &policy));
	*out = policy_new(&policy);
	return OK;
}

// ------------------------------------------------------------------------------------ secrets

fallible attach_seal(const struct entry *entry, struct policy *policy)
{
	for (size_t i = 0; i < policy->secret_count; i++) {
		struct policy_secret *secret = &policy->secrets[i];
		auto_buf sealed = BUF_INIT(2 * POLICY_SECRET_VALUE_MAX);
		auto_buf text = BUF_INIT(4 * POLICY_SECRET_VALUE_MAX);

		if (secret->sealed || !secret->value || secret->is_named)
			continue;
		if (!entry->manager->egress)
			return err_new(NOT_OFFERED, "no_network", "secrets cannot be kept here");
		TRY(egress_seal(entry->manager->egress, entry->record.id, str_of(secret->value),
				&sealed));
		text_base64(&text, sealed.at, sealed.len);
		secret->sealed = mem_dup(text.at, text.len);
	}
	return OK;
}

static fallible unseal(const struct entry *entry, struct policy *policy,
		       const struct policy_secret *secret)
{
	auto_buf sealed = BUF_INIT(2 * POLICY_SECRET_VALUE_MAX);
	auto_buf value = BUF_SECRET(2 * POLICY_SECRET_VALUE_MAX);
	struct err *err;

	if (!text_unbase64(&sealed, str_of(secret->sealed)))
		return err_new(INVALID, "bad_seal", "a sealed secret is malformed");
	err = egress_unseal(entry->manager->egress, entry->record.id, buf_view(&sealed), &value);
	if (!err)
		policy_set_secret(policy, secret->name, buf_view(&value));
	return err;
}

// A secret that cannot be unsealed has no value: its placeholder is sent unchanged.
void attach_unseal(struct entry *entry)
{
	struct policy *policy = entry->record.network;

	err_free(named_secrets_fill(entry->manager, entry->record.tenant, policy));
	for (size_t i = 0; policy && entry->manager->egress && i < policy->secret_count; i++) {
		const struct policy_secret *secret = &policy->secrets[i];
		auto_err err = secret->sealed ? unseal(entry, policy, secret) : OK;

		if (err)
			log_event(LOG_ERROR, "egress.secret_lost", "sandbox", entry->record.id,
				  "name", secret->name, "reason", err_reason(err), NULL);
	}
}

// Updates the environment of running shells.
static void attach_set_shell_env(struct entry *entry, const struct policy *old,
				 const struct policy *fresh)
{
	if (!entry->box)
		return;
	for (size_t i = 0; old && i < old->secret_count; i++)
		session_set_env(entry->box, str_of(old->secrets[i].name), NULL);
	for (size_t i = 0; i < fresh->secret_count; i++)
		session_set_env(entry->box, str_of(fresh->secrets[i].name),
				fresh->secrets[i].placeholder);
}

// ------------------------------------------------------------------------------------ one box

static fallible attach_hand_over(struct entry *entry, struct box_net *net, bool fresh)
{
	struct egress_box_spec spec = {
		.id = entry->record.id,
		.tenant = entry->record.tenant,
		.policy = entry->record.network,
		.listener = net->listener,
		.udp = net->udp,
		.fresh = fresh,
	};
	struct egress_box *out = NULL;

	if (entry->egress)
		return egress_box_sockets(entry->egress, net->listener, net->udp);
	TRY(egress_box_new(entry->manager->egress, &spec, &out));
	entry->egress = out;
	// The policy may have changed during the wait.
	egress_box_policy(out, entry->record.network);
	return OK;
}

static bool is_as_wanted(const struct entry *entry)
{
	return attach_is_wanted(&entry->record)
		       ? entry->attach_link && ask_is_same(entry->manager->ask, entry->attach_link)
		       : !entry->attach_link;
}

fallible attach_take(struct entry *entry, uint32_t links, bool fresh)
{
	struct box_net net = {.listener = -1, .udp = -1};
	struct err *err;

	if (!entry->manager->egress || (!attach_is_wanted(&entry->record) && !entry->egress))
		return OK;
	entry->attach_link = box_net_take(entry->box, &net) ? links : 0;
	err = attach_hand_over(entry, &net, fresh);
	if (err) {
		entry->attach_link = 0;
		return err_while(err, "attach the network of %s", entry->record.id);
	}
	if (entry->attach_link)
		ca_install_put(entry);
	if (!is_as_wanted(entry))
		condition_signal(&entry->manager->attach_changed);
	return OK;
}

void attach_take_or_mend(struct entry *entry, uint32_t links)
{
	auto_err err = attach_take(entry, links, false);

	if (!err)
		return;
	log_event(LOG_WARN, "egress.not_open", "sandbox", entry->record.id, "reason",
		  err_reason(err), "trail", err_trail(err), NULL);
	condition_signal(&entry->manager->attach_changed);
}

uint64_t attach_owed(const struct manager *manager)
{
	struct admit_view view = admit_look(manager->admit, loop_now(manager->loop));
	uint64_t owed = 0;

	// Most daemons have room for every box, and need no count of 5,000 for each adoption.
	if (!manager->egress ||
	    view.files + ATTACH_FILES * (manager->running + FAR_BOXES) < view.files_max)
		return 0;
	list_each (at, &manager->entries) {
		const struct entry *entry = link_of(at, struct entry, link);

		if (entry->box && !entry->attach_link && attach_is_wanted(&entry->record))
			owed += ATTACH_FILES;
	}
	return owed;
}

static int64_t deadline_of(const struct entry *entry)
{
	return loop_now(entry->manager->loop) + STEP_MS;
}

static bool runs(const struct entry *entry)
{
	return entry->listed && entry_is_alive(entry);
}

static fallible attach_close(struct entry *entry)
{
	entry->attach_link = 0;
	if (entry->egress)
		TRY(egress_box_sockets(entry->egress, -1, -1));
	return box_net_set(entry->box, false, deadline_of(entry));
}

static fallible converge(struct entry *entry)
{
	if (!entry->manager->egress || !runs(entry))
		return OK;
	if (is_as_wanted(entry)) {
		ca_install_put(entry);
		return OK;
	}
	if (!attach_is_wanted(&entry->record))
		return attach_close(entry);
	uint32_t links = ask_links(entry->manager->ask);

	TRY(box_net_set(entry->box, true, deadline_of(entry)));
	return attach_take(entry, links, false);
}

fallible attach_settle(struct entry *entry)
{
	struct err *err = OK;

	while (!err && entry->attaching)
		err = condition_wait(&entry->changed, deadline_of(entry));
	TRY(err, "wait for the last change of the network");
	entry->attaching = true;
	err = converge(entry);
	entry->attaching = false;
	condition_signal(&entry->changed);
	return err;
}

void attach_mend(struct entry *entry)
{
	uint32_t links = ask_links(entry->manager->ask);
	auto_err err = attach_settle(entry);
	int64_t pause = entry->attach_backoff_ms * 2;

	entry->attach_due = false;
	entry->attach_retry_ms = 0;
	if (!err)
		entry->attach_backoff_ms = 0;
	if (!err)
		return;
	condition_signal(&entry->manager->attach_changed);
	if (!ask_is_same(entry->manager->ask, links))
		return; // the warden is away: nothing is tried before it is back
	if (!pause)
		pause = AGAIN_MS;
	entry->attach_backoff_ms = pause < AGAIN_MAX_MS ? pause : AGAIN_MAX_MS;
	entry->attach_retry_ms = loop_now(entry->manager->loop) + entry->attach_backoff_ms;
	log_event(LOG_WARN, "egress.not_open", "sandbox", entry->record.id, "reason",
		  err_reason(err), "trail", err_trail(err), NULL);
}

void attach_change(struct entry *entry, struct policy **policy)
{
	struct policy *old = entry->record.network;

	attach_set_shell_env(entry, old, *policy);
	entry->record.network = take_ptr(*policy);
	policy_free(old);
	if (entry->egress)
		egress_box_policy(entry->egress, entry->record.network);
}

fallible attach_look(struct manager *manager, const struct who *who, struct str key,
		     struct attach_view *out)
{
	struct entry *entry;

	TRY(access_entry(manager, who, ACCESS_READ, key, &entry));
	if (entry->attach_due) { // counts of earlier daemons are known once it is attached
		entry_ref(entry);
		attach_mend(entry);
		entry_unref(entry);
		entry = access_find(manager, who, key);
	}
	if (!entry)
		return access_absent(key);
	*out = (struct attach_view){.is_open = entry->attach_link != 0};
	memcpy(out->id, entry->record.id, sizeof(out->id));
	if (entry->egress)
		out->counts = egress_box_counts(entry->egress);
	return OK;
}

// ------------------------------------------------------------------------------------------ all

struct reconciler {
	struct manager *manager;
	uint32_t busy, late; // running tasks; those of them that retry a failure
};

struct work_item {
	struct reconciler *reconciler;
	struct entry *entry; // referenced
	bool late;
};

// A failure may have been the last warden's fault.
static void on_loss(void *arg)
{
	struct manager *manager = ((struct reconciler *)arg)->manager;

	list_each (at, &manager->entries)
		link_of(at, struct entry, link)->attach_retry_ms = 0;
	condition_signal(&manager->attach_changed);
}

static void mend(void *arg)
{
	struct work_item *work_item = arg;

	attach_mend(work_item->entry);
	entry_unref(work_item->entry);
	work_item->reconciler->busy--;
	work_item->reconciler->late -= work_item->late;
	condition_signal(&work_item->reconciler->manager->attach_changed);
	free(work_item);
}

static bool has_failed(const struct entry *entry)
{
	return entry->attach_backoff_ms;
}

// A box can make each attempt last until its deadline: retries leave most slots to other boxes.
static bool may_start(const struct reconciler *reconciler, const struct entry *entry)
{
	return reconciler->busy < AT_ONCE &&
	       (!has_failed(entry) || reconciler->late < LATE_AT_ONCE);
}

static void attach_start(struct reconciler *reconciler, struct entry *entry)
{
	struct work_item *work_item = mem_new_of(struct work_item);

	*work_item = (struct work_item){
		.reconciler = reconciler, .entry = entry, .late = has_failed(entry)};
	entry_ref(entry);
	entry->attach_retry_ms = loop_now(reconciler->manager->loop) +
				 STEP_MS; // a task works on it
	reconciler->busy++;
	reconciler->late += work_item->late;
	task_start(reconciler->manager->loop, "network", mend, work_item);
}

static bool is_coming(const struct entry *entry)
{
	return entry->moving || entry->attaching || entry->record.state == STATE_CREATING;
}

// Starts tasks for the boxes that are due. Returns when the next is due. Each box has its own
// backoff: a failure may be the box's own doing, which must not cost others.
static int64_t mend_some(struct reconciler *reconciler)
{
	struct manager *manager = reconciler->manager;
	int64_t now = loop_now(manager->loop), next = CLOCK_NEVER;

	list_each (at, &manager->entries) {
		struct entry *entry = link_of(at, struct entry, link);
		int64_t due = is_coming(entry) ? now + AGAIN_MS : entry->attach_retry_ms;

		if (is_as_wanted(entry) || (!is_coming(entry) && !runs(entry)))
			continue;
		if (due > now)
			next = due < next ? due : next;
		else if (may_start(reconciler, entry))
			attach_start(reconciler, entry);
		// Otherwise a task that ends signals us.
	}
	return next;
}

static void attach_watch(void *arg)
{
	struct reconciler *reconciler = arg;
	struct manager *manager = reconciler->manager;
	auto_err err = OK;

	while (!err) {
		err = ask_wait_linked(manager->ask, CLOCK_NEVER);
		// Adopt every box before attaching the networks that no request waits for.
		while (!err && !manager->settled && !manager->unknown)
			err = condition_wait(&manager->left, CLOCK_NEVER);
		if (!err)
			err = condition_wait(&manager->attach_changed, mend_some(reconciler));
		if (err && err_kind(err) == ERR_TIMEOUT)
			err_free(take_ptr(err));
		if (!err)
			err = task_sleep_until(loop_now(manager->loop) + GATHER_MS);
	}
	free(reconciler);
}

void attach_open(struct manager *manager)
{
	struct reconciler *reconciler = mem_new_of(struct reconciler);

	reconciler->manager = manager;
	ask_on_loss(manager->ask, on_loss, reconciler);
	task_start(manager->loop, "ways", attach_watch, reconciler);
}
