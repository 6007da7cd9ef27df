// References to boxes. box_ref_begin() wakes a frozen or stopped box; box_ref_look() does not.
// Every begin needs one box_ref_end(): `visits` of the entry counts the references that keep a box
// from being idle.
#include "manager/box_ref.h"

#include "box/freeze.h"
#include "manager/access.h"
#include "manager/adopt_queue.h"
#include "manager/life.h"
#include "manager/network_attach.h"
#include "manager/pause.h"

#define SETTLED_MS 30000 // from a start of the daemon until a sandbox is adopted

static void stay(struct entry *entry, struct box_ref *out)
{
	entry->visits++;
	if (entry->box)
		box_set_user(entry->box, entry->record.user);
	*out = (struct box_ref){.entry = entry, .box = entry->box};
}

fallible box_ref_begin(struct manager *manager, const struct who *who, struct str key,
		       struct box_ref *out)
{
	struct entry *entry;
	struct err *err;

	TRY(access_entry(manager, who, ACCESS_USE, key, &entry));
	entry_ref(entry);
	err = pause_wake(entry);
	if (err) {
		entry_unref(entry);
		return err;
	}
	if (entry->attach_due)
		attach_mend(entry);
	stay(entry, out);
	return OK;
}

fallible box_ref_look(struct manager *manager, const struct who *who, struct str key,
		      struct box_ref *out)
{
	int64_t deadline = loop_now(manager->loop) + SETTLED_MS;
	auto_entry entry = NULL;

	TRY(access_entry(manager, who, ACCESS_USE, key, &entry));
	entry_ref(entry);
	TRY(adopt_await(entry, deadline));
	while (entry->listed && entry->moving && !entry->box)
		TRY(condition_wait(&entry->changed, deadline),
		    "wait for the sandbox to be taken up");
	if (!entry->listed)
		return access_absent(key);
	if (state_is_stopped(entry->record.state))
		entry_need_box(entry);
	if (!entry->box)
		return err_new(UNAVAILABLE, "box_starting", "the sandbox is being made");
	stay(take_ptr(entry), out);
	out->looks = true;
	return OK;
}

void box_ref_end(struct box_ref *ref)
{
	struct entry *entry = ref->entry;
	bool looks = ref->looks;

	*ref = (struct box_ref){0};
	if (!entry)
		return;
	entry->visits--;
	if (!looks)
		entry->idle.busy_ms = loop_now(entry->manager->loop);
	entry_unref(entry);
}

// Commands running in all boxes of a tenant.
static uint64_t execs_of(const struct manager *manager, const struct account *account)
{
	uint64_t sum = 0;

	list_each (at, &manager->entries) {
		const struct entry *entry = link_of(at, struct entry, link);

		if (entry->account == account && entry->box)
			sum += box_execs(entry->box);
	}
	return sum;
}

fallible box_ref_admit(const struct box_ref *ref)
{
	struct manager *manager = ref->entry->manager;
	struct account *account = ref->entry->account;
	struct err *err;

	if (account->tenant.quota.execs)
		TRY(account_ask_exec(account, execs_of(manager, account)));
	err = admit_exec(manager->admit, loop_now(manager->loop), box_execs(ref->box));
	if (!table_close_files(manager, err))
		return err;
	err_free(err);
	return admit_exec(manager->admit, loop_now(manager->loop), box_execs(ref->box));
}

// A box that ended during a command will not come back: do not tell the client to retry.
fallible box_ref_explain(struct err *err)
{
	if (err && err_kind(err) == ERR_UNAVAILABLE && !strcmp(err_reason(err), "box_lost"))
		return err_hint(err_recast(err, ERR_GONE, "box_lost", "the sandbox is gone"),
				"create another");
	return err;
}
