#include "cli/body.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tap.h"

static const struct verb run = {VERB_RUN, 0, "run", "COMMAND", "", NULL, 0, -1};
static const struct verb create = {VERB_CREATE, 0, "create", "", "", NULL, 0, 0};
static const struct option options[] = {
	{OPT_MEMORY, 'm', "memory", "SIZE", "limit", ~0u},
	{OPT_CPUS, 0, "cpus", "NUMBER", "share", ~0u},
	{OPT_PIDS, 0, "pids", "NUMBER", "limit", ~0u},
	{OPT_TIMEOUT, 0, "timeout", "TIME", "limit", ~0u},
	{OPT_LABEL, 'l', "label", "NAME=VALUE", "label", ~0u},
	{.name = NULL},
};
static const struct grammar grammar = {.options = options};
static struct given given[8];
static struct call call;

static struct call *with(const struct verb *verb, size_t count, const struct given *list)
{
	memcpy(given, list, count * sizeof(*list));
	call = (struct call){
		.grammar = &grammar, .verb = verb, .given = given, .given_count = count};
	return &call;
}
#define WITH(verb, ...)                                                                            \
	with(verb, sizeof((struct given[]){__VA_ARGS__}) / sizeof(struct given),                   \
	     (struct given[]){__VA_ARGS__})

TEST(limits, "limits are converted to the units of the API")
{
	auto_body body = {0};

	CHECK_OK(body_box(WITH(&create, {OPT_MEMORY, "512m"}, {OPT_CPUS, "1.5"}, {OPT_PIDS, "64"},
			       {OPT_TIMEOUT, "2m"}, {OPT_NAME, "web"}),
			  &body));
	CHECK_STR(body.box.name, "web");
	CHECK(body.box.memory_mb == 512 && body.box.cpus == 1.5 && body.box.pids == 64);
	CHECK(body.box.wall_time_ms == 120000 && body.box.cpu_time_ms == 0);
}

TEST(rounding, "sizes are rounded up to MiB, and a size below 1 MiB is refused")
{
	auto_body body = {0}, other = {0};

	CHECK_OK(body_box(WITH(&create, {OPT_MEMORY, "1025k"}), &body));
	CHECK(body.box.memory_mb == 2);
	auto_err err = body_box(WITH(&create, {OPT_MEMORY, "512"}), &other);

	CHECK(err && strstr(err_hint_of(err), "512m"));
}

TEST(nonsense, "malformed values are refused with an example")
{
	static const struct given bad[] = {
		{OPT_MEMORY, "much"}, {OPT_CPUS, "nan"}, {OPT_CPUS, "-1"},  {OPT_CPUS, "0"},
		{OPT_PIDS, "0"},      {OPT_PIDS, "x"},	 {OPT_LABEL, "=x"}, {OPT_TIMEOUT, "0s"}};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		auto_body body = {0};
		auto_err err = body_box(with(&create, 1, &bad[i]), &body);

		CHECK(err && err_kind(err) == ERR_INVALID && err_hint_of(err));
	}
}

TEST(env, "variables come from files, the command line and our own environment, files first")
{
	auto_body body = {0}, none = {0}, bad = {0};
	char path[] = "/tmp/cove-env-"
		      "XX"
		      "XX"
		      "XX";
	int fd = mkstemp(path);

	setenv("COVE_TEST_OWN", "mine", 1);
	CHECK(dprintf(fd, "# words\n\nA=1\n B=two words \r\n") > 0);
	close(fd);
	CHECK_OK(body_box(WITH(&run, {OPT_ENV, "A=2=3"}, {OPT_ENV_FILE, path},
			       {OPT_ENV, "COVE_TEST_OWN"}, {OPT_ENV, "COVE_TEST_ABSENT"},
			       {OPT_ENV, "C="}),
			  &body));
	unlink(path);
	static const char *const want[] = {"A=1", "B=two words", "A=2=3", "COVE_TEST_OWN=mine",
					   "C="};

	CHECK(body.env_count == 5 && body.box.env[5] == NULL);
	for (size_t i = 0; i < 5; i++)
		CHECK_STR(body.box.env[i], want[i]);
	CHECK_ERR(body_box(WITH(&run, {OPT_ENV_FILE, "/nonexistent"}), &none), INVALID);
	CHECK_ERR(body_box(WITH(&run, {OPT_ENV, "=x"}), &bad), INVALID);
}

TEST(command, "a command is either words or a line: both or neither is refused")
{
	char *words[] = {(char[]){"echo"}, (char[]){"a b; c"}, NULL}, *none[] = {NULL};
	auto_body body = {0}, line = {0}, both = {0}, neither = {0};

	CHECK_OK(body_command(WITH(&run, {OPT_USER, "1000"}), words, true, &body));
	CHECK_STR(body.command.argv[1], "a b; c");
	CHECK_STR(body.command.user, "1000");
	CHECK(!body.command.line && !body.command.env);
	CHECK_OK(body_command(WITH(&run, {OPT_SHELL, "a | b"}), none, true, &line));
	CHECK_STR(line.command.line, "a | b");
	CHECK(!line.command.argv);
	CHECK_ERR(body_command(WITH(&run, {OPT_SHELL, "a | b"}), words, true, &both), INVALID);
	CHECK_ERR(body_command(WITH(&run, {OPT_USER, "1"}), none, true, &neither), INVALID);
}
