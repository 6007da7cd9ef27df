// Boxes outlive daemons and wardens: shown through the warden's socket.
#include <sys/prctl.h>

#include "tap.h"
#include "unit/warden/house.h"

static struct answer answer; // the last one

TEST(begin, "a warden starts on an empty data directory")
{
	if (skipped())
		return;
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	CHECK(house_begin("warden"));
	sock = dial();
	CHECK(sock >= 0);
}

// A page of boxes after `after`, in the last answer.
static bool boxes_after(const char *after)
{
	struct order order = {.kind = ORDER_BOXES};
	int fds[ORDER_FDS_MAX];

	snprintf(order.box, sizeof(order.box), "%s", after);
	return ask(&order, &answer, fds) && answer.kind == ANSWER_DONE;
}

// The state of one box; ORDER_BOX_STATE_COUNT: there is no such box.
static enum order_box_state state_of(const char *box, uint32_t *pid)
{
	char after[ID_BOX_LEN + 1] = "";

	do {
		if (!boxes_after(after))
			break;
		for (uint32_t i = 0; i < answer.cell_count; i++) {
			memcpy(after, answer.cells[i].box, sizeof(after));
			if (strcmp(after, box) != 0)
				continue;
			if (pid)
				*pid = answer.cells[i].pid;
			return answer.cells[i].state;
		}
	} while (answer.cell_count == ORDER_BOXES_PAGE);
	return ORDER_BOX_STATE_COUNT;
}

static bool simple(enum order_kind kind, const char *box)
{
	struct order order = {.kind = kind};
	int fds[ORDER_FDS_MAX];

	memcpy(order.box, box, sizeof(order.box));
	if (!ask(&order, &answer, fds))
		return false;
	drop_fds(fds);
	if (answer.kind != ANSWER_DONE)
		printf("# %s: %s\n", order_word(kind), answer.reason);
	return answer.kind == ANSWER_DONE;
}

static bool inventory_is_even(void)
{
	struct order order = {.kind = ORDER_INVENTORY};
	int fds[ORDER_FDS_MAX];

	if (!ask(&order, &answer, fds) || answer.kind != ANSWER_DONE)
		return false;
	for (uint32_t i = 0; i < answer.odd_count; i++)
		printf("# odd: %s %s\n", answer.odds[i].what, answer.odds[i].name);
	printf("#");
#define X(field) printf(" %s %u", #field, answer.inventory.field);
	ORDER_INVENTORY_FIELDS(X)
#undef X
	printf("\n");
	return answer.inventory.odd_count == 0;
}

// Connects and sends HELLO, as a daemon that has just started.
static bool greet_warden(void)
{
	struct order hello = {.kind = ORDER_HELLO, .version = ORDER_VERSION};
	int fds[ORDER_FDS_MAX];

	// A child that a dead warden had just cloned may hold its socket open for a moment.
	for (int tries = 0; tries < 3; tries++) {
		fd_drop(&sock);
		sock = dial();
		answer.kind = ANSWER_REFUSED;
		if (sock >= 0 && ask(&hello, &answer, fds))
			break;
	}
	return answer.kind == ANSWER_DONE;
}

// Boxes of a dead warden become our children, see begin.
static bool is_alive(pid_t pid)
{
	waitpid(pid, NULL, WNOHANG);
	return kill(pid, 0) == 0;
}

TEST(greeted, "the warden answers HELLO")
{
	if (!skipped())
		CHECK(greet_warden());
}

TEST(daemon_gone, "END-7 when the daemon goes its boxes stay, and the next daemon finds them all")
{
	static struct order orders[15];
	struct inventory before;
	int fds[ORDER_FDS_MAX];

	if (skipped())
		return;
	before = settled();
	for (int i = 0; i < 10; i++) {
		orders[i] = build_order();
		CHECK(ask(&orders[i], &answer, fds) && answer.kind == ANSWER_DONE);
		CHECK(greets(fds[0]));
		drop_fds(fds);
	}
	for (int i = 10; i < 15; i++) { // and some that are still being built
		orders[i] = build_order();
		CHECK(send_order(&orders[i]));
	}
	CHECK(greet_warden());
	for (int tries = 0; tries < 100 && state_of(orders[14].box, NULL) == ORDER_BOX_GOING;
	     tries++)
		usleep(10000);
	for (int i = 0; i < 15; i++)
		CHECK(state_of(orders[i].box, NULL) != ORDER_BOX_STATE_COUNT);
	CHECK(inventory_is_even());
	CHECK(answer.inventory.groups == 15 && answer.inventory.notes == 15 &&
	      answer.inventory.sockets == 15 && answer.inventory.slots == 15);
	for (int i = 0; i < 15; i++)
		CHECK(destroy(orders[i].box));
	CHECK(same(before));
	CHECK(inventory_is_even() && answer.inventory.groups == 0 && answer.inventory.slots == 0);
}

TEST(rest, "PAUSE freezes a box, its daemon can ask so, and THAW lets it run")
{
	struct order order = build_order();
	int fds[ORDER_FDS_MAX];

	if (skipped())
		return;
	CHECK(ask(&order, &answer, fds) && answer.kind == ANSWER_DONE);
	CHECK(greets(fds[0]));
	drop_fds(fds);
	CHECK(simple(ORDER_PAUSE, order.box));
	CHECK(simple(ORDER_PAUSE, order.box));
	CHECK(state_of(order.box, NULL) == ORDER_BOX_FROZEN);
	CHECK(simple(ORDER_ADOPT, order.box) && answer.frozen);
	CHECK(simple(ORDER_THAW, order.box));
	CHECK(simple(ORDER_THAW, order.box));
	CHECK(state_of(order.box, NULL) == ORDER_BOX_ALIVE);
	CHECK(simple(ORDER_PAUSE, order.box));
	CHECK(destroy(order.box)); // the frozen die, too
	CHECK(!simple(ORDER_PAUSE, order.box) && answer.error == ERR_NOT_FOUND);
}

TEST(stopped, "STOP ends the processes and keeps the disk; BUILD again takes it up")
{
	struct order order = build_order();
	struct inventory before;
	int fds[ORDER_FDS_MAX];
	uint32_t pid = 0;

	if (skipped())
		return;
	before = settled();
	order.ephemeral = false;
	CHECK(ask(&order, &answer, fds) && answer.kind == ANSWER_DONE);
	CHECK(greets(fds[0]));
	drop_fds(fds);
	for (int round = 0; round < 3; round++) {
		CHECK(state_of(order.box, &pid) == ORDER_BOX_ALIVE && is_alive((pid_t)pid));
		CHECK(simple(ORDER_STOP, order.box));
		CHECK(!is_alive((pid_t)pid));
		CHECK(state_of(order.box, &pid) == ORDER_BOX_KEPT && pid == 0);
		CHECK(simple(ORDER_STOP, order.box));
		CHECK(same(before));
		CHECK(inventory_is_even() && answer.inventory.kept == 1 &&
		      answer.inventory.disks == 1 && answer.inventory.groups == 0 &&
		      answer.inventory.notes == 0);
		order.again = false;
		CHECK(ask(&order, &answer, fds) && answer.kind == ANSWER_REFUSED);
		CHECK_STR(answer.reason, "box_exists");
		order.again = true;
		CHECK(ask(&order, &answer, fds) && answer.kind == ANSWER_DONE);
		CHECK(greets(fds[0]));
		drop_fds(fds);
	}
	CHECK(destroy(order.box));
	CHECK(state_of(order.box, NULL) == ORDER_BOX_STATE_COUNT);
	CHECK(ask(&order, &answer, fds) && answer.kind == ANSWER_REFUSED);
	CHECK_STR(answer.reason, "no_disk");
	order = build_order();
	CHECK(ask(&order, &answer, fds) && answer.kind == ANSWER_DONE);
	drop_fds(fds);
	CHECK(!simple(ORDER_STOP, order.box));
	CHECK_STR(answer.reason, "ephemeral");
	CHECK(destroy(order.box));
	CHECK(same(before));
}

static void kill_warden(void)
{
	int status;

	kill(warden_pid, SIGKILL);
	CHECK(waitpid(warden_pid, &status, 0) == warden_pid);
}

// Edits a state file: the line that begins with `key` gets another value.
static bool forge_state(const char *box, const char *key, const char *value)
{
	char path[160], text[1024], forged[1024], *at, *rest;

	snprintf(path, sizeof(path), "%s/run/cells/%s", home, box);
	at = fd_get(AT_FDCWD, path, text, sizeof(text)) > 0 ? strstr(text, key) : NULL;
	rest = at ? strchr(at, '\n') : NULL;
	if (!rest)
		return false;
	snprintf(forged, sizeof(forged), "%.*s%s%s%s", (int)(at - text), text, key, value, rest);
	return truncate(path, 0) == 0 && fd_put(AT_FDCWD, path, forged) == 0;
}

TEST(reborn, "END-4 after kill -9 the next warden has the same boxes, and destroys leftovers")
{
	enum { FIRST, FORGED, HALF, LOST, UNREAD, NONE, FROZEN, KEPT, BOXES };
	static struct order orders[BOXES];
	struct order more = {.kind = ORDER_CGROUP}, end = {.kind = ORDER_KILL};
	int fds[ORDER_FDS_MAX], controls[BOXES];
	uint32_t pids[BOXES], pid;
	struct inventory before;
	char path[160];
	int64_t begun;

	if (skipped())
		return;
	before = settled();
	for (int i = 0; i < BOXES; i++) {
		orders[i] = build_order();
		orders[i].ephemeral = i == LOST;
		CHECK(ask(&orders[i], &answer, fds) && answer.kind == ANSWER_DONE);
		CHECK(greets(fds[0]));
		controls[i] = take_fd(&fds[0]);
		drop_fds(fds);
		CHECK(state_of(orders[i].box, &pids[i]) == ORDER_BOX_ALIVE);
	}
	memcpy(more.box, orders[FIRST].box, sizeof(more.box));
	memcpy(end.box, orders[FIRST].box, sizeof(end.box));
	CHECK(ask(&more, &answer, fds) && answer.kind == ANSWER_DONE && answer.exec_cgroup == 1);
	drop_fds(fds);
	end.exec_cgroup = 1;
	CHECK(ask(&end, &answer, fds) && answer.kind == ANSWER_DONE);
	CHECK(simple(ORDER_PAUSE, orders[FROZEN].box));
	CHECK(simple(ORDER_STOP, orders[KEPT].box));
	kill_warden();
	kill((pid_t)pids[LOST], SIGKILL);
	CHECK(forge_state(orders[FORGED].box, "started ", "1"));
	CHECK(forge_state(orders[HALF].box, "pid ", "0"));
	CHECK(forge_state(orders[UNREAD].box, "slot ", "?"));
	snprintf(path, sizeof(path), "%s/run/cells/%s", home, orders[NONE].box);
	CHECK(unlink(path) == 0);
	begun = clock_ms();
	start_process();
	CHECK(greet_warden());
	printf("# back after %lld ms\n", (long long)(clock_ms() - begun));
	const int alive[] = {FIRST, UNREAD, NONE, FROZEN};

	for (size_t i = 0; i < sizeof(alive) / sizeof(*alive); i++) {
		CHECK(state_of(orders[alive[i]].box, &pid) ==
		      (alive[i] == FROZEN ? ORDER_BOX_FROZEN : ORDER_BOX_ALIVE));
		CHECK(pid == pids[alive[i]] && is_alive((pid_t)pid));
	}
	// Mismatched or incomplete: no process is left; the disk of a box that had been
	// told of stays.
	CHECK(!is_alive((pid_t)pids[FORGED]) && !is_alive((pid_t)pids[HALF]));
	CHECK(state_of(orders[FORGED].box, NULL) == ORDER_BOX_KEPT);
	CHECK(state_of(orders[HALF].box, NULL) == ORDER_BOX_STATE_COUNT);
	CHECK(state_of(orders[LOST].box, NULL) == ORDER_BOX_STATE_COUNT);
	CHECK(state_of(orders[KEPT].box, NULL) == ORDER_BOX_KEPT);
	CHECK(inventory_is_even() && answer.inventory.groups == 4 && answer.inventory.slots == 4 &&
	      answer.inventory.kept == 2);
	CHECK(simple(ORDER_ADOPT, orders[FIRST].box));
	CHECK(answer.pid == pids[FIRST] && answer.exec_cgroups == 2 && !answer.frozen);
	CHECK(!cgroup_is_spent(answer.spent, 0) && cgroup_is_spent(answer.spent, 1));
	more.again = true;
	CHECK(ask(&more, &answer, fds) && answer.kind == ANSWER_DONE && answer.exec_cgroup == 0);
	drop_fds(fds);
	more.exec_cgroup = 7;
	CHECK(ask(&more, &answer, fds) && answer.kind == ANSWER_REFUSED);
	more.again = false;
	CHECK(ask(&more, &answer, fds) && answer.kind == ANSWER_DONE && answer.exec_cgroup == 1);
	drop_fds(fds);
	CHECK(!simple(ORDER_ADOPT, orders[KEPT].box));
	CHECK(simple(ORDER_THAW, orders[FROZEN].box));
	// Boxes that are not its children are stopped, built again and destroyed all the same.
	CHECK(simple(ORDER_STOP, orders[FIRST].box));
	CHECK(!is_alive((pid_t)pids[FIRST]));
	orders[FIRST].again = true;
	CHECK(ask(&orders[FIRST], &answer, fds) && answer.kind == ANSWER_DONE);
	CHECK(greets(fds[0]));
	drop_fds(fds);
	for (int i = 0; i < BOXES; i++) {
		CHECK(destroy(orders[i].box));
		CHECK(!is_alive((pid_t)pids[i]));
		fd_drop(&controls[i]);
	}
	CHECK(inventory_is_even() && answer.inventory.groups == 0 && answer.inventory.disks == 0);
	before.fds = settled().fds; // of another process, which began later
	before.mounts = settled().mounts;
	CHECK(same(before));
}

TEST(renumbered, "an exec cgroup that was made again under its number does not count as killed")
{
	struct order build = build_order(), more = {.kind = ORDER_CGROUP},
		     end = {.kind = ORDER_KILL};
	int fds[ORDER_FDS_MAX];

	if (skipped())
		return;
	CHECK(ask(&build, &answer, fds) && answer.kind == ANSWER_DONE);
	CHECK(greets(fds[0]));
	drop_fds(fds);
	memcpy(more.box, build.box, sizeof(more.box));
	memcpy(end.box, build.box, sizeof(end.box));
	end.exec_cgroup = 1;
	CHECK(ask(&more, &answer, fds) && answer.kind == ANSWER_DONE && answer.exec_cgroup == 1);
	drop_fds(fds);
	CHECK(ask(&end, &answer, fds) && answer.kind == ANSWER_DONE);
	CHECK(ask(&more, &answer, fds) && answer.kind == ANSWER_DONE && answer.exec_cgroup == 1);
	drop_fds(fds);
	kill_warden();
	start_process();
	CHECK(greet_warden());
	CHECK(simple(ORDER_ADOPT, build.box));
	CHECK(answer.exec_cgroups == 2 && !cgroup_is_spent(answer.spent, 1));
	CHECK(ask(&more, &answer, fds) && answer.kind == ANSWER_DONE && answer.exec_cgroup == 2);
	drop_fds(fds);
	CHECK(destroy(build.box));
}

TEST(again_and_again, "END-7 boxes live through ten wardens, also when those are asked to leave")
{
	static struct order orders[10];
	uint32_t pids[10], pid;
	int fds[ORDER_FDS_MAX], status;

	if (skipped())
		return;
	for (int i = 0; i < 10; i++) {
		orders[i] = build_order();
		CHECK(ask(&orders[i], &answer, fds) && answer.kind == ANSWER_DONE);
		CHECK(greets(fds[0]));
		drop_fds(fds);
		CHECK(state_of(orders[i].box, &pids[i]) == ORDER_BOX_ALIVE);
		kill(warden_pid, i % 2 ? SIGTERM : SIGKILL);
		CHECK(waitpid(warden_pid, &status, 0) == warden_pid);
		CHECK(i % 2 == 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
		start_process();
		CHECK(greet_warden());
	}
	for (int i = 0; i < 10; i++)
		CHECK(state_of(orders[i].box, &pid) == ORDER_BOX_ALIVE && pid == pids[i]);
	CHECK(inventory_is_even() && answer.inventory.alive == 10);
	for (int i = 0; i < 10; i++)
		CHECK(destroy(orders[i].box));
	CHECK(inventory_is_even() && answer.inventory.groups == 0);
}

TEST(too_new, "a state file of a newer cove is not touched: the warden refuses to start")
{
	struct order order = build_order();
	int fds[ORDER_FDS_MAX], status = 0;
	uint32_t pid;

	if (skipped())
		return;
	CHECK(ask(&order, &answer, fds) && answer.kind == ANSWER_DONE);
	CHECK(greets(fds[0]));
	drop_fds(fds);
	CHECK(state_of(order.box, &pid) == ORDER_BOX_ALIVE);
	kill_warden();
	CHECK(forge_state(order.box, "cove-cell ", "9"));
	start_process();
	CHECK(waitpid(warden_pid, &status, 0) == warden_pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 2);
	CHECK(is_alive((pid_t)pid));
	CHECK(forge_state(order.box, "cove-cell ", "1"));
	start_process();
	CHECK(greet_warden());
	CHECK(state_of(order.box, NULL) == ORDER_BOX_ALIVE);
	CHECK(destroy(order.box));
}

TEST(end_in_start, "SIGINT while a stopped box starts again: its disk stays")
{
	struct order order = build_order();
	int fds[ORDER_FDS_MAX], status = -1;
	char byte, path[160];
	pid_t zygote;

	if (skipped())
		return;
	order.ephemeral = false;
	CHECK(ask(&order, &answer, fds) && answer.kind == ANSWER_DONE);
	drop_fds(fds);
	CHECK(simple(ORDER_STOP, order.box));
	order.again = true;
	zygote = zygote_pid();
	CHECK(zygote > 0 && kill(zygote, SIGSTOP) == 0);
	CHECK(send_order(&order));
	// Its state file says that the order was read, the end of the connection that SIGINT was.
	snprintf(path, sizeof(path), "%s/run/cells/%s", home, order.box);
	for (int i = 0; i < PATIENCE_MS && access(path, F_OK); i++)
		usleep(1000);
	CHECK(access(path, F_OK) == 0);
	kill(warden_pid, SIGINT);
	CHECK(wait_readable(sock) && recv(sock, &byte, 1, 0) == 0);
	kill(zygote, SIGCONT);
	CHECK(waitpid(warden_pid, &status, 0) == warden_pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	start_process();
	CHECK(greet_warden());
	CHECK(state_of(order.box, NULL) == ORDER_BOX_KEPT);
	CHECK(destroy(order.box));
}

TEST(end, "SIGINT ends every box, keeps the disks that last, leaves no cgroup, and exits with 0")
{
	struct order order = build_order(), lasting = build_order();
	int fds[ORDER_FDS_MAX], status = -1;

	if (skipped())
		return;
	CHECK(ask(&order, &answer, fds) && answer.kind == ANSWER_DONE);
	drop_fds(fds);
	lasting.ephemeral = false;
	CHECK(ask(&lasting, &answer, fds) && answer.kind == ANSWER_DONE);
	drop_fds(fds);
	kill(warden_pid, SIGINT);
	CHECK(waitpid(warden_pid, &status, 0) == warden_pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK(count_all_groups() == 0);
	start_process();
	CHECK(greet_warden());
	CHECK(state_of(order.box, NULL) == ORDER_BOX_STATE_COUNT);
	CHECK(state_of(lasting.box, NULL) == ORDER_BOX_KEPT);
	CHECK(destroy(lasting.box));
	kill(warden_pid, SIGINT);
	CHECK(waitpid(warden_pid, &status, 0) == warden_pid);
	leave_home();
}
