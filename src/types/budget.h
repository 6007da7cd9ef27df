// How much a box may still send, ask and open: counted exactly, whoever asks in which order. What
// is taken is counted before it happens; what did not happen is given back. One thread owns a
// budget. It holds numbers only: copy `used` to keep it. No I/O, no clock: the caller says how late
// it is.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BUDGET_NONE UINT64_MAX // no limit

struct budget_limits {
	uint64_t connections, requests, bytes_out, bytes_in; // in all; BUDGET_NONE
	uint64_t per_second; // new connections; BUDGET_NONE: as BUDGET_RATE_DEFAULT has it
	uint32_t open;	     // at once; 0: BUDGET_OPEN_DEFAULT
};
#define BUDGET_UNLIMITED                                                                           \
	((struct budget_limits){BUDGET_NONE, BUDGET_NONE, BUDGET_NONE, BUDGET_NONE, BUDGET_NONE, 0})

#define BUDGET_OPEN_DEFAULT 1024
#define BUDGET_RATE_DEFAULT 200
#define BUDGET_BURST_DEFAULT 1000

// What a policy asks for, with a rate that is no higher than the operator lets it be.
struct budget_limits budget_within(const struct budget_limits *asked, uint64_t per_second_max);

struct budget_used {
	uint64_t connections, requests, bytes_out, bytes_in;
};

struct budget {
	struct budget_limits limits;
	struct budget_used used;
	uint32_t open;	  // now
	int64_t level;	  // of the bucket, in thousandths
	int64_t level_ms; // when it was so
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
// Other limits from now on; what was used stays used.
void budget_change(struct budget *budget, const struct budget_limits *limits, int64_t now_ms);

// One more connection, whole or not at all: open, per second, in all. Where no request can be seen
// in it, it counts as a request too (`is_request`). A box whose bytes are used up opens none.
enum budget_verdict budget_open(struct budget *budget, bool is_request, int64_t now_ms);
void budget_close(struct budget *budget); // one less that is open
// After BUDGET_RATE: so many ms from now one more may be opened, if nobody else opens one.
int64_t budget_rate_ms(struct budget *budget, int64_t now_ms);
// It never was: upstream could not be reached. Not the rate: the trying was bounded, and stays so.
void budget_unopen(struct budget *budget, bool is_request);

// It is none that counts in all, but it is open until it is closed, and the rate stays taken.
void budget_spare(struct budget *budget);

enum budget_verdict budget_request(struct budget *budget);
void budget_unrequest(struct budget *budget);

// Up to `want` bytes may be moved now, and are counted; 0: none are left. What then was not moved
// is given back.
uint64_t budget_take(struct budget *budget, enum budget_way way, uint64_t want);
void budget_give_back(struct budget *budget, enum budget_way way, uint64_t bytes);
// Which budget is used up: BUDGET_OK when none is.
enum budget_verdict budget_spent(const struct budget *budget);
