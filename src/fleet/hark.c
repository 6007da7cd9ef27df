// A box in which no command runs opens no port, and one whose meters stand still has done nothing
// since the last look: neither is looked at. Others are looked at when a command has run for a
// moment, then after twice the time, and so on; a change, or another command, begins anew. A look
// is one question to a hand (REACH_PORTS) and no use of the box. A few at a time: with many boxes
// they come later, not more.
#include "fleet/hark.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "box/files.h"
#include "box/rest.h"
#include "wire/json.h"

#define TICK_MS 500
#define PAUSE_MIN_MS 400
#define PAUSE_MAX_MS 8000
#define CLOSE_MS 10000 // how long after the last command a box is still looked at
#define ASK_MS 5000
#define ASKS_MAX 4

struct hark {
	int64_t look_ms, busy_ms;
	int64_t pause_ms;
	uint64_t cpu_us;
	uint32_t execs;
	bool asking;
	size_t count;
	uint16_t ports[HARK_MAX];
};

struct harker {
	struct fleet *fleet;
	uint32_t asks;
};

struct look {
	struct harker *harker;
	struct entry *entry; // held
};

void hark_compare(const uint16_t *was, size_t was_count, const uint16_t *now, size_t now_count,
		  hark_fn *tell, void *arg)
{
	for (size_t i = 0, j = 0; i < was_count || j < now_count;) {
		bool old = i < was_count && (j == now_count || was[i] <= now[j]);
		bool new = j < now_count && (i == was_count || now[j] <= was[i]);

		if (old != new)
			tell(arg, old ? was[i] : now[j], new);
		i += old;
		j += new;
	}
}

static void tell_port(void *arg, uint16_t port, bool opened)
{
	const struct entry *entry = arg;
	char fields[32];

	snprintf(fields, sizeof(fields), "{\"port\":%u}", port);
	entry->hark->pause_ms = PAUSE_MIN_MS;
	tell_event(&entry->fleet->tell,
		   &(struct store_event){
			   .tenant = entry->record.tenant,
			   .kind = event_word(opened ? EVENT_PORT_OPENED : EVENT_PORT_CLOSED),
			   .sandbox = entry->record.id,
			   .fields = fields,
		   });
}

static void hark_learn(struct entry *entry, const uint16_t *ports, size_t count)
{
	struct hark *hark = entry->hark;

	hark_compare(hark->ports, hark->count, ports, count, tell_port, entry);
	for (size_t i = 0; i < count; i++)
		hark->ports[i] = ports[i];
	hark->count = count;
}

static void hark_ask(void *arg)
{
	struct look *look = arg;
	struct entry *entry = look->entry;
	struct reach_port heard[HARK_MAX];
	uint16_t ports[HARK_MAX] = {0};
	struct files files = {
		.box = entry->box,
		.user = "",
		.deadline = loop_now(entry->fleet->loop) + ASK_MS,
	};
	size_t count = 0;
	auto_err err = files_ports(&files, heard, HARK_MAX, &count);

	entry->hark->asking = false;
	look->harker->asks--;
	if (!err && entry->listed && entry->record.state == STATE_RUNNING) {
		if (count > HARK_MAX)
			count = HARK_MAX;
		for (size_t i = 0; i < count; i++)
			ports[i] = heard[i].port;
		hark_learn(entry, ports, count);
	}
	entry_drop(entry);
	free(look);
}

static void hark_start(struct harker *harker, struct entry *entry)
{
	struct look *look = mem_new_of(struct look);

	look->harker = harker;
	look->entry = entry;
	entry_hold(entry);
	entry->hark->asking = true;
	harker->asks++;
	task_start(harker->fleet->loop, "hark", hark_ask, look);
}

// Whether something in it could have begun or ended to listen since the last look.
static bool hark_is_due(struct entry *entry, int64_t now)
{
	struct hark *hark = entry->hark;
	uint32_t execs = box_execs(entry->box);
	uint64_t cpu_us;

	if (execs != hark->execs) {
		hark->pause_ms = PAUSE_MIN_MS;
		hark->look_ms = now + PAUSE_MIN_MS;
		hark->execs = execs;
	}
	if (now < hark->look_ms || hark->asking)
		return false;
	cpu_us = box_cpu_us(entry->box);
	hark->look_ms = now + hark->pause_ms;
	hark->pause_ms = hark->pause_ms * 2 < PAUSE_MAX_MS ? hark->pause_ms * 2 : PAUSE_MAX_MS;
	if (cpu_us == hark->cpu_us)
		return false;
	hark->cpu_us = cpu_us;
	return true;
}

static void hark_look_at(struct harker *harker, struct entry *entry, int64_t now)
{
	struct hark *hark = entry->hark;

	if (entry->record.state != STATE_RUNNING || !entry->box || entry->moving) {
		if (hark && hark->count && entry->record.state == STATE_STOPPED)
			hark_learn(entry, NULL, 0);
		return;
	}
	if (!hark && !box_is_busy(entry->box))
		return;
	if (!hark) {
		hark = entry->hark = mem_new_of(struct hark);
		hark->pause_ms = PAUSE_MIN_MS;
		hark->look_ms = now + PAUSE_MIN_MS;
	}
	if (box_is_busy(entry->box))
		hark->busy_ms = now;
	if (!hark->count && now - hark->busy_ms > CLOSE_MS)
		return;
	if (harker->asks < ASKS_MAX && hark_is_due(entry, now))
		hark_start(harker, entry);
}

static void hark_watch(void *arg)
{
	struct harker *harker = arg;
	auto_err err = NULL;

	while (!err) {
		int64_t now = loop_now(harker->fleet->loop);

		if (!harker->fleet->closing)
			list_each (at, &harker->fleet->entries)
				hark_look_at(harker, link_of(at, struct entry, link), now);
		err = task_sleep_until(now + TICK_MS);
	}
	free(harker);
}

void hark_open(struct fleet *fleet)
{
	struct harker *harker = mem_new_of(struct harker);

	harker->fleet = fleet;
	task_start(fleet->loop, "harker", hark_watch, harker);
}
