// The sandbox of a session and its runner's process, found in the fleet on the tenant's behalf: no
// other tenant's sandbox is found, whatever id the session was given. Finding never wakes a
// sandbox, site_visit() does.
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "conv/site_inner.h"
#include "fleet/access.h"

struct who site_who(const struct seam_site *at)
{
	struct who who = WHO_COVE;

	who.role = WHO_TENANT;
	snprintf(who.tenant, sizeof(who.tenant), "%s", at->tenant);
	return who;
}

struct entry *site_entry(const struct site *site, const struct seam_site *at)
{
	struct who who = site_who(at);

	return access_find(site->options.fleet, &who, str_of(at->sandbox));
}

fallible site_visit(const struct site *site, const struct seam_site *at, struct visit *out)
{
	struct who who = site_who(at);

	return visit_begin(site->options.fleet, &who, str_of(at->sandbox), out);
}

struct files site_files(const struct visit *visit, enum timer_name timer)
{
	return (struct files){
		.box = visit->box,
		.user = "",
		.deadline = loop_now(visit->entry->fleet->loop) + timer_ms(timer),
	};
}

fallible site_remove(const struct files *files, const char *above, const char *name)
{
	auto_free char *path = mem_fmt("%s/%s", above, name);
	struct err *err = files_remove(files, path, true);

	if (err && err_kind(err) == ERR_NOT_FOUND) {
		err_free(err);
		return OK;
	}
	return err;
}

char *site_proc_name(const char *instance)
{
	return mem_fmt("runner-%s", instance + strlen("instance_"));
}

struct proc *site_proc(const struct visit *visit, const struct lease *lease)
{
	auto_free char *name = NULL;

	if (!lease->instance[0])
		return NULL;
	name = site_proc_name(lease->instance);
	return procs_find(visit->box, str_of(name));
}

fallible site_no_runner(void)
{
	return err_new(NOT_FOUND, "no_runner", "the runner is not there");
}

// Whatever became of the box: what is remembered of it is enough.
fallible site_find_proc(const struct site *site, const struct seam_site *at,
			const struct lease *lease, struct visit *visit_, struct proc **out)
{
	struct entry *entry = site_entry(site, at);
	struct who who = site_who(at);

	if (!entry || !entry->box)
		return site_no_runner();
	TRY(visit_look(site->options.fleet, &who, str_of(at->sandbox), visit_));
	*out = site_proc(visit_, lease);
	return *out ? OK : site_no_runner();
}
