// The warden's templates as data: what template.c and template_make.c share. Outsiders include
// template.h.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/map.h"
#include "protocol/order.h"
#include "warden/box_state.h"
#include "warden/host.h"
#include "warden/private_dir.h"
#include "warden/trash.h"

#define TEMPLATE_CACHE_NAME 80

// A child at work on a template.
struct template_cache_job {
	struct link link;
	enum order_kind kind;
	uint32_t order;
	char name[TEMPLATE_NAME_MAX];
	char temp[TEMPLATE_CACHE_NAME]; // .new-N
	int pid, report;
};

// A directory that boxes may still use.
struct template_cache_gone {
	struct link link;
	char name[TEMPLATE_CACHE_NAME];
	int64_t since_us;
};

struct templates {
	int data, host_dir; // DATA, and the host's own root
	struct private_dir layers;
	struct trash *trash;
	uint64_t number; // of the next name of ours
	struct link jobs, gone;
	int job_count;
	char boot[BOX_STATE_BOOT]; // this boot's name
	// The host's template, as it was found last.
	char stamp[HOST_STAMP_SIZE];
	int host_root, host_usr;
};

// Calls `each` for every name in DATA/layers, until one fails.
fallible template_cache_walk(struct templates *all,
			     fallible (*each)(struct templates *, const char *, void *), void *arg);
// Out of sight, to be removed when no box can use it any more.
fallible template_cache_retire(struct templates *all, const char *name);
// Notes a directory that was set aside earlier: boxes that are older than now may use it.
void template_cache_is_gone(struct templates *all, const char *name);
// The root directory of `name`, O_PATH; -1 with errno.
int template_cache_root(struct templates *all, const char *name);
// The host's template as of now, in all->host_root and all->host_usr.
fallible template_cache_host(struct templates *all);
// Ends a job: what it filled goes to the trash unless it has got its name.
void template_cache_job_drop(struct templates *all, struct template_cache_job *job);
