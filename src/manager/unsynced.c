// The mark `unsynced`: the time of the last run that began, in the record of the sandbox, so that
// it is as durable as the sandbox. Two marks never have one time. A sync out reads the files
// between unsynced_begin() and unsynced_settle(): the mark goes if it is the one of the beginning,
// and if no run was active at either end, since what a run wrote in between may have been missed.
#include "manager/unsynced.h"

#include "base/clock.h"
#include "box/procs.h"
#include "box/term.h"

#define MARK_NONE (-1) // of no sync: settles nothing

void unsynced_mark(struct entry *entry)
{
	int64_t now = clock_wall_ms(), last = entry->record.unsynced_ms;

	entry->record.unsynced_ms = now > last ? now : last + 1;
}

fallible unsynced_may(const struct entry *entry)
{
	if (!entry->record.ephemeral)
		return OK;
	return err_hint(
		err_new(CONFLICT, "ephemeral", "this sandbox keeps no files: it cannot be marked"),
		"make it without 'ephemeral'");
}

fallible unsynced_check(const struct entry *entry)
{
	if (!entry->record.unsynced_ms)
		return OK;
	return err_hint(
		err_new(CONFLICT, "unsynced", "the sandbox has changes that were not brought back"),
		"'cove sync out' in its worktree brings them; ?force=true, or 'cove rm "
		"--force', gives them up");
}

static void unsynced_on_process(struct proc *proc, void *arg)
{
	bool *is_active = arg;

	if (str_starts(str_of(proc_look(proc).id), UNSYNCED_RUN) && !proc_is_over(proc))
		*is_active = true;
}

static void unsynced_on_terminal(struct term *term, void *arg)
{
	struct term_view view = term_view(term);
	bool *is_active = arg;

	if (str_starts(str_of(view.id), UNSYNCED_RUN) && !view.has_ended)
		*is_active = true;
}

static bool unsynced_has_run(const struct entry *entry)
{
	bool is_active = false;

	if (entry->box) {
		procs_each(entry->box, unsynced_on_process, &is_active);
		term_each(entry->box, unsynced_on_terminal, &is_active);
	}
	return is_active;
}

void unsynced_begin(struct entry *entry)
{
	entry->sync_mark = unsynced_has_run(entry) ? MARK_NONE : entry->record.unsynced_ms;
}

fallible unsynced_settle(struct entry *entry)
{
	int64_t marked = entry->record.unsynced_ms;
	struct err *err;

	if (!marked || entry->sync_mark != marked || unsynced_has_run(entry))
		return OK;
	entry->record.unsynced_ms = 0;
	entry_ref(entry);
	err = entry_keep_now(entry);
	if (err && !entry->record.unsynced_ms)
		entry->record.unsynced_ms = marked; // what is stored is not known
	entry_unref(entry);
	return err;
}
