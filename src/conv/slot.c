// What is kept of a route is how often it timed out and, from the second look on, since when
// somebody looks: so a crash between the second time-out and its publication is made good by the
// next life, which sees that the look took too long. A publication that fails is tried again after
// 2, 4 and 8 s, and by whoever looks next.
#include "conv/slot.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "conv/faults.h"
#include "model/timers.h"
#include "store/kv.h"

#define TIMEOUTS_MAX 2
#define PREFIX "route/"

struct wedge {
	char box[ID_BOX_LEN + 1];
	uint32_t timeouts;
	int64_t since_ms; // a look is under way; 0: none
	bool publishing;
	struct convs *convs;
};

static struct wedge *find(struct convs *convs, const char *box)
{
	return map_get(convs->routes, str_of(box));
}

static struct wedge *slot_get(struct convs *convs, const char *box)
{
	struct wedge *wedge = find(convs, box);

	if (wedge)
		return wedge;
	wedge = mem_new_of(struct wedge);
	snprintf(wedge->box, sizeof(wedge->box), "%s", box);
	wedge->convs = convs;
	map_put(convs->routes, str_of(box), wedge);
	return wedge;
}

static fallible slot_store(const struct wedge *wedge)
{
	char name[sizeof(PREFIX) + ID_BOX_LEN], value[64];

	snprintf(name, sizeof(name), PREFIX "%s", wedge->box);
	snprintf(value, sizeof(value), "%u %lld", wedge->timeouts, (long long)wedge->since_ms);
	return store_kv_put(wedge->convs->store, name, str_of(value));
}

static void slot_publish(void *arg)
{
	static const enum timer_name steps[] = {TIMER_SLOT_RETRY_1, TIMER_SLOT_RETRY_2,
						TIMER_SLOT_RETRY_3};
	struct wedge *wedge = arg;

	task_shield(true);
	for (int i = 0;; i++) {
		auto_err err = faults_meet(FAULT_PERSIST, wedge->box);

		if (!err)
			err = slot_store(wedge);
		if (!err || i == 3) {
			log_event(err ? LOG_ERROR : LOG_WARN, "route.timeouts", "sandbox",
				  wedge->box, "wedged",
				  wedge->timeouts >= TIMEOUTS_MAX ? "yes" : "no", "trail",
				  err ? err_trail(err) : NULL, NULL);
			break;
		}
		err_free(task_sleep_until(loop_now(wedge->convs->loop) + timer_ms(steps[i])));
	}
	wedge->publishing = false;
	convs_end(wedge->convs);
}

static bool is_shared(const struct conv *conv)
{
	return conv->route.kind != OWNER_SES;
}

void slot_looking(struct conv *conv)
{
	struct wedge *wedge = find(conv->convs, conv->box);

	if (!wedge || !is_shared(conv) || wedge->timeouts != TIMEOUTS_MAX - 1 || wedge->since_ms)
		return;
	wedge->since_ms = convs_now(conv->convs);
	err_free(slot_store(wedge));
}

void slot_looked(struct conv *conv, bool timed_out)
{
	struct wedge *wedge = find(conv->convs, conv->box);

	if (!is_shared(conv) || (!wedge && !timed_out))
		return;
	wedge = slot_get(conv->convs, conv->box);
	if (wedge->timeouts >= TIMEOUTS_MAX)
		return;
	wedge->since_ms = 0;
	// Only time-outs in a row tell of a wedged sandbox.
	if (!timed_out && wedge->timeouts)
		wedge->timeouts = 0;
	else if (timed_out)
		wedge->timeouts++;
	else
		return;
	if (!wedge->publishing) {
		wedge->publishing = true;
		convs_begin(conv->convs);
		task_start(conv->convs->loop, "route.publish", slot_publish, wedge);
	}
}

void slot_choose(struct convs *convs, const char *first, char out[ID_BOX_LEN + 1])
{
	const struct wedge *wedge = find(convs, first);

	if (wedge && wedge->timeouts >= TIMEOUTS_MAX)
		owner_slot(first, out);
	else
		memcpy(out, first, ID_BOX_LEN + 1);
}

fallible slot_load(struct convs *convs)
{
	auto_arena arena = arena_new();
	struct store_kv *rows = NULL;
	size_t count = 0;

	convs->routes = map_new();
	TRY(store_kv_load(convs->store, PREFIX, arena, &rows, &count));
	for (size_t i = 0; i < count; i++) {
		const char *box = rows[i].name + strlen(PREFIX);
		auto_free char *value = mem_dup(rows[i].value.at, rows[i].value.len);
		struct wedge *wedge;
		char *rest = value;

		if (!owner_is_id(str_of(box), NULL))
			continue;
		wedge = slot_get(convs, box);
		wedge->timeouts = (uint32_t)strtoul(rest, &rest, 10);
		wedge->since_ms = strtoll(rest, NULL, 10);
		if (wedge->since_ms &&
		    convs_now(convs) - wedge->since_ms >= timer_ms(TIMER_INSPECTION))
			wedge->timeouts++;
		wedge->since_ms = 0;
	}
	return OK;
}

void slot_free(struct convs *convs)
{
	size_t at = 0;
	struct str key;
	void *value;

	if (!convs->routes)
		return;
	while (map_next(convs->routes, &at, &key, &value))
		free(value);
	map_free(convs->routes);
}
