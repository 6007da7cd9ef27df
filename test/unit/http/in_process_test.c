#include "http/in_process.h"

#include "base/mem.h"
#include "unit/http/house.h"

struct seen {
	int status, heads, ends;
	char type[64], fields[256];
	struct buf body;
	bool is_whole, is_sized;
	int64_t wait_ms; // each call of bytes()
	size_t fail_after;
	size_t feed; // bytes of a request's body that are still to be read
};

static struct err *seen_read(void *arg, void *room, size_t size, size_t *out)
{
	struct seen *seen = arg;

	if (size > seen->feed)
		size = seen->feed;
	memset(room, 1, size);
	seen->feed -= size;
	*out = size;
	return OK;
}

static struct err *seen_head(void *arg, const struct in_process_head *head)
{
	struct seen *seen = arg;

	seen->heads++;
	seen->status = head->status;
	seen->is_sized = head->is_sized;
	snprintf(seen->type, sizeof(seen->type), STR_FMT, STR_ARG(head->type));
	snprintf(seen->fields, sizeof(seen->fields), STR_FMT, STR_ARG(head->fields));
	return OK;
}

static struct err *seen_bytes(void *arg, struct str bytes)
{
	struct seen *seen = arg;

	if (seen->wait_ms)
		TRY(task_sleep_until(inside_now() + seen->wait_ms));
	buf_str(&seen->body, bytes);
	if (seen->fail_after && seen->body.len >= seen->fail_after)
		return err_new(CANCELLED, "client_gone", "enough");
	return OK;
}

static void seen_end(void *arg, bool is_whole)
{
	struct seen *seen = arg;

	seen->ends++;
	seen->is_whole = is_whole;
}

static const struct in_process_calls calls = {NULL, seen_head, seen_bytes, seen_end};
static const struct in_process_calls feeding = {seen_read, seen_head, seen_bytes, seen_end};

static struct in_process_ask ask(const char *method, const char *target, struct str body)
{
	return (struct in_process_ask){
		.loop = inside_loop,
		.serve = house_serve,
		.method = str_of(method),
		.target = str_of(target),
		.body = body,
	};
}

static void reset(struct seen *seen)
{
	buf_done(&seen->body);
	*seen = (struct seen){.body = BUF_INIT(1 << 24)};
}

TASK_TEST(asks, "the same handlers serve without a connection")
{
	struct seen seen = {0};
	struct in_process_ask a = ask("POST", "/body?n=7", STR("12345"));

	reset(&seen);
	in_process_run(in_process_new(&a, &calls, &seen));
	CHECK(seen.status == 200 && seen.heads == 1 && seen.ends == 1 && seen.is_whole);
	CHECK_STR(seen.body.at, "5 5");
	CHECK_STR(seen.type, "text/plain");
	CHECK(strstr(seen.fields, "X-Number: 7\r\n"));
	reset(&seen);
	a = ask("GET", "/nothing", (struct str){NULL, 0});
	in_process_run(in_process_new(&a, &calls, &seen));
	CHECK(seen.status == 500 && seen.is_whole);
	reset(&seen);
	a = ask("GET", "no slash", (struct str){NULL, 0});
	in_process_run(in_process_new(&a, &calls, &seen));
	CHECK(seen.status == 400 && seen.is_whole);
	reset(&seen);
	a = ask("HEAD", "/hello", (struct str){NULL, 0});
	in_process_run(in_process_new(&a, &calls, &seen));
	CHECK(seen.status == 200 && seen.body.len == 0 && seen.is_whole);
	reset(&seen);
	a = ask("GET", "/cut", (struct str){NULL, 0});
	in_process_run(in_process_new(&a, &calls, &seen));
	CHECK(seen.status == 200 && !seen.is_whole && str_is(buf_view(&seen.body), "part"));
	reset(&seen);
}

TASK_TEST(fields, "a field that is invalid on a connection is refused")
{
	static const struct http1_field bad[] = {
		{STR("X-A"), STR("b\r\nHost: evil")},
		{STR("X B"), STR("c")},
		{STR(""), STR("c")},
		{STR("X:"), STR("c")},
		{STR("X"), STR("a\nb")},
	};
	struct seen seen = {0};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct in_process_ask a = ask("POST", "/body?n=7", STR("12345"));

		a.fields = &bad[i];
		a.field_count = 1;
		reset(&seen);
		in_process_run(in_process_new(&a, &calls, &seen));
		CHECK(seen.status == 400 && seen.ends == 1);
	}
	buf_done(&seen.body);
}

TASK_TEST(pieces, "a body that comes in pieces is read, and bounded")
{
	struct seen seen = {0};
	struct in_process_ask a = ask("POST", "/sum", (struct str){NULL, 0});

	reset(&seen);
	seen.feed = 100000;
	in_process_run(in_process_new(&a, &feeding, &seen));
	CHECK_STR(seen.body.at, "100000 100000");
	reset(&seen);
	seen.feed = 100000;
	a = ask("POST", "/body", (struct str){NULL, 0});
	a.body_max = 5000;
	in_process_run(in_process_new(&a, &feeding, &seen));
	CHECK(seen.status == 413);
	reset(&seen);
}

TASK_TEST(slow, "a callback that waits slows its handler only")
{
	struct seen seen = {0}, quick = {0};
	struct in_process_ask a = ask("GET", "/pour", (struct str){NULL, 0});

	reset(&seen);
	reset(&quick);
	seen.wait_ms = 5;
	in_process_start(in_process_new(&a, &calls, &seen), "slow");
	in_process_start(in_process_new(&a, &calls, &quick), "quick");
	inside_sleep(20);
	CHECK(quick.ends == 1 && quick.body.len == 1 << 20 && seen.ends == 0);
	inside_sleep(300);
	CHECK(seen.ends == 1 && seen.is_whole && seen.body.len == 1 << 20);
	reset(&seen);
	reset(&quick);
}

TASK_TEST(cancel, "a cancelled exchange ends wherever it waits, once")
{
	static const char *const paths[] = {"/away", "/away/stream", "/watch"};
	struct seen seen = {0};

	for (size_t i = 0; i < 3; i++) {
		struct in_process_ask a = ask("GET", paths[i], (struct str){NULL, 0});
		struct in_process *inner;

		reset(&seen);
		house_saw_gone = false;
		inner = in_process_new(&a, &calls, &seen);
		in_process_start(inner, "cancelled");
		inside_sleep(20);
		CHECK(seen.ends == 0);
		in_process_cancel(inner);
		inside_sleep(20);
		CHECK(seen.ends == 1 && !seen.is_whole && house_saw_gone);
		CHECK(seen.heads == (i == 1));
	}
	reset(&seen);
}

TASK_TEST(refuses, "a callback that fails ends the exchange as a lost client would")
{
	struct seen seen = {0};
	struct in_process_ask a = ask("GET", "/pour?mib=4", (struct str){NULL, 0});

	reset(&seen);
	seen.fail_after = 200000;
	in_process_run(in_process_new(&a, &calls, &seen));
	CHECK(seen.ends == 1 && !seen.is_whole && seen.body.len < 300000);
	reset(&seen);
}
