// The stock of network namespaces: it grows by those that a burst missed, and shrinks again.
#include "warden/nets.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "os/fd.h"
#include "tap.h"

#define RUSH 40

static struct nets nets;
static int proc = -1;

static bool skipped(void)
{
	if (geteuid() == 0)
		return false;
	printf("# skipped: a network namespace needs root\n");
	return true;
}

static void fill(void)
{
	while (nets_are_missing(&nets) && nets_refill(&nets, proc) == 0)
		;
}

static int take(bool must)
{
	int fd = nets_take(&nets, proc, must);
	int got = fd >= 0;

	fd_drop(&fd);
	return got;
}

TEST(begin, "a few are ready, and not more")
{
	if (skipped())
		return;
	proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	nets_open(&nets, proc);
	CHECK(nets_are_missing(&nets) && nets_are_few(&nets));
	fill();
	CHECK(nets.count == NETS_LEAST);
	CHECK(!nets_are_missing(&nets) && !nets_are_few(&nets));
	CHECK(nets_refill(&nets, proc) == 0 && nets.count == NETS_LEAST);
}

TEST(rush, "each namespace that a burst misses is ready for the next burst")
{
	int got = 0;

	if (skipped())
		return;
	for (int i = 0; i < RUSH; i++)
		got += take(false);
	CHECK(got == NETS_LEAST);
	fill();
	CHECK(nets.count == RUSH);
	got = 0;
	for (int i = 0; i < RUSH; i++)
		got += take(false);
	CHECK(got == RUSH);
}

TEST(must, "a namespace that is required is made at once")
{
	if (skipped())
		return;
	CHECK(nets.count == 0 && take(true) == 1);
	CHECK(nets.count == 0 && take(false) == 0);
}

TEST(most, "no burst makes the stock larger than its maximum")
{
	if (skipped())
		return;
	for (int i = 0; i < 2 * NETS_MOST; i++)
		take(false);
	fill();
	CHECK(nets.count == NETS_MOST);
}

TEST(calm, "the stock shrinks when boxes come one after another")
{
	if (skipped())
		return;
	for (int i = 0; i < 4 * NETS_MOST; i++) {
		CHECK(take(false) == 1);
		fill();
	}
	CHECK(nets.count == NETS_LEAST);
	while (nets.count)
		take(false);
	fd_drop(&nets.home);
	fd_drop(&nets.proc);
	fd_drop(&proc);
}

TEST(homeless, "without an fd of its own namespace the zygote makes none")
{
	struct nets none;

	nets_open(&none, -1);
	CHECK(none.home < 0 && !nets_are_missing(&none));
	CHECK(nets_take(&none, -1, true) == -1);
}
