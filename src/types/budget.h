// How much a box may still send, request and open. An amount is counted before it is used, and
// returned if not used. One thread owns a budget. It holds numbers only: copy `used` to keep it. No
// I/O, no clock: the caller passes the time.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BUDGET_NONE UINT64_MAX // no limit

struct budget_limits {
	uint64_t connections, requests, bytes_out, bytes_in; // total; BUDGET_NONE
	uint64_t per_second; // new connections; BUDGET_NONE: BUDGET_RATE_DEFAULT
	uint32_t open;	     // at once; 0: BUDGET_OPEN_DEFAULT
};
#define BUDGET_UNLIMITED                                                                           \
	((struct budget_limits){BUDGET_NONE, BUDGET_NONE, BUDGET_NONE, BUDGET_NONE, BUDGET_NONE, 0})

#define BUDGET_OPEN_DEFAULT 1024
#define BUDGET_RATE_DEFAULT 200
#define BUDGET_BURST_DEFAULT 1000

// The limits of a policy, with a rate no higher than the operator's maximum.
struct budget_limits budget_within(const struct budget_limits *asked, uint64_t per_second_max);

struct budget_used {
	uint64_t connections, requests, bytes_out, bytes_in;
};

struct budget {
	struct budget_limits limits;
	struct budget_used used;
	uint32_t open;	  // now
	int64_t level;	  // of the bucket, in thousandths
	int64_t level_ms; // time of that level
};

enum budget_verdict {
	BUDGET_OK,
	BUDGET_CONNECTIONS,
	BUDGET_REQUESTS,
	BUDGET_BYTES_OUT,
	BUDGET_BYTES_IN,
	BUDGET_RATE,
	BUDGET_OPEN,
	BUDGET_VERDICTS
};
// A stable word ("budget_requests", "rate", "open_connections") and a sentence for the tenant.
const char *budget_reason(enum budget_verdict verdict);
const char *budget_words(enum budget_verdict verdict);

enum budget_way { BUDGET_OUT, BUDGET_IN };

void budget_init(struct budget *budget, const struct budget_limits *limits,
		 const struct budget_used *used, int64_t now_ms);
// Changes the limits; what was used stays used.
void budget_change(struct budget *budget, const struct budget_limits *limits, int64_t now_ms);

// Counts one more connection, or nothing: open, per second, total. If requests in it cannot be
// seen, it counts as a request too (`is_request`). A box without bytes left opens none.
enum budget_verdict budget_open(struct budget *budget, bool is_request, int64_t now_ms);
void budget_close(struct budget *budget); // one open connection less
// After BUDGET_RATE: milliseconds until another may be opened, if none is opened meanwhile.
int64_t budget_rate_ms(struct budget *budget, int64_t now_ms);
// Reverts budget_open() if upstream was unreachable. The rate stays taken: attempts are bounded
// too.
void budget_unopen(struct budget *budget, bool is_request);

// The connection does not count in the total, but is open until closed, and the rate stays taken.
void budget_spare(struct budget *budget);

enum budget_verdict budget_request(struct budget *budget);
void budget_unrequest(struct budget *budget);

// Counts and grants up to `want` bytes; 0: none are left. Return those that were not moved.
uint64_t budget_take(struct budget *budget, enum budget_way way, uint64_t want);
void budget_give_back(struct budget *budget, enum budget_way way, uint64_t bytes);
// The budget that is used up; BUDGET_OK: none.
enum budget_verdict budget_spent(const struct budget *budget);
