#include "gateway/idempotency.h"

#include "base/clock.h"
#include "base/mem.h"
#include "tap.h"

struct scene {
	struct loop *loop;
	struct idempotency_keys *idempotency_keys;
	char log[256]; // what happened, in order
	const char *fault;
};

#define EXPECT(expr)                                                                               \
	do {                                                                                       \
		if (!(expr) && !scene->fault)                                                      \
			scene->fault = #expr;                                                      \
	} while (0)

static const uint8_t red[SECRET_HASH] = {1}, blue[SECRET_HASH] = {2};

static void say(struct scene *scene, const char *word)
{
	size_t len = strlen(scene->log);

	snprintf(scene->log + len, sizeof(scene->log) - len, "%s ", word);
}

// Runs `first` (and `second`, a moment after it) as tasks until the loop is stopped.
static const char *play(struct scene *scene, void (*first)(void *), void (*second)(void *))
{
	if (loop_new(&scene->loop))
		abort();
	scene->idempotency_keys = idempotency_keys_new(scene->loop);
	task_start(scene->loop, "first", first, scene);
	if (second)
		task_start(scene->loop, "second", second, scene);
	loop_run(scene->loop);
	idempotency_keys_free(scene->idempotency_keys);
	loop_free(scene->loop);
	return scene->fault ? scene->fault : "";
}

static void keeps_and_replays(void *arg)
{
	struct scene *scene = arg;
	struct idempotency *idempotency = NULL;
	bool first = false;
	struct err *err = idempotency_claim(scene->idempotency_keys, STR("k"), red, &idempotency,
					    &first);

	EXPECT(!err && first);
	idempotency_keep(idempotency, 201, STR("/here"), STR("body"));
	idempotency_drop(idempotency);
	err = idempotency_claim(scene->idempotency_keys, STR("k"), red, &idempotency, &first);
	EXPECT(!err && !first && idempotency_status(idempotency) == 201);
	EXPECT(str_is(idempotency_body(idempotency), "body") &&
	       str_is(idempotency_location(idempotency), "/here"));
	idempotency_drop(idempotency);
	err = idempotency_claim(scene->idempotency_keys, STR("k"), blue, &idempotency, &first);
	EXPECT(err && !strcmp(err_reason(err), "idempotency_mismatch"));
	err_free(err);
	err = idempotency_claim(scene->idempotency_keys, STR("a b"), red, &idempotency, &first);
	EXPECT(err && err_kind(err) == ERR_INVALID);
	err_free(err);
	loop_stop(scene->loop);
}

TEST(replay, "a kept answer is given again, and another request under its key is refused")
{
	struct scene scene = {0};

	CHECK_STR(play(&scene, keeps_and_replays, NULL), "");
}

static void works_slowly(void *arg)
{
	struct scene *scene = arg;
	struct idempotency *idempotency = NULL;
	bool first = false;

	EXPECT(!idempotency_claim(scene->idempotency_keys, STR("k"), red, &idempotency, &first) &&
	       first);
	say(scene, "begin");
	err_free(task_sleep_until(loop_now(scene->loop) + 20));
	say(scene, "keep");
	idempotency_keep(idempotency, 201, STR(""), STR("x"));
	idempotency_drop(idempotency);
}

static void comes_second(void *arg)
{
	struct scene *scene = arg;
	struct idempotency *idempotency = NULL;
	bool first = true;

	EXPECT(!idempotency_claim(scene->idempotency_keys, STR("k"), red, &idempotency, &first));
	EXPECT(!first && str_is(idempotency_body(idempotency), "x"));
	say(scene, "replay");
	idempotency_drop(idempotency);
	loop_stop(scene->loop);
}

TEST(waits, "a duplicate waits for the first and gets its answer")
{
	struct scene scene = {0};

	CHECK_STR(play(&scene, works_slowly, comes_second), "");
	CHECK_STR(scene.log, "begin keep replay ");
}

static void fails_slowly(void *arg)
{
	struct scene *scene = arg;
	struct idempotency *idempotency = NULL;
	bool first = false;

	EXPECT(!idempotency_claim(scene->idempotency_keys, STR("k"), red, &idempotency, &first) &&
	       first);
	err_free(task_sleep_until(loop_now(scene->loop) + 20));
	say(scene, "fail");
	idempotency_drop(idempotency);
}

static void inherits(void *arg)
{
	struct scene *scene = arg;
	struct idempotency *idempotency = NULL;
	bool first = false;
	struct err *err = idempotency_claim(scene->idempotency_keys, STR("k"), blue, &idempotency,
					    &first);

	// Another request under that key is refused without disturbing the first.
	EXPECT(err && err_kind(err) == ERR_CONFLICT);
	err_free(err);
	EXPECT(!idempotency_claim(scene->idempotency_keys, STR("k"), red, &idempotency, &first) &&
	       first);
	say(scene, "mine");
	idempotency_drop(idempotency);
	loop_stop(scene->loop);
}

TEST(fails, "a first that fails passes the key to a waiter")
{
	struct scene scene = {0};

	CHECK_STR(play(&scene, fails_slowly, inherits), "");
	CHECK_STR(scene.log, "fail mine ");
}

static void keeps_many(void *arg)
{
	struct scene *scene = arg;
	struct idempotency *idempotency = NULL;
	bool first = false;

	for (int i = 0; i < IDEMPOTENCY_MAX + 10; i++) {
		auto_free char *key = mem_fmt("key-%d", i);

		EXPECT(!idempotency_claim(scene->idempotency_keys, str_of(key), red, &idempotency,
					  &first) &&
		       first);
		idempotency_keep(idempotency, 201, STR(""), STR("x"));
		idempotency_drop(idempotency);
	}
	// The oldest went, the youngest stayed.
	EXPECT(!idempotency_claim(scene->idempotency_keys, STR("key-0"), red, &idempotency,
				  &first) &&
	       first);
	idempotency_drop(idempotency);
	EXPECT(!idempotency_claim(scene->idempotency_keys, STR("key-9999"), red, &idempotency,
				  &first) &&
	       !first);
	idempotency_drop(idempotency);
	loop_stop(scene->loop);
}

TEST(bounded, "only so many answers are kept")
{
	struct scene scene = {0};

	CHECK_STR(play(&scene, keeps_many, NULL), "");
}
