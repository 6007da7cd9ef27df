// The state of the seam over the fleet, for the files that are it.
#pragma once

#include "conv/site.h"
#include "fleet/visit.h"
#include "model/timers.h"

#define WORKSPACE "/workspace"
#define HOMES "/home"

struct site {
	struct site_options options;
	struct seam seam;
};

// In site_box.c.
struct who site_who(const struct seam_site *at); // the tenant, with all rights of one
struct entry *site_entry(const struct site *site, const struct seam_site *at); // NULL: none
// On the tenant's behalf; wakes a sandbox that sleeps.
fallible site_visit(const struct site *site, const struct seam_site *at, struct visit *out);
struct files site_files(const struct visit *visit, enum timer_name timer);
// All of a directory; one that is not there is no error.
fallible site_remove(const struct files *files, const char *above, const char *name);
char *site_proc_name(const char *instance);
struct proc *site_proc(const struct visit *visit, const struct lease *lease); // NULL: none
fallible site_no_runner(void);						      // NOT_FOUND no_runner
// The leased runner, as far as it is remembered: whatever became of it, and without waking.
fallible site_find_proc(const struct site *site, const struct seam_site *at,
			const struct lease *lease, struct visit *visit_, struct proc **out);

// In site_room.c: see conv/seam.h.
fallible site_capacity(void *arg, const struct seam_site *at, struct seam_room *out);
void site_clean(void *arg, const struct seam_site *at,
		bool (*is_used)(const char *directory, void *of), void *of,
		struct seam_cleaned *out);
fallible site_sessions(void *arg, void (*each)(const struct seam_site *at, void *of), void *of);
void site_logs(void *arg, const struct seam_site *at, const struct lease *lease,
	       struct json_out *out);
