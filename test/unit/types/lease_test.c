// The function against a table of its own: every state with every event and everything that can
// have been seen. A cell that the table does not have must change nothing.
#include "types/lease.h"

#include "tap.h"
#include "types/timers.h"

#define NOW 1760000000000ll
#define OLD "instance_00000000000000000000000000000001"
#define FRESH "instance_00000000000000000000000000000002"
#define TRY_OLD "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define TRY_FRESH "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define N LEASE_NONE
#define S LEASE_STARTING
#define R LEASE_READY
#define A LEASE_ACTIVE
#define W LEASE_WARM
#define SN LEASE_STOP_NEEDED
#define SG LEASE_STOPPING
#define Q LEASE_QUARANTINED

// A lease of each state, whose deadline is over at NOW.
static struct lease lease_in(enum lease_state state)
{
	struct lease lease;

	lease_init(&lease);
	lease.next_generation = 4;
	lease.run_generation = 7;
	lease.state = state;
	if (state == N)
		return lease;
	lease.generation = 3;
	snprintf(lease.instance, sizeof(lease.instance), OLD);
	snprintf(lease.place.sandbox, sizeof(lease.place.sandbox), "ses-x");
	lease.place.pid = 12;
	if (state == A)
		snprintf(lease.run, sizeof(lease.run), "run_1");
	else if (lease_is_owned(&lease))
		lease.deadline_ms = NOW;
	if (lease_is_fenced(&lease)) {
		lease.whole_session = true;
		lease.reason = LEASE_FOR_UNHEALTHY;
		lease.requested_ms = NOW - 1000;
		lease.attempts = state == SN ? 1 : state == SG ? 2 : 5;
	}
	if (state == SN)
		lease.next_attempt_ms = NOW;
	if (state == SG) {
		lease.attempt_ms = NOW - timer_ms(TIMER_STOP_ATTEMPT);
		snprintf(lease.attempt, sizeof(lease.attempt), TRY_OLD);
	}
	if (state == Q) {
		lease.exhausted_ms = NOW - timer_ms(TIMER_RECHECK);
		lease.recheck_ms = NOW;
	}
	return lease;
}

static struct lease_event event_of(enum lease_event_kind kind, enum lease_seen seen)
{
	return (struct lease_event){
		.kind = kind,
		.now_ms = NOW,
		.seen = seen,
		.instance = FRESH,
		.attempt = kind == LEASE_STOPPED ? TRY_OLD : TRY_FRESH,
		.run = "run_2",
		.connection = 9,
		.reason = kind == LEASE_STOP ? LEASE_FOR_SESSION_DELETE : LEASE_FOR_NO_REASON,
	};
}

struct cell {
	int row;
	int to; // -1: unchanged
};
#define SAME(row)                                                                                  \
	{                                                                                          \
		row, -1                                                                            \
	}
#define ROW(row, to)                                                                               \
	{                                                                                          \
		row, to                                                                            \
	}
#define NOTHING LEASE_SEES_NOTHING
#define MATCH LEASE_SEES_MATCH
#define OTHER LEASE_SEES_OTHER
#define FAILED LEASE_SEES_FAILED
#define ANY LEASE_SEEN_COUNT

// clang-format off
static const struct {
	enum lease_event_kind kind;
	enum lease_seen seen;
	struct cell in[LEASE_STATE_COUNT];
} table[] = {
	//                                NONE        STARTING    READY       ACTIVE      WARM        STOP_NEEDED STOPPING    QUARANTINED
	{LEASE_WANTED, NOTHING,          {ROW(1, S),  ROW(14, S), ROW(14, S), ROW(14, S), ROW(14, S), SAME(0),    SAME(0),    ROW(26, Q)}},
	{LEASE_WANTED, MATCH,            {ROW(2, SN), SAME(13),   SAME(13),   SAME(13),   ROW(13, S), SAME(0),    SAME(0),    ROW(26, Q)}},
	{LEASE_WANTED, OTHER,            {ROW(2, SN), ROW(15,SN), ROW(15,SN), ROW(15,SN), ROW(15,SN), SAME(0),    SAME(0),    ROW(26, Q)}},
	{LEASE_WANTED, FAILED,           {ROW(3, SN), ROW(3, SN), ROW(3, SN), ROW(3, SN), ROW(3, SN), SAME(0),    SAME(0),    ROW(26, Q)}},
	{LEASE_HEALTHY, ANY,             {SAME(0),    ROW(4, R),  SAME(0),    SAME(0),    SAME(0),    SAME(0),    SAME(0),    SAME(0)}},
	{LEASE_LAUNCH_FAILED, ANY,       {SAME(0),    ROW(5, SN), SAME(0),    SAME(0),    SAME(0),    SAME(0),    SAME(0),    SAME(0)}},
	{LEASE_UNREADY, ANY,             {SAME(0),    ROW(5, SN), SAME(0),    SAME(0),    SAME(0),    SAME(0),    SAME(0),    SAME(0)}},
	{LEASE_ACCEPTED, ANY,            {SAME(0),    SAME(0),    ROW(8, A),  SAME(0),    SAME(0),    SAME(0),    SAME(0),    SAME(0)}},
	{LEASE_COMPLETED, ANY,           {SAME(0),    SAME(0),    SAME(0),    ROW(9, W),  SAME(0),    SAME(0),    SAME(0),    SAME(0)}},
	{LEASE_RUN_FAILED, ANY,          {SAME(0),    SAME(0),    SAME(0),    ROW(10,SN), SAME(0),    SAME(0),    SAME(0),    SAME(0)}},
	{LEASE_RUN_CUT, ANY,             {SAME(0),    SAME(0),    SAME(0),    ROW(10,SN), SAME(0),    SAME(0),    SAME(0),    SAME(0)}},
	{LEASE_SICK, ANY,                {SAME(0),    SAME(0),    SAME(0),    ROW(11,SN), SAME(0),    SAME(0),    SAME(0),    SAME(0)}},
	{LEASE_INTERRUPT, ANY,           {SAME(0),    ROW(12,SN), ROW(12,SN), ROW(12,SN), SAME(0),    SAME(19),   SAME(19),   SAME(19)}},
	{LEASE_STOP, ANY,                {ROW(17,SN), ROW(17,SN), ROW(17,SN), ROW(17,SN), ROW(17,SN), SAME(19),   SAME(19),   SAME(19)}},
	{LEASE_TIME, ANY,                {SAME(0),    ROW(6, SN), ROW(6, SN), SAME(0),    ROW(16,SN), ROW(18,SG), ROW(22,SN), ROW(26, Q)}},
	{LEASE_STOPPED, NOTHING,         {SAME(24),   SAME(24),   SAME(24),   SAME(24),   SAME(24),   SAME(24),   ROW(20, N), SAME(24)}},
	{LEASE_STOPPED, MATCH,           {SAME(24),   SAME(24),   SAME(24),   SAME(24),   SAME(24),   SAME(24),   ROW(21,SN), SAME(24)}},
	{LEASE_STOPPED, OTHER,           {SAME(24),   SAME(24),   SAME(24),   SAME(24),   SAME(24),   SAME(24),   ROW(21,SN), SAME(24)}},
	{LEASE_STOPPED, FAILED,          {SAME(24),   SAME(24),   SAME(24),   SAME(24),   SAME(24),   SAME(24),   ROW(21,SN), SAME(24)}},
	{LEASE_FORCE, ANY,               {SAME(0),    SAME(0),    SAME(0),    SAME(0),    SAME(0),    SAME(0),    SAME(0),    ROW(26, Q)}},
	{LEASE_RECHECKED, NOTHING,       {SAME(0),    SAME(0),    SAME(0),    SAME(0),    SAME(0),    SAME(0),    SAME(0),    ROW(25, N)}},
	{LEASE_RECHECKED, MATCH,         {SAME(0),    SAME(0),    SAME(0),    SAME(0),    SAME(0),    SAME(0),    SAME(0),    SAME(26)}},
	{LEASE_RECHECKED, OTHER,         {SAME(0),    SAME(0),    SAME(0),    SAME(0),    SAME(0),    SAME(0),    SAME(0),    SAME(26)}},
	{LEASE_RECHECKED, FAILED,        {SAME(0),    SAME(0),    SAME(0),    SAME(0),    SAME(0),    SAME(0),    SAME(0),    SAME(26)}},
	{LEASE_UNREADABLE, ANY,          {ROW(27, Q), ROW(27, Q), ROW(27, Q), ROW(27, Q), ROW(27, Q), ROW(27, Q), ROW(27, Q), ROW(27, Q)}},
	{LEASE_FOUND, NOTHING,           {SAME(0),    ROW(14, N), ROW(14, N), ROW(14, N), ROW(14, N), SAME(0),    SAME(0),    SAME(0)}},
	{LEASE_FOUND, MATCH,             {ROW(2, SN), SAME(13),   SAME(13),   SAME(13),   SAME(13),   SAME(0),    SAME(0),    SAME(0)}},
	{LEASE_FOUND, OTHER,             {ROW(2, SN), ROW(15,SN), ROW(15,SN), ROW(15,SN), ROW(15,SN), SAME(0),    SAME(0),    SAME(0)}},
	{LEASE_FOUND, FAILED,            {SAME(0),    SAME(0),    SAME(0),    SAME(0),    SAME(0),    SAME(0),    SAME(0),    SAME(0)}},
};
// clang-format on
#define TABLE (sizeof(table) / sizeof(*table))

static bool equal(const struct lease *a, const struct lease *b)
{
	auto_buf one = BUF_INIT(4096), two = BUF_INIT(4096);

	lease_write(&one, a);
	lease_write(&two, b);
	return str_eq(buf_view(&one), buf_view(&two));
}

static bool check_box(size_t i, int seen, int state)
{
	const struct cell *want = &table[i].in[state];
	struct lease from = lease_in((enum lease_state)state), to;
	struct lease_event event = event_of(table[i].kind, (enum lease_seen)seen);
	struct lease_step step = lease_handle(&from, &event, &to);
	int to_state = want->to < 0 ? state : want->to;

	if (step.row == want->row && step.changed == (want->to >= 0) && (int)to.state == to_state &&
	    (step.changed || equal(&from, &to)))
		return true;
	printf("# event %d, seen %d, state %s: row %d, to %s, changed %d\n", (int)table[i].kind,
	       seen, lease_state_word((enum lease_state)state), step.row,
	       lease_state_word(to.state), step.changed);
	return false;
}

TEST(all, "2.3 every state with every event: the row of the table, or nothing changes")
{
	bool had[28] = {false};

	for (size_t i = 0; i < TABLE; i++) {
		int first = table[i].seen == ANY ? 0 : (int)table[i].seen;
		int last = table[i].seen == ANY ? LEASE_SEEN_COUNT - 1 : first;

		for (int seen = first; seen <= last; seen++)
			for (int state = 0; state < LEASE_STATE_COUNT; state++) {
				CHECK(check_box(i, seen, state));
				had[table[i].in[state].row] = true;
			}
	}
	for (int kind = 0; kind < LEASE_EVENT_COUNT; kind++) {
		size_t cells = 0;

		for (size_t i = 0; i < TABLE; i++)
			if ((int)table[i].kind == kind)
				cells += table[i].seen == ANY ? LEASE_SEEN_COUNT : 1;
		CHECK(cells == LEASE_SEEN_COUNT);
	}
	had[7] = had[23] = true; // they need more than a state: below
	for (int row = 1; row <= 27; row++)
		CHECK(had[row]);
}

TEST(early, "before its deadline no state is moved by time")
{
	for (int state = 0; state < LEASE_STATE_COUNT; state++) {
		struct lease from = lease_in((enum lease_state)state), to;
		struct lease_event event = event_of(LEASE_TIME, NOTHING);

		event.now_ms = NOW - 1;
		CHECK(!lease_handle(&from, &event, &to).changed);
		CHECK(equal(&from, &to));
	}
}

TEST(row7, "row 7: an accepted run at the deadline repairs a lost write")
{
	static const enum lease_state states[] = {S, R, W};

	for (int i = 0; i < 3; i++) {
		struct lease from = lease_in(states[i]), to;
		struct lease_event event = event_of(LEASE_TIME, NOTHING);
		struct lease_step step;

		event.has_accepted = true;
		step = lease_handle(&from, &event, &to);
		CHECK(step.row == 7 && to.state == A && step.changed);
		CHECK_STR(to.run, "run_2");
		CHECK_STR(to.instance, OLD);
	}
}

TEST(row16, "row 16: a warm runner with queued work is not stopped, it is used")
{
	struct lease from = lease_in(W), to;
	struct lease_event event = event_of(LEASE_TIME, NOTHING);
	struct lease_step step;

	event.has_queued = true;
	step = lease_handle(&from, &event, &to);
	CHECK(!step.changed && step.todo == LEASE_DO_DRAIN);
}

TEST(ladder, "rows 18 to 23: attempts at 0, 5, 30, 120, 300 s, then quarantine, never a sixth")
{
	static const int64_t gaps[] = {5000, 30000, 120000, 300000};
	struct lease lease = lease_in(A);
	struct lease_event sick = event_of(LEASE_SICK, NOTHING), event;
	struct lease_step step;
	int64_t now = NOW;

	lease_handle(&lease, &sick, &lease);
	CHECK(lease.attempts == 0 && lease.next_attempt_ms == NOW);
	for (uint32_t i = 0; i < 5; i++) {
		event = event_of(LEASE_TIME, NOTHING);
		event.now_ms = now;
		step = lease_handle(&lease, &event, &lease);
		CHECK(step.row == 18 && step.todo == LEASE_DO_STOP && lease.attempts == i + 1);
		now += 2000;
		event = event_of(LEASE_STOPPED, i % 2 ? OTHER : FAILED);
		event.attempt = TRY_FRESH;
		event.error = "no";
		event.now_ms = now;
		step = lease_handle(&lease, &event, &lease);
		if (i < 4) {
			CHECK(step.row == 21 && lease.next_attempt_ms == now + gaps[i]);
			now = lease.next_attempt_ms;
		}
	}
	CHECK(step.row == 23 && lease.state == Q && step.todo == LEASE_DO_ALERT);
	CHECK_STR(lease.error, "no");
	for (int i = 0; i < 20; i++) {
		event = event_of(LEASE_TIME, NOTHING);
		event.now_ms = lease_deadline(&lease);
		if (!event.now_ms)
			break;
		step = lease_handle(&lease, &event, &lease);
		CHECK(step.row == 26 && step.todo == LEASE_DO_LOOK && lease.attempts == 5);
	}
	CHECK(lease_deadline(&lease) == 0); // only a user makes it look again
	event = event_of(LEASE_FORCE, NOTHING);
	event.now_ms = now + timer_ms(TIMER_RECHECK_SPAN) * 2;
	CHECK(lease_handle(&lease, &event, &lease).todo == LEASE_DO_LOOK);
}

TEST(row23, "row 23: the deadline of the fifth attempt ends in quarantine too")
{
	struct lease from = lease_in(SG), to;
	struct lease_event event = event_of(LEASE_TIME, NOTHING);

	from.attempts = 5;
	CHECK(lease_handle(&from, &event, &to).row == 23 && to.state == Q);
	CHECK_STR(to.error, "attempt deadline expired");
	from = lease_in(SN);
	from.attempts = 5;
	CHECK(lease_handle(&from, &event, &to).row == 23 && to.state == Q);
}

TEST(row24, "row 24: a late answer of another attempt changes nothing, in any state")
{
	for (int state = 0; state < LEASE_STATE_COUNT; state++) {
		struct lease from = lease_in((enum lease_state)state), to;
		struct lease_event event = event_of(LEASE_STOPPED, NOTHING);

		event.attempt = "cccccccccccccccccccccccccccccccc";
		CHECK(lease_handle(&from, &event, &to).row == 24);
		CHECK(equal(&from, &to));
	}
}

TEST(generations, "generations only grow, and every launch has its own")
{
	struct lease lease = lease_in(N);
	struct lease_event event = event_of(LEASE_WANTED, NOTHING);

	for (uint64_t i = 4; i < 9; i++) {
		struct lease_step step = lease_handle(&lease, &event, &lease);

		CHECK(step.todo & LEASE_DO_LAUNCH);
		CHECK(lease.generation == i && lease.next_generation == i + 1);
		CHECK_STR(lease.instance, FRESH);
		CHECK(lease.place.pid == 0);
	}
}

TEST(fence, "no event leads from a fenced state to a launch but by way of none")
{
	static const enum lease_state states[] = {SN, SG, Q};

	for (int i = 0; i < 3; i++)
		for (int kind = 0; kind < LEASE_EVENT_COUNT; kind++)
			for (int seen = 0; seen < LEASE_SEEN_COUNT; seen++) {
				struct lease from = lease_in(states[i]), to;
				struct lease_event event = event_of((enum lease_event_kind)kind,
								    (enum lease_seen)seen);
				struct lease_step step = lease_handle(&from, &event, &to);

				CHECK(!(step.todo & LEASE_DO_LAUNCH));
				CHECK(to.state == N || lease_is_fenced(&to));
				CHECK(to.next_generation >= from.next_generation);
				CHECK(to.state == N || to.attempts >= from.attempts);
			}
}

TEST(lost, "a stop of a lease with a run asks for the run's failure, after the commit")
{
	struct lease from = lease_in(A), to;
	struct lease_event event = event_of(LEASE_INTERRUPT, NOTHING);

	CHECK(lease_handle(&from, &event, &to).todo & LEASE_DO_FAIL_RUNS);
	event = event_of(LEASE_WANTED, NOTHING);
	CHECK(lease_handle(&from, &event, &to).todo == (LEASE_DO_LAUNCH | LEASE_DO_FAIL_RUNS));
	from = lease_in(R);
	event = event_of(LEASE_INTERRUPT, NOTHING);
	CHECK(!(lease_handle(&from, &event, &to).todo & LEASE_DO_FAIL_RUNS));
	event.has_accepted = true;
	CHECK(lease_handle(&from, &event, &to).todo & LEASE_DO_FAIL_RUNS);
}

TEST(text, "a lease is read as it was written, in every state")
{
	for (int state = 0; state < LEASE_STATE_COUNT; state++) {
		struct lease from = lease_in((enum lease_state)state), to;
		auto_buf text = BUF_INIT(4096);

		lease_write(&text, &from);
		CHECK(buf_ok(&text));
		CHECK(lease_read(buf_view(&text), &to));
		CHECK(equal(&from, &to));
	}
}

TEST(torn, "row 27: no cut and no flipped byte of a record is read as another lease")
{
	struct lease from = lease_in(SG), to;
	auto_buf text = BUF_INIT(4096);

	lease_write(&text, &from);
	for (size_t len = 0; len < text.len; len++)
		CHECK(!lease_read((struct str){text.at, len}, &to));
	CHECK(!lease_read(STR("garbage"), &to) && to.next_generation == 0);
	CHECK(!lease_read(STR("[]"), &to) && !lease_read(STR("{}"), &to));
	CHECK(!lease_read(STR("{\"v\":2,\"next_generation\":41}"), &to));
	CHECK(to.next_generation == 41);
}

TEST(unreadable, "row 27: what does not parse keeps its generation, or one above every honest one")
{
	struct lease from = {0}, to;
	struct lease_event event = event_of(LEASE_UNREADABLE, NOTHING);

	from.next_generation = 41;
	CHECK(lease_handle(&from, &event, &to).row == 27);
	CHECK(to.state == Q && to.next_generation == 41 && to.whole_session);
	from.next_generation = 0;
	lease_handle(&from, &event, &to);
	CHECK(to.next_generation == (uint64_t)NOW);
	CHECK(to.reason == LEASE_FOR_RECORD_UNREADABLE);
}

TEST(stepped, "a clock that was set back holds no deadline up for longer than its timer")
{
	int64_t year = 365ll * 24 * 3600 * 1000;

	for (int state = 0; state < LEASE_STATE_COUNT; state++) {
		struct lease lease = lease_in((enum lease_state)state);
		int64_t due;

		lease_clamp(&lease, NOW - year);
		due = lease_deadline(&lease);
		CHECK(due == 0 || due <= NOW - year + timer_ms(TIMER_STARTUP));
	}
}
