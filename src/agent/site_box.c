// Finds the sandbox of a session and its runner's process through the manager, with the tenant's
// identity: no other tenant's sandbox is found, whatever id the session has. Lookups never wake a
// sandbox; local_box_ref() does.
#include <stdio.h>
#include <string.h>

#include "agent/local_backend_private.h"
#include "base/mem.h"
#include "manager/access.h"

struct who local_who(const struct backend_site *at)
{
	struct who who = WHO_COVE;

	who.role = WHO_TENANT;
	snprintf(who.tenant, sizeof(who.tenant), "%s", at->tenant);
	return who;
}

struct entry *local_entry(const struct local *local, const struct backend_site *at)
{
	struct who who = local_who(at);

	return access_find(local->options.manager, &who, str_of(at->sandbox));
}

fallible local_box_ref(const struct local *local, const struct backend_site *at,
		       struct box_ref *out)
{
	struct who who = local_who(at);

	return box_ref_begin(local->options.manager, &who, str_of(at->sandbox), out);
}

struct files local_files(const struct box_ref *ref, enum timer_name timer)
{
	return (struct files){
		.box = ref->box,
		.user = "",
		.deadline = loop_now(ref->entry->manager->loop) + timer_ms(timer),
	};
}

fallible local_remove(const struct files *files, const char *above, const char *name)
{
	auto_free char *path = mem_fmt("%s/%s", above, name);
	struct err *err = files_remove(files, path, true);

	if (err && err_kind(err) == ERR_NOT_FOUND) {
		err_free(err);
		return OK;
	}
	return err;
}

char *local_proc_name(const char *instance)
{
	return mem_fmt("runner-%s", instance + strlen("instance_"));
}

struct proc *local_proc(const struct box_ref *ref, const struct lease *lease)
{
	auto_free char *name = NULL;

	if (!lease->instance[0])
		return NULL;
	name = local_proc_name(lease->instance);
	return procs_find(ref->box, str_of(name));
}

fallible local_no_runner(void)
{
	return err_new(NOT_FOUND, "no_runner", "the runner does not exist");
}

// Works in any state of the box: the daemon's record of the process is enough.
fallible local_find_proc(const struct local *local, const struct backend_site *at,
			 const struct lease *lease, struct box_ref *box_ref_, struct proc **out)
{
	struct entry *entry = local_entry(local, at);
	struct who who = local_who(at);

	if (!entry || !entry->box)
		return local_no_runner();
	TRY(box_ref_look(local->options.manager, &who, str_of(at->sandbox), box_ref_));
	*out = local_proc(box_ref_, lease);
	return *out ? OK : local_no_runner();
}
