// A real warden on a scratch directory, ordered about through its socket as the daemon would.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/order.h"
#include "model/talk.h"
#include "os/cgroup.h"
#include "os/fd.h"
#include "tap.h"
#include "warden/group.h"
#include "warden/warden.h"

#define PATIENCE_MS 20000
#define MANY 50
#define LONE 40

static char home[64], instance[GROUP_NAME_ROOM];
static pid_t warden_pid;
static int sock = -1;
static uint32_t last_id;

static void path_of(char *room, size_t size, const char *name)
{
	snprintf(room, size, "%s/%s", home, name);
}

static bool skipped(void)
{
	static bool told;

	if (geteuid() == 0)
		return false;
	if (!told)
		printf("# skipped: a warden needs root\n");
	told = true;
	return true;
}

static int dial(void)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int64_t deadline = clock_ms() + PATIENCE_MS;

	path_of(name.sun_path, sizeof(name.sun_path), "run/warden.sock");
	while (clock_ms() < deadline) {
		int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

		if (connect(fd, (struct sockaddr *)&name, sizeof(name)) == 0)
			return fd;
		close(fd);
		usleep(2000);
	}
	return -1;
}

static void start_process(void)
{
	char data[80], run[80], log[80], *argv[4];

	path_of(data, sizeof(data), "data");
	path_of(run, sizeof(run), "run");
	path_of(log, sizeof(log), "log");
	fflush(stdout);
	warden_pid = fork();
	if (warden_pid != 0)
		return;
	dup2(open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600), 2);
	argv[0] = mem_fmt("--data=%s", data);
	argv[1] = mem_fmt("--run=%s", run);
	argv[2] = mem_str("--uid=0");
	argv[3] = mem_str("--disk=directory");
	exit(warden_main(4, argv));
}

static bool wait_readable(int fd)
{
	struct pollfd one = {.fd = fd, .events = POLLIN};

	return poll(&one, 1, PATIENCE_MS) == 1;
}

static bool send_order(struct order *order)
{
	char room[ORDER_SIZE_MAX];
	size_t len;

	order->id = ++last_id;
	len = order_encode(order, room, sizeof(room));
	return len > 0 && fd_send(sock, room, len, NULL, 0, 0) == (ssize_t)len;
}

static bool take_answer(struct answer *out, int *fds)
{
	static char room[ORDER_SIZE_MAX];
	int count = ORDER_FDS_MAX;
	ssize_t len;

	for (int i = 0; i < ORDER_FDS_MAX; i++)
		fds[i] = -1;
	if (!wait_readable(sock))
		return false;
	len = fd_recv(sock, room, sizeof(room), fds, &count, 0);
	if (len <= 0)
		return false;
	auto_err err = answer_decode(room, (size_t)len, out);

	return !err;
}

static bool ask(struct order *order, struct answer *out, int *fds)
{
	return send_order(order) && take_answer(out, fds) && out->id == order->id;
}

static struct order build_order(void)
{
	struct order order = {
		.kind = ORDER_BUILD, .host = "box", .name = "host", .ephemeral = true};

	id_box(order.box);
	order.limits = LIMITS_DEFAULT;
	order.limits.disk = 0;
	order.limits.memory = 128 << 20;
	return order;
}

static bool bury(const char *box)
{
	struct order order = {.kind = ORDER_BURY};
	struct answer answer;
	int fds[ORDER_FDS_MAX];

	memcpy(order.box, box, sizeof(order.box));
	return ask(&order, &answer, fds) && answer.kind == ANSWER_DONE;
}

// Pid 1's greeting, or what it says instead.
static bool greets(int control)
{
	static char room[TALK_SIZE_MAX];
	struct talk talk = {0};
	ssize_t len;

	if (!wait_readable(control))
		return false;
	len = recv(control, room, sizeof(room), 0);
	if (len <= 0 || !talk_decode(room, (size_t)len, &talk)) {
		printf("# no greeting: %zd bytes\n", len);
		return false;
	}
	if (talk.kind == TALK_BROKEN)
		printf("# broken: %s: %s\n", talk.failed.note, strerror(talk.failed.errnum));
	return talk.kind == TALK_READY;
}

static void drop_fds(int *fds)
{
	for (int i = 0; i < ORDER_FDS_MAX; i++)
		fd_drop(&fds[i]);
}

// -- the census ------------------------------------------------------------------------------

// User namespaces apart: id ranges keep theirs for the next box.
static int count_fds(pid_t pid)
{
	char path[64], target[64];
	DIR *dir;
	struct dirent *entry;
	int count = 0;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		ssize_t len = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target));

		count += len > 0 && !str_starts((struct str){target, (size_t)len}, "user:");
	}
	if (dir)
		closedir(dir);
	return count;
}

// The group itself and what is beneath it.
static int count_groups(const char *path, int depth)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	int count = 0;

	while (dir && depth > 0 && (entry = readdir(dir))) {
		char below[512];

		if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
			continue;
		snprintf(below, sizeof(below), "%s/%s", path, entry->d_name);
		count += count_groups(below, depth - 1);
	}
	if (dir)
		closedir(dir);
	return count + (dir != NULL);
}

static int count_all_groups(void)
{
	struct cgroup_host *host = mem_new_of(struct cgroup_host);
	auto_err err = cgroup_discover(host);
	int count = 0;

	for (int i = 0; !err && i < host->count; i++) {
		char path[300];

		snprintf(path, sizeof(path), "%s/cove/%s", host->mounts[i].path, instance);
		count += count_groups(path, 4);
	}
	free(host);
	return count;
}

static int count_lines(const char *path)
{
	static char text[1 << 18];
	ssize_t len = fd_get(AT_FDCWD, path, text, sizeof(text));
	int count = 0;

	for (ssize_t i = 0; i < len; i++)
		count += text[i] == '\n';
	return count;
}

// Processes whose /proc/PID/`file` has `mark` in it; *last is one of them.
static int count_processes(const char *file, const char *mark, pid_t *last)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	int count = 0;

	while (dir && (entry = readdir(dir))) {
		char path[300], text[2048];
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

		snprintf(path, sizeof(path), "/proc/%s/%s", entry->d_name, file);
		if (pid <= 0 || fd_get(AT_FDCWD, path, text, sizeof(text)) < 0 ||
		    !strstr(text, mark))
			continue;
		count++;
		*last = pid;
	}
	if (dir)
		closedir(dir);
	return count;
}

static int count_children(void)
{
	char mark[32];
	pid_t none;

	snprintf(mark, sizeof(mark), "\nPPid:\t%d\n", warden_pid);
	return count_processes("status", mark, &none);
}

struct census {
	int groups, mounts, children, fds;
};

static struct census take_census(void)
{
	char path[64];
	struct census census = {.groups = count_all_groups(), .children = count_children()};

	snprintf(path, sizeof(path), "/proc/%d/mountinfo", warden_pid);
	census.mounts = count_lines(path);
	census.fds = count_fds(warden_pid);
	return census;
}

// The trash is emptied by a child in its own time; all else must be so at once.
static bool same(struct census before)
{
	struct census now;

	for (int i = 0; i < 500; i++) {
		now = take_census();
		if (memcmp(&now, &before, sizeof(now)) == 0)
			return true;
		usleep(20000);
	}
	printf("# groups %d->%d mounts %d->%d children %d->%d fds %d->%d\n", before.groups,
	       now.groups, before.mounts, now.mounts, before.children, now.children, before.fds,
	       now.fds);
	return false;
}

static struct census settled(void)
{
	struct census before = take_census();

	for (int still = 0; still < 10; still++) {
		struct census now;

		usleep(20000);
		now = take_census();
		if (memcmp(&now, &before, sizeof(now)) != 0)
			still = 0;
		before = now;
	}
	return before;
}

// -- the tests -------------------------------------------------------------------------------

TEST(begin, "a warden starts on an empty data directory")
{
	char path[80];
	auto_fd data = -1;

	if (skipped())
		return;
	snprintf(home, sizeof(home), "/tmp/cove-warden-XXXXXX");
	CHECK(mkdtemp(home));
	path_of(path, sizeof(path), "data");
	CHECK(mkdir(path, 0711) == 0);
	data = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_OK(groups_name(data, instance));
	path_of(path, sizeof(path), "run");
	CHECK(mkdir(path, 0711) == 0);
	start_process();
	sock = dial();
	CHECK(sock >= 0);
}

TEST(phase, "before HELLO no other order is taken: the connection ends")
{
	struct order order = build_order();
	struct answer answer;
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
	struct answer answer;
	int fds[ORDER_FDS_MAX];

	if (skipped())
		return;
	CHECK(ask(&order, &answer, fds));
	CHECK(answer.kind == ANSWER_DONE && answer.host.version == ORDER_VERSION);
	CHECK(answer.host.boxes_max >= 64 && answer.host.cgroup[0]);
	CHECK_STR(answer.host.disk, "directory");
	printf("# cgroup %s, %u boxes\n", answer.host.cgroup, answer.host.boxes_max);
}

TEST(one, "a box is built, greets, and is buried without a trace")
{
	struct order order = build_order();
	struct census before;
	struct answer answer;
	int fds[ORDER_FDS_MAX];
	char text[512];

	if (skipped())
		return;
	CHECK(ask(&order, &answer, fds)); // the first makes the template
	CHECK(answer.kind == ANSWER_DONE);
	CHECK(greets(fds[0]));
	drop_fds(fds);
	CHECK(bury(order.box));
	before = settled();

	order = build_order();
	CHECK(ask(&order, &answer, fds));
	if (answer.kind != ANSWER_DONE)
		printf("# %s: %s\n", answer.reason, answer.message);
	CHECK(answer.kind == ANSWER_DONE && answer.leaf == 0);
	CHECK(fds[0] >= 0 && fds[1] >= 0 && fds[2] >= 0 && fds[3] < 0);
	CHECK(greets(fds[0]));
	CHECK(pread(fds[1], text, sizeof(text) - 1, 0) > 0);
	CHECK(pread(fds[2], text, sizeof(text) - 1, 0) > 0);
	CHECK(bury(order.box));
	CHECK(recv(fds[0], text, sizeof(text), 0) <= 0);
	drop_fds(fds);
	CHECK(same(before));
}

TEST(twice, "an id is one box: a second of it is refused, burying it twice is no error")
{
	struct order order = build_order();
	struct answer answer;
	int fds[ORDER_FDS_MAX];

	if (skipped())
		return;
	CHECK(ask(&order, &answer, fds) && answer.kind == ANSWER_DONE);
	CHECK(greets(fds[0]));
	drop_fds(fds);
	CHECK(ask(&order, &answer, fds));
	CHECK(answer.kind == ANSWER_REFUSED && answer.error == ERR_CONFLICT);
	CHECK(bury(order.box));
	CHECK(bury(order.box));
}

TEST(unknown, "an unknown template is refused, and nothing stays")
{
	struct order order = build_order();
	struct census before;
	struct answer answer;
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

// A process in the leaf that `joins` open: a directory on v2, `tasks` files on v1.
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

TEST(leaves, "leaves are numbered, metered and killed")
{
	struct order order = build_order(), more = {.kind = ORDER_LEAF}, end = {.kind = ORDER_KILL};
	struct answer answer;
	int fds[ORDER_FDS_MAX], inside[ORDER_FDS_MAX], status;
	char text[512];
	pid_t pid;

	if (skipped())
		return;
	CHECK(ask(&order, &answer, inside) && answer.kind == ANSWER_DONE);
	CHECK(greets(inside[0]));
	memcpy(more.box, order.box, sizeof(more.box));
	memcpy(end.box, order.box, sizeof(end.box));
	for (uint32_t i = 1; i < 4; i++) {
		CHECK(ask(&more, &answer, fds));
		CHECK(answer.kind == ANSWER_DONE && answer.leaf == i);
		CHECK(answer.join_count >= 1 && answer.join_count <= 2 &&
		      fds[answer.join_count] >= 0);
		CHECK(pread(fds[answer.join_count], text, sizeof(text), 0) > 0);
		pid = sleeper(fds, answer.join_count);
		usleep(20000);
		drop_fds(fds);
		end.leaf = i;
		CHECK(ask(&end, &answer, fds) && answer.kind == ANSWER_DONE);
		CHECK(waitpid(pid, &status, 0) == pid);
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	}
	end.leaf = 99;
	CHECK(ask(&end, &answer, fds) && answer.kind == ANSWER_REFUSED);
	drop_fds(inside);
	CHECK(bury(order.box));
}

TEST(killed, "when a builder or pid 1 is killed its socket closes, and the burial is whole")
{
	struct census before;

	if (skipped())
		return;
	before = settled();
	for (int i = 0; i < 20; i++) {
		struct order order = build_order();
		struct answer answer;
		char room[1024];
		int fds[ORDER_FDS_MAX];
		pid_t pid = -1;
		ssize_t len;

		CHECK(ask(&order, &answer, fds) && answer.kind == ANSWER_DONE);
		usleep((useconds_t)(i * 150)); // at another step each time
		// On v1 it joins by its own first step.
		for (int tries = 0; tries < 1000 && pid < 0; tries++)
			count_processes("cgroup", order.box, &pid);
		CHECK(kill(pid, SIGKILL) == 0);
		CHECK(wait_readable(fds[0]));
		while ((len = recv(fds[0], room, sizeof(room), 0)) > 0)
			;
		CHECK(len == 0 || errno == ECONNRESET);
		drop_fds(fds);
		CHECK(bury(order.box));
	}
	CHECK(same(before));
}

TEST(many, "fifty boxes at once, all greet, all go")
{
	static struct order orders[MANY];
	static int controls[MANY];
	struct census before;
	struct answer answer;
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
		struct order end = {.kind = ORDER_BURY};

		memcpy(end.box, orders[i].box, sizeof(end.box));
		CHECK(send_order(&end));
	}
	for (int i = 0; i < MANY; i++)
		CHECK(take_answer(&answer, fds) && answer.kind == ANSWER_DONE);
	gone = clock_us();
	for (int i = 0; i < MANY; i++)
		fd_drop(&controls[i]);
	printf("# %d built in %.1f ms, buried in %.1f ms\n", MANY, (double)(built - begun) / 1e3,
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
		struct answer answer;
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
		CHECK(bury(order.box));
		gone[i] = clock_us() - begun;
		drop_fds(fds);
	}
	tell("answered", answered);
	tell("greeted", ready);
	tell("buried", gone);
	CHECK(ready[LONE / 2] < 100000 && gone[LONE / 2] < 100000);
}

TEST(second, "a second daemon is turned away while the first is there")
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

TEST(daemon_gone, "when the daemon goes its boxes go, and the next daemon finds an empty house")
{
	struct order hello = {.kind = ORDER_HELLO, .version = ORDER_VERSION};
	struct census before;
	struct answer answer;
	int fds[ORDER_FDS_MAX];

	if (skipped())
		return;
	before = settled();
	for (int i = 0; i < 10; i++) {
		struct order order = build_order();

		CHECK(ask(&order, &answer, fds) && answer.kind == ANSWER_DONE);
		drop_fds(fds);
	}
	for (int i = 0; i < 5; i++) { // and some that are still being built
		struct order order = build_order();

		CHECK(send_order(&order));
	}
	close(sock);
	sock = dial();
	CHECK(sock >= 0);
	CHECK(ask(&hello, &answer, fds) && answer.kind == ANSWER_DONE);
	CHECK(same(before));
}

TEST(reborn, "after kill -9 the next warden buries what is left")
{
	struct order hello = {.kind = ORDER_HELLO, .version = ORDER_VERSION};
	struct answer answer;
	int fds[ORDER_FDS_MAX], controls[10], status, groups;
	int64_t begun;

	if (skipped())
		return;
	groups = settled().groups;
	for (int i = 0; i < 10; i++) {
		struct order order = build_order();

		CHECK(ask(&order, &answer, fds) && answer.kind == ANSWER_DONE);
		CHECK(greets(fds[0]));
		controls[i] = take_fd(&fds[0]); // as long as it is held, the box lives
		drop_fds(fds);
	}
	kill(warden_pid, SIGKILL);
	CHECK(waitpid(warden_pid, &status, 0) == warden_pid);
	close(sock);
	CHECK(count_all_groups() > groups);
	begun = clock_ms();
	start_process();
	sock = dial();
	CHECK(sock >= 0);
	CHECK(ask(&hello, &answer, fds) && answer.kind == ANSWER_DONE);
	printf("# clean after %lld ms\n", (long long)(clock_ms() - begun));
	CHECK(count_all_groups() == groups);
	for (int i = 0; i < 10; i++) {
		char byte;

		CHECK(wait_readable(controls[i]));
		CHECK(recv(controls[i], &byte, 1, 0) <= 0);
		close(controls[i]);
	}
}

TEST(end, "SIGTERM buries everything, leaves no group, and ends with 0")
{
	struct order order = build_order();
	struct answer answer;
	char command[80];
	int fds[ORDER_FDS_MAX], status = -1;

	if (skipped())
		return;
	CHECK(ask(&order, &answer, fds) && answer.kind == ANSWER_DONE);
	drop_fds(fds);
	kill(warden_pid, SIGTERM);
	CHECK(waitpid(warden_pid, &status, 0) == warden_pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK(count_all_groups() == 0);
	path_of(command, sizeof(command), "");
	if (fork() == 0) {
		execlp("rm", "rm", "-rf", command, (char *)NULL);
		_exit(1);
	}
	wait(&status);
}
