// Private state of templates, shared by template.c, template_make.c and template_cache.c. Other
// files include template.h.
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

// A removed directory that boxes may still use.
struct template_cache_gone {
	struct link link;
	char name[TEMPLATE_CACHE_NAME];
	int64_t since_us;
};

struct templates {
	int data, host_dir; // DATA, and the host's own root
	struct private_dir layers;
	struct trash *trash;
	uint64_t number; // of the next name that is generated
	struct link jobs, gone;
	int job_count;
	char boot[BOX_STATE_BOOT]; // boot id
	// The host's template, as found last.
	char stamp[HOST_STAMP_SIZE];
	int host_root, host_usr;
};

// Calls `each` for every name in DATA/layers, until a call fails.
fallible template_cache_walk(struct templates *all,
			     fallible (*each)(struct templates *, const char *, void *), void *arg);
// Hides the directory, to be deleted when no box can use it any more.
fallible template_cache_retire(struct templates *all, const char *name);
// Records a directory that was hidden earlier: boxes that are older than now may use it.
void template_cache_is_gone(struct templates *all, const char *name);
// The root directory of `name`, O_PATH; -1 with errno.
int template_cache_root(struct templates *all, const char *name);
// Updates the host's template, in all->host_root and all->host_usr.
fallible template_cache_host(struct templates *all);
// Ends a job: its directory goes to the trash unless it was renamed to a template.
void template_cache_job_drop(struct templates *all, struct template_cache_job *job);
