// Stores per sandbox how many observations in a row timed out and, from the second on, when the
// current one began: after a crash between the second time-out and its commit, the next daemon sees
// that the observation took too long. A failed commit is retried after 2, 4 and 8 s, and by the
// next observation.
#include "agent/fallback_box.h"

#include <stdio.h>
#include <stdlib.h>

#include "agent/faults.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/kv.h"
#include "types/timers.h"

#define TIMEOUTS_MAX 2
#define PREFIX "route/"

struct wedge {
	char box[ID_BOX_LEN + 1];
	uint32_t timeouts;
	int64_t since_ms; // start of the current observation; 0: none
	bool publishing;
	struct agent_sessions *agents;
};

static struct wedge *find(struct agent_sessions *agents, const char *box)
{
	return map_get(agents->routes, str_of(box));
}

static struct wedge *fallback_get(struct agent_sessions *agents, const char *box)
{
	struct wedge *wedge = find(agents, box);

	if (wedge)
		return wedge;
	wedge = mem_new_of(struct wedge);
	snprintf(wedge->box, sizeof(wedge->box), "%s", box);
	wedge->agents = agents;
	map_put(agents->routes, str_of(box), wedge);
	return wedge;
}

static fallible fallback_store(const struct wedge *wedge)
{
	char name[sizeof(PREFIX) + ID_BOX_LEN], value[64];

	snprintf(name, sizeof(name), PREFIX "%s", wedge->box);
	snprintf(value, sizeof(value), "%u %lld", wedge->timeouts, (long long)wedge->since_ms);
	return store_kv_put(wedge->agents->store, name, str_of(value));
}

static void fallback_publish(void *arg)
{
	static const enum timer_name steps[] = {TIMER_SLOT_RETRY_1, TIMER_SLOT_RETRY_2,
						TIMER_SLOT_RETRY_3};
	struct wedge *wedge = arg;

	task_shield(true);
	for (int i = 0;; i++) {
		auto_err err = faults_meet(FAULT_PERSIST, wedge->box);

		if (!err)
			err = fallback_store(wedge);
		if (!err || i == 3) {
			log_event(err ? LOG_ERROR : LOG_WARN, "route.timeouts", "sandbox",
				  wedge->box, "wedged",
				  wedge->timeouts >= TIMEOUTS_MAX ? "yes" : "no", "trail",
				  err ? err_trail(err) : NULL, NULL);
			break;
		}
		err_free(task_sleep_until(loop_now(wedge->agents->loop) + timer_ms(steps[i])));
	}
	wedge->publishing = false;
	agents_end(wedge->agents);
}

static bool is_shared(const struct agent_session *agent)
{
	return agent->route.kind != OWNER_SES;
}

void fallback_looking(struct agent_session *agent)
{
	struct wedge *wedge = find(agent->agents, agent->box);

	if (!wedge || !is_shared(agent) || wedge->timeouts != TIMEOUTS_MAX - 1 || wedge->since_ms)
		return;
	wedge->since_ms = agents_now(agent->agents);
	err_free(fallback_store(wedge));
}

void fallback_looked(struct agent_session *agent, bool timed_out)
{
	struct wedge *wedge = find(agent->agents, agent->box);

	if (!is_shared(agent) || (!wedge && !timed_out))
		return;
	wedge = fallback_get(agent->agents, agent->box);
	if (wedge->timeouts >= TIMEOUTS_MAX)
		return;
	wedge->since_ms = 0;
	// Only consecutive time-outs indicate a wedged sandbox.
	if (!timed_out && wedge->timeouts)
		wedge->timeouts = 0;
	else if (timed_out)
		wedge->timeouts++;
	else
		return;
	if (!wedge->publishing) {
		wedge->publishing = true;
		agents_begin(agent->agents);
		task_start(agent->agents->loop, "route.publish", fallback_publish, wedge);
	}
}

void fallback_choose(struct agent_sessions *agents, const char *first, char out[ID_BOX_LEN + 1])
{
	const struct wedge *wedge = find(agents, first);

	if (wedge && wedge->timeouts >= TIMEOUTS_MAX)
		owner_slot(first, out);
	else
		memcpy(out, first, ID_BOX_LEN + 1);
}

fallible fallback_load(struct agent_sessions *agents)
{
	auto_arena arena = arena_new();
	struct store_kv *rows = NULL;
	size_t count = 0;

	agents->routes = map_new();
	TRY(store_kv_load(agents->store, PREFIX, arena, &rows, &count));
	for (size_t i = 0; i < count; i++) {
		const char *box = rows[i].name + strlen(PREFIX);
		auto_free char *value = mem_dup(rows[i].value.at, rows[i].value.len);
		struct wedge *wedge;
		char *rest = value;

		if (!owner_is_id(str_of(box), NULL))
			continue;
		wedge = fallback_get(agents, box);
		wedge->timeouts = (uint32_t)strtoul(rest, &rest, 10);
		wedge->since_ms = strtoll(rest, NULL, 10);
		if (wedge->since_ms &&
		    agents_now(agents) - wedge->since_ms >= timer_ms(TIMER_INSPECTION))
			wedge->timeouts++;
		wedge->since_ms = 0;
	}
	return OK;
}

void fallback_free(struct agent_sessions *agents)
{
	size_t at = 0;
	struct str key;
	void *value;

	if (!agents->routes)
		return;
	while (map_next(agents->routes, &at, &key, &value))
		free(value);
	map_free(agents->routes);
}
