// Building and destroying boxes, through the warden's socket.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tap.h"
#include "unit/warden/house.h"

#define MANY 50
#define LONE 40

static struct answer answer; // the last one

TEST(begin, "a warden starts on an empty data directory")
{
	if (skipped())
		return;
	CHECK(house_begin("warden"));
	sock = dial();
	CHECK(sock >= 0);
}

TEST(phase, "before HELLO no other order is taken: the connection ends")
{
	struct order order = build_order();
	int fds[ORDER_FDS_MAX];

	if (skipped())
		return;
	CHECK(send_order(&order));
	CHECK(!take_answer(&answer, fds));
	close(sock);
	sock = dial();
	CHECK(sock >= 0);
}

TEST(hello, "HELLO tells what this host can do")
{
	struct order order = {.kind = ORDER_HELLO, .version = ORDER_VERSION};
	int fds[ORDER_FDS_MAX];

	if (skipped())
		return;
	CHECK(ask(&order, &answer, fds));
	CHECK(answer.kind == ANSWER_DONE && answer.host.version == ORDER_VERSION);
	CHECK(answer.host.boxes_max >= 64 && answer.host.cgroup[0]);
	CHECK_STR(answer.host.disk, "directory");
	printf("# cgroup %s, %u boxes\n", answer.host.cgroup, answer.host.boxes_max);
}

TEST(one, "a box is built, greets, and is destroyed without a trace")
{
	struct order order = build_order();
	struct inventory before;
	int fds[ORDER_FDS_MAX];
	char text[512];

	if (skipped())
		return;
	CHECK(ask(&order, &answer, fds)); // the first makes the template
	CHECK(answer.kind == ANSWER_DONE);
	CHECK(greets(fds[0]));
	drop_fds(fds);
	CHECK(destroy(order.box));
	before = settled();

	order = build_order();
	CHECK(ask(&order, &answer, fds));
	if (answer.kind != ANSWER_DONE)
		printf("# %s: %s\n", answer.reason, answer.message);
	CHECK(answer.kind == ANSWER_DONE && answer.exec_cgroup == 0);
	CHECK(fds[0] >= 0 && fds[1] >= 0 && fds[2] >= 0 && fds[3] < 0);
	CHECK(greets(fds[0]));
	CHECK(pread(fds[1], text, sizeof(text) - 1, 0) > 0);
	CHECK(pread(fds[2], text, sizeof(text) - 1, 0) > 0);
	CHECK(destroy(order.box));
	CHECK(recv(fds[0], text, sizeof(text), 0) <= 0);
	drop_fds(fds);
	CHECK(same(before));
}

TEST(twice, "an id is one box: a second BUILD is refused, a second DESTROY is no error")
{
	struct order order = build_order();
	int fds[ORDER_FDS_MAX];

	if (skipped())
		return;
	CHECK(ask(&order, &answer, fds) && answer.kind == ANSWER_DONE);
	CHECK(greets(fds[0]));
	drop_fds(fds);
	CHECK(ask(&order, &answer, fds));
	CHECK(answer.kind == ANSWER_REFUSED && answer.error == ERR_CONFLICT);
	CHECK(destroy(order.box));
	CHECK(destroy(order.box));
}

TEST(unknown, "an unknown template is refused, and nothing stays")
{
	struct order order = build_order();
	struct inventory before;
	int fds[ORDER_FDS_MAX];

	if (skipped())
		return;
	before = settled();
	snprintf(order.name, sizeof(order.name), "no-such-template");
	CHECK(ask(&order, &answer, fds));
	CHECK(answer.kind == ANSWER_REFUSED && answer.error == ERR_NOT_FOUND);
	CHECK_STR(answer.reason, "no_template");
	CHECK(same(before));
}

// A process in the exec cgroup that `joins` open: a directory on v2, `tasks` files on v1.
static pid_t sleeper(const int *joins, uint32_t count)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	if (fd_put(joins[0], "cgroup.procs", "0"))
		for (uint32_t i = 0; i < count; i++)
			if (write(joins[i], "0", 1) != 1)
				_exit(1);
	for (;;)
		pause();
}

TEST(exec_cgroups, "exec cgroups are numbered, metered, killed, and made again under their number")
{
	struct order order = build_order(), more = {.kind = ORDER_CGROUP},
		     end = {.kind = ORDER_KILL};
	int fds[ORDER_FDS_MAX], inside[ORDER_FDS_MAX], status;
	char text[512];
	pid_t pid;

	if (skipped())
		return;
	CHECK(ask(&order, &answer, inside) && answer.kind == ANSWER_DONE);
	CHECK(greets(inside[0]));
	memcpy(more.box, order.box, sizeof(more.box));
	memcpy(end.box, order.box, sizeof(end.box));
	for (int i = 0; i < 3; i++) {
		CHECK(ask(&more, &answer, fds));
		CHECK(answer.kind == ANSWER_DONE && answer.exec_cgroup == 1);
		CHECK(answer.join_count >= 1 && answer.join_count <= 2 &&
		      fds[answer.join_count] >= 0);
		CHECK(pread(fds[answer.join_count], text, sizeof(text), 0) > 0);
		pid = sleeper(fds, answer.join_count);
		usleep(20000);
		drop_fds(fds);
		end.exec_cgroup = 1;
		CHECK(ask(&end, &answer, fds) && answer.kind == ANSWER_DONE);
		CHECK(waitpid(pid, &status, 0) == pid);
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	}
	end.exec_cgroup = 99;
	CHECK(ask(&end, &answer, fds) && answer.kind == ANSWER_REFUSED);
	drop_fds(inside);
	CHECK(destroy(order.box));
}

TEST(marked, "a leaf with a mark shows it, is opened while something lives in it, and goes then")
{
	struct order order = build_order(), more = {.kind = ORDER_CGROUP, .name = "instance_1a"};
	struct order end = {.kind = ORDER_KILL}, plain = {.kind = ORDER_CGROUP};
	int fds[ORDER_FDS_MAX], inside[ORDER_FDS_MAX], status;
	char path[64], where[256];
	ssize_t len;
	pid_t pid;

	if (skipped())
		return;
	CHECK(ask(&order, &answer, inside) && answer.kind == ANSWER_DONE);
	CHECK(greets(inside[0]));
	memcpy(more.box, order.box, sizeof(more.box));
	memcpy(end.box, order.box, sizeof(end.box));
	memcpy(plain.box, order.box, sizeof(plain.box));
	CHECK(ask(&more, &answer, fds) && answer.kind == ANSWER_DONE && answer.exec_cgroup == 1);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[0]);
	len = readlink(path, where, sizeof(where) - 1);
	where[len > 0 ? len : 0] = 0;
	CHECK(strstr(where, "/x-1.instance_1a"));
	pid = sleeper(fds, answer.join_count);
	usleep(20000);
	drop_fds(fds);
	more.again = true;
	more.exec_cgroup = 1;
	CHECK(ask(&more, &answer, fds) && answer.kind == ANSWER_DONE && answer.marked);
	drop_fds(fds);
	// It is killed like any other. When empty it is removed on request, and its number is free.
	end.exec_cgroup = 1;
	CHECK(ask(&end, &answer, fds) && answer.kind == ANSWER_DONE);
	CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
	CHECK(ask(&more, &answer, fds) && answer.kind == ANSWER_REFUSED);
	CHECK(access(where, F_OK) != 0);
	CHECK(ask(&plain, &answer, fds) && answer.kind == ANSWER_DONE && answer.exec_cgroup == 1);
	drop_fds(fds);
	plain.again = true;
	plain.exec_cgroup = 1;
	CHECK(ask(&plain, &answer, fds) && answer.kind == ANSWER_DONE && !answer.marked);
	drop_fds(fds);
	// A box is destroyed with one in it.
	more.again = false;
	CHECK(ask(&more, &answer, fds) && answer.kind == ANSWER_DONE && answer.exec_cgroup == 2);
	drop_fds(fds);
	drop_fds(inside);
	CHECK(destroy(order.box));
}

// Writes to a file of a freezer group of this box, on a host that has nothing but cgroup v1.
static bool set_freezer(const char *box, const char *file, const char *text)
{
	auto_free struct cgroup_host *host = mem_new_of(struct cgroup_host);
	char path[256];

	auto_err err = cgroup_discover(host);

	if (err || host->unified >= 0 || host->where[CGROUP_FREEZER] < 0)
		return false;
	snprintf(path, sizeof(path), "%s/cove/%s/%s/%s",
		 host->mounts[host->where[CGROUP_FREEZER]].path, instance, box, file);
	return fd_put(AT_FDCWD, path, text) == 0;
}

TEST(frozen, "a kill that does not succeed is refused, and a frozen box can be destroyed (v1)")
{
	struct order order = build_order(), more = {.kind = ORDER_CGROUP},
		     end = {.kind = ORDER_KILL};
	int fds[ORDER_FDS_MAX], inside[ORDER_FDS_MAX], status;
	char number[16];
	pid_t pid = -1;

	if (skipped())
		return;
	CHECK(ask(&order, &answer, inside) && answer.kind == ANSWER_DONE);
	CHECK(greets(inside[0]));
	if (!set_freezer(order.box, "freezer.state", "THAWED")) {
		printf("# skipped: only a host with nothing but cgroup v1 freezes to kill\n");
		drop_fds(inside);
		CHECK(destroy(order.box));
		return;
	}
	memcpy(more.box, order.box, sizeof(more.box));
	memcpy(end.box, order.box, sizeof(end.box));
	CHECK(ask(&more, &answer, fds) && answer.kind == ANSWER_DONE);
	pid = sleeper(fds, answer.join_count);
	usleep(20000);
	drop_fds(fds);
	end.exec_cgroup = answer.exec_cgroup;
	// Thawing the exec cgroup does not thaw its parent: a killed process in it does not exit.
	CHECK(set_freezer(order.box, "freezer.state", "FROZEN"));
	CHECK(ask(&end, &answer, fds) && answer.kind == ANSWER_REFUSED);
	CHECK(answer.error == ERR_UNAVAILABLE);
	CHECK(set_freezer(order.box, "freezer.state", "THAWED"));
	CHECK(waitpid(pid, &status, 0) == pid);
	// An exec cgroup that a kill has left frozen, with pid 1 in it.
	CHECK(count_processes("cgroup", order.box, &pid) >= 1);
	snprintf(number, sizeof(number), "%d", pid);
	CHECK(set_freezer(order.box, "x-0/tasks", number));
	CHECK(set_freezer(order.box, "x-0/freezer.state", "FROZEN"));
	usleep(20000);
	CHECK(destroy(order.box));
	drop_fds(inside);
}

TEST(killed, "when a builder or pid 1 is killed its socket closes, and the teardown is complete")
{
	struct inventory before;

	if (skipped())
		return;
	before = settled();
	for (int i = 0; i < 20; i++) {
		struct order order = build_order();
		char room[1024];
		int fds[ORDER_FDS_MAX];
		pid_t pid = -1;
		ssize_t len;

		CHECK(ask(&order, &answer, fds) && answer.kind == ANSWER_DONE);
		usleep((useconds_t)(i * 150)); // at another step each time
		// On v1 the builder joins by itself, in its first step.
		for (int tries = 0; tries < 1000 && pid < 0; tries++)
			count_processes("cgroup", order.box, &pid);
		CHECK(kill(pid, SIGKILL) == 0);
		CHECK(wait_readable(fds[0]));
		while ((len = recv(fds[0], room, sizeof(room), 0)) > 0)
			;
		CHECK(len == 0 || errno == ECONNRESET);
		drop_fds(fds);
		CHECK(destroy(order.box));
	}
	CHECK(same(before));
}

TEST(many, "fifty boxes at once, all greet, all go")
{
	static struct order orders[MANY];
	static int controls[MANY];
	struct inventory before;
	int fds[ORDER_FDS_MAX];
	int64_t begun, built, gone;

	if (skipped())
		return;
	before = settled();
	begun = clock_us();
	for (int i = 0; i < MANY; i++) {
		orders[i] = build_order();
		CHECK(send_order(&orders[i]));
	}
	for (int i = 0; i < MANY; i++) {
		CHECK(take_answer(&answer, fds));
		CHECK(answer.kind == ANSWER_DONE);
		controls[i] = take_fd(&fds[0]);
		drop_fds(fds);
	}
	for (int i = 0; i < MANY; i++)
		CHECK(greets(controls[i]));
	built = clock_us();
	for (int i = 0; i < MANY; i++) {
		struct order end = {.kind = ORDER_DESTROY};

		memcpy(end.box, orders[i].box, sizeof(end.box));
		CHECK(send_order(&end));
	}
	for (int i = 0; i < MANY; i++)
		CHECK(take_answer(&answer, fds) && answer.kind == ANSWER_DONE);
	gone = clock_us();
	for (int i = 0; i < MANY; i++)
		fd_drop(&controls[i]);
	printf("# %d built in %.1f ms, destroyed in %.1f ms\n", MANY, (double)(built - begun) / 1e3,
	       (double)(gone - built) / 1e3);
	CHECK(same(before));
}

static int by_size(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

static void tell(const char *what, int64_t *us)
{
	qsort(us, LONE, sizeof(*us), by_size);
	printf("# %-8s us: least %lld, p50 %lld, p95 %lld\n", what, (long long)us[0],
	       (long long)us[LONE / 2], (long long)us[LONE * 95 / 100]);
}

TEST(speed, "a lone box is made and gone in milliseconds")
{
	static int64_t answered[LONE], ready[LONE], gone[LONE];

	if (skipped())
		return;
	for (int i = 0; i < LONE; i++) {
		struct order order = build_order();
		int fds[ORDER_FDS_MAX];
		int64_t begun;

		usleep(50000);
		begun = clock_us();
		CHECK(ask(&order, &answer, fds) && answer.kind == ANSWER_DONE);
		answered[i] = clock_us() - begun;
		CHECK(greets(fds[0]));
		ready[i] = clock_us() - begun;
		usleep(20000);
		begun = clock_us();
		CHECK(destroy(order.box));
		gone[i] = clock_us() - begun;
		drop_fds(fds);
	}
	tell("answered", answered);
	tell("greeted", ready);
	tell("destroyed", gone);
	CHECK(ready[LONE / 2] < 100000 && gone[LONE / 2] < 100000);
}

TEST(second, "a second daemon is refused while the first is connected")
{
	char byte;
	int other;

	if (skipped())
		return;
	other = dial();
	CHECK(other >= 0);
	CHECK(wait_readable(other));
	CHECK(recv(other, &byte, 1, 0) <= 0);
	close(other);
}

TEST(import_gone, "an import ends with its daemon, though another process still holds the pipe")
{
	struct order hello = {.kind = ORDER_HELLO, .version = ORDER_VERSION};
	struct order import = {.kind = ORDER_IMPORT, .name = "half"};
	struct pollfd early = {.events = POLLIN};
	struct inventory before;
	int fds[ORDER_FDS_MAX], none[ORDER_FDS_MAX];

	if (skipped())
		return;
	before = settled();
	CHECK(ask(&import, &answer, fds) && answer.kind == ANSWER_MORE && fds[0] >= 0);
	close(sock);
	sock = dial();
	CHECK(sock >= 0);
	CHECK(ask(&hello, &answer, none) && answer.kind == ANSWER_DONE);
	// The next daemon may count as the last one did: the end of that import is none of this
	// one.
	last_id = import.id - 1;
	snprintf(import.name, sizeof(import.name), "other");
	CHECK(ask(&import, &answer, none) && answer.kind == ANSWER_MORE);
	early.fd = sock;
	CHECK(poll(&early, 1, 100) == 0);
	drop_fds(none);
	CHECK(take_answer(&answer, none) && answer.kind == ANSWER_REFUSED);
	CHECK(same(before));
	drop_fds(fds);
}

TEST(end, "SIGTERM ends the warden with 0, and no group of its own is left")
{
	int status = -1;

	if (skipped())
		return;
	kill(warden_pid, SIGTERM);
	CHECK(waitpid(warden_pid, &status, 0) == warden_pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK(count_all_groups() == 0);
	leave_home();
}
