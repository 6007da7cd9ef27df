#include "inbox/raw.h"

#include "base/clock.h"

#define DAY_MS 86400000
#define TIME_MAX_MS 253402300799000 // the end of 9999

const char *raw_date(struct http *x, int64_t wall_us)
{
	static const char days[] = "ThuFriSatSunMonTueWed"; // 1970 began on a Thursday
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	int64_t wall = wall_us < 0 ? 0 : wall_us / 1000;
	auto_buf iso = BUF_INIT(64);
	int month;

	if (wall > TIME_MAX_MS)
		wall = TIME_MAX_MS;
	clock_iso(wall, &iso); // 2026-11-15T02:09:45.123Z
	month = (iso.at[5] - '0') * 10 + iso.at[6] - '0';
	return arena_fmt(x->arena, "%.3s, %.2s %.3s %.4s %.8s GMT", days + wall / DAY_MS % 7 * 3,
			 iso.at + 8, months + (month - 1) * 3L, iso.at, iso.at + 11);
}

const char *raw_etag(struct http *x, const struct reach_stat *stat)
{
	return arena_fmt(x->arena, "\"%llx-%llx-%llx\"", (unsigned long long)stat->mtime_us,
			 (unsigned long long)stat->size, (unsigned long long)stat->inode);
}
