// A ticket stands in the line of its account; accounts with tickets stand in a ring. The next turn
// goes to the first ticket of the first account, which then goes to the end of the ring. Admission
// is asked once for each turn: what it answers while it has no room is what everybody waits for.
//
// While somebody waits for room, a timer looks again; a build that ends or a box that leaves does
// so at once.
#include "fleet/queue.h"

#include <stdlib.h>

#include "base/mem.h"

#define LOOK_MS 50

struct line {
	struct link ring; // queue->lines
	const struct account *account;
	struct link tickets;
	uint32_t count;
};

struct queued {
	struct link link;
	struct line *line;
	struct entry *entry;
	bool granted;
	struct bell called;
};

struct queue {
	struct fleet *fleet;
	int64_t wait_ms;
	struct link lines;
	uint32_t building, waiting;
	uint32_t inoded; // of those that wait: with a bound on inodes
	uint64_t waited, refused;
	struct err *shortage; // what the next one waits for; NULL: for a build to end
	struct timer look;
};

static void on_look(struct timer *timer);

struct queue *queue_new(struct fleet *fleet, int64_t wait_ms)
{
	struct queue *queue = mem_new_of(struct queue);

	queue->fleet = fleet;
	queue->wait_ms = wait_ms;
	queue->look.due = on_look;
	link_init(&queue->lines);
	return queue;
}

void queue_set_wait(struct queue *queue, int64_t wait_ms)
{
	queue->wait_ms = wait_ms;
}

void queue_free(struct queue *queue)
{
	if (!queue)
		return;
	loop_drop_timer(queue->fleet->loop, &queue->look);
	err_free(queue->shortage);
	free(queue);
}

static const char *reason_of(const struct queue *queue)
{
	return queue->shortage ? err_reason(queue->shortage) : "builds_busy";
}

// A box whose disk is an image has a loop device while it may run. Whoever waits is counted as one
// that may run, and has none yet, but for the first if it was foretold: then one is missing.
static fallible ask_loops(const struct queue *queue, const struct entry *entry, uint32_t others)
{
	const struct fleet *fleet = queue->fleet;
	const struct order_host *host = ask_host(fleet->ask);
	bool images = host && !strcmp(host->disk, "ext4-image");
	uint32_t inoded = queue->inoded - (queue->inoded && entry->record.limits.inodes);
	uint32_t used = images ? fleet->running - others : fleet->inoded - inoded;

	if (!(images || entry->record.limits.inodes) || used <= fleet->loops_max)
		return OK;
	return err_hint(err_new(EXHAUSTED, "host_loops", "this host is short of loop devices"),
			"delete or stop sandboxes that nobody needs, or raise loops-max");
}

// `others`: so many wait besides this one.
static bool queue_has_room(struct queue *queue, const struct entry *entry, uint32_t others)
{
	err_free(take_ptr(queue->shortage));
	if (queue->building >= QUEUE_BUILDS)
		return false;
	queue->shortage = ask_loops(queue, entry, others);
	if (!queue->shortage)
		queue->shortage = admit_ask(queue->fleet->admit, loop_now(queue->fleet->loop));
	if (table_rest_files(queue->fleet, queue->shortage)) {
		err_free(queue->shortage);
		queue->shortage = admit_ask(queue->fleet->admit, loop_now(queue->fleet->loop));
	}
	return !queue->shortage;
}

static void leave_line(struct queued *ticket)
{
	struct line *line = ticket->line;

	link_drop(&ticket->link);
	ticket->line = NULL;
	if (--line->count)
		return;
	link_drop(&line->ring);
	free(line);
}

static struct line *line_of(struct queue *queue, const struct account *account)
{
	struct line *line;

	list_each (at, &queue->lines) {
		line = link_of(at, struct line, ring);
		if (line->account == account)
			return line;
	}
	line = mem_new_of(struct line);
	line->account = account;
	link_init(&line->tickets);
	link_add(&queue->lines, &line->ring);
	return line;
}

static struct queued *next_of(const struct queue *queue)
{
	struct line *line = link_of(queue->lines.next, struct line, ring);

	return link_of(line->tickets.next, struct queued, link);
}

static void count_waiting(struct queue *queue, const struct entry *entry, int more)
{
	queue->waiting += (uint32_t)more;
	queue->inoded += entry->record.limits.inodes ? (uint32_t)more : 0;
}

static void call_next(struct queue *queue)
{
	struct queued *ticket = next_of(queue);
	struct line *line = ticket->line;

	link_drop(&line->ring);
	link_add(&queue->lines, &line->ring);
	leave_line(ticket);
	count_waiting(queue, ticket->entry, -1);
	queue->building++;
	ticket->granted = true;
	bell_ring(&ticket->called);
}

static void fleet_queue_stir(struct queue *queue)
{
	while (queue->waiting && queue_has_room(queue, next_of(queue)->entry, queue->waiting - 1))
		call_next(queue);
	if (queue->waiting && queue->shortage)
		loop_set_timer(queue->fleet->loop, &queue->look,
			       loop_now(queue->fleet->loop) + LOOK_MS);
}

static void on_look(struct timer *timer)
{
	fleet_queue_stir(link_of(timer, struct queue, look));
}

void queue_stir(struct fleet *fleet)
{
	if (fleet->queue && fleet->queue->waiting)
		fleet_queue_stir(fleet->queue);
}

static uint32_t queue_place_of(const struct queued *ticket)
{
	uint32_t place = 1;

	for (const struct link *at = ticket->link.prev; at != &ticket->line->tickets; at = at->prev)
		place++;
	return place;
}

static fallible with_place(const struct err *why, const char *reason, uint32_t place)
{
	auto_free char *words = mem_fmt("%s; position %u in line", err_message(why), place);

	return err_from(err_kind(why), reason, words,
			"delete sandboxes that nobody needs, or try again in a moment");
}

// What it waited for, said again with the place where it stood.
static fallible fleet_queue_explain(const struct queue *queue, const char *reason, uint32_t place)
{
	if (!queue->shortage)
		return err_hint(err_new(EXHAUSTED, reason,
					"too many sandboxes are being made; position %u in line",
					place),
				"try again in a moment");
	return with_place(queue->shortage, reason, place);
}

// It was its turn: whoever else waits is behind it.
fallible queue_explain(const struct entry *entry, struct err *shortage)
{
	auto_err why = shortage;

	entry->fleet->queue->refused++;
	return with_place(why, err_reason(why), 1);
}

static fallible queue_await(struct queue *queue, struct queued *ticket)
{
	int64_t deadline = loop_now(queue->fleet->loop) + queue->wait_ms;
	struct err *err = OK;

	while (!ticket->granted && !err)
		err = bell_wait(&ticket->called, deadline);
	if (ticket->granted && err && err_kind(err) == ERR_TIMEOUT) // called and late in one turn
		err_free(take_ptr(err));
	if (ticket->granted && err) { // called and cancelled in one turn
		queue_leave(queue->fleet);
		return err;
	}
	if (!err)
		return OK;
	if (err_kind(err) == ERR_TIMEOUT) {
		err_free(err);
		err = fleet_queue_explain(queue, reason_of(queue), queue_place_of(ticket));
		queue->refused++;
	}
	leave_line(ticket);
	count_waiting(queue, ticket->entry, -1);
	return err;
}

fallible queue_enter(struct fleet *fleet, struct entry *entry)
{
	struct queue *queue = fleet->queue;
	struct queued ticket = {.entry = entry};
	struct err *err;

	if (!queue->waiting && queue_has_room(queue, entry, 0)) {
		queue->building++;
		return OK;
	}
	ticket.line = line_of(queue, entry->account);
	if (ticket.line->count >= QUEUE_TENANT_MAX) {
		queue->refused++;
		return err_hint(err_new(EXHAUSTED, "queue_full",
					"%u sandboxes wait to be made already, for: %s",
					ticket.line->count, reason_of(queue)),
				"try again in a moment");
	}
	bell_init(&ticket.called);
	link_add(&ticket.line->tickets, &ticket.link);
	ticket.line->count++;
	count_waiting(queue, entry, 1);
	queue->waited++;
	entry->ticket = &ticket;
	fleet_queue_stir(queue);
	err = queue_await(queue, &ticket);
	entry->ticket = NULL;
	entry->record.wait.reason = NULL;
	return err;
}

void queue_leave(struct fleet *fleet)
{
	fleet->queue->building--;
	fleet_queue_stir(fleet->queue);
}

// Reasons of admission are literals of the program, but errors keep copies.
static const char *queue_literal(const char *reason)
{
	static const char *const known[] = {"host_memory", "host_pids",	   "host_loops",
					    "host_disk",   "daemon_files", "capacity_unknown",
					    "builds_busy"};

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (!strcmp(known[i], reason))
			return known[i];
	return "host_full";
}

void queue_show(struct entry *entry)
{
	const struct queued *ticket = entry->ticket;

	entry->record.wait.reason = NULL;
	if (!ticket || !ticket->line)
		return;
	entry->record.wait.reason = queue_literal(reason_of(entry->fleet->queue));
	entry->record.wait.position = queue_place_of(ticket);
}

struct queue_view queue_look(const struct fleet *fleet)
{
	const struct queue *queue = fleet->queue;

	return (struct queue_view){
		.building = queue->building,
		.waiting = queue->waiting,
		.waited = queue->waited,
		.refused = queue->refused,
	};
}
