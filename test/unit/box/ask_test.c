// Orders over a real socket to another process.
#include "box/ask.h"

#include "unit/box/fake_warden.h"

static int losses;

static void on_loss(void *arg)
{
	(void)arg;
	losses++;
}

static int64_t in(int64_t ms)
{
	return loop_now(fixture.loop) + ms;
}

static struct answer answer; // too big for the stack of a task
static int fds[ORDER_FDS_MAX];

TEST(opens, "a daemon without a warden refuses orders, and does not wait")
{
	CHECK(fixture_open());
	CHECK(ask_host(fixture.ask) == NULL);
}

BOX_TEST(links, "the daemon connects to the warden, greets, and learns what the host can do")
{
	ask_on_loss(fixture.ask, on_loss, NULL);
	CHECK_OK(ask_wait_linked(fixture.ask, in(5000)));
	CHECK(ask_host(fixture.ask) != NULL);
	CHECK_STR(ask_host(fixture.ask)->cgroup, "hybrid");
}

BOX_TEST(refusal, "a refusal becomes the error that it describes")
{
	struct order order = {.kind = ORDER_BUILD, .name = "absent", .host = "x"};
	auto_err err = OK;

	order.limits = LIMITS_DEFAULT;
	id_box(order.box);
	err = ask_order(fixture.ask, &order, &answer, fds, in(5000));
	CHECK(err && err_kind(err) == ERR_NOT_FOUND);
	CHECK_STR(err_reason(err), "no_template");
	CHECK_STR(err_message(err), "refused: no_template");
	CHECK_STR(err_hint_of(err), "a hint");
}

static int answered;

static void one_order(void *arg)
{
	struct order order = {.kind = ORDER_LIST};
	struct answer *mine = calloc(1, sizeof(*mine));
	auto_err err = ask_order(fixture.ask, &order, mine, fds, in(5000));

	(void)arg;
	answered += !err && mine->id == order.id;
	free(mine);
}

BOX_TEST(many, "many orders may be under way at once")
{
	answered = 0;
	for (int i = 0; i < 200; i++)
		task_start(fixture.loop, "order", one_order, NULL);
	for (int i = 0; i < 100 && answered < 200; i++)
		CHECK_OK(task_sleep_until(in(20)));
	CHECK(answered == 200);
}

BOX_TEST(told, "an order without an answer is sent and delays no other order")
{
	struct order build = {.kind = ORDER_BUILD, .name = "absent", .host = "x", .ahead = true};
	struct order quick = {.kind = ORDER_LIST};

	build.limits = LIMITS_DEFAULT;
	id_box(build.box);
	for (int i = 0; i < 3; i++)
		CHECK(ask_send(fixture.ask, &build));
	CHECK_OK(ask_order(fixture.ask, &quick, &answer, fds, in(5000)));
	CHECK(answer.id == quick.id && quick.id == build.id + 1);
}

BOX_TEST(late, "a late answer is dropped and disturbs no other order")
{
	struct order slow = {.kind = ORDER_FREEZE, .name = "x"}, quick = {.kind = ORDER_LIST};

	CHECK_ERR(ask_order(fixture.ask, &slow, &answer, fds, in(50)), TIMEOUT);
	CHECK_OK(ask_order(fixture.ask, &quick, &answer, fds, in(5000)));
	CHECK(answer.id == quick.id && answer.to == ORDER_LIST);
}

BOX_TEST(import, "an import returns a pipe, then waits for its end")
{
	struct ask_import *import = NULL;
	int pipe = -1;

	CHECK_OK(ask_import_begin(fixture.ask, "t", &import, &pipe));
	fd_write_all(pipe, "12345", 5);
	close(pipe);
	CHECK_OK(ask_import_end(import, &answer, in(5000)));
	CHECK(answer.bytes == 5);
}

BOX_TEST(full, "a daemon without free fds loses that one answer, and not the warden")
{
	struct order order = {.kind = ORDER_BUILD, .name = "mute", .host = "x"};
	struct order destroy = {.kind = ORDER_DESTROY}, quick = {.kind = ORDER_LIST};

	order.limits = LIMITS_DEFAULT;
	for (int more = 0; more < 3; more++) {
		struct rlimit old;
		auto_err err = OK;

		id_box(order.box);
		fake_warden_fill(&old, more);
		err = ask_order(fixture.ask, &order, &answer, fds, in(5000));
		setrlimit(RLIMIT_NOFILE, &old);
		CHECK(err && err_kind(err) == ERR_EXHAUSTED);
		CHECK_STR(err_reason(err), ASK_NO_FILES);
		memcpy(destroy.box, order.box, sizeof(destroy.box));
		CHECK_OK(ask_order(fixture.ask, &destroy, &answer, fds, in(5000)));
	}
	CHECK(losses == 0);
	CHECK_OK(ask_order(fixture.ask, &quick, &answer, fds, in(1000)));
}

BOX_TEST(
	loss,
	"when the warden dies orders fail at once, the loss is reported, the connection comes back")
{
	struct order deadly = {.kind = ORDER_FORGET, .name = "x"}, quick = {.kind = ORDER_LIST};
	struct order slow = {.kind = ORDER_FREEZE, .name = "x"};
	int64_t before = clock_ms();
	auto_err err = OK;

	CHECK(ask_send(fixture.ask, &deadly)); // which shows that it arrives
	err = ask_order(fixture.ask, &slow, &answer, fds, in(20000));

	CHECK(err && err_kind(err) == ERR_UNAVAILABLE);
	CHECK_STR(err_reason(err), "no_warden");
	for (int i = 0; i < 100 && !losses; i++) // the order may meet it before the link does
		CHECK_OK(task_sleep_until(in(5)));
	CHECK(losses == 1 && clock_ms() - before < 1000);
	CHECK_ERR(ask_order(fixture.ask, &quick, &answer, fds, in(1000)), UNAVAILABLE);
	waitpid(fixture.warden.pid, NULL, 0);
	CHECK_OK(task_sleep_until(in(200))); // nothing listens: the dial is repeated
	fake_warden_start(&fixture.warden);
	CHECK_OK(ask_wait_linked(fixture.ask, in(5000)));
	CHECK_OK(ask_order(fixture.ask, &quick, &answer, fds, in(1000)));
}

BOX_TEST(refused, "an order that meets a dead warden makes later ones wait for the next connection")
{
	struct order quick = {.kind = ORDER_LIST};

	kill(fixture.warden.pid, SIGKILL);
	waitpid(fixture.warden.pid, NULL, 0); // its socket is closed, and the loop has not looked
	CHECK_ERR(ask_order(fixture.ask, &quick, &answer, fds, in(1000)), UNAVAILABLE);
	CHECK_ERR(ask_wait_linked(fixture.ask, in(50)), UNAVAILABLE);
	fake_warden_start(&fixture.warden);
	CHECK_OK(ask_wait_linked(fixture.ask, in(5000)));
	CHECK_OK(ask_order(fixture.ask, &quick, &answer, fds, in(1000)));
}

TEST(closes, "the fixture closes: no task or fd is left")
{
	fixture_close();
	CHECK(task_count() == 0);
}
