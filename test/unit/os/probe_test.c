#include "os/probe.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/mem.h"
#include "os/cgroup.h"
#include "tap.h"

TEST(table, "the table names every feature, what was found and what to do; nothing stays behind")
{
	static struct probe_row rows[PROBE_ROWS_MAX];
	char dir[64];
	size_t count;

	if (geteuid() != 0) {
		printf("# skipped: probing needs root\n");
		return;
	}
	snprintf(dir, sizeof(dir), "/tmp/cove-probe-%d", getpid());
	CHECK(mkdir(dir, 0700) == 0);
	auto_fd data = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	count = probe_all(data, rows, PROBE_ROWS_MAX);
	CHECK(count >= 10);
	for (size_t i = 0; i < count; i++) {
		printf("# %-42s %-3s %s\n", rows[i].feature, rows[i].ok ? "yes" : "no",
		       rows[i].found);
		CHECK(rows[i].found[0] && rows[i].without[0] && rows[i].fix[0]);
		CHECK(rows[i].ok || !rows[i].required);
	}
	CHECK(rmdir(dir) == 0);
}

TEST(groups, "every controller that a box needs has a place")
{
	auto_free struct cgroup_host *host = mem_new_of(struct cgroup_host);

	CHECK_OK(cgroup_discover(host));
	printf("# %s\n", cgroup_word(host));
	CHECK(host->where[CGROUP_MEMORY] >= 0 && host->where[CGROUP_PIDS] >= 0);
	CHECK(host->where[CGROUP_CPU] >= 0);
}
