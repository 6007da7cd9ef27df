// A clock that is disciplined drifts by less than a second between two sweeps: that is followed. A
// clock that was set is not, until the host is booted again: what is to expire in an hour does so
// in an hour. Of another boot nothing is known but the wall clock.
//
// syscalls: openat read close
#include "serve/hours.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "fleet/alert.h"
#include "store/kv.h"
#include "wire/json.h"

#define NAME "clock/steady"
#define DRIFT_MS 5000

struct hours {
	struct store *store;
	char boot[HOURS_BOOT];
	bool rebooted, settled;
};

void hours_boot(char out[HOURS_BOOT])
{
	auto_fd fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, out, HOURS_BOOT - 1);

	while (len > 0 && out[len - 1] == '\n')
		len--;
	out[len > 0 ? len : 0] = '\0';
}

// True: this boot's, and *out_base is what was added to its time.
static bool hours_recall(struct str text, const char *boot, int64_t *out_base)
{
	auto_json json = NULL;
	struct str then = {0};
	uint64_t base = 0;
	auto_err err = json_read_any(text, &json);

	if (!err)
		err = json_str(json_get(json, "boot"), "boot", &then);
	if (!err)
		err = json_u64(json_get(json, "base"), "base", 1, 1ull << 53, &base);
	*out_base = (int64_t)base;
	return !err && base && boot[0] && str_is(then, boot);
}

static void hours_keep(const struct hours *hours)
{
	auto_buf text = BUF_INIT(256);
	struct json_out out = json_to(&text);

	json_begin(&out, '{');
	json_put_text(&out, "boot", hours->boot);
	json_put_int(&out, "base", clock_steady_base());
	json_end(&out, '}');
	store_kv_tell(hours->store, NAME, buf_view(&text));
}

struct hours *hours_open(struct store *store, const char boot[HOURS_BOOT])
{
	struct hours *hours = mem_new_of(struct hours);
	auto_arena arena = arena_new();
	struct store_kv *rows = NULL;
	size_t count = 0;
	int64_t base;
	auto_err err = store_kv_load(store, NAME, arena, &rows, &count);

	hours->store = store;
	memcpy(hours->boot, boot, HOURS_BOOT);
	hours->rebooted = err || !count || !hours_recall(rows[0].value, boot, &base);
	if (!hours->rebooted)
		clock_steady_set(base);
	return hours;
}

bool hours_rebooted(const struct hours *hours)
{
	return hours->rebooted;
}

void hours_settled(struct hours *hours)
{
	hours->settled = true;
	hours_keep(hours);
}

fallible hours_follow(void *arg, struct sweep_round *round)
{
	struct hours *hours = arg;
	int64_t ahead = clock_wall_ms() - clock_steady_ms();
	bool stepped = ahead > DRIFT_MS || ahead < -DRIFT_MS;

	(void)round;
	if (!stepped)
		clock_steady_set(clock_steady_base() + ahead);
	if (stepped)
		alert_tell("clock_stepped", "warning", "clock", NULL, OK);
	else
		alert_clear("clock_stepped", "clock", NULL);
	if (hours->settled)
		hours_keep(hours);
	return OK;
}
