// Artifacts of a hostile box: patterns and paths that cost much leave the loop alone, and nothing
// is looked for or remembered beyond the caps. Symlinks only, so that no store of blobs is needed.
#include "agent/artifacts.h"

#include <time.h>

#include "box/exec.h"
#include "unit/box/fake_warden.h"

static struct box *box;
static char dir[64];

static fallible sh(const char *script)
{
	static const char *const env[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL};
	const char *argv[] = {script, NULL};
	struct exec_spec spec = {.shell = true,
				 .argv = argv,
				 .env = env,
				 .cwd = dir,
				 .user = "",
				 .output_cap = 1 << 20};
	struct exec_result result;
	struct exec *exec;
	struct err *err;

	TRY(exec_start(box, &spec, &exec));
	err = exec_wait(exec, loop_now(fixture.loop) + 120000, &result);
	exec_unref(exec);
	if (!err && result.exit_code != 0)
		err = err_new(INVALID, "script", "it ended with %d", result.exit_code);
	return err;
}

static fallible collect(const char *const *globs, struct arena *arena, struct artifacts *out)
{
	int64_t deadline = loop_now(fixture.loop) + 300000;
	struct files files = {.box = box, .user = "", .base = dir, .deadline = deadline};
	struct artifacts_spec spec = {
		.tenant = "", .globs = globs, .max_bytes = 1 << 20, .deadline = deadline};

	return artifacts_collect(NULL, &files, &spec, arena, out);
}

TEST(opens, "the fixture opens")
{
	CHECK(fixture_open());
}

BOX_TEST(builds, "a box is built")
{
	struct order order = {.kind = ORDER_BUILD, .host = "box", .limits = LIMITS_DEFAULT};

	CHECK_OK(ask_wait_linked(fixture.ask, loop_now(fixture.loop) + 60000));
	snprintf(order.name, sizeof(order.name), "real");
	id_box(order.box);
	CHECK_OK(box_build(fixture.loop, fixture.ask, &order, fixture.tapes, &box));
	snprintf(dir, sizeof(dir), "/tmp/cove-artifacts-%d", getpid());
	mkdir(dir, 0777);
	chmod(dir, 0777);
}

static double busy(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

BOX_TEST(costly, "a pattern and paths that cost much do not hold the loop")
{
	static char glob[1024] = "**a*";
	const char *const globs[] = {glob, "**/1", NULL};
	auto_arena arena = arena_new();
	struct artifacts found;
	double began;

	memset(glob + strlen(glob), 'a', 900);
	glob[strlen(glob)] = 'b';
	CHECK_OK(sh("a=$(printf %0200d 0 | tr 0 a); d=$a; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 "
		    "14; do "
		    "d=$d/$a; done; mkdir -p deep/$d && cd deep/$d && for i in $(seq 100); do "
		    "ln -s x $i || exit 1; done"));
	began = busy();
	CHECK_OK(collect(globs, arena, &found));
	printf("# %.3f s\n", busy() - began);
	CHECK(busy() - began < 0.5);
	CHECK(found.count == 1 && !found.partial);
	CHECK_STR(found.missing[0], glob);
	CHECK(!found.missing[1]);
}

BOX_TEST(capped, "beyond the cap of files nothing is looked for")
{
	const char *const globs[] = {"many/1*", "many/*", "none", "none/*", NULL};
	const char *const all[] = {"many/*", "many/**", "none", NULL};
	auto_arena arena = arena_new();
	struct artifacts found;

	CHECK_OK(sh("mkdir many && cd many && seq 10000 | xargs ln -s -t ."));
	CHECK_OK(collect(all, arena, &found));
	CHECK(found.count == ARTIFACTS_FILES_MAX && !found.partial);
	CHECK_STR(found.missing[0], "none");
	CHECK_OK(sh("ln -s x many/0"));
	CHECK_OK(collect(globs, arena, &found));
	CHECK(found.count == ARTIFACTS_FILES_MAX && found.partial);
	CHECK(!found.missing[0]); // not known
}

BOX_TEST(ends, "the box ends")
{
	CHECK_OK(sh("rm -rf \"$PWD\"/*"));
	CHECK_OK(box_destroy(box, loop_now(fixture.loop) + 60000));
	box_free(box);
}

TEST(closes, "the fixture closes")
{
	rmdir(dir);
	fixture_close();
}
