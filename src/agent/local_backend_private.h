// State of the local backend, for local_backend.c, local_backend_space.c and site_box.c.
#pragma once

#include "agent/local_backend.h"
#include "manager/box_ref.h"
#include "types/timers.h"

#define WORKSPACE "/workspace"
#define HOMES "/home"

struct local {
	struct local_options options;
	struct backend backend;
};

// In site_box.c.
struct who local_who(const struct backend_site *at); // the tenant, with all rights of one
struct entry *local_entry(const struct local *local, const struct backend_site *at); // NULL: none
// With the tenant's identity; wakes a frozen or stopped sandbox.
fallible local_box_ref(const struct local *local, const struct backend_site *at,
		       struct box_ref *out);
struct files local_files(const struct box_ref *ref, enum timer_name timer);
// Removes a directory tree; OK if it is absent.
fallible local_remove(const struct files *files, const char *above, const char *name);
char *local_proc_name(const char *instance);
struct proc *local_proc(const struct box_ref *ref, const struct lease *lease); // NULL: none
fallible local_no_runner(void); // NOT_FOUND no_runner
// The leased runner's process record, in whatever state; never wakes the sandbox.
fallible local_find_proc(const struct local *local, const struct backend_site *at,
			 const struct lease *lease, struct box_ref *box_ref_, struct proc **out);

// In local_backend_space.c: see agent/backend.h.
fallible local_capacity(void *arg, const struct backend_site *at, struct backend_room *out);
void local_clean(void *arg, const struct backend_site *at,
		 bool (*is_used)(const char *directory, void *of), void *of,
		 struct backend_cleaned *out);
fallible local_sessions(void *arg, void (*each)(const struct backend_site *at, void *of), void *of);
void local_logs(void *arg, const struct backend_site *at, const struct lease *lease,
		struct json_out *out);
