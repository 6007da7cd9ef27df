// The usage of each tenant beside its quota. The table updates it when boxes come, change state and
// go, so that a check costs nothing and a thousand creates at once see each other.
#pragma once

#include "base/map.h"
#include "box/tape.h"
#include "types/limits.h"
#include "types/tenant.h"

struct account {
	struct tenant tenant; // its name, quota and permissions
	bool known;	      // the operator has set it; else it only has boxes or keys
	struct {
		uint64_t boxes;
		uint64_t memory, cpu_milli; // sums of the limits of boxes that are not stopped
		uint64_t disk;		    // sum of the limits of all boxes
		uint64_t templates;	    // bytes of the tenant's templates
		uint64_t images;	    // bytes of the layers of its images
		uint64_t steps;		    // bytes of the steps that its builds have cached
		uint64_t volumes;	    // sum of the limits of its volumes
		uint64_t requests;	    // bytes of the stored requests of its executions
	} used;
	struct tape_quota output; // bytes of commands' output and logs of runs beyond the floors
	uint32_t imports;	  // templates that are being imported for the tenant
	uint64_t refused;	  // creates and commands refused by the quota
};

struct accounts {
	struct map *by_name;
};
void accounts_init(struct accounts *accounts);
void accounts_done(struct accounts *accounts);

struct account *accounts_get(struct accounts *accounts, const char *tenant); // made if need be
struct account *accounts_find(const struct accounts *accounts, struct str tenant); // NULL: absent
// Takes *tenant over. Its name is that of the account.
void account_set(struct account *account, struct tenant *tenant);
void account_unset(struct account *account); // no quota, no permissions

// How much of a box is counted: nothing, its disk, or all of its limits.
enum account_weight { ACCOUNT_NONE, ACCOUNT_KEPT, ACCOUNT_RUNNING };
void account_move(struct account *account, const struct limits *limits, enum account_weight from,
		  enum account_weight to);
// EXHAUSTED quota, with the usage in the message, if the change would exceed the quota.
fallible account_ask(struct account *account, const struct limits *limits, enum account_weight from,
		     enum account_weight to);
// EXHAUSTED quota if a box of that weight would exceed the quota with other limits.
fallible account_ask_change(struct account *account, enum account_weight weight,
			    const struct limits *from, const struct limits *to);
// EXHAUSTED quota if a box of these limits would exceed it even as the tenant's only one.
fallible account_ask_alone(struct account *account, const struct limits *limits);
// EXHAUSTED quota for one more command while `running` are running.
fallible account_ask_exec(struct account *account, uint64_t running);
// Bytes of the disk quota in use: limits, output, templates, volumes, requests.
uint64_t account_disk(const struct account *account);
uint64_t account_disk_left(const struct account *account); // UINT64_MAX: no bound
// EXHAUSTED quota unless there are `bytes` left.
fallible account_ask_disk(struct account *account, uint64_t bytes);
void account_put(struct json_out *out, const struct account *account); // {…quota…, used:{…}}
