// Fair queue of builds. A waiting build is in the line of its account; accounts with waiting builds
// are in a ring. The next turn goes to the first build of the first account, which then moves to
// the end of the ring. Admission is asked once per turn; its refusal is the reason that all wait
// for.
//
// While builds wait for room a timer checks again; the end of a build or of a box checks at once.
#include "manager/queue.h"

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
	struct condition called;
};

struct queue {
	struct manager *manager;
	int64_t wait_ms;
	struct link lines;
	uint32_t building, waiting;
	uint32_t inoded; // of those that wait: with an inode limit
	uint64_t waited, refused;
	struct err *shortage; // what the next build waits for; NULL: for a build to end
	struct timer look;
};

static void on_look(struct timer *timer);

struct queue *queue_new(struct manager *manager, int64_t wait_ms)
{
	struct queue *queue = mem_new_of(struct queue);

	queue->manager = manager;
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
	loop_drop_timer(queue->manager->loop, &queue->look);
	err_free(queue->shortage);
	free(queue);
}

static const char *reason_of(const struct queue *queue)
{
	return queue->shortage ? err_reason(queue->shortage) : "builds_busy";
}

// A box whose disk is an image needs a loop device while it may run. A waiting box counts as
// running but has no device yet, except the first if it was requested early: then one is missing.
static fallible ask_loops(const struct queue *queue, const struct entry *entry, uint32_t others)
{
	const struct manager *manager = queue->manager;
	const struct order_host *host = ask_host(manager->ask);
	bool images = host && !strcmp(host->disk, "ext4-image");
	uint32_t inoded = queue->inoded - (queue->inoded && entry->record.limits.inodes);
	uint32_t used = images ? manager->running - others : manager->inoded - inoded;

	if (!(images || entry->record.limits.inodes) || used <= manager->loops_max)
		return OK;
	return err_hint(err_new(EXHAUSTED, "host_loops", "this host is short of loop devices"),
			"delete or stop sandboxes that nobody needs, or raise loops-max");
}

// `others`: builds that wait besides this one.
static bool queue_has_room(struct queue *queue, const struct entry *entry, uint32_t others)
{
	err_free(take_ptr(queue->shortage));
	if (queue->building >= QUEUE_BUILDS)
		return false;
	queue->shortage = ask_loops(queue, entry, others);
	if (!queue->shortage)
		queue->shortage = admit_ask(queue->manager->admit, loop_now(queue->manager->loop));
	if (table_close_files(queue->manager, queue->shortage)) {
		err_free(queue->shortage);
		queue->shortage = admit_ask(queue->manager->admit, loop_now(queue->manager->loop));
	}
	return !queue->shortage;
}

static void leave_line(struct queued *queued)
{
	struct line *line = queued->line;

	link_drop(&queued->link);
	queued->line = NULL;
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
	struct queued *queued = next_of(queue);
	struct line *line = queued->line;

	link_drop(&line->ring);
	link_add(&queue->lines, &line->ring);
	leave_line(queued);
	count_waiting(queue, queued->entry, -1);
	queue->building++;
	queued->granted = true;
	condition_signal(&queued->called);
}

static void manager_queue_stir(struct queue *queue)
{
	while (queue->waiting && queue_has_room(queue, next_of(queue)->entry, queue->waiting - 1))
		call_next(queue);
	if (queue->waiting && queue->shortage)
		loop_set_timer(queue->manager->loop, &queue->look,
			       loop_now(queue->manager->loop) + LOOK_MS);
}

static void on_look(struct timer *timer)
{
	manager_queue_stir(link_of(timer, struct queue, look));
}

void queue_stir(struct manager *manager)
{
	if (manager->queue && manager->queue->waiting)
		manager_queue_stir(manager->queue);
}

static uint32_t queue_place_of(const struct queued *queued)
{
	uint32_t place = 1;

	for (const struct link *at = queued->link.prev; at != &queued->line->tickets; at = at->prev)
		place++;
	return place;
}

static fallible with_place(const struct err *why, const char *reason, uint32_t place)
{
	auto_free char *words = mem_fmt("%s; position %u in line", err_message(why), place);

	return err_from(err_kind(why), reason, words,
			"delete sandboxes that nobody needs, or try again in a moment");
}

// The reason for the wait, with the position in the line.
static fallible manager_queue_explain(const struct queue *queue, const char *reason, uint32_t place)
{
	if (!queue->shortage)
		return err_hint(err_new(EXHAUSTED, reason,
					"too many sandboxes are being made; position %u in line",
					place),
				"try again in a moment");
	return with_place(queue->shortage, reason, place);
}

// The build had its turn: all others wait behind it.
fallible queue_explain(const struct entry *entry, struct err *shortage)
{
	auto_err why = shortage;

	entry->manager->queue->refused++;
	return with_place(why, err_reason(why), 1);
}

static fallible queue_await(struct queue *queue, struct queued *queued)
{
	int64_t deadline = loop_now(queue->manager->loop) + queue->wait_ms;
	struct err *err = OK;

	while (!queued->granted && !err)
		err = condition_wait(&queued->called, deadline);
	if (queued->granted && err &&
	    err_kind(err) == ERR_TIMEOUT) // granted and timed out in one turn of the loop
		err_free(take_ptr(err));
	if (queued->granted && err) { // granted and cancelled in one turn of the loop
		queue_leave(queue->manager);
		return err;
	}
	if (!err)
		return OK;
	if (err_kind(err) == ERR_TIMEOUT) {
		err_free(err);
		err = manager_queue_explain(queue, reason_of(queue), queue_place_of(queued));
		queue->refused++;
	}
	leave_line(queued);
	count_waiting(queue, queued->entry, -1);
	return err;
}

fallible queue_enter(struct manager *manager, struct entry *entry)
{
	struct queue *queue = manager->queue;
	struct queued queued = {.entry = entry};
	struct err *err;

	if (!queue->waiting && queue_has_room(queue, entry, 0)) {
		queue->building++;
		return OK;
	}
	queued.line = line_of(queue, entry->account);
	if (queued.line->count >= QUEUE_TENANT_MAX) {
		queue->refused++;
		return err_hint(err_new(EXHAUSTED, "queue_full",
					"%u sandboxes wait to be made already, for: %s",
					queued.line->count, reason_of(queue)),
				"try again in a moment");
	}
	condition_init(&queued.called);
	link_add(&queued.line->tickets, &queued.link);
	queued.line->count++;
	count_waiting(queue, entry, 1);
	queue->waited++;
	entry->queued = &queued;
	manager_queue_stir(queue);
	err = queue_await(queue, &queued);
	entry->queued = NULL;
	entry->record.wait.reason = NULL;
	return err;
}

void queue_leave(struct manager *manager)
{
	manager->queue->building--;
	manager_queue_stir(manager->queue);
}

// Admission reasons are literals, but errors hold copies.
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
	const struct queued *queued = entry->queued;

	entry->record.wait.reason = entry->pull ? "pull" : NULL;
	entry->record.wait.operation = entry->pull;
	if (!queued || !queued->line)
		return;
	entry->record.wait.reason = queue_literal(reason_of(entry->manager->queue));
	entry->record.wait.position = queue_place_of(queued);
}

struct queue_view queue_look(const struct manager *manager)
{
	const struct queue *queue = manager->queue;

	return (struct queue_view){
		.building = queue->building,
		.waiting = queue->waiting,
		.waited = queue->waited,
		.refused = queue->refused,
	};
}
