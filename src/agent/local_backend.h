// The backend interface on this host: a session's sandbox is a box with a derived id, a runner is a
// process in it with a socket to the daemon.
#pragma once

#include "agent/backend.h"
#include "agent/choices.h"
#include "manager/manager.h"
#include "types/limits.h"

// The id of a session's terminal in its sandbox is the name of its directories there.
struct local_options {
	struct manager *manager;
	int data;			      // a directory of the host's file system; borrowed
	struct limits classes[OWNER_CLASSES]; // of each size class
	char boot[LEASE_BOOT_LEN + 1];	      // "": unknown
	// Offers what the profile gives: choices_offer(), its limits always. INVALID no_profile.
	// NULL: there are no profiles.
	struct err *(*profile)(void *arg, struct str name, struct choices *choices);
	void *profile_arg;
};

struct local;
struct local *local_new(const struct local_options *options);
// For sandboxes created from now on.
void local_set_classes(struct local *local, const struct limits classes[OWNER_CLASSES]);
const struct backend *local_backend(const struct local *local); // borrowed
