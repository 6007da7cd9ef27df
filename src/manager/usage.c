// Current resource usage of a box, by one order to the warden. A box that cannot be measured in
// time has unknown numbers, never wrong ones.
#include "manager/usage.h"

#include "base/mem.h"
#include "manager/table.h"

#define USAGE_WAIT_MS 1000

void usage_ask(struct manager *manager, const char *id, struct order_usage *out)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	struct order order = {.kind = ORDER_USAGE};
	int none[ORDER_FDS_MAX];
	auto_err err = NULL;

	*out = (struct order_usage){ORDER_USAGE_UNKNOWN, ORDER_USAGE_UNKNOWN, ORDER_USAGE_UNKNOWN,
				    ORDER_USAGE_UNKNOWN};
	memcpy(order.box, id, strnlen(id, ID_BOX_LEN));
	err = ask_order(manager->ask, &order, answer, none,
			loop_now(manager->loop) + USAGE_WAIT_MS);
	if (!err)
		*out = answer->usage;
}

static void manager_usage_put_number(struct json_out *out, const char *key, uint64_t value,
				     uint64_t unit)
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
	manager_usage_put_number(out, "memoryBytes", usage->memory, 1);
	manager_usage_put_number(out, "cpuMs", usage->cpu_us, 1000);
	manager_usage_put_number(out, "pids", usage->pids, 1);
	manager_usage_put_number(out, "diskBytes", usage->disk, 1);
	json_end(out, '}');
}
