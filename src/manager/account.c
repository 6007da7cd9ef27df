// Usage and quotas by tenant, in memory. Every state change of a box moves its limits between the
// sums, so that a check costs a comparison and concurrent creates see each other. A tenant without
// a quota is counted, too. The disk quota covers disk limits, stored output, templates,
// volumes and requests.
#include "manager/account.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/weak.h"

#define MIB (1ull << 20)

void accounts_init(struct accounts *accounts)
{
	accounts->by_name = map_new();
}

void accounts_done(struct accounts *accounts)
{
	struct str key;
	void *value;

	for (size_t at = 0; map_next(accounts->by_name, &at, &key, &value);) {
		tenant_done(&((struct account *)value)->tenant);
		free(value);
	}
	map_free(accounts->by_name);
}

// The operator's tenant has the empty name, which no map takes as key: a blank stands for it.
static struct str key_of(struct str tenant)
{
	return tenant.len ? tenant : STR(" ");
}

struct account *accounts_find(const struct accounts *accounts, struct str tenant)
{
	return map_get(accounts->by_name, key_of(tenant));
}

uint64_t account_disk(const struct account *account)
{
	return account->used.disk + account->used.templates + account->used.images +
	       account->used.steps + account->used.volumes + account->used.requests +
	       account->output.used;
}

uint64_t account_disk_left(const struct account *account)
{
	uint64_t bound = account->tenant.quota.disk, used = account_disk(account);

	if (!bound || weak(QUOTA))
		return UINT64_MAX;
	return used < bound ? bound - used : 0;
}

static uint64_t output_left(const struct tape_quota *quota)
{
	return account_disk_left(link_of(quota, struct account, output));
}

struct account *accounts_get(struct accounts *accounts, const char *tenant)
{
	struct account *account = accounts_find(accounts, str_of(tenant));

	if (account)
		return account;
	account = mem_new_of(struct account);
	account->output.left = output_left;
	memcpy(account->tenant.name, tenant, strnlen(tenant, WHO_TENANT_MAX));
	map_put(accounts->by_name, key_of(str_of(tenant)), account);
	return account;
}

void account_set(struct account *account, struct tenant *tenant)
{
	tenant_done(&account->tenant);
	account->tenant = *tenant;
	account->known = true;
	*tenant = (struct tenant){0};
}

void account_unset(struct account *account)
{
	struct tenant bare = {0};

	memcpy(bare.name, account->tenant.name, sizeof(bare.name));
	account_set(account, &bare);
	account->known = false;
}

void account_move(struct account *account, const struct limits *limits, enum account_weight from,
		  enum account_weight to)
{
	account->used.boxes += (to != ACCOUNT_NONE) - (uint64_t)(from != ACCOUNT_NONE);
	if (from != ACCOUNT_NONE)
		account->used.disk -= limits->disk;
	if (to != ACCOUNT_NONE)
		account->used.disk += limits->disk;
	if (from == ACCOUNT_RUNNING) {
		account->used.memory -= limits->memory;
		account->used.cpu_milli -= limits->cpu_milli;
	}
	if (to == ACCOUNT_RUNNING) {
		account->used.memory += limits->memory;
		account->used.cpu_milli += limits->cpu_milli;
	}
}

static fallible account_refuse(struct account *account, const char *what, double used, double bound,
			       double more)
{
	account->refused++;
	return err_hint(err_new(EXHAUSTED, "quota",
				"this would pass the quota of %s: %g of %g are in use, and %g more "
				"are asked for",
				what, used, bound, more),
			"delete or stop sandboxes, ask for less, or have the quota raised");
}

fallible account_ask_disk(struct account *account, uint64_t bytes)
{
	if (bytes <= account_disk_left(account))
		return OK;
	return account_refuse(account, "disk (MB)", (double)account_disk(account) / MIB,
			      (double)account->tenant.quota.disk / MIB, (double)bytes / MIB);
}

fallible account_ask(struct account *account, const struct limits *limits, enum account_weight from,
		     enum account_weight to)
{
	const struct quota *quota = &account->tenant.quota;
	bool kept = from == ACCOUNT_NONE && to != ACCOUNT_NONE;
	bool runs = from != ACCOUNT_RUNNING && to == ACCOUNT_RUNNING;

	if (weak(QUOTA))
		return OK;
	if (kept && quota->boxes && account->used.boxes + 1 > quota->boxes)
		return account_refuse(account, "sandboxes", (double)account->used.boxes,
				      (double)quota->boxes, 1);
	if (kept)
		TRY(account_ask_disk(account, limits->disk));
	if (runs && quota->memory && account->used.memory + limits->memory > quota->memory)
		return account_refuse(account, "memory (MB)", (double)account->used.memory / MIB,
				      (double)quota->memory / MIB, (double)limits->memory / MIB);
	if (runs && quota->cpu_milli &&
	    account->used.cpu_milli + limits->cpu_milli > quota->cpu_milli)
		return account_refuse(account, "cpus", (double)account->used.cpu_milli / 1000,
				      (double)quota->cpu_milli / 1000,
				      (double)limits->cpu_milli / 1000);
	return OK;
}

// By how much a limit grows.
static uint64_t account_growth(uint64_t from, uint64_t to)
{
	return to > from ? to - from : 0;
}

fallible account_ask_change(struct account *account, enum account_weight weight,
			    const struct limits *from, const struct limits *to)
{
	const struct limits more = {
		.memory = account_growth(from->memory, to->memory),
		.cpu_milli = account_growth(from->cpu_milli, to->cpu_milli),
	};
	uint64_t disk = account_growth(from->disk, to->disk);
	struct quota quota = account->tenant.quota;

	if (disk)
		TRY(account_ask_disk(account, disk));
	if (weight != ACCOUNT_RUNNING || weak(QUOTA))
		return OK;
	if (more.memory && quota.memory && account->used.memory + more.memory > quota.memory)
		return account_refuse(account, "memory (MB)", (double)account->used.memory / MIB,
				      (double)quota.memory / MIB, (double)more.memory / MIB);
	if (more.cpu_milli && quota.cpu_milli &&
	    account->used.cpu_milli + more.cpu_milli > quota.cpu_milli)
		return account_refuse(account, "cpus", (double)account->used.cpu_milli / 1000,
				      (double)quota.cpu_milli / 1000,
				      (double)more.cpu_milli / 1000);
	return OK;
}

fallible account_ask_alone(struct account *account, const struct limits *limits)
{
	const struct quota *quota = &account->tenant.quota;

	if (weak(QUOTA))
		return OK;
	if (quota->memory && limits->memory > quota->memory)
		return account_refuse(account, "memory (MB)", 0, (double)quota->memory / MIB,
				      (double)limits->memory / MIB);
	if (quota->cpu_milli && limits->cpu_milli > quota->cpu_milli)
		return account_refuse(account, "cpus", 0, (double)quota->cpu_milli / 1000,
				      (double)limits->cpu_milli / 1000);
	if (quota->disk && limits->disk > quota->disk)
		return account_refuse(account, "disk (MB)", 0, (double)quota->disk / MIB,
				      (double)limits->disk / MIB);
	return OK;
}

fallible account_ask_exec(struct account *account, uint64_t running)
{
	const struct quota *quota = &account->tenant.quota;

	if (quota->execs && running + 1 > quota->execs)
		return account_refuse(account, "commands", (double)running, (double)quota->execs,
				      1);
	return OK;
}

void account_put(struct json_out *out, const struct account *account)
{
	tenant_put(out, &account->tenant);
	json_key(out, "used");
	json_begin(out, '{');
	json_put_int(out, "boxes", (int64_t)account->used.boxes);
	json_put_int(out, "memoryMB", (int64_t)(account->used.memory / MIB));
	json_key(out, "cpus");
	json_add_double(out, (double)account->used.cpu_milli / 1000);
	json_put_int(out, "diskMB", (int64_t)(account_disk(account) / MIB));
	json_put_int(out, "outputMB", (int64_t)(account->output.used / MIB));
	json_put_int(out, "templatesMB", (int64_t)(account->used.templates / MIB));
	json_put_int(out, "imagesMB",
		     (int64_t)((account->used.images + account->used.steps) / MIB));
	json_put_int(out, "volumesMB", (int64_t)(account->used.volumes / MIB));
	json_end(out, '}');
	json_put_int(out, "refused", (int64_t)account->refused);
}
