// A warden for tests: another process that speaks protocol/order and builds boxes (real
// namespaces, real pid 1, real cgroups, but the host's files). What a box does is chosen by its
// template's name:
//
//	real       a real one          absent     refused, NOT_FOUND
//	mute       never greets        evil-N     pid 1 breaks rule N after EXEC
//	old        a pid 1 of earlier days
#pragma once

#include <linux/sockios.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/un.h>

#include "base/clock.h"
#include "box/ask.h"
#include "loop/offload.h"
#include "os/net.h"
#include "protocol/order.h"
#include "tap.h"
#include "unit/box/fake_warden_kill.h"
#include "unit/init/testbox.h"

#define FAKE_WARDEN_BOXES 16
#define FAKE_WARDEN_MEMORY "/sys/fs/cgroup/memory"

struct fake_warden_box {
	struct testbox slot;
	char memory[128]; // its memory cgroup, or ""
	char id[ID_BOX_LEN + 1];
	bool evil;
};

// Boxes live on when the daemon's connection ends.
static bool fake_warden_holds_on;
static char fake_warden_sockets[64]; // where boxes listen
static char fake_warden_old[96];     // an older pid 1

struct fake_warden {
	char dir[64], path[96];
	int pid;
};

static struct fake_warden_box fake_warden_boxes[FAKE_WARDEN_BOXES];

static struct fake_warden_box *fake_warden_find(const char *id)
{
	for (int i = 0; i < FAKE_WARDEN_BOXES; i++)
		if (strcmp(fake_warden_boxes[i].id, id) == 0)
			return &fake_warden_boxes[i];
	return NULL;
}

static void fake_warden_answer(int sock, const struct answer *answer, const int *fds, int count)
{
	static char room[ORDER_SIZE_MAX];
	size_t len = answer_encode(answer, room, sizeof(room));

	fd_send(sock, room, len, fds, count, 0);
}

static void fake_warden_refuse(int sock, struct answer *answer, enum err_kind kind,
			       const char *reason)
{
	answer->kind = ANSWER_REFUSED;
	answer->error = kind;
	snprintf(answer->reason, sizeof(answer->reason), "%s", reason);
	snprintf(answer->message, sizeof(answer->message), "refused: %s", reason);
	snprintf(answer->hint, sizeof(answer->hint), "a hint");
	fake_warden_answer(sock, answer, NULL, 0);
}

static int fake_warden_meter(const struct testbox *slot, int exec_cgroup)
{
	char path[512];

	testbox_cgroup_path(slot, 0, exec_cgroup, slot->by_clone ? "cpu.stat" : "cpuacct.usage",
			    path, sizeof(path));
	return open(path, O_RDONLY | O_CLOEXEC);
}

// 64 MiB where this host has a v1 memory controller. Returns the fd that counts OOM kills.
static int fake_warden_memory(struct fake_warden_box *box)
{
	char path[256], number[32];

	if (access(FAKE_WARDEN_MEMORY "/memory.limit_in_bytes", F_OK) < 0)
		return open("/dev/null", O_RDONLY | O_CLOEXEC);
	snprintf(box->memory, sizeof(box->memory), FAKE_WARDEN_MEMORY "/cove-test-%d",
		 box->slot.pid);
	mkdir(box->memory, 0755);
	snprintf(path, sizeof(path), "%s/memory.limit_in_bytes", box->memory);
	fd_put(AT_FDCWD, path, "67108864");
	snprintf(path, sizeof(path), "%s/tasks", box->memory);
	snprintf(number, sizeof(number), "%d", box->slot.pid);
	fd_put(AT_FDCWD, path, number);
	snprintf(path, sizeof(path), "%s/memory.oom_control", box->memory);
	return open(path, O_RDONLY | O_CLOEXEC);
}

// No fd can be made from here on, or `more` of them; *old is to be set again.
__attribute__((unused)) static void fake_warden_fill(struct rlimit *old, int more)
{
	struct rlimit tight;
	int lowest = dup(0);

	close(lowest);
	getrlimit(RLIMIT_NOFILE, old);
	tight = *old;
	tight.rlim_cur = (rlim_t)(lowest + more);
	setrlimit(RLIMIT_NOFILE, &tight);
}

// Says to every EXEC that its cgroup is busy.
static void fake_warden_always_busy(int control, uint32_t conn)
{
	static char room[TALK_SIZE_MAX];
	static const char *argv[TALK_ARGS_MAX + 1], *env[TALK_ARGS_MAX + 1];

	for (;;) {
		struct talk say = {.kind = TALK_FAILED, .conn = conn}, heard;
		size_t len;
		ssize_t n;

		say.failed.step = TALK_STEP_JOIN;
		say.failed.errnum = EBUSY;
		len = talk_encode(&say, room, sizeof(room));
		fd_send(control, room, len, NULL, 0, 0);
		n = recv(control, room, sizeof(room), 0);
		heard.exec.argv = argv;
		heard.exec.env = env;
		if (n <= 0 || !talk_decode(room, (size_t)n, &heard))
			_exit(1);
		conn = heard.conn;
	}
}

// A pid 1 that greets, hears one EXEC, and then breaks a rule.
static void fake_warden_be_evil(int control, int rule)
{
	static char room[TALK_SIZE_MAX];
	static const char *argv[TALK_ARGS_MAX + 1], *env[TALK_ARGS_MAX + 1];
	struct talk ready = {.kind = TALK_READY}, heard, say = {.kind = TALK_STARTED};
	int pipes[4], null = open("/dev/null", O_RDWR);
	size_t len;
	ssize_t n;

	ready.ready.version = TALK_VERSION;
	len = talk_encode(&ready, room, sizeof(room));
	fd_send(control, room, len, NULL, 0, 0);
	n = recv(control, room, sizeof(room), 0);
	heard.exec.argv = argv;
	heard.exec.env = env;
	if (n <= 0 || !talk_decode(room, (size_t)n, &heard) || pipe(pipes) || pipe(pipes + 2))
		_exit(1);
	say.conn = heard.conn;
	say.started.pid = 7;
	len = talk_encode(&say, room, sizeof(room));
	switch (rule) {
	case 1: // an invalid message
		fd_send(control, "\377\377\377", 3, NULL, 0, 0);
		break;
	case 2: // more fds than the message has
		fd_send(control, room, len, (int[]){pipes[0], pipes[2], null}, 3, 0);
		break;
	case 3: // fds that are no pipes
		fd_send(control, room, len, (int[]){null, null}, 2, 0);
		break;
	case 4: // an answer without a request
		say.conn += 1000;
		len = talk_encode(&say, room, sizeof(room));
		fd_send(control, room, len, (int[]){pipes[0], pipes[2]}, 2, 0);
		break;
	case 5: // a message that only the daemon may send
		fd_send(control, (char[]){TALK_EXEC, 0, 0, 0, 0}, 5, NULL, 0, 0);
		break;
	case 6: // very long
		memset(room, TALK_STARTED, sizeof(room));
		fd_send(control, room, 100000, NULL, 0, 0);
		break;
	case 7: // greets twice
		len = talk_encode(&ready, room, sizeof(room));
		fd_send(control, room, len, NULL, 0, 0);
		break;
	case 8: // starts it, then makes the pipe blocking behind the daemon's back
		fd_send(control, room, len, (int[]){pipes[0], pipes[2]}, 2, 0);
		for (int i = 0; i < 1000; i++) {
			char byte;

			fd_nonblock(pipes[0], false);
			fd_write_all(pipes[1], "x", 1);
			fd_nonblock(pipes[0], true);
			(void)!read(pipes[0], &byte, 1);
		}
		_exit(0);
	case 9: // never reports an exit
		fd_send(control, room, len, (int[]){pipes[0], pipes[2]}, 2, 0);
		break;
	case 10:
		fake_warden_always_busy(control, heard.conn);
		break;
	case 11: // reports the exit after the result is final
		fd_send(control, room, len, (int[]){pipes[0], pipes[2]}, 2, 0);
		sleep(7);
		say = (struct talk){.kind = TALK_EXITED, .conn = heard.conn};
		len = talk_encode(&say, room, sizeof(room));
		fd_send(control, room, len, NULL, 0, 0);
		break;
	case 12: // a file worker instead of the command
		say = (struct talk){.kind = TALK_WORKER_IS, .conn = heard.conn};
		len = talk_encode(&say, room, sizeof(room));
		fd_send(control, room, len, &control, 1, 0);
		break;
	case 13: // starts it twice
		fd_send(control, room, len, (int[]){pipes[0], pipes[2]}, 2, 0);
		fd_send(control, room, len, (int[]){pipes[0], pipes[2]}, 2, 0);
		break;
	case 14: // reports an exit before the start
		say = (struct talk){.kind = TALK_EXITED, .conn = heard.conn};
		len = talk_encode(&say, room, sizeof(room));
		fd_send(control, room, len, NULL, 0, 0);
		break;
	default: // closes the socket
		_exit(0);
	}
	pause();
	_exit(0);
}

static bool fake_warden_slot(struct fake_warden_box *box, const struct order *order)
{
	bool old = strcmp(order->name, "old") == 0;

	snprintf(slot_listens, sizeof(slot_listens), "%s/%s", fake_warden_sockets, order->box);
	snprintf(slot_program, sizeof(slot_program), "%s", old ? fake_warden_old : "");
	return testbox_open(&box->slot, true);
}

static void fake_warden_build(int sock, const struct order *order, struct answer *answer)
{
	struct fake_warden_box *box = fake_warden_find("");
	bool evil = strncmp(order->name, "evil-", 5) == 0 || strcmp(order->name, "mute") == 0;
	int fds[3];

	if (strcmp(order->name, "absent") == 0) {
		fake_warden_refuse(sock, answer, ERR_NOT_FOUND, "no_template");
		return;
	}
	if (evil) {
		int pair[2];

		(void)!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair);
		box->slot = (struct testbox){.pid = fork(), .control = -1};
		if (box->slot.pid == 0) {
			close(pair[0]);
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (strcmp(order->name, "mute") == 0)
				pause();
			fake_warden_be_evil(pair[1], (int)strtol(order->name + 5, NULL, 10));
		}
		close(pair[1]);
		fds[0] = pair[0];
		fds[1] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		fds[2] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	} else if (!fake_warden_slot(box, order)) {
		fake_warden_refuse(sock, answer, ERR_INTERNAL, "internal");
		return;
	} else {
		fds[0] = box->slot.control;
		fds[1] = fake_warden_memory(box);
		fds[2] = fake_warden_meter(&box->slot, 0);
	}
	box->evil = evil;
	memcpy(box->id, order->box, sizeof(box->id));
	fake_warden_answer(sock, answer, fds, 3);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	box->slot.control = -1;
}

static void fake_warden_destroy(struct fake_warden_box *box)
{
	kill(box->slot.pid, SIGKILL);
	if (box->evil)
		waitpid(box->slot.pid, NULL, 0);
	else
		testbox_close(&box->slot);
	if (!box->evil) {
		char path[128];

		snprintf(path, sizeof(path), "%s/%s", fake_warden_sockets, box->id);
		unlink(path);
	}
	for (int i = 0; box->memory[0] && i < 100 && rmdir(box->memory) < 0; i++)
		usleep(2000);
	*box = (struct fake_warden_box){0};
}

static void fake_warden_adopt(int sock, struct fake_warden_box *box, struct answer *answer)
{
	answer->pid = (uint32_t)box->slot.pid;
	answer->exec_cgroups = fake_warden_cgroups(box->slot.exec_cgroups, answer->spent);
	fake_warden_answer(sock, answer, NULL, 0);
}

static int fake_warden_oom(const struct fake_warden_box *box)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/memory.oom_control", box->memory);
	return open(box->memory[0] ? path : "/dev/null", O_RDONLY | O_CLOEXEC);
}

static void fake_warden_cgroup(int sock, struct fake_warden_box *box, const struct order *order,
			       struct answer *answer)
{
	int fds[4], count;

	if (box->evil) {
		fds[0] = fds[1] = fds[2] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		answer->exec_cgroup = order->exec_cgroup;
		answer->join_count = !order->again;
		fake_warden_answer(sock, answer, fds, 2 + !order->again);
		close(fds[0]);
		return;
	}
	answer->exec_cgroup = fake_warden_cgroup_number(order->again, order->exec_cgroup,
							box->slot.exec_cgroups);
	count = order->again ? 0 : testbox_cgroup(&box->slot, fds);
	answer->join_count = (uint32_t)count;
	fds[count] = fake_warden_meter(&box->slot, (int)answer->exec_cgroup);
	fds[count + 1] = fake_warden_oom(box);
	fake_warden_answer(sock, answer, fds, count + 2);
	for (int i = 0; i <= count + 1; i++)
		close(fds[i]);
}

// Two sockets of the network that the socket beside the order is of, and nothing that steers.
static void fake_warden_network(int sock, const struct order *order, int brought,
				struct answer *answer)
{
	int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	int netns = ioctl(brought, SIOCGSKNS);
	int fds[ORDER_NET_FDS] = {-1, -1};

	if (order->net && setns(netns, CLONE_NEWNET) == 0) {
		answer->net = net_listen(0, &fds[0], &fds[1]) == 0;
		if (setns(home, CLONE_NEWNET))
			_exit(1);
	}
	if (order->net && !answer->net)
		fake_warden_refuse(sock, answer, ERR_INVALID, "bad_socket");
	else
		fake_warden_answer(sock, answer, fds, answer_fds(answer));
	for (int i = 0; i < ORDER_NET_FDS; i++)
		fd_drop(&fds[i]);
	fd_drop(&netns);
	close(home);
}

static void fake_warden_import(int sock, struct answer *answer)
{
	char bytes[2048];
	int ends[2];
	ssize_t n;

	(void)!pipe2(ends, O_CLOEXEC);
	answer->kind = ANSWER_MORE;
	fake_warden_answer(sock, answer, &ends[1], 1);
	close(ends[1]);
	while ((n = read(ends[0], bytes, sizeof(bytes))) > 0)
		answer->bytes += (uint64_t)n;
	close(ends[0]);
	answer->kind = ANSWER_DONE;
	fake_warden_answer(sock, answer, NULL, 0);
}

// True: the order was dealt with.
static bool fake_warden_kill_fails(int sock, struct answer *answer)
{
	if (fake_warden_kill_mode() == FAKE_WARDEN_HANGS_UP)
		shutdown(sock, SHUT_RDWR);
	else if (fake_warden_kill->mode == FAKE_WARDEN_REFUSES)
		fake_warden_refuse(sock, answer, ERR_UNAVAILABLE, ORDER_KILL_FAILED);
	return fake_warden_kill->mode != FAKE_WARDEN_KILLS;
}

static void fake_warden_obey(int sock, const struct order *order, int brought)
{
	static struct answer answer;
	struct fake_warden_box *box = order->box[0] ? fake_warden_find(order->box) : NULL;

	answer = (struct answer){.kind = ANSWER_DONE, .to = order->kind, .id = order->id};
	switch (order->kind) {
	case ORDER_HELLO:
		answer.host = (struct order_host){.version = ORDER_VERSION,
						  .pid1_version = TALK_VERSION,
						  .epoch = (uint64_t)getpid(),
						  .disk = "directory",
						  .cgroup = "hybrid",
						  .net = "none",
						  .boxes_max = FAKE_WARDEN_BOXES};
		break;
	case ORDER_BUILD:
		fake_warden_build(sock, order, &answer);
		return;
	case ORDER_IMPORT:
		fake_warden_import(sock, &answer);
		return;
	case ORDER_FORGET: // for tests: the warden dies
		_exit(0);
	case ORDER_FREEZE: // for tests: it is slow
		usleep(300000);
		break;
	case ORDER_DESTROY:
	case ORDER_CGROUP:
	case ORDER_KILL:
	case ORDER_ADOPT:
	case ORDER_NETWORK:
		if (!box) {
			fake_warden_refuse(sock, &answer, ERR_NOT_FOUND, "no_box");
			return;
		}
		if (order->kind == ORDER_CGROUP) {
			fake_warden_cgroup(sock, box, order, &answer);
			return;
		}
		if (order->kind == ORDER_KILL && fake_warden_kill_fails(sock, &answer))
			return;
		if (order->kind == ORDER_NETWORK) {
			fake_warden_network(sock, order, brought, &answer);
			return;
		}
		if (order->kind == ORDER_ADOPT) {
			fake_warden_adopt(sock, box, &answer);
			return;
		}
		if (order->kind == ORDER_DESTROY)
			fake_warden_destroy(box);
		else if (!box->evil)
			testbox_kill_cgroup(&box->slot, (int)order->exec_cgroup);
		break;
	default:
		break;
	}
	fake_warden_answer(sock, &answer, NULL, 0);
}

// Boxes outlive their daemon, but not a test.
static void fake_warden_end(void)
{
	for (int i = 0; i < FAKE_WARDEN_BOXES; i++)
		if (fake_warden_boxes[i].id[0])
			fake_warden_destroy(&fake_warden_boxes[i]);
	_exit(0);
}

// The end comes by a descriptor, since sanitizers hold handlers back.
static bool fake_warden_wait(int term, int fd)
{
	struct pollfd at[] = {{.fd = term, .events = POLLIN}, {.fd = fd, .events = POLLIN}};

	while (poll(at, 2, -1) < 0 && errno == EINTR)
		;
	if (at[0].revents)
		fake_warden_end();
	return true;
}

static void fake_warden_serve(int term, int listener)
{
	static char room[ORDER_SIZE_MAX];

	while (fake_warden_wait(term, listener)) {
		static struct order order;
		int sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		int brought = -1, count = 1;
		ssize_t n;

		while (fake_warden_wait(term, sock) &&
		       (n = fd_recv(sock, room, sizeof(room), &brought, &count, 0)) > 0) {
			struct err *err = order_decode(room, (size_t)n, &order);

			if (!err && count == order_brings(&order))
				fake_warden_obey(sock, &order, count ? brought : -1);
			err_free(err);
			if (count)
				close(brought);
			count = 1;
		}
		close(sock);
		for (int i = 0;
		     i < FAKE_WARDEN_BOXES && !fake_warden_holds_on && !fake_warden_kill->mode; i++)
			if (fake_warden_boxes[i].id[0])
				fake_warden_destroy(&fake_warden_boxes[i]);
	}
}

static void fake_warden_start(struct fake_warden *fake_warden)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(fake_warden->path, sizeof(fake_warden->path), "%s/warden.sock", fake_warden->dir);
	snprintf(at.sun_path, sizeof(at.sun_path), "%s", fake_warden->path);
	unlink(fake_warden->path);
	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(listener, 16) < 0)
		perror("fake_warden");
	fake_warden_kill_share();
	fflush(stdout);
	fake_warden->pid = fork();
	if (fake_warden->pid == 0) {
		sigset_t set;

		sigemptyset(&set);
		sigaddset(&set, SIGTERM);
		sigprocmask(SIG_BLOCK, &set, NULL);
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		fake_warden_serve(signalfd(-1, &set, SFD_CLOEXEC), listener);
	}
	close(listener);
}

static void fake_warden_open(struct fake_warden *fake_warden)
{
	snprintf(fake_warden->dir, sizeof(fake_warden->dir), "/tmp/cove-fake_warden-%d", getpid());
	snprintf(fake_warden_sockets, sizeof(fake_warden_sockets), "/tmp/cove-k-%d", getpid());
	if (mkdir(fake_warden->dir, 0700) < 0 || mkdir(fake_warden_sockets, 0700) < 0)
		perror("fake_warden");
	fake_warden_start(fake_warden);
}

static void fake_warden_close(struct fake_warden *fake_warden)
{
	kill(fake_warden->pid, SIGTERM);
	waitpid(fake_warden->pid, NULL, 0);
	unlink(fake_warden->path);
	rmdir(fake_warden->dir);
	rmdir(fake_warden_sockets);
}

// A whole daemon of one loop for one test file. Each test runs in a task.
static struct {
	struct fake_warden warden;
	struct loop *loop;
	struct ask *ask;
	int tapes;
	void (*body)(void);
} fixture;

static void fixture_task(void *arg)
{
	(void)arg;
	fixture.body();
	loop_stop(fixture.loop);
}

static void fixture_run(void (*body)(void))
{
	fixture.body = body;
	task_start(fixture.loop, "test", fixture_task, NULL);
	loop_run(fixture.loop);
}

__attribute__((unused)) static bool fixture_open(void)
{
	auto_err err = OK;

	signal(SIGPIPE, SIG_IGN);
	fake_warden_open(&fixture.warden);
	err = loop_new(&fixture.loop);
	if (!err)
		err = offload_open(fixture.loop, 2);
	if (err)
		return false;
	fixture.tapes = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fixture.ask = ask_open(fixture.loop, fixture.warden.path);
	return true;
}

static void fixture_settle_to(uint32_t tasks)
{
	for (int i = 0; i < 100 && (i == 0 || task_count() > tasks); i++)
		err_free(task_sleep_until(loop_now(fixture.loop) + 50));
}

static void fixture_settle(void) // until only the caller's task is left
{
	fixture_settle_to(1);
}

__attribute__((unused)) static void fixture_close(void)
{
	ask_close(fixture.ask);
	fixture_run(fixture_settle); // the task of the connection ends, and others that are ending
	offload_close();
	loop_free(fixture.loop);
	close(fixture.tapes);
	fake_warden_close(&fixture.warden);
}

// A test that runs in a task of the fixture.
#define BOX_TEST(fn, sentence)                                                                     \
	static void fn##_body(void);                                                               \
	TEST(fn, sentence)                                                                         \
	{                                                                                          \
		if (testbox_cannot(true)) {                                                        \
			printf("# skip: %s\n", testbox_cannot(true));                              \
			tap_bad |= getenv("COVE_TEST_MUST") != NULL;                               \
			return;                                                                    \
		}                                                                                  \
		fixture_run(fn##_body);                                                            \
	}                                                                                          \
	static void fn##_body(void)
