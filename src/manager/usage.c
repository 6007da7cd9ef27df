// Asks the warden for what a box uses now. The sampler reads the same counters by itself; the disk
// is known to the warden alone.
#include "manager/usage.h"

#include <string.h>

#include "base/mem.h"

#define USAGE_WAIT_MS 1000
#define TRASH_WAIT_MS 250

void usage_ask(struct manager *manager, const char *id, struct order_usage *out)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	struct order order = {.kind = ORDER_USAGE};
	int none[ORDER_FDS_MAX];
	auto_err err = NULL;

	*out = ORDER_USAGE_NONE;
	memcpy(order.box, id, strnlen(id, ID_BOX_LEN));
	err = ask_order(manager->ask, &order, answer, none,
			loop_now(manager->loop) + USAGE_WAIT_MS);
	if (!err)
		*out = answer->usage;
}

uint64_t usage_ask_trash(struct manager *manager)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	int none[ORDER_FDS_MAX];
	auto_err err = ask_order(manager->ask, &(struct order){.kind = ORDER_TRASH}, answer, none,
				 loop_now(manager->loop) + TRASH_WAIT_MS);

	return err ? ORDER_USAGE_UNKNOWN : answer->trash;
}

static void usage_put_number(struct json_out *out, const char *key, uint64_t value, uint64_t unit)
{
	json_key(out, key);
	if (value == ORDER_USAGE_UNKNOWN)
		json_add_null(out);
	else
		json_add_int(out, (int64_t)(value / unit));
}

void usage_put(struct json_out *out, const struct order_usage *usage)
{
	json_key(out, "usage");
	json_begin(out, '{');
	usage_put_number(out, "memoryBytes", usage->memory, 1);
	usage_put_number(out, "cpuMs", usage->cpu_us, 1000);
	usage_put_number(out, "pids", usage->pids, 1);
	usage_put_number(out, "diskBytes", usage->disk, 1);
	json_end(out, '}');
}
