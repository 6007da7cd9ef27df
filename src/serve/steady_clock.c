// The steady clock. NTP slews a clock by less than a second between two sweeps: that is followed. A
// clock that was set is not followed until the next boot: what expires in an hour does so in an
// hour. After a boot only the wall clock is known.
//
// syscalls: openat read close
#include "serve/steady_clock.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "codec/json.h"
#include "manager/publish.h"
#include "store/kv.h"

#define NAME "clock/steady"
#define DRIFT_MS 5000

struct steady_clock {
	struct store *store;
	char boot[STEADY_CLOCK_BOOT];
	bool rebooted, settled;
};

void steady_clock_boot(char out[STEADY_CLOCK_BOOT])
{
	auto_fd fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, out, STEADY_CLOCK_BOOT - 1);

	while (len > 0 && out[len - 1] == '\n')
		len--;
	out[len > 0 ? len : 0] = '\0';
}

// True: of this boot, and *out_base is its offset.
static bool steady_clock_recover(struct str text, const char *boot, int64_t *out_base)
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

static void steady_clock_keep(const struct steady_clock *steady_clock)
{
	auto_buf text = BUF_INIT(256);
	struct json_out out = json_to(&text);

	json_begin(&out, '{');
	json_put_text(&out, "boot", steady_clock->boot);
	json_put_int(&out, "base", clock_steady_base());
	json_end(&out, '}');
	store_kv_queue(steady_clock->store, NAME, buf_view(&text));
}

struct steady_clock *steady_clock_open(struct store *store, const char boot[STEADY_CLOCK_BOOT])
{
	struct steady_clock *steady_clock = mem_new_of(struct steady_clock);
	auto_arena arena = arena_new();
	struct store_kv *rows = NULL;
	size_t count = 0;
	int64_t base;
	auto_err err = store_kv_load(store, NAME, arena, &rows, &count);

	steady_clock->store = store;
	memcpy(steady_clock->boot, boot, STEADY_CLOCK_BOOT);
	steady_clock->rebooted = err || !count || !steady_clock_recover(rows[0].value, boot, &base);
	if (!steady_clock->rebooted)
		clock_steady_set(base);
	return steady_clock;
}

bool steady_clock_rebooted(const struct steady_clock *steady_clock)
{
	return steady_clock->rebooted;
}

void steady_clock_settled(struct steady_clock *steady_clock)
{
	steady_clock->settled = true;
	steady_clock_keep(steady_clock);
}

fallible steady_clock_follow(void *arg, struct sweep_round *round)
{
	struct steady_clock *steady_clock = arg;
	int64_t ahead = clock_wall_ms() - clock_steady_ms();
	bool stepped = ahead > DRIFT_MS || ahead < -DRIFT_MS;

	(void)round;
	if (!stepped)
		clock_steady_set(clock_steady_base() + ahead);
	if (stepped)
		alert_publish("clock_stepped", "warning", "clock", NULL, OK);
	else
		alert_clear("clock_stepped", "clock", NULL);
	if (steady_clock->settled)
		steady_clock_keep(steady_clock);
	return OK;
}
