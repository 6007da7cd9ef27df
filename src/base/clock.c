// Clocks and their text forms. The steady clock is CLOCK_BOOTTIME plus a base that is kept over
// restarts. No function here allocates or reads a file: confined processes call them.
//
// syscalls: clock_gettime
#include "base/clock.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

static _Atomic int64_t stepped;
static _Atomic int64_t steady_base;
static _Atomic bool has_base;

static int64_t read_us(clockid_t id)
{
	struct timespec now;

	clock_gettime(id, &now); // cannot fail for these clocks
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t clock_us(void)
{
	return read_us(CLOCK_MONOTONIC);
}

int64_t clock_ms(void)
{
	return clock_us() / 1000;
}

int64_t clock_wall_ms(void)
{
	return read_us(CLOCK_REALTIME) / 1000 + stepped;
}

void clock_step(int64_t ms)
{
	stepped += ms;
}

static int64_t boot_ms(void)
{
	return read_us(CLOCK_BOOTTIME) / 1000;
}

void clock_steady_set(int64_t base)
{
	steady_base = base;
	has_base = true;
}

int64_t clock_steady_base(void)
{
	if (!has_base)
		clock_steady_set(clock_wall_ms() - boot_ms());
	return steady_base;
}

int64_t clock_steady_ms(void)
{
	return boot_ms() + clock_steady_base();
}

// Not gmtime_r(): glibc's reads /etc/localtime at its first call, and a confined process cannot.
// The year begins in March, which puts the leap day at its end.
static void date_of(int64_t days, int64_t *year, int *month, int *day)
{
	int64_t era, of_era, of_year;
	int from_march;

	days += 719468; // from 0000-03-01 to 1970-01-01
	era = (days >= 0 ? days : days - 146096) / 146097;
	days -= era * 146097;
	of_era = (days - days / 1460 + days / 36524 - days / 146096) / 365;
	of_year = days - (365 * of_era + of_era / 4 - of_era / 100);
	from_march = (int)((5 * of_year + 2) / 153);
	*day = (int)(of_year - (153 * from_march + 2) / 5 + 1);
	*month = from_march < 10 ? from_march + 3 : from_march - 9;
	*year = of_era + era * 400 + (*month <= 2);
}

static char *put_digits(char *at, int64_t value, int count)
{
	for (int i = count - 1; i >= 0; i--, value /= 10)
		at[i] = (char)('0' + value % 10);
	return at + count;
}

// File lists contain thousands of these: no printf.
void clock_iso(int64_t wall_ms, struct buf *out)
{
	const int64_t day_ms = 86400000;
	int64_t days = wall_ms / day_ms, rest = wall_ms % day_ms, year;
	char text[32], *at;
	int month, day;

	if (rest < 0) {
		rest += day_ms;
		days--;
	}
	date_of(days, &year, &month, &day);
	if (year < 0 || year > 9999) {
		buf_fmt(out, "%04lld", (long long)year);
		at = text;
	} else {
		at = put_digits(text, year, 4);
	}
	*at++ = '-';
	at = put_digits(at, month, 2);
	*at++ = '-';
	at = put_digits(at, day, 2);
	*at++ = 'T';
	at = put_digits(at, rest / 3600000, 2);
	*at++ = ':';
	at = put_digits(at, rest / 60000 % 60, 2);
	*at++ = ':';
	at = put_digits(at, rest / 1000 % 60, 2);
	*at++ = '.';
	at = put_digits(at, rest % 1000, 3);
	*at++ = 'Z';
	buf_add(out, text, (size_t)(at - text));
}

int64_t clock_bound(int64_t wall_ms)
{
	const int64_t last = 253402300799999; // of 9999

	return wall_ms < 0 ? 0 : wall_ms > last ? last : wall_ms;
}

void clock_http(int64_t wall_ms, struct buf *out)
{
	static const char days[] = "ThuFriSatSunMonTueWed"; // 1970 began on a Thursday
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	int64_t wall = clock_bound(wall_ms), second = wall / 1000 % 86400, year;
	int month, day;

	date_of(wall / 86400000, &year, &month, &day);
	buf_fmt(out, "%.3s, %02d %.3s %04d %02d:%02d:%02d GMT", days + wall / 86400000 % 7 * 3, day,
		months + (month - 1) * 3L, (int)year, (int)(second / 3600), (int)(second / 60 % 60),
		(int)(second % 60));
}
