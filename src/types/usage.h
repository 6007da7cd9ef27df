// Amounts that sandboxes use, what they cost, and the period of a budget. Integers throughout: the
// sum of parts is the whole. No I/O, no clock.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

#define USAGE_HOUR_MS 3600000

// clang-format off
#define USAGE_AMOUNTS(X) \
	X(cpu_us) X(memory_kib_s) X(disk_kib_s) X(requests) X(bytes_in) X(bytes_out)
// clang-format on
// memory_kib_s: working set times seconds, in KiB. disk_kib_s: the same of the disk.
struct usage {
#define X(field) uint64_t field;
	USAGE_AMOUNTS(X)
#undef X
};
void usage_add(struct usage *sum, const struct usage *more);
bool usage_is_none(const struct usage *usage);

// Prices of one unit, in millionths of a millionth of the currency: GiB-hours of disk, GiB-seconds
// of memory.
#define USAGE_PRICES(X)                                                                            \
	X(cpu_second, "cpuSecond")                                                                 \
	X(gib_second, "gibSecond")                                                                 \
	X(gib_hour, "gibHour")                                                                     \
	X(request, "request")
struct prices {
#define X(field, key) uint64_t field;
	USAGE_PRICES(X)
#undef X
	char currency[16];
};
// A decimal number from 0 to 1,000,000 with up to 12 digits behind the point: "0.000014".
bool price_read(struct str text, uint64_t *out);
#define PRICE_ROOM 24
void price_text(uint64_t price, char room[PRICE_ROOM]); // "0.000014"
// In millionths of the currency, rounded once.
uint64_t usage_cost(const struct usage *usage, const struct prices *prices);
#define USAGE_COST_ROOM 32
// "0.123456"
void usage_cost_text(uint64_t micro, char room[USAGE_COST_ROOM]);

// The calendar day or month (UTC) that contains a time, both in ms since 1970.
enum period { PERIOD_DAY, PERIOD_MONTH };
void period_of(enum period period, int64_t at_ms, int64_t *out_begin, int64_t *out_end);
