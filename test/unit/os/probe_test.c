#include "os/probe.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
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

// Whether the probes find fs.suid_dumpable fit, with a file of ours in its place.
static int probe_with(const char *value)
{
	static struct probe_row rows[PROBE_ROWS_MAX];
	int data = open("/tmp", O_RDONLY | O_DIRECTORY);
	char path[] = "/tmp/cove-probe-XXXXXX";
	int file = mkstemp(path);
	size_t count;

	if (write(file, value, 1) != 1 || unshare(CLONE_NEWNS) ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount(path, "/proc/sys/fs/suid_dumpable", NULL, MS_BIND, NULL) || unlink(path))
		return 2;
	count = probe_all(data, rows, PROBE_ROWS_MAX);
	for (size_t i = 0; i < count; i++)
		if (strstr(rows[i].found, "suid_dumpable"))
			return rows[i].ok ? 0 : 1;
	return 3;
}

TEST(dumpable, "a host on which changed ids leave memory open is not fit")
{
	static const struct {
		const char *value;
		int want;
	} rows[] = {{"0", 0}, {"1", 1}, {"2", 0}};

	for (size_t i = 0; geteuid() == 0 && i < 3; i++) {
		int status = -1, pid = fork();

		if (pid == 0)
			_exit(probe_with(rows[i].value));
		CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
		CHECK(WEXITSTATUS(status) == rows[i].want);
	}
}

TEST(groups, "every controller that a box needs has a place")
{
	auto_free struct cgroup_host *host = mem_new_of(struct cgroup_host);

	CHECK_OK(cgroup_discover(host));
	printf("# %s\n", cgroup_word(host));
	CHECK(host->where[CGROUP_MEMORY] >= 0 && host->where[CGROUP_PIDS] >= 0);
	CHECK(host->where[CGROUP_CPU] >= 0);
}
