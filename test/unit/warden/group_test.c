// I/O weights: which schedulers support them, and the values that are written for a box.
#include "warden/group.h"

#include <string.h>
#include <sys/sysmacros.h>

#include "os/fd.h"
#include "scratch.h"
#include "tap.h"

#define BOX "box-1"

static void file_make(int dir, const char *name)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	CHECK(fd >= 0);
	close(fd);
}

static bool file_says(int dir, const char *name, const char *text)
{
	char room[64];

	return fd_get(dir, name, room, sizeof(room)) >= 0 && !strcmp(room, text);
}

static struct groups groups_of(int version)
{
	return (struct groups){
		.count = 1,
		.trees = {{.version = version,
			   .holds = 1u << CGROUP_MEMORY | 1u << CGROUP_PIDS | 1u << CGROUP_CPU,
			   .top = scratch,
			   .cove = scratch,
			   .dir = scratch}},
	};
}

TEST(schedulers, "weights are supported by bfq, and where io.cost is on for the disk")
{
	dev_t disk = makedev(8, 16);

	CHECK(groups_heeds_weight("mq-deadline kyber [bfq] none\n", "", disk));
	CHECK(!groups_heeds_weight("[mq-deadline] kyber bfq none\n", "", disk));
	CHECK(!groups_heeds_weight("", "", disk));
	CHECK(groups_heeds_weight("[none]\n", "8:16 enable=1 ctrl=auto rpct=95.00\n", disk));
	CHECK(groups_heeds_weight("[none]\n", "8:0 enable=0 ctrl=auto\n8:16 enable=1 ctrl=auto\n",
				  disk));
	CHECK(!groups_heeds_weight("[none]\n", "8:16 enable=0 ctrl=auto\n", disk));
	CHECK(!groups_heeds_weight("[none]\n", "8:0 enable=1\n18:16 enable=1\n", disk));
}

TEST(weights, "a weight is 100 a CPU, between 1 and 1000, and 100 without a limit")
{
	static const struct {
		uint32_t cpu_milli;
		const char *weight;
	} rows[] = {{0, "100"},	   {1000, "100"}, {500, "50"},
		    {4000, "400"}, {5, "1"},	  {64000, "1000"}};
	struct groups groups = groups_of(2);

	CHECK(mkdirat(scratch, BOX, 0755) == 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		file_make(scratch, BOX "/io.weight");
		file_make(scratch, BOX "/io.bfq.weight");
		group_weigh_io(&groups, BOX, rows[i].cpu_milli);
		CHECK(file_says(scratch, BOX "/io.weight", rows[i].weight));
		CHECK(file_says(scratch, BOX "/io.bfq.weight", rows[i].weight));
	}
	CHECK(unlinkat(scratch, BOX "/io.bfq.weight", 0) == 0);
	group_weigh_io(&groups, BOX, 1000); // a file that is missing is passed over
	CHECK(faccessat(scratch, BOX "/io.bfq.weight", F_OK, 0) && errno == ENOENT);
}

TEST(v1, "nothing is written to cgroup v1")
{
	struct groups groups = groups_of(1);

	file_make(scratch, BOX "/io.weight");
	group_weigh_io(&groups, BOX, 1000);
	CHECK(file_says(scratch, BOX "/io.weight", ""));
}

TEST(handed_down, "the io controller is enabled when io.cost is on, and not otherwise")
{
	struct groups groups = groups_of(2);
	dev_t disk = makedev(4095, 1); // no disk of this host

	file_make(scratch, "cgroup.subtree_control");
	file_make(scratch, "io.cost.qos");
	groups_share_disk(&groups, disk);
	CHECK(!groups.weighs_io && file_says(scratch, "cgroup.subtree_control", ""));
	CHECK(fd_put(scratch, "io.cost.qos", "4095:1 enable=1 ctrl=auto") == 0);
	groups_share_disk(&groups, disk);
	CHECK(groups.weighs_io && file_says(scratch, "cgroup.subtree_control", "+io"));
}
