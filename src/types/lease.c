// A lease: its transitions, and its stored form.
//
// Transitions are one function per event, states in the order of the table. A pair of
// state and event that the table does not have gives row 0 and changes nothing: an event that comes
// late or twice is harmless. The rows, by number:
//	NONE -1-> STARTING -4-> READY -8-> ACTIVE -9-> WARM; WARM -13-> STARTING
//	STARTING -5,6,12-> STOP_NEEDED; READY -6,12-> STOP_NEEDED
//	ACTIVE -10,11,12-> STOP_NEEDED; WARM -16-> STOP_NEEDED
//	STOP_NEEDED -18-> STOPPING -21,22-> STOP_NEEDED; STOPPING -20-> NONE
//	STOPPING -23-> QUARANTINED -25-> NONE
#include "types/lease.h"

#include <stdio.h>

#include "base/secret.h"
#include "codec/json.h"
#include "types/timers.h"

#define DEADLINE_EXPIRED "attempt deadline expired"

const char *lease_state_word(enum lease_state state)
{
	static const char *const words[] = {
#define X(name, word) [LEASE_##name] = word,
		LEASE_STATES(X)
#undef X
	};

	return words[state];
}

const char *lease_reason_word(enum lease_reason reason)
{
	static const char *const words[] = {
#define X(name, word) [LEASE_FOR_##name] = word,
		LEASE_REASONS(X)
#undef X
	};

	return words[reason];
}

void lease_init(struct lease *lease)
{
	*lease = (struct lease){.state = LEASE_NONE, .next_generation = 1};
}

bool lease_is_owned(const struct lease *lease)
{
	return lease->state >= LEASE_STARTING && lease->state <= LEASE_WARM;
}

bool lease_is_fenced(const struct lease *lease)
{
	return lease->state >= LEASE_STOP_NEEDED;
}

int64_t lease_deadline(const struct lease *lease)
{
	switch (lease->state) {
	case LEASE_STARTING:
	case LEASE_READY:
	case LEASE_WARM:
		return lease->deadline_ms;
	case LEASE_STOP_NEEDED:
		return lease->next_attempt_ms;
	case LEASE_STOPPING:
		return lease->attempt_ms + timer_ms(TIMER_STOP_ATTEMPT);
	case LEASE_QUARANTINED:
		return lease->recheck_ms;
	default:
		return 0;
	}
}

static void bound(int64_t *at, int64_t latest)
{
	if (*at > latest)
		*at = latest;
}

void lease_clamp(struct lease *lease, int64_t now_ms)
{
	switch (lease->state) {
	case LEASE_STARTING:
		bound(&lease->deadline_ms, now_ms + timer_ms(TIMER_STARTUP));
		break;
	case LEASE_READY:
		bound(&lease->deadline_ms, now_ms + timer_ms(TIMER_READY));
		break;
	case LEASE_WARM:
		bound(&lease->deadline_ms, now_ms + timer_ms(TIMER_KEEP_WARM));
		break;
	case LEASE_STOP_NEEDED:
		bound(&lease->next_attempt_ms, now_ms + timer_ms(TIMER_STOP_BACKOFF_4));
		break;
	case LEASE_STOPPING:
		bound(&lease->attempt_ms, now_ms);
		break;
	case LEASE_QUARANTINED:
		bound(&lease->exhausted_ms, now_ms);
		bound(&lease->recheck_ms, now_ms + timer_ms(TIMER_RECHECK));
		break;
	default:
		break;
	}
}

static struct lease_step same(int row, unsigned todo)
{
	return (struct lease_step){.row = row, .todo = todo};
}

static struct lease_step moved(int row, unsigned todo)
{
	return (struct lease_step){.row = row, .changed = true, .todo = todo};
}

static void say(struct lease *lease, const char *error)
{
	snprintf(lease->error, sizeof(lease->error), "%s", error ? error : "");
}

// Only the generations outlive the end of a runner.
static void clear(struct lease *lease)
{
	*lease = (struct lease){
		.next_generation = lease->next_generation,
		.run_generation = lease->run_generation,
	};
}

static void need_stop(struct lease *lease, const struct lease_event *event,
		      enum lease_reason reason, bool whole_session)
{
	lease->state = LEASE_STOP_NEEDED;
	lease->deadline_ms = 0;
	lease->run[0] = '\0';
	lease->whole_session = whole_session;
	lease->reason = reason;
	lease->requested_ms = lease->next_attempt_ms = event->now_ms;
	lease->attempts = 0;
	say(lease, event->error);
}

// A run that the runner had accepted is lost with it.
static unsigned lost(const struct lease *lease, const struct lease_event *event)
{
	return lease->state == LEASE_ACTIVE || event->has_accepted ? LEASE_DO_FAIL_RUNS : 0;
}

static struct lease_step lease_stop(struct lease *lease, const struct lease_event *event, int row,
				    enum lease_reason reason, bool whole_session)
{
	unsigned todo = lost(lease, event);

	need_stop(lease, event, reason, whole_session);
	return moved(row, todo);
}

// Row 1: a new instance, of an unused generation.
static void allocate(struct lease *lease, const struct lease_event *event)
{
	clear(lease);
	lease->state = LEASE_STARTING;
	lease->generation = lease->next_generation++;
	lease->run_generation++;
	snprintf(lease->instance, sizeof(lease->instance), "%s", event->instance);
	lease->deadline_ms = event->now_ms + timer_ms(TIMER_STARTUP);
}

// After a restart that could not observe, even a lease in use may have no connection to its runner.
static struct lease_step reuse(struct lease *lease, const struct lease_event *event)
{
	if (lease->state != LEASE_WARM)
		return same(13, LEASE_DO_ATTACH);
	lease->state = LEASE_STARTING;
	lease->run_generation++;
	lease->deadline_ms = event->now_ms + timer_ms(TIMER_STARTUP);
	return moved(13, LEASE_DO_ATTACH);
}

static struct lease_step force(struct lease *lease, const struct lease_event *event);

static struct lease_step wanted(struct lease *lease, const struct lease_event *event)
{
	unsigned todo;

	if (lease->state == LEASE_QUARANTINED)
		return force(lease, event);
	if (lease_is_fenced(lease))
		return same(0, LEASE_DO_BLOCKED_CALL);
	switch (event->seen) {
	case LEASE_SEES_FAILED:
		return lease_stop(lease, event, 3, LEASE_FOR_OBSERVATION_FAILED, true);
	case LEASE_SEES_NOTHING:
		todo = lost(lease, event);
		if (lease->state == LEASE_NONE) {
			allocate(lease, event);
			return moved(1, LEASE_DO_LAUNCH);
		}
		allocate(lease, event);
		return moved(14, LEASE_DO_LAUNCH | todo);
	case LEASE_SEES_MATCH:
		if (lease->state != LEASE_NONE)
			return reuse(lease, event);
		break;
	default:
		break;
	}
	return lease_stop(lease, event, lease->state == LEASE_NONE ? 2 : 15,
			  LEASE_FOR_UNEXPECTED_RUNNER, true);
}

static struct lease_step healthy(struct lease *lease, const struct lease_event *event)
{
	if (lease->state != LEASE_STARTING)
		return same(0, 0);
	lease->state = LEASE_READY;
	lease->connection = event->connection;
	lease->deadline_ms = event->now_ms + timer_ms(TIMER_READY);
	return moved(4, 0);
}

static struct lease_step unready(struct lease *lease, const struct lease_event *event,
				 enum lease_reason reason)
{
	if (lease->state != LEASE_STARTING)
		return same(0, 0);
	return lease_stop(lease, event, 5, event->reason ? event->reason : reason, false);
}

static void begin_run(struct lease *lease, const struct lease_event *event)
{
	lease->state = LEASE_ACTIVE;
	lease->deadline_ms = 0;
	if (event->run)
		snprintf(lease->run, sizeof(lease->run), "%s", event->run);
	if (event->connection)
		lease->connection = event->connection;
}

static struct lease_step accepted(struct lease *lease, const struct lease_event *event)
{
	if (lease->state != LEASE_READY)
		return same(0, 0);
	begin_run(lease, event);
	return moved(8, 0);
}

static struct lease_step completed(struct lease *lease, const struct lease_event *event)
{
	if (lease->state != LEASE_ACTIVE)
		return same(0, 0);
	lease->state = LEASE_WARM;
	lease->run[0] = '\0';
	lease->run_generation++;
	lease->deadline_ms = event->now_ms + timer_ms(TIMER_KEEP_WARM);
	return moved(9, LEASE_DO_DRAIN);
}

static struct lease_step ended_badly(struct lease *lease, const struct lease_event *event, int row,
				     enum lease_reason reason)
{
	if (lease->state != LEASE_ACTIVE)
		return same(0, 0);
	return lease_stop(lease, event, row, reason, false);
}

static struct lease_step interrupt(struct lease *lease, const struct lease_event *event)
{
	if (lease->state < LEASE_STARTING || lease->state > LEASE_ACTIVE)
		return same(lease_is_fenced(lease) ? 19 : 0, 0);
	return lease_stop(lease, event, 12, LEASE_FOR_USER_INTERRUPT, false);
}

static struct lease_step ask_stop(struct lease *lease, const struct lease_event *event)
{
	if (lease_is_fenced(lease))
		return same(19, 0);
	return lease_stop(lease, event, 17, event->reason, true);
}

static struct lease_step exhaust(struct lease *lease, const struct lease_event *event)
{
	lease->state = LEASE_QUARANTINED;
	lease->attempt[0] = '\0';
	lease->attempt_ms = lease->next_attempt_ms = 0;
	lease->exhausted_ms = event->now_ms;
	lease->recheck_ms = event->now_ms + timer_ms(TIMER_RECHECK);
	return moved(23, LEASE_DO_ALERT);
}

// An attempt that did not end in absence.
static struct lease_step back_off(struct lease *lease, const struct lease_event *event, int row)
{
	static const enum timer_name ladder[] = {TIMER_STOP_BACKOFF_1, TIMER_STOP_BACKOFF_2,
						 TIMER_STOP_BACKOFF_3, TIMER_STOP_BACKOFF_4};
	uint32_t step = lease->attempts ? lease->attempts - 1 : 0;

	say(lease, event->error);
	if (lease->attempts >= LEASE_ATTEMPTS_MAX)
		return exhaust(lease, event);
	lease->state = LEASE_STOP_NEEDED;
	lease->attempt[0] = '\0';
	lease->attempt_ms = 0;
	lease->next_attempt_ms = event->now_ms + timer_ms(ladder[step]);
	return moved(row, LEASE_DO_BLOCKED_CALL);
}

static struct lease_step lease_attempt(struct lease *lease, const struct lease_event *event)
{
	if (lease->attempts >= LEASE_ATTEMPTS_MAX)
		return exhaust(lease, event);
	lease->state = LEASE_STOPPING;
	lease->attempts++;
	lease->attempt_ms = event->now_ms;
	snprintf(lease->attempt, sizeof(lease->attempt), "%s", event->attempt);
	return moved(18, LEASE_DO_STOP);
}

// The next check is scheduled before this one is made: a check that crashes the daemon is not
// repeated for ever.
static struct lease_step lease_recheck(struct lease *lease, const struct lease_event *event)
{
	int64_t next = event->now_ms + timer_ms(TIMER_RECHECK);
	int64_t last = lease->exhausted_ms + timer_ms(TIMER_RECHECK_SPAN);

	lease->recheck_ms = next <= last ? next : 0;
	return moved(26, LEASE_DO_LOOK);
}

static struct lease_step force(struct lease *lease, const struct lease_event *event)
{
	return lease->state == LEASE_QUARANTINED ? lease_recheck(lease, event) : same(0, 0);
}

static struct lease_step rechecked(struct lease *lease, const struct lease_event *event)
{
	if (lease->state != LEASE_QUARANTINED)
		return same(0, 0);
	if (event->seen != LEASE_SEES_NOTHING)
		return same(26, 0);
	clear(lease);
	return moved(25, LEASE_DO_DRAIN);
}

static struct lease_step warm_over(struct lease *lease, const struct lease_event *event)
{
	if (event->has_accepted) {
		begin_run(lease, event);
		return moved(7, 0);
	}
	if (event->has_queued)
		return same(16, LEASE_DO_DRAIN);
	return lease_stop(lease, event, 16, LEASE_FOR_KEEP_WARM_EXPIRED, false);
}

static struct lease_step time_passed(struct lease *lease, const struct lease_event *event)
{
	struct lease_event expired = *event;
	int64_t due = lease_deadline(lease);

	if (!due || event->now_ms < due)
		return same(0, 0);
	switch (lease->state) {
	case LEASE_STARTING:
	case LEASE_READY:
		if (!event->has_accepted)
			return lease_stop(lease, event, 6, LEASE_FOR_STARTUP_FAILED, false);
		begin_run(lease, event);
		return moved(7, 0);
	case LEASE_WARM:
		return warm_over(lease, event);
	case LEASE_STOP_NEEDED:
		return lease_attempt(lease, event);
	case LEASE_STOPPING:
		expired.error = DEADLINE_EXPIRED;
		return back_off(lease, &expired, 22);
	default:
		return lease_recheck(lease, event);
	}
}

static struct lease_step stopped(struct lease *lease, const struct lease_event *event)
{
	if (lease->state != LEASE_STOPPING || strcmp(lease->attempt, event->attempt) != 0)
		return same(24, 0);
	if (event->seen != LEASE_SEES_NOTHING)
		return back_off(lease, event, 21);
	clear(lease);
	return moved(20, LEASE_DO_DRAIN);
}

static struct lease_step unreadable(struct lease *lease, const struct lease_event *event)
{
	clear(lease);
	// Without a generation that can be trusted, use one that no count has reached.
	if (!lease->next_generation)
		lease->next_generation = (uint64_t)event->now_ms;
	lease->whole_session = true;
	lease->reason = LEASE_FOR_RECORD_UNREADABLE;
	lease->requested_ms = event->now_ms;
	lease->attempts = LEASE_ATTEMPTS_MAX;
	say(lease, event->error);
	exhaust(lease, event);
	return moved(27, LEASE_DO_ALERT);
}

// Reconciliation. A failed observation proves nothing: the state stays.
static struct lease_step lease_found(struct lease *lease, const struct lease_event *event)
{
	unsigned todo;

	if (lease_is_fenced(lease) || event->seen == LEASE_SEES_FAILED)
		return same(0, 0);
	if (lease->state == LEASE_NONE)
		return event->seen == LEASE_SEES_NOTHING
			       ? same(0, LEASE_DO_DRAIN)
			       : lease_stop(lease, event, 2, LEASE_FOR_UNEXPECTED_RUNNER, true);
	if (event->seen == LEASE_SEES_MATCH)
		return same(13, LEASE_DO_ATTACH);
	if (event->seen == LEASE_SEES_OTHER)
		return lease_stop(lease, event, 15, LEASE_FOR_UNEXPECTED_RUNNER, true);
	todo = lost(lease, event);
	clear(lease);
	return moved(14, LEASE_DO_DRAIN | todo);
}

struct lease_step lease_handle(const struct lease *from, const struct lease_event *event,
			       struct lease *out)
{
	if (out != from)
		*out = *from;
	switch (event->kind) {
	case LEASE_WANTED:
		return wanted(out, event);
	case LEASE_HEALTHY:
		return healthy(out, event);
	case LEASE_LAUNCH_FAILED:
		return unready(out, event, LEASE_FOR_STARTUP_FAILED);
	case LEASE_UNREADY:
		return unready(out, event, LEASE_FOR_READINESS_FAILED);
	case LEASE_ACCEPTED:
		return accepted(out, event);
	case LEASE_COMPLETED:
		return completed(out, event);
	case LEASE_RUN_FAILED:
		return ended_badly(out, event, 10, LEASE_FOR_TERMINAL_FAILED);
	case LEASE_RUN_CUT:
		return ended_badly(out, event, 10, LEASE_FOR_TERMINAL_INTERRUPTED);
	case LEASE_SICK:
		return ended_badly(out, event, 11, LEASE_FOR_UNHEALTHY);
	case LEASE_INTERRUPT:
		return interrupt(out, event);
	case LEASE_STOP:
		return ask_stop(out, event);
	case LEASE_TIME:
		return time_passed(out, event);
	case LEASE_STOPPED:
		return stopped(out, event);
	case LEASE_FORCE:
		return force(out, event);
	case LEASE_RECHECKED:
		return rechecked(out, event);
	case LEASE_UNREADABLE:
		return unreadable(out, event);
	case LEASE_FOUND:
		return lease_found(out, event);
	default:
		return same(0, 0);
	}
}

// ------------------------------------------------------------------------------------ stored form
//
// JSON with a version. Reading is all or nothing, because half a lease could name the wrong runner;
// only the next generation is recovered from a damaged record.

#define NUMBER_MAX (1ll << 53)
#define TEXT_MAX 4096

#define TEXTS(X) X(instance) X(run) X(error) X(attempt)
#define NUMBERS(X)                                                                                 \
	X(generation)                                                                              \
	X(run_generation)                                                                          \
	X(connection)                                                                              \
	X(deadline_ms)                                                                             \
	X(requested_ms) X(next_attempt_ms) X(attempts) X(attempt_ms) X(exhausted_ms) X(recheck_ms)

void lease_write(struct buf *buf, const struct lease *lease)
{
	struct json_out out = json_to(buf);

	json_begin(&out, '{');
	json_put_int(&out, "v", LEASE_VERSION);
	json_put_text(&out, "state", lease_state_word(lease->state));
	json_put_int(&out, "next_generation", (int64_t)lease->next_generation);
#define X(name) json_put_text(&out, #name, lease->name);
	TEXTS(X)
#undef X
#define X(name) json_put_int(&out, #name, (int64_t)lease->name);
	NUMBERS(X)
#undef X
	json_put_bool(&out, "whole_session", lease->whole_session);
	json_put_text(&out, "reason", lease_reason_word(lease->reason));
	json_put_text(&out, "sandbox", lease->place.sandbox);
	json_put_text(&out, "boot", lease->place.boot);
	json_put_int(&out, "leaf", lease->place.exec_cgroup);
	json_put_int(&out, "pid", lease->place.pid);
	json_put_int(&out, "start", (int64_t)lease->place.start);
	json_put_int(&out, "program", (int64_t)lease->place.program);
	json_end(&out, '}');
}

static bool lease_text_take(const struct json *object, const char *key, char *room, size_t size)
{
	struct str text = {0};
	auto_err err = json_str(json_get(object, key), key, &text);

	if (err || !text.at || text.len >= size)
		return false;
	memcpy(room, text.at, text.len);
	room[text.len] = '\0';
	return true;
}

static bool take_number(const struct json *object, const char *key, uint64_t max, uint64_t *out)
{
	const struct json *value = json_get(object, key);
	auto_err err = json_u64(value, key, 0, max, out);

	return value && !err;
}

static bool lease_text_take_word(const struct json *object, const char *key,
				 const char *(*word)(int), int count, int *out)
{
	char text[40];

	if (!lease_text_take(object, key, text, sizeof(text)))
		return false;
	for (int i = 0; i < count; i++) {
		if (strcmp(word(i), text) == 0) {
			*out = i;
			return true;
		}
	}
	return false;
}

static const char *state_at(int i)
{
	return lease_state_word((enum lease_state)i);
}

static const char *reason_at(int i)
{
	return lease_reason_word((enum lease_reason)i);
}

static bool lease_text_take_place(const struct json *object, struct lease_place *place)
{
	uint64_t exec_cgroup, pid;

	if (!lease_text_take(object, "sandbox", place->sandbox, sizeof(place->sandbox)) ||
	    !lease_text_take(object, "boot", place->boot, sizeof(place->boot)) ||
	    !take_number(object, "leaf", UINT32_MAX, &exec_cgroup) ||
	    !take_number(object, "pid", INT32_MAX, &pid) ||
	    !take_number(object, "start", NUMBER_MAX, &place->start) ||
	    !take_number(object, "program", NUMBER_MAX, &place->program))
		return false;
	place->exec_cgroup = (uint32_t)exec_cgroup;
	place->pid = (int)pid;
	return true;
}

static bool lease_text_take_all(const struct json *object, struct lease *lease)
{
	int state = 0, reason = 0;
	auto_err err = OK;
	uint64_t number;

	if (!take_number(object, "v", LEASE_VERSION, &number) || number != LEASE_VERSION)
		return false;
	if (!take_number(object, "next_generation", NUMBER_MAX, &lease->next_generation))
		return false;
#define X(name)                                                                                    \
	if (!lease_text_take(object, #name, lease->name, sizeof(lease->name)))                     \
		return false;
	TEXTS(X)
#undef X
#define X(name)                                                                                    \
	if (!take_number(object, #name, NUMBER_MAX, &number))                                      \
		return false;                                                                      \
	lease->name = (__typeof__(lease->name))number;
	NUMBERS(X)
#undef X
	if (!lease_text_take_word(object, "state", state_at, LEASE_STATE_COUNT, &state) ||
	    !lease_text_take_word(object, "reason", reason_at, LEASE_REASON_COUNT, &reason) ||
	    !lease_text_take_place(object, &lease->place) || !json_get(object, "whole_session"))
		return false;
	err = json_bool(json_get(object, "whole_session"), "whole_session", &lease->whole_session);
	lease->state = (enum lease_state)state;
	lease->reason = (enum lease_reason)reason;
	return !err;
}

// The fields that a lease of that state must have.
static bool is_sound(const struct lease *lease)
{
	if (lease->next_generation == 0 || lease->generation >= lease->next_generation ||
	    lease->attempts > LEASE_ATTEMPTS_MAX)
		return false;
	if (lease_is_owned(lease))
		return lease_is_instance(str_of(lease->instance)) && lease->generation > 0 &&
		       (lease->state == LEASE_ACTIVE || lease->deadline_ms > 0);
	if (lease->state == LEASE_STOP_NEEDED)
		return lease->next_attempt_ms > 0;
	if (lease->state == LEASE_STOPPING)
		return lease->attempt[0] && lease->attempt_ms > 0 && lease->attempts > 0;
	return true;
}

bool lease_read(struct str text, struct lease *out)
{
	struct lease lease = {0};
	auto_json object = NULL;
	auto_err err = text.len <= TEXT_MAX ? json_read(text, &object) : OK;

	if (!err && object && json_type(object) == JSON_OBJECT &&
	    lease_text_take_all(object, &lease) && is_sound(&lease)) {
		*out = lease;
		return true;
	}
	*out = (struct lease){0};
	if (object && json_type(object) == JSON_OBJECT &&
	    !take_number(object, "next_generation", NUMBER_MAX, &out->next_generation))
		out->next_generation = 0;
	return false;
}

void lease_new_instance(char out[LEASE_INSTANCE_LEN + 1])
{
	memcpy(out, "instance_", 9);
	secret_hex(out + 9, 16);
}

void lease_new_attempt(char out[LEASE_ATTEMPT_LEN + 1])
{
	secret_hex(out, LEASE_ATTEMPT_LEN / 2);
}

bool lease_is_instance(struct str text)
{
	if (text.len != LEASE_INSTANCE_LEN || !str_starts(text, "instance_"))
		return false;
	for (size_t i = 9; i < text.len; i++)
		if (!strchr("0123456789abcdef", text.at[i]))
			return false;
	return true;
}
