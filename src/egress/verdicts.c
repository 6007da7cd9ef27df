// Verdicts in slots of one size in a mapped file. A slot is free, open (a connection writes to it),
// or done (only the store's thread reads it, until it is durable). The state is written last when a
// slot is filled and first when it is emptied, so that after a kill the file holds whole verdicts.
// When the slots run out verdicts use plain memory: counted, but lost with the process.
//
// The blocks of a slot are allocated before it is written: a full disk must not raise SIGBUS. They
// are allocated SLOTS_STEP slots at a time, so that the file of an idle host is small.
//
// syscalls: mmap munmap fallocate ftruncate fstat madvise pread64
#include "egress/verdicts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/secret.h"
#include "loop/task.h"
#include "store/egress.h"

#define SLOTS 4096
#define SLOTS_STEP 256 // 264 KiB
#define BATCH_MS 10
#define BATCH_MAX 512

struct verdicts {
	struct loop *loop;
	struct store *store;
	struct map *subscribers; // box -> struct subscriber
	struct verdict *slots;	 // mapped
	int live;		 // the file; -1: plain memory
	size_t backed;		 // the first slots, whose blocks are allocated
	struct link unused;	 // free slots that were used before
	size_t touched;		 // slots from here on were never used: not in memory
	struct link done;	 // not yet given to the store
	struct timer due;
	size_t count; // in `done`
	uint64_t waiting;
	uint64_t serial;
	uint32_t batches; // running
	bool closing;
};

_Static_assert(sizeof(struct verdict) == 1056, "a verdict has one size in every build");
// Slots of cove 0.1.0 end before `secrets`, with the link.
#define SLOT_OLD (offsetof(struct verdict, secrets) + sizeof(struct link))
_Static_assert(SLOT_OLD == 800, "as it was");

static void set_state(struct verdict *verdict, uint32_t state)
{
	__atomic_store_n(&verdict->state, state, __ATOMIC_RELEASE);
}

static struct store_egress_entry verdicts_entry_of(const struct verdict *verdict)
{
	return (struct store_egress_entry){
		.tenant = verdict->tenant,
		.box = verdict->box,
		.serial = verdict->serial,
		.connections = verdict->connections,
		.denied = verdict->denied,
		.opaque = verdict->opaque,
		.row = {.time_ms = verdict->time_ms,
			.name = verdict->name,
			.address = verdict->address,
			.port = verdict->port,
			.allowed = verdict->allowed,
			.rule = verdict->rule,
			.reason = verdict->reason,
			.secrets = verdict->secrets,
			.requests = verdict->requests,
			.bytes_out = verdict->bytes_out,
			.bytes_in = verdict->bytes_in,
			.duration_ms = verdict->duration_ms},
	};
}

// --------------------------------------------------------------------------------- subscribers

// A subscriber is shared by all waiters of a box. verdicts_ring() counts up and wakes the waiters,
// so that a change between a read of the ledger and the wait is not lost.
struct subscriber {
	struct verdicts *verdicts; // NULL: freed
	char *box;
	struct condition condition;
	uint64_t count;
	uint32_t refs;
};

void verdicts_ring(struct verdicts *verdicts, const char *box)
{
	struct subscriber *subscriber = map_count(verdicts->subscribers)
						? map_get(verdicts->subscribers, str_of(box))
						: NULL;

	if (!subscriber)
		return;
	subscriber->count++;
	condition_signal(&subscriber->condition);
}

struct subscriber *verdicts_subscribe(struct verdicts *verdicts, const char *box)
{
	struct subscriber *subscriber = map_get(verdicts->subscribers, str_of(box));

	if (!subscriber) {
		subscriber = mem_new_of(struct subscriber);
		subscriber->verdicts = verdicts;
		subscriber->box = mem_str(box);
		condition_init(&subscriber->condition);
		map_put(verdicts->subscribers, str_of(box), subscriber);
	}
	subscriber->refs++;
	return subscriber;
}

void subscriber_free(struct subscriber *subscriber)
{
	if (!subscriber || --subscriber->refs)
		return;
	if (subscriber->verdicts)
		map_take(subscriber->verdicts->subscribers, str_of(subscriber->box));
	free(subscriber->box);
	free(subscriber);
}

uint64_t subscriber_count(const struct subscriber *subscriber)
{
	return subscriber->count;
}

fallible subscriber_wait(struct subscriber *subscriber, uint64_t count, int64_t deadline)
{
	while (subscriber->count == count)
		TRY(condition_wait(&subscriber->condition, deadline));
	return OK;
}

// ------------------------------------------------------------------------------------- batches

struct batch {
	struct verdicts *verdicts;
	size_t count;
	struct verdict *at[BATCH_MAX];
};

static struct err *write_down(struct db *db, void *arg)
{
	const struct batch *batch = arg;

	for (size_t i = 0; i < batch->count; i++) {
		struct store_egress_entry entry = verdicts_entry_of(batch->at[i]);

		TRY(store_egress_add_in(db, &entry));
	}
	return OK;
}

static void verdicts_give_back(struct verdicts *verdicts, struct verdict *verdict)
{
	verdicts->waiting--;
	if (verdict < verdicts->slots || verdict >= verdicts->slots + SLOTS) {
		free(verdict);
		return;
	}
	set_state(verdict, VERDICT_FREE);
	link_push(&verdicts->unused, &verdict->link);
}

static void verdicts_end(struct verdicts *verdicts)
{
	size_t at = 0;
	struct str box;
	void *subscriber;

	if (!verdicts->closing || verdicts->batches)
		return;
	munmap(verdicts->slots, SLOTS * sizeof(*verdicts->slots));
	while (map_next(verdicts->subscribers, &at, &box, &subscriber))
		((struct subscriber *)subscriber)->verdicts = NULL;
	map_free(verdicts->subscribers);
	free(verdicts);
}

static void drop_batch(void *arg)
{
	struct batch *batch = arg;
	struct verdicts *verdicts = batch->verdicts;

	for (size_t i = 0; i < batch->count; i++) {
		verdicts_ring(verdicts, batch->at[i]->box);
		verdicts_give_back(verdicts, batch->at[i]);
	}
	free(batch);
	verdicts->batches--;
	verdicts_end(verdicts);
}

static void verdicts_hand_over(struct verdicts *verdicts)
{
	while (!link_empty(&verdicts->done)) {
		struct batch *batch = mem_new_of(struct batch);

		batch->verdicts = verdicts;
		while (batch->count < BATCH_MAX && !link_empty(&verdicts->done)) {
			struct verdict *verdict = link_of(verdicts->done.next, struct verdict,
							  link);

			link_drop(&verdict->link);
			batch->at[batch->count++] = verdict;
		}
		verdicts->count -= batch->count;
		verdicts->batches++;
		if (verdicts->store)
			store_queue(verdicts->store, write_down, batch, drop_batch);
		else
			drop_batch(batch);
	}
}

void verdicts_hurry(struct verdicts *verdicts)
{
	loop_drop_timer(verdicts->loop, &verdicts->due);
	verdicts_hand_over(verdicts);
}

static void on_due(struct timer *timer)
{
	verdicts_hand_over(link_of(timer, struct verdicts, due));
}

static void verdicts_measure(const struct verdict *verdict)
{
	metric_add(METRIC_EGRESS_CONNECTIONS, "allowed", NULL, (double)verdict->connections);
	metric_add(METRIC_EGRESS_CONNECTIONS, "denied", NULL, (double)verdict->denied);
	metric_add(METRIC_EGRESS_REQUESTS, NULL, NULL, (double)verdict->requests);
	metric_add(METRIC_EGRESS_BYTES, "in", NULL, (double)verdict->bytes_in);
	metric_add(METRIC_EGRESS_BYTES, "out", NULL, (double)verdict->bytes_out);
	if (verdict->denied)
		metric_add(METRIC_EGRESS_DENIED, verdict->reason, NULL, (double)verdict->denied);
}

void verdict_done(struct verdicts *verdicts, struct verdict *verdict)
{
	verdict->duration_ms = clock_ms() - verdict->began_ms;
	verdicts_measure(verdict);
	set_state(verdict, VERDICT_DONE);
	link_add(&verdicts->done, &verdict->link);
	if (++verdicts->count >= BATCH_MAX)
		verdicts_hand_over(verdicts);
	else if (!verdicts->due.at)
		loop_set_timer(verdicts->loop, &verdicts->due, loop_now(verdicts->loop) + BATCH_MS);
}

// -------------------------------------------------------------------------------------- slots

void verdict_set(char *field, size_t size, const char *text)
{
	size_t len = text ? strnlen(text, size - 1) : 0;

	memcpy(field, text ? text : "", len);
	field[len] = 0;
}

void verdict_add_secret(struct verdict *verdict, const char *name)
{
	struct str rest = str_of(verdict->secrets), word;
	size_t len = rest.len, size = sizeof(verdict->secrets);

	while (len && str_cut(&rest, ',', &word))
		if (str_is(word, name) || str_is(word, "+"))
			return;
	if (len + strlen(name) + sizeof(",,+") > size)
		name = "+";
	snprintf(verdict->secrets + len, size - len, "%s%s", len ? "," : "", name);
}

// Allocates the blocks of at least `count` slots. False: the disk is full.
static bool back_slots(struct verdicts *verdicts, size_t count)
{
	size_t to = (count + SLOTS_STEP - 1) / SLOTS_STEP * SLOTS_STEP;

	if (count > SLOTS)
		return false;
	errno = posix_fallocate(verdicts->live, 0, (off_t)(to * sizeof(struct verdict)));
	if (errno)
		return false;
	verdicts->backed = to;
	return true;
}

struct verdict *verdict_new(struct verdicts *verdicts, const char *box, const char *tenant)
{
	bool is_fresh = verdicts->touched < verdicts->backed;
	struct verdict *verdict;

	if (link_empty(&verdicts->unused) && !is_fresh &&
	    (verdicts->live < 0 || !back_slots(verdicts, verdicts->touched + 1))) {
		verdict = mem_new_of(struct verdict);
	} else if (link_empty(&verdicts->unused)) {
		verdict = &verdicts->slots[verdicts->touched++];
		memset(verdict, 0, sizeof(*verdict));
	} else {
		verdict = link_of(verdicts->unused.next, struct verdict, link);
		link_drop(&verdict->link);
		memset(verdict, 0, sizeof(*verdict));
	}
	link_init(&verdict->link);
	verdicts->waiting++;
	verdict->serial = ++verdicts->serial & INT64_MAX;
	verdict->time_ms = clock_wall_ms();
	verdict->began_ms = clock_ms();
	verdict_set(verdict->box, sizeof(verdict->box), box);
	verdict_set(verdict->tenant, sizeof(verdict->tenant), tenant);
	set_state(verdict, VERDICT_OPEN);
	return verdict;
}

uint64_t verdicts_waiting(const struct verdicts *verdicts)
{
	return verdicts->waiting;
}

// ---------------------------------------------------------------------------------- after a kill

static bool verdicts_is_whole(struct verdict *verdict)
{
	static const size_t ends[] = {
		offsetof(struct verdict, box) + sizeof(verdict->box),
		offsetof(struct verdict, tenant) + sizeof(verdict->tenant),
		offsetof(struct verdict, name) + sizeof(verdict->name),
		offsetof(struct verdict, address) + sizeof(verdict->address),
		offsetof(struct verdict, rule) + sizeof(verdict->rule),
		offsetof(struct verdict, reason) + sizeof(verdict->reason),
		offsetof(struct verdict, secrets) + sizeof(verdict->secrets),
	};

	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++)
		((char *)verdict)[ends[i] - 1] = 0;
	if ((verdict->state != VERDICT_OPEN && verdict->state != VERDICT_DONE) ||
	    !verdict->box[0] || verdict->serial > INT64_MAX)
		return false;
	if (verdict->state == VERDICT_OPEN && !verdict->reason[0])
		verdict_set(verdict->reason, sizeof(verdict->reason), "cut_off");
	return true;
}

static fallible verdicts_take_up(struct verdicts *verdicts)
{
	auto_free struct batch *batch = mem_new_of(struct batch);

	for (size_t i = 0; i < SLOTS; i++) {
		struct verdict *verdict = &verdicts->slots[i];

		if (verdict->state == VERDICT_FREE)
			continue;
		if (verdicts_is_whole(verdict) && verdicts->store)
			batch->at[batch->count++] = verdict;
		if (batch->count < BATCH_MAX && i + 1 < SLOTS)
			continue;
		if (batch->count)
			TRY(store_do(verdicts->store, write_down, batch),
			    "write down what an earlier daemon left");
		batch->count = 0;
	}
	if (batch->count)
		TRY(store_do(verdicts->store, write_down, batch),
		    "write down what an earlier daemon left");
	return OK;
}

// If the store refuses them now they are queued with the new ones.
static void take_along(struct verdicts *verdicts)
{
	for (size_t i = 0; i < SLOTS; i++) {
		struct verdict *verdict = &verdicts->slots[i];

		if (verdict->state != VERDICT_FREE && !verdicts_is_whole(verdict))
			set_state(verdict, VERDICT_FREE);
		if (verdict->state == VERDICT_FREE)
			continue;
		while (verdicts->touched < i)
			link_push(&verdicts->unused, &verdicts->slots[verdicts->touched++].link);
		verdicts->touched = i + 1;
		verdicts->waiting++;
		verdicts->count++;
		set_state(verdict, VERDICT_DONE);
		link_add(&verdicts->done, &verdict->link);
	}
	verdicts_hand_over(verdicts);
}

// Verdicts of cove 0.1.0: given to the store like finished ones before the file is overwritten.
static void take_old(struct verdicts *verdicts, int live)
{
	char slot[SLOT_OLD];

	for (size_t i = 0; i < SLOTS; i++) {
		struct verdict *verdict;

		if (pread(live, slot, sizeof(slot), (off_t)(i * sizeof(slot))) != sizeof(slot))
			break;
		verdict = mem_new_of(struct verdict);
		memcpy(verdict, slot, offsetof(struct verdict, secrets));
		if (!verdicts_is_whole(verdict)) {
			free(verdict);
			continue;
		}
		verdict->state = VERDICT_DONE;
		verdicts->waiting++;
		verdicts->count++;
		link_add(&verdicts->done, &verdict->link);
	}
	verdicts_hand_over(verdicts);
	if (verdicts->store)
		err_free(store_flush(verdicts->store));
}

static void *map_file(struct verdicts *verdicts, int live)
{
	size_t size = SLOTS * sizeof(struct verdict);
	struct stat now;
	void *at;

	if (live < 0 || fstat(live, &now))
		return NULL;
	if ((size_t)now.st_size == SLOTS * SLOT_OLD)
		take_old(verdicts, live);
	// A file of another size has another format: ignored.
	if ((size_t)now.st_size != size && (ftruncate(live, 0) || ftruncate(live, (off_t)size)))
		return NULL;
	at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, live, 0);
	return at == MAP_FAILED ? NULL : at;
}

// Slots that an earlier daemon used have their blocks, and so do the slots before them.
static bool map_slots_of_file(struct verdicts *verdicts, int live)
{
	size_t used = 1;

	verdicts->slots = map_file(verdicts, live);
	if (!verdicts->slots)
		return false;
	verdicts->live = live;
	for (size_t i = 0; i < SLOTS; i++)
		if (verdicts->slots[i].state != VERDICT_FREE)
			used = i + 1;
	if (back_slots(verdicts, used))
		return true;
	munmap(verdicts->slots, SLOTS * sizeof(*verdicts->slots));
	verdicts->live = -1;
	return false;
}

static fallible map_slots(struct verdicts *verdicts, int live)
{
	void *at;

	if (map_slots_of_file(verdicts, live))
		return OK;
	if (live >= 0)
		log_event(LOG_WARN, "egress.no_file", "why", strerror(errno), NULL);
	at = mmap(NULL, SLOTS * sizeof(struct verdict), PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return err_sys(errno, "map the verdicts");
	verdicts->slots = at;
	verdicts->backed = SLOTS;
	return OK;
}

fallible verdicts_open(struct loop *loop, struct store *store, int live, struct verdicts **out)
{
	struct verdicts *verdicts = mem_new_of(struct verdicts);
	struct err *err;

	*verdicts = (struct verdicts){
		.loop = loop, .store = store, .live = -1, .due = {.due = on_due}};
	link_init(&verdicts->unused);
	link_init(&verdicts->done);
	// Serials of two daemons must not collide: start at a random number.
	secret_random(&verdicts->serial, sizeof(verdicts->serial));
	verdicts->subscribers = map_new();
	err = map_slots(verdicts, live);
	if (err) {
		map_free(verdicts->subscribers);
		free(verdicts);
		return err;
	}
	err = verdicts_take_up(verdicts);
	if (err) {
		log_event(LOG_WARN, "egress.ledger_waits", "trail", err_trail(err), NULL);
		err_free(err);
		take_along(verdicts);
	} else {
		for (size_t i = 0; i < SLOTS; i++)
			if (verdicts->slots[i].state != VERDICT_FREE)
				set_state(&verdicts->slots[i], VERDICT_FREE);
		// Every page was read, and most will not be used: drop them from memory.
		madvise(verdicts->slots, SLOTS * sizeof(*verdicts->slots), MADV_DONTNEED);
	}
	*out = verdicts;
	return OK;
}

void verdicts_close(struct verdicts *verdicts)
{
	if (!verdicts)
		return;
	verdicts_hurry(verdicts);
	verdicts->closing = true;
	verdicts_end(verdicts);
}
