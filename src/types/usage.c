// Arithmetic of usage, prices and periods. Products are 128 bits wide, so that no sum of a host
// overflows before it is divided.
#include "types/usage.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define PRICE_DIGITS 12
#define PRICE_MAX 1000000
#define KIB_OF_GIB 1048576
#define MILLION 1000000

void usage_add(struct usage *sum, const struct usage *more)
{
#define X(field) sum->field += more->field;
	USAGE_AMOUNTS(X)
#undef X
}

bool usage_is_none(const struct usage *usage)
{
#define X(field) | usage->field
	return !(0 USAGE_AMOUNTS(X));
#undef X
}

bool price_read(struct str text, uint64_t *out)
{
	struct str rest = text, whole, part = {0};
	uint64_t units, fraction = 0;

	str_cut(&rest, '.', &whole);
	part = rest;
	if (!str_to_u64(whole, 0, PRICE_MAX, &units) ||
	    (part.at && (part.len > PRICE_DIGITS || !str_to_u64(part, 0, UINT64_MAX, &fraction))))
		return false;
	for (size_t i = part.len; i < PRICE_DIGITS; i++)
		fraction *= 10;
	*out = units * MILLION * MILLION + fraction;
	return true;
}

void price_text(uint64_t price, char room[PRICE_ROOM])
{
	int len = snprintf(room, PRICE_ROOM, "%llu.%012llu",
			   (unsigned long long)(price / (1000000ull * MILLION)),
			   (unsigned long long)(price % (1000000ull * MILLION)));

	while (len > 0 && room[len - 1] == '0')
		room[--len] = 0;
	if (len > 0 && room[len - 1] == '.')
		room[len - 1] = 0;
}

uint64_t usage_cost(const struct usage *usage, const struct prices *prices)
{
	unsigned __int128 sum = 0; // in millionths of a millionth

	sum += (unsigned __int128)usage->cpu_us * prices->cpu_second / MILLION;
	sum += (unsigned __int128)usage->memory_kib_s * prices->gib_second / KIB_OF_GIB;
	sum += (unsigned __int128)usage->disk_kib_s * prices->gib_hour / KIB_OF_GIB / 3600;
	sum += (unsigned __int128)usage->requests * prices->request;
	sum = (sum + MILLION / 2) / MILLION;
	return sum > INT64_MAX ? INT64_MAX : (uint64_t)sum;
}

void usage_cost_text(uint64_t micro, char room[USAGE_COST_ROOM])
{
	snprintf(room, USAGE_COST_ROOM, "%llu.%06llu", (unsigned long long)(micro / MILLION),
		 (unsigned long long)(micro % MILLION));
}

void period_of(enum period period, int64_t at_ms, int64_t *out_begin, int64_t *out_end)
{
	time_t at = (time_t)(at_ms / 1000);
	struct tm tm = {0};

	gmtime_r(&at, &tm);
	tm.tm_hour = tm.tm_min = tm.tm_sec = 0;
	if (period == PERIOD_MONTH)
		tm.tm_mday = 1;
	*out_begin = (int64_t)timegm(&tm) * 1000;
	if (period == PERIOD_MONTH)
		tm.tm_mon++;
	else
		tm.tm_mday++;
	*out_end = (int64_t)timegm(&tm) * 1000;
}
