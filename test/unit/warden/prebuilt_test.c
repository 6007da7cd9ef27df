// The prebuilt box: the base of a box that was only named.
#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include "tap.h"
#include "unit/warden/house.h"

static struct answer answer; // the last one
static char next[ID_BOX_LEN + 1];

static bool greet_warden(void)
{
	id_box(next);
	return greet_as(next, &answer);
}

// The process in a box's cgroup; 0: there is none.
static pid_t first_of(const char *box)
{
	pid_t pid = 0;

	count_processes("cgroup", box, &pid);
	return pid;
}

#define TRIES 6000 // half a minute, on a busy machine

static pid_t await_prebuilt(const char *box)
{
	for (int i = 0; i < TRIES; i++) {
		pid_t pid = first_of(box);
		char path[64], name[32] = "";

		snprintf(path, sizeof(path), "/proc/%d/comm", pid);
		if (pid && fd_get(AT_FDCWD, path, name, sizeof(name)) > 0 &&
		    !strcmp(name, "cove-prebuilt\n"))
			return pid;
		usleep(5000);
	}
	return 0;
}

static bool await_none(const char *box)
{
	for (int i = 0; i < TRIES && first_of(box); i++)
		usleep(5000);
	return !first_of(box);
}

static uint32_t prebuilt(void)
{
	struct order order = {.kind = ORDER_INVENTORY};
	int fds[ORDER_FDS_MAX];

	if (!ask(&order, &answer, fds) || answer.kind != ANSWER_DONE)
		return 99;
	for (uint32_t i = 0; i < answer.odd_count; i++)
		printf("# odd: %s %s\n", answer.odds[i].what, answer.odds[i].name);
	return answer.inventory.odd_count ? 98 : answer.inventory.prebuilt;
}

// The order is for the box that was named, and names another.
static void name_next(struct order *order)
{
	memcpy(order->box, next, sizeof(order->box));
	id_box(next);
	memcpy(order->next, next, sizeof(order->next));
}

static bool build_next(struct order *order, int *fds)
{
	*order = build_order();
	name_next(order);
	return ask(order, &answer, fds);
}

TEST(begin, "a warden starts, and a daemon names its next box")
{
	if (skipped())
		return;
	CHECK(house_begin("prebuilt"));
	CHECK(greet_warden());
}

TEST(stands, "the prebuilt box exists, is counted, and is in no list")
{
	struct order box_list = {.kind = ORDER_BOXES}, exec_cgroup = {.kind = ORDER_CGROUP};
	int fds[ORDER_FDS_MAX];

	if (skipped())
		return;
	CHECK(await_prebuilt(next) > 0);
	CHECK(prebuilt() == 1 && answer.inventory.alive == 0);
	CHECK(ask(&box_list, &answer, fds) && answer.kind == ANSWER_DONE && answer.cell_count == 0);
	memcpy(exec_cgroup.box, next, sizeof(exec_cgroup.box));
	CHECK(ask(&exec_cgroup, &answer, fds) && answer.kind == ANSWER_REFUSED);
	CHECK_STR(answer.reason, "no_box");
}

TEST(taken, "a build takes it: the same process, now a box; and the next one is prebuilt")
{
	struct order order;
	struct inventory before;
	int fds[ORDER_FDS_MAX];
	pid_t pid;

	if (skipped())
		return;
	CHECK(build_next(&order, fds) && answer.kind == ANSWER_DONE); // makes the template
	CHECK(greets(fds[0]));
	drop_fds(fds);
	CHECK(destroy(order.box));
	pid = await_prebuilt(next);
	before = settled();
	CHECK(build_next(&order, fds) && answer.kind == ANSWER_DONE);
	CHECK(greets(fds[0]));
	CHECK(first_of(order.box) == pid);
	CHECK(fds[1] >= 0 && fds[2] >= 0 && fds[3] < 0); // no way out was asked for
	CHECK(destroy(order.box));
	drop_fds(fds);
	CHECK(await_prebuilt(next) > 0);
	CHECK(same(before));
}

// The limit on memory that the kernel has for a box.
static uint64_t watch_state_of(const char *box)
{
	static struct cgroup_host host;
	auto_err err = cgroup_discover(&host);
	int at = err ? -1 : host.where[CGROUP_MEMORY];
	char path[400], text[32];

	if (at < 0)
		return 0;
	snprintf(path, sizeof(path), "%s/cove/%s/%s/%s", host.mounts[at].path, instance, box,
		 host.mounts[at].version == 2 ? "memory.max" : "memory.limit_in_bytes");
	return fd_get(AT_FDCWD, path, text, sizeof(text)) > 0 ? strtoull(text, NULL, 10) : 0;
}

TEST(limits, "the limits are those of the order, higher or lower than the last box's")
{
	static const uint64_t memory[] = {64, 1024, 512, 2048, 2048, 96};
	struct order order;
	int fds[ORDER_FDS_MAX];

	if (skipped())
		return;
	for (size_t i = 0; i < sizeof(memory) / sizeof(*memory); i++) {
		CHECK(await_prebuilt(next) > 0);
		order = build_order();
		order.limits.memory = memory[i] << 20;
		name_next(&order);
		CHECK(ask(&order, &answer, fds) && answer.kind == ANSWER_DONE && greets(fds[0]));
		CHECK(watch_state_of(order.box) == order.limits.memory);
		drop_fds(fds);
		CHECK(destroy(order.box));
	}
}

TEST(refused, "a build that fails on it undoes it all")
{
	struct order order = build_order();
	struct inventory before;
	int fds[ORDER_FDS_MAX];

	if (skipped())
		return;
	CHECK(await_prebuilt(next) > 0);
	before = settled();
	name_next(&order);
	snprintf(order.name, sizeof(order.name), "no-such-template");
	CHECK(ask(&order, &answer, fds) && answer.kind == ANSWER_REFUSED);
	CHECK_STR(answer.reason, "no_template");
	CHECK(await_prebuilt(next) > 0);
	CHECK(same(before));
}

// Sends the rootfs mounts of the next build ahead. There is no answer, which the next answer shows.
static bool foretell(struct order *order)
{
	bool sent;

	*order = build_order();
	name_next(order);
	order->ahead = true;
	sent = send_order(order);
	order->ahead = false;
	return sent;
}

// pid 1 has its rootfs mounts, and continues.
static bool is_is_set_up(const char *box, pid_t pid)
{
	for (int i = 0; i < 1000; i++) {
		char path[64], name[32] = "";

		snprintf(path, sizeof(path), "/proc/%d/comm", pid);
		if (fd_get(AT_FDCWD, path, name, sizeof(name)) <= 0)
			return false;
		if (!strcmp(name, "cove-init\n"))
			return first_of(box) == pid;
		usleep(5000);
	}
	return false;
}

TEST(foretold, "rootfs mounts sent ahead are mounted, the box stays hidden, and the build takes it")
{
	struct order box_list = {.kind = ORDER_BOXES}, order, other;
	struct inventory before;
	int fds[ORDER_FDS_MAX];
	pid_t pid;

	if (skipped())
		return;
	pid = await_prebuilt(next);
	before = settled();
	CHECK(foretell(&order));
	CHECK(is_is_set_up(order.box, pid));
	// Another box is built meanwhile, and names yet another: that destroys a prebuilt box
	// without mounts.
	other = build_order();
	memcpy(other.next, next, sizeof(next));
	CHECK(ask(&other, &answer, fds) && answer.kind == ANSWER_DONE && greets(fds[0]));
	drop_fds(fds);
	CHECK(destroy(other.box));
	usleep(100000);
	CHECK(prebuilt() == 1 && answer.inventory.alive == 0);
	CHECK(ask(&box_list, &answer, fds) && answer.kind == ANSWER_DONE && answer.cell_count == 0);
	CHECK(ask(&order, &answer, fds) && answer.kind == ANSWER_DONE && greets(fds[0]));
	CHECK(first_of(order.box) == pid);
	drop_fds(fds);
	CHECK(destroy(order.box));
	CHECK(await_prebuilt(next) > 0);
	CHECK(same(before));
}

TEST(unasked, "a box set up ahead and destroyed without an order leaves nothing")
{
	struct inventory before;
	struct order order, destroy = {0};
	int fds[ORDER_FDS_MAX];
	pid_t pid;

	if (skipped())
		return;
	pid = await_prebuilt(next);
	before = settled();
	CHECK(foretell(&order));
	CHECK(is_is_set_up(order.box, pid));
	destroy.kind = ORDER_DESTROY;
	memcpy(destroy.box, order.box, sizeof(destroy.box));
	memcpy(destroy.next, next, sizeof(destroy.next));
	CHECK(ask(&destroy, &answer, fds) && answer.kind == ANSWER_DONE);
	CHECK(await_prebuilt(next) > 0); // of another name: nobody will ask for the first again
	CHECK(prebuilt() == 1);
	CHECK(same(before));
}

TEST(otherwise,
     "a build that differs from the set-up is refused, and built when the prebuilt box is gone")
{
	struct inventory before;
	struct order order;
	int fds[ORDER_FDS_MAX], tries = 0;

	if (skipped())
		return;
	CHECK(await_prebuilt(next) > 0);
	before = settled();
	CHECK(foretell(&order));
	order.limits.memory = 96ull << 20;
	CHECK(ask(&order, &answer, fds) && answer.kind == ANSWER_REFUSED);
	CHECK_STR(answer.reason, "prebuilt_lost");
	while (ask(&order, &answer, fds) && answer.kind == ANSWER_REFUSED && tries++ < 1000) {
		CHECK_STR(answer.reason, "prebuilt_lost");
		usleep(5000);
	}
	CHECK(answer.kind == ANSWER_DONE && greets(fds[0]));
	drop_fds(fds);
	CHECK(destroy(order.box));
	CHECK(await_prebuilt(next) > 0);
	CHECK(same(before));
}

TEST(absent, "an error in rootfs mounts sent ahead is reported to the build, and nothing is left")
{
	struct inventory before;
	struct order order = build_order();
	int fds[ORDER_FDS_MAX];

	if (skipped())
		return;
	CHECK(await_prebuilt(next) > 0);
	before = settled();
	name_next(&order);
	snprintf(order.name, sizeof(order.name), "no-such-template");
	order.ahead = true;
	CHECK(send_order(&order));
	order.ahead = false;
	CHECK(ask(&order, &answer, fds) && answer.kind == ANSWER_REFUSED);
	CHECK_STR(answer.reason, "prebuilt_lost");
	CHECK(ask(&order, &answer, fds) && answer.kind == ANSWER_REFUSED);
	CHECK_STR(answer.reason, "no_template");
	CHECK(await_prebuilt(next) > 0);
	CHECK(same(before));
}

// Of templates that were forgotten, what boxes may still need.
static int gone_layers(void)
{
	char path[128];
	int count = 0;

	path_of(path, sizeof(path), "data/layers");
	DIR *names = opendir(path);

	for (struct dirent *entry; names && (entry = readdir(names));)
		count += !strncmp(entry->d_name, ".gone-", 6);
	if (names)
		closedir(names);
	return count;
}

// A tar of one directory: a head, and the end.
static void put_tar(char bytes[10240])
{
	unsigned sum = 0;

	memset(bytes, 0, 10240);
	memcpy(bytes, "etc/", 4);
	memcpy(bytes + 100, "0000755", 7);	// mode
	memcpy(bytes + 108, "0000000", 7);	// owner
	memcpy(bytes + 116, "0000000", 7);	// group
	memcpy(bytes + 124, "00000000000", 11); // size
	memcpy(bytes + 136, "00000000000", 11); // time
	memset(bytes + 148, ' ', 8);
	bytes[156] = '5';
	memcpy(bytes + 257, "ustar", 5);
	memcpy(bytes + 263, "00", 2);
	for (int i = 0; i < 512; i++)
		sum += (unsigned char)bytes[i];
	snprintf(bytes + 148, 8, "%06o", sum);
}

static bool import_small(const char *name)
{
	struct order order = {.kind = ORDER_IMPORT};
	static char bytes[10240];
	int fds[ORDER_FDS_MAX];

	put_tar(bytes);
	snprintf(order.name, sizeof(order.name), "%s", name);
	if (!ask(&order, &answer, fds) || answer.kind != ANSWER_MORE)
		return false;
	if (fd_write_all(fds[0], bytes, sizeof(bytes)))
		return false;
	close(fds[0]);
	return take_answer(&answer, fds) && answer.kind == ANSWER_DONE;
}

TEST(forgotten, "the template of a box set up ahead may be removed; its files stay for the box")
{
	struct order order = build_order(), forget = {.kind = ORDER_FORGET, .name = "small"};
	int fds[ORDER_FDS_MAX];
	pid_t pid;

	if (skipped())
		return;
	CHECK(import_small("small"));
	pid = await_prebuilt(next);
	name_next(&order);
	snprintf(order.name, sizeof(order.name), "small");
	order.ahead = true;
	CHECK(send_order(&order));
	CHECK(is_is_set_up(order.box, pid));
	CHECK(ask(&forget, &answer, fds) && answer.kind == ANSWER_DONE);
	usleep(300000); // long enough to clear it away
	CHECK(gone_layers() == 1);
	order.ahead = false;
	CHECK(ask(&order, &answer, fds) && answer.kind == ANSWER_DONE && greets(fds[0]));
	drop_fds(fds);
	usleep(300000);
	CHECK(gone_layers() == 1);
	CHECK(destroy(order.box));
	for (int i = 0; i < 1000 && gone_layers(); i++)
		usleep(5000);
	CHECK(gone_layers() == 0);
	CHECK(await_prebuilt(next) > 0);
}

TEST(nowhere, "rootfs mounts for a box that is not prebuilt are ignored")
{
	struct order order = build_order();

	if (skipped())
		return;
	CHECK(await_prebuilt(next) > 0);
	memcpy(order.next, next, sizeof(order.next));
	order.ahead = true;
	CHECK(send_order(&order));
	CHECK(prebuilt() == 1 && answer.inventory.alive == 0);
	CHECK(!first_of(order.box));
}

TEST(deserted, "a box set up by a daemon that is gone is destroyed for the next daemon")
{
	struct inventory before;
	struct order order;
	pid_t pid;

	if (skipped())
		return;
	pid = await_prebuilt(next);
	before = settled();
	CHECK(foretell(&order));
	CHECK(is_is_set_up(order.box, pid));
	CHECK(greet_warden());
	CHECK(await_none(order.box));
	CHECK(await_prebuilt(next) > 0);
	CHECK(same(before));
}

TEST(other, "a build of another id leaves it, and then it is destroyed for the new name")
{
	struct order order = build_order();
	char old[ID_BOX_LEN + 1];
	int fds[ORDER_FDS_MAX];

	if (skipped())
		return;
	CHECK(await_prebuilt(next) > 0);
	memcpy(old, next, sizeof(old));
	id_box(next);
	memcpy(order.next, next, sizeof(order.next));
	CHECK(ask(&order, &answer, fds) && answer.kind == ANSWER_DONE && greets(fds[0]));
	drop_fds(fds);
	CHECK(await_none(old));
	CHECK(await_prebuilt(next) > 0);
	CHECK(destroy(order.box));
	CHECK(prebuilt() == 1);
}

TEST(killed, "a killed prebuilt box is removed, and not built again before an order")
{
	struct order order;
	int fds[ORDER_FDS_MAX];
	pid_t pid;

	if (skipped())
		return;
	pid = await_prebuilt(next);
	CHECK(pid > 0 && kill(pid, SIGKILL) == 0);
	for (int i = 0; i < 1000 && prebuilt() != 0; i++)
		usleep(5000);
	CHECK(prebuilt() == 0);
	usleep(100000); // five times as long as a prebuild takes
	CHECK(prebuilt() == 0);
	CHECK(build_next(&order, fds) && answer.kind == ANSWER_DONE && greets(fds[0]));
	drop_fds(fds);
	CHECK(destroy(order.box));
	CHECK(await_prebuilt(next) > 0);
}

TEST(renamed, "the next daemon has names of its own")
{
	char old[ID_BOX_LEN + 1];

	if (skipped())
		return;
	memcpy(old, next, sizeof(old));
	CHECK(greet_warden());
	CHECK(await_none(old));
	CHECK(await_prebuilt(next) > 0);
	CHECK(prebuilt() == 1);
}

TEST(rush, "a burst of builds, the first on the prebuilt box, succeeds; then there is one again")
{
	static struct order orders[20];
	struct inventory before;
	int fds[ORDER_FDS_MAX];

	if (skipped())
		return;
	CHECK(await_prebuilt(next) > 0);
	before = settled();
	for (int i = 0; i < 20; i++) {
		orders[i] = build_order();
		name_next(&orders[i]);
		CHECK(send_order(&orders[i]));
	}
	for (int i = 0; i < 20; i++) {
		CHECK(take_answer(&answer, fds) && answer.kind == ANSWER_DONE && greets(fds[0]));
		drop_fds(fds);
	}
	for (int i = 0; i < 20; i++)
		CHECK(destroy(orders[i].box));
	CHECK(await_prebuilt(next) > 0);
	CHECK(same(before));
}

static bool shoot_warden(void)
{
	kill(warden_pid, SIGKILL);
	return waitpid(warden_pid, NULL, 0) == warden_pid;
}

TEST(shot, "a killed warden leaves a prebuilt box that ends, and the next warden removes it")
{
	char old[ID_BOX_LEN + 1];

	if (skipped())
		return;
	memcpy(old, next, sizeof(old));
	CHECK(shoot_warden());
	CHECK(await_none(old));
	start_process();
	CHECK(greet_warden());
	CHECK(await_prebuilt(next) > 0);
	CHECK(prebuilt() == 1);
}

TEST(orphan, "a box set up ahead waits for a daemon then, and the next warden removes it as well")
{
	struct order order;
	pid_t pid;

	if (skipped())
		return;
	pid = await_prebuilt(next);
	CHECK(foretell(&order));
	CHECK(is_is_set_up(order.box, pid));
	CHECK(shoot_warden());
	start_process();
	CHECK(greet_warden());
	CHECK(await_none(order.box));
	CHECK(await_prebuilt(next) > 0);
	CHECK(prebuilt() == 1 && answer.inventory.disks == 0);
}

TEST(zygote, "the end of the zygote is noticed though a prebuilt box exists: the warden asks for "
	     "another start")
{
	pid_t zygote = 0;
	int status = -1;

	if (skipped())
		return;
	CHECK(await_prebuilt(next) > 0);
	zygote = zygote_pid();
	CHECK(zygote > 0 && kill(zygote, SIGKILL) == 0);
	CHECK(waitpid(warden_pid, &status, 0) == warden_pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == EX_TEMPFAIL);
	CHECK(await_none(next));
	start_process();
	CHECK(greet_warden());
}

TEST(end, "SIGTERM ends the warden with 0, and its prebuilt box with it")
{
	int status = -1;

	if (skipped())
		return;
	CHECK(await_prebuilt(next) > 0);
	kill(warden_pid, SIGTERM);
	CHECK(waitpid(warden_pid, &status, 0) == warden_pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK(await_none(next));
	CHECK(count_all_groups() == 0);
	leave_home();
}
