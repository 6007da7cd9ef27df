// Detects listening ports. A box without a running command opens no port, and a box whose CPU
// counters did not change has done nothing since the last scan: neither is scanned. Others are
// scanned shortly after a command starts, then at doubling intervals; a change or another command
// resets the interval. A scan is one request to a file worker (FILEOP_PORTS), and does not count as
// use. Few run at a time: with many boxes they come later.
#include "manager/port_scan.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "box/files.h"
#include "box/freeze.h"
#include "codec/json.h"
#include "types/event.h"

#define TICK_MS 500
#define PAUSE_MIN_MS 400
#define PAUSE_MAX_MS 8000
#define CLOSE_MS 10000 // how long a box is still scanned after its last command
#define ASK_MS 5000
#define ASKS_MAX 4

struct port_scan {
	int64_t look_ms, busy_ms;
	int64_t pause_ms;
	uint64_t cpu_us;
	uint32_t execs;
	bool asking;
	size_t count;
	uint16_t ports[PORT_SCAN_MAX];
};

struct port_scanner {
	struct manager *manager;
	uint32_t asks;
};

struct look {
	struct port_scanner *port_scanner;
	struct entry *entry; // referenced
};

void port_scan_compare(const uint16_t *was, size_t was_count, const uint16_t *now, size_t now_count,
		       port_scan_fn *tell, void *arg)
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

static void publish_port(void *arg, uint16_t port, bool opened)
{
	const struct entry *entry = arg;
	char number[8];

	snprintf(number, sizeof(number), "%u", port);
	entry->port_scan->pause_ms = PAUSE_MIN_MS;
	event_publish(opened ? EVENT_PORT_OPENED : EVENT_PORT_CLOSED, "tenant",
		      entry->record.tenant, "sandbox", entry->record.id, "port", number, NULL);
}

static void port_scan_learn(struct entry *entry, const uint16_t *ports, size_t count)
{
	struct port_scan *port_scan = entry->port_scan;

	port_scan_compare(port_scan->ports, port_scan->count, ports, count, publish_port, entry);
	for (size_t i = 0; i < count; i++)
		port_scan->ports[i] = ports[i];
	port_scan->count = count;
}

static void port_scan_ask(void *arg)
{
	struct look *look = arg;
	struct entry *entry = look->entry;
	struct fileop_port heard[PORT_SCAN_MAX];
	uint16_t ports[PORT_SCAN_MAX] = {0};
	struct files files = {
		.box = entry->box,
		.user = "",
		.deadline = loop_now(entry->manager->loop) + ASK_MS,
	};
	size_t count = 0;
	auto_err err = files_ports(&files, heard, PORT_SCAN_MAX, &count);

	entry->port_scan->asking = false;
	look->port_scanner->asks--;
	if (!err && entry->listed && entry->record.state == STATE_RUNNING) {
		if (count > PORT_SCAN_MAX)
			count = PORT_SCAN_MAX;
		for (size_t i = 0; i < count; i++)
			ports[i] = heard[i].port;
		port_scan_learn(entry, ports, count);
	}
	entry_unref(entry);
	free(look);
}

static void port_scan_start(struct port_scanner *port_scanner, struct entry *entry)
{
	struct look *look = mem_new_of(struct look);

	look->port_scanner = port_scanner;
	look->entry = entry;
	entry_ref(entry);
	entry->port_scan->asking = true;
	port_scanner->asks++;
	task_start(port_scanner->manager->loop, "port_scan", port_scan_ask, look);
}

// True if a listener could have come or gone since the last scan.
static bool port_scan_is_due(struct entry *entry, int64_t now)
{
	struct port_scan *port_scan = entry->port_scan;
	uint32_t execs = box_execs(entry->box);
	uint64_t cpu_us;

	if (execs != port_scan->execs) {
		port_scan->pause_ms = PAUSE_MIN_MS;
		port_scan->look_ms = now + PAUSE_MIN_MS;
		port_scan->execs = execs;
	}
	if (now < port_scan->look_ms || port_scan->asking)
		return false;
	cpu_us = box_cpu_us(entry->box);
	port_scan->look_ms = now + port_scan->pause_ms;
	port_scan->pause_ms = port_scan->pause_ms * 2 < PAUSE_MAX_MS ? port_scan->pause_ms * 2
								     : PAUSE_MAX_MS;
	if (cpu_us == port_scan->cpu_us)
		return false;
	port_scan->cpu_us = cpu_us;
	return true;
}

static void port_scan_look_at(struct port_scanner *port_scanner, struct entry *entry, int64_t now)
{
	struct port_scan *port_scan = entry->port_scan;

	if (entry->record.state != STATE_RUNNING || !entry->box || entry->moving) {
		if (port_scan && port_scan->count && state_is_stopped(entry->record.state))
			port_scan_learn(entry, NULL, 0);
		return;
	}
	if (!port_scan && !box_is_busy(entry->box))
		return;
	if (!port_scan) {
		port_scan = entry->port_scan = mem_new_of(struct port_scan);
		port_scan->pause_ms = PAUSE_MIN_MS;
		port_scan->look_ms = now + PAUSE_MIN_MS;
	}
	if (box_is_busy(entry->box))
		port_scan->busy_ms = now;
	if (!port_scan->count && now - port_scan->busy_ms > CLOSE_MS)
		return;
	if (port_scanner->asks < ASKS_MAX && port_scan_is_due(entry, now))
		port_scan_start(port_scanner, entry);
}

static void port_scan_watch(void *arg)
{
	struct port_scanner *port_scanner = arg;
	auto_err err = NULL;

	while (!err) {
		int64_t now = loop_now(port_scanner->manager->loop);

		if (!port_scanner->manager->closing)
			list_each (at, &port_scanner->manager->entries)
				port_scan_look_at(port_scanner, link_of(at, struct entry, link),
						  now);
		err = task_sleep_until(now + TICK_MS);
	}
	free(port_scanner);
}

void port_scan_open(struct manager *manager)
{
	struct port_scanner *port_scanner = mem_new_of(struct port_scanner);

	port_scanner->manager = manager;
	task_start(manager->loop, "harker", port_scan_watch, port_scanner);
}
