#include "protocol/talk.h"

#include "codec/pack.h"
#include "tap.h"

static uint8_t bytes[TALK_SIZE_MAX + 1], again[TALK_SIZE_MAX];
static const char *argv_room[TALK_ARGS_MAX + 1], *env_room[TALK_ARGS_MAX + 1];

static bool decode(size_t len, struct talk *out)
{
	*out = (struct talk){.exec = {.argv = argv_room, .env = env_room}};
	return talk_decode(bytes, len, out);
}

// Encodes, decodes, encodes again: the bytes must agree. No prefix may decode, nor one byte more.
static bool survives(const struct talk *talk, struct talk *out)
{
	size_t len = talk_encode(talk, bytes, sizeof(bytes));

	if (!len || !decode(len, out) || talk_encode(out, again, sizeof(again)) != len ||
	    memcmp(bytes, again, len) != 0)
		return false;
	for (size_t cut = 0; cut < len; cut++)
		if (talk_encode(talk, again, cut) != 0 || decode(cut, &(struct talk){0}))
			return false;
	bytes[len] = 0;
	return !decode(len + 1, &(struct talk){0}) && decode(len, out);
}

TEST(exec, "an exec is decoded as encoded, with its lists ended by NULL")
{
	const char *argv[] = {"sh", "-c", "echo \xff", "", NULL}, *env[] = {"A=b", "C=", NULL};
	struct talk out, talk = {.kind = TALK_EXEC,
				 .conn = 0xfffffffe,
				 .exec = {.flags = TALK_EXEC_STDIN | TALK_EXEC_HOME,
					  .exec_cgroup = TALK_CGROUPS_MAX - 1,
					  .user = STR("1000:1000"),
					  .cwd = STR("/workspace"),
					  .argc = 4,
					  .envc = 2,
					  .argv = argv,
					  .env = env}};

	CHECK(survives(&talk, &out));
	CHECK(out.kind == TALK_EXEC && out.conn == 0xfffffffe && out.exec.flags == 5);
	CHECK(out.exec.argc == 4 && out.exec.argv[4] == NULL && out.exec.env[2] == NULL);
	CHECK_STR(out.exec.argv[2], "echo \xff");
	CHECK_STR(out.exec.argv[3], "");
	CHECK_STR(out.exec.env[1], "C=");
	CHECK_STR(out.exec.cwd.at, "/workspace");
	CHECK_STR(out.exec.user.at, "1000:1000");
}

TEST(others, "every other kind is decoded as encoded")
{
	struct talk out,
		talks[] = {
			{.kind = TALK_SIGNAL, .conn = 3, .signal = 64},
			{.kind = TALK_SIGNAL, .conn = 3, .signal = 2, .alone = true},
			{.kind = TALK_FORGET, .conn = 4},
			{.kind = TALK_WORKER, .conn = 8, .worker = {.user = STR("1000")}},
			{.kind = TALK_WORKER_IS, .conn = 8},
			{.kind = TALK_READY, .ready = {.version = 1, .features = 0x80000001}},
			{.kind = TALK_BROKEN, .failed = {.errnum = 13, .note = "mount proc"}},
			{.kind = TALK_FAILED,
			 .conn = 5,
			 .failed = {.step = TALK_STEP_EXEC, .errnum = 2}},
			{.kind = TALK_STARTED, .conn = 6, .started = {.pid = 4194304}},
			{.kind = TALK_RAN, .conn = 9, .exited = {.pid = 7, .status = 9}},
			{.kind = TALK_EXITED,
			 .conn = 7,
			 .exited = {.status = 137, .max_rss = 1ull << 40, .cpu_us = 5}},
		};

	for (size_t i = 0; i < sizeof(talks) / sizeof(talks[0]); i++) {
		CHECK(survives(&talks[i], &out));
		CHECK(out.kind == talks[i].kind && out.conn == talks[i].conn);
	}
	CHECK(out.exited.status == 137 && out.exited.max_rss == 1ull << 40);
	CHECK(survives(&talks[6], &out));
	CHECK_STR(out.failed.note, "mount proc");
}

static bool passes(struct talk talk)
{
	struct talk out;
	size_t len = talk_encode(&talk, bytes, sizeof(bytes));

	return len && decode(len, &out);
}

TEST(ranges, "values out of range are refused")
{
	CHECK(!passes((struct talk){.kind = TALK_SIGNAL, .signal = 0}));
	CHECK(!passes((struct talk){.kind = TALK_SIGNAL, .signal = 65}));
	CHECK(!passes((struct talk){.kind = TALK_SIGNAL, .signal = -1}));
	CHECK(!passes((struct talk){.kind = TALK_READY, .conn = 1}));
	CHECK(!passes((struct talk){.kind = TALK_BROKEN, .conn = 1}));
	CHECK(!passes((struct talk){.kind = TALK_FAILED, .failed = {.step = TALK_STEP_NONE}}));
	CHECK(!passes((struct talk){.kind = TALK_FAILED, .failed = {.step = TALK_STEP_COUNT}}));
	CHECK(!passes((struct talk){.kind = TALK_FAILED, .failed = {.step = 1, .errnum = 4096}}));
	CHECK(!passes((struct talk){.kind = TALK_FAILED, .failed = {.step = 1, .errnum = -2}}));
	CHECK(!passes((struct talk){.kind = TALK_BROKEN, .failed = {.note = "a\nb"}}));
	CHECK(!passes((struct talk){.kind = TALK_STARTED, .started = {.pid = 1}}));
	CHECK(!passes((struct talk){.kind = TALK_STARTED, .started = {.pid = -1}}));
	CHECK(!passes((struct talk){.kind = TALK_RAN, .exited = {.pid = 1}}));
	CHECK(!passes((struct talk){.kind = TALK_RAN, .exited = {.pid = 2, .status = 0x7f}}));
	CHECK(!passes((struct talk){.kind = TALK_KIND_COUNT}));
}

TEST(statuses, "a status is that of a process that has ended, and no other")
{
	static const struct {
		int status;
		bool ok;
	} rows[] = {{0, true},	     {0xff00, true}, {9, true},	      {11 | 0x80, true},
		    {64, true},	     {65, false},    {0x7f, false},   {0x137f, false},
		    {0xffff, false}, {0x80, false},  {0x0109, false}, {0x10000, false},
		    {-1, false}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		CHECK(passes((struct talk){.kind = TALK_EXITED,
					   .exited = {.status = rows[i].status}}) == rows[i].ok);
	CHECK(!passes((struct talk){.kind = TALK_EXITED, .exited = {.cpu_us = UINT64_MAX}}));
	CHECK(!passes((struct talk){.kind = TALK_EXITED, .exited = {.max_rss = UINT64_MAX}}));
}

static struct talk exec_of(const char **argv, uint32_t argc, const char **env, uint32_t envc)
{
	return (struct talk){.kind = TALK_EXEC,
			     .exec = {.argc = argc, .argv = argv, .envc = envc, .env = env}};
}

TEST(exec_ranges,
     "an exec without a command, with bad flags, exec cgroup or environment is refused")
{
	const char *argv[] = {"true", NULL}, *good[] = {"A=", NULL}, *none[] = {"A", NULL},
		   *nameless[] = {"=b", NULL};
	struct talk talk = exec_of(argv, 1, good, 1);
	static char longest[5000];

	memset(longest, 'x', sizeof(longest) - 1);
	CHECK(passes(talk));
	CHECK(!passes(exec_of(argv, 0, good, 1)) && !passes(exec_of(argv, 1, none, 1)));
	CHECK(!passes(exec_of(argv, 1, nameless, 1)));
	talk.exec.flags = TALK_EXEC_PACES << 1;
	CHECK(!passes(talk));
	talk.exec.flags = TALK_EXEC_SPOOL;
	CHECK(!passes(talk));
	talk.exec.flags = TALK_EXEC_HOME;
	talk.exec.exec_cgroup = TALK_CGROUPS_MAX;
	CHECK(!passes(talk));
	talk.exec.exec_cgroup = 0;
	talk.exec.user = str_of(longest);
	CHECK(!passes(talk));
	talk.exec.user = STR("");
	talk.exec.cwd = str_of(longest);
	CHECK(!passes(talk));
}

TEST(seats, "a terminal has a size, nothing else has, and stdin is one thing only")
{
	const char *argv[] = {"bash", NULL}, *env[] = {NULL};
	struct talk out, talk = exec_of(argv, 1, env, 0);

	talk.exec.cols = 80;
	CHECK(!passes(talk));
	talk.exec.flags = TALK_EXEC_PTY;
	CHECK(!passes(talk));
	talk.exec.rows = TALK_SIDE_MAX;
	CHECK(survives(&talk, &out));
	CHECK(out.exec.cols == 80 && out.exec.rows == TALK_SIDE_MAX);
	talk.exec.rows++;
	CHECK(!passes(talk));
	talk.exec.rows = 24;
	talk.exec.flags = TALK_EXEC_PTY | TALK_EXEC_DIALOGUE;
	CHECK(!passes(talk));
	talk.exec.flags = TALK_EXEC_PTY | TALK_EXEC_STDIN;
	CHECK(!passes(talk));
	talk.exec.cols = talk.exec.rows = 0;
	talk.exec.flags = TALK_EXEC_DIALOGUE | TALK_EXEC_STDIN;
	CHECK(!passes(talk));
	talk.exec.flags = TALK_EXEC_DIALOGUE | TALK_EXEC_HOME;
	CHECK(passes(talk));
}

TEST(many, "4096 arguments are taken, 4097 are not, and a large message has an end")
{
	static const char *args[TALK_ARGS_MAX + 2], *empty[1];
	static char big[TALK_SIZE_MAX];
	const char *one[] = {big, NULL};
	struct talk out, talk = exec_of(args, TALK_ARGS_MAX, empty, 0);

	for (int i = 0; i <= TALK_ARGS_MAX; i++)
		args[i] = "x";
	CHECK(passes(talk));
	talk.exec.argc = TALK_ARGS_MAX + 1;
	CHECK(!passes(talk));
	memset(big, 'x', sizeof(big) - 1);
	talk = exec_of(one, 1, empty, 0);
	CHECK(talk_encode(&talk, bytes, sizeof(bytes)) == 0);
	CHECK(!decode(TALK_SIZE_MAX + 1, &out));
}

TEST(held, "HELD is decoded as encoded with any label, and only within its ranges")
{
	static char tag[TALK_LABEL_MAX + 1];
	struct talk out, talk = {.kind = TALK_HELD, .conn = 12};
	const char *argv[] = {"true", NULL}, *env[] = {NULL};
	struct talk exec = exec_of(argv, 1, env, 0);

	for (size_t i = 0; i < sizeof(tag); i++)
		tag[i] = (char)(i * 7);
	talk.held = (struct talk_held){TALK_EXEC_PTY | TALK_EXEC_SPOOL | TALK_EXEC_KEEP,
				       511,
				       2,
				       true,
				       {tag, TALK_LABEL_MAX}};
	CHECK(survives(&talk, &out) && talk_encode(&talk, bytes, sizeof(bytes)) <= TALK_HELD_MAX);
	CHECK(out.held.tag.len == TALK_LABEL_MAX && !memcmp(out.held.tag.at, tag, TALK_LABEL_MAX));
	CHECK(out.held.exec_cgroup == 511 && out.held.pid == 2 && talk_fds(&out, 0) == 3);
	talk.held.tag.len++;
	CHECK(talk_encode(&talk, bytes, sizeof(bytes)) == 0);
	talk.held.tag.len = 0;
	CHECK(survives(&talk, &out) && out.held.tag.len == 0);
	talk.held.pid = 1;
	CHECK(!passes(talk));
	talk.held.pid = 2;
	talk.held.exec_cgroup = TALK_CGROUPS_MAX;
	CHECK(!passes(talk));
	talk.held.exec_cgroup = 0;
	talk.held.flags = TALK_EXEC_SHELL;
	CHECK(!passes(talk));
	talk.held.flags = TALK_EXEC_PACES;
	CHECK(!passes(talk));
	CHECK(passes((struct talk){.kind = TALK_SYNC}) &&
	      passes((struct talk){.kind = TALK_SYNCED}));
	CHECK(!passes((struct talk){.kind = TALK_SYNC, .conn = 1}));
	CHECK(talk_fds(&(struct talk){.kind = TALK_SYNC}, 0) == 1 && talk_is_heard(TALK_SYNC) &&
	      !talk_is_heard(TALK_SYNCED));
	CHECK(passes((struct talk){.kind = TALK_ADOPT}));
	CHECK(!passes((struct talk){.kind = TALK_ADOPT, .conn = 1}));
	CHECK(passes((struct talk){.kind = TALK_HELD_END}) &&
	      passes((struct talk){.kind = TALK_SHUT}));
	CHECK(passes((struct talk){.kind = TALK_LABEL, .conn = 3, .tag = {tag, 9}}));
	exec.exec.flags = TALK_EXEC_LABEL;
	exec.exec.tag = (struct str){tag, 300};
	CHECK(survives(&exec, &out) && out.exec.tag.len == 300);
	CHECK(talk_is_heard(TALK_HELD) && talk_is_heard(TALK_RAN) && !talk_is_heard(TALK_ADOPT));
	CHECK(!talk_is_heard(TALK_EXEC) && !talk_is_heard(TALK_LABEL) && !talk_is_heard(255));
}

TEST(fds, "the number of fds is fixed by the kind")
{
	CHECK(talk_fds(&(struct talk){.kind = TALK_STARTED}, TALK_EXEC_STDIN) == 3);
	CHECK(talk_fds(&(struct talk){.kind = TALK_STARTED}, 0) == 2);
	CHECK(talk_fds(&(struct talk){.kind = TALK_STARTED}, TALK_EXEC_DIALOGUE) == 3);
	CHECK(talk_fds(&(struct talk){.kind = TALK_STARTED}, TALK_EXEC_PTY) == 1);
	CHECK(talk_fds(&(struct talk){.kind = TALK_RAN}, TALK_EXEC_STDIN) == 3);
	CHECK(talk_fds(&(struct talk){.kind = TALK_RAN}, 0) == 2);
	CHECK(talk_fds(&(struct talk){.kind = TALK_RAN, .exited = {.over = true}}, 0) == 0);
	CHECK(talk_fds(&(struct talk){.kind = TALK_RAN, .exited = {.over = true}},
		       TALK_EXEC_STDIN) == 3);
	CHECK(talk_fds(&(struct talk){.kind = TALK_WORKER_IS}, 0) == 1);
	CHECK(talk_fds(&(struct talk){.kind = TALK_EXITED}, TALK_EXEC_PTY) == 0);
	CHECK(talk_fds(&(struct talk){.kind = TALK_EXEC}, 0) == -1);
	CHECK_STR(talk_step_word(TALK_STEP_CWD), "cwd");
	CHECK_STR(talk_step_word(TALK_STEP_COUNT), "unknown");
}
