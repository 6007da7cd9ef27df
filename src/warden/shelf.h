// The warden's templates as data: what template.c and template_make.c share. Outsiders include
// template.h.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/map.h"
#include "model/order.h"
#include "warden/host.h"
#include "warden/note.h"
#include "warden/trash.h"
#include "warden/vault.h"

#define SHELF_NAME 80

// A child at work on a template.
struct shelf_job {
	struct link link;
	enum order_kind kind;
	uint32_t order;
	char name[ORDER_TEMPLATE_MAX];
	char temp[SHELF_NAME]; // .new-N
	int pid, report;
};

// A directory that boxes may still use.
struct shelf_gone {
	struct link link;
	char name[SHELF_NAME];
	int64_t since_us;
};

struct templates {
	int data, host_dir; // DATA, and the host's own root
	struct vault layers;
	struct trash *trash;
	uint64_t number; // of the next name of ours
	struct link jobs, gone;
	int job_count;
	char boot[NOTE_BOOT]; // this boot's name
	// The host's template, as it was found last.
	char stamp[HOST_STAMP_SIZE];
	int host_root, host_usr;
};

// Calls `each` for every name in DATA/layers, until one fails.
fallible shelf_walk(struct templates *all,
		    fallible (*each)(struct templates *, const char *, void *), void *arg);
// Out of sight, to be removed when no box can use it any more.
fallible shelf_retire(struct templates *all, const char *name);
// Notes a directory that was set aside earlier: boxes that are older than now may use it.
void shelf_is_gone(struct templates *all, const char *name);
// The root directory of `name`, O_PATH; -1 with errno.
int shelf_root(struct templates *all, const char *name);
// The host's template as of now, in all->host_root and all->host_usr.
fallible shelf_host(struct templates *all);
// Ends a job: what it filled goes to the trash unless it has got its name.
void shelf_job_drop(struct templates *all, struct shelf_job *job);
