#include "cli/body.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "tap.h"

static const struct verb run = {VERB_RUN, 0, "run", "COMMAND", "", NULL, 0, -1, NULL};
static const struct verb create = {VERB_CREATE, 0, "create", "", "", NULL, 0, 0, NULL};
static const struct option options[] = {
	{OPT_MEMORY, 'm', "memory", "SIZE", "limit", ~0u},
	{OPT_CPUS, 0, "cpus", "NUMBER", "share", ~0u},
	{OPT_PIDS, 0, "pids", "NUMBER", "limit", ~0u},
	{OPT_TIMEOUT, 0, "timeout", "TIME", "limit", ~0u},
	{OPT_LABEL, 'l', "label", "NAME=VALUE", "label", ~0u},
	{.name = NULL},
};
static const struct grammar grammar = {NULL, options, NULL};
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

TEST(limits, "limits are said in the units of the API")
{
	auto_buf out = BUF_INIT(4096);

	CHECK_OK(body_create(WITH(&create, {OPT_MEMORY, "512m"}, {OPT_CPUS, "1.5"},
				  {OPT_PIDS, "64"}, {OPT_TIMEOUT, "2m"}, {OPT_NAME, "web"}),
			     &out));
	CHECK_STR(out.at, "{\"name\":\"web\",\"limits\":{\"memoryMB\":512,\"cpus\":1.5,\"pids\":64,"
			  "\"wallTimeMs\":120000}}");
}

TEST(rounding, "part of a MiB is a whole one, and a bare small number is a slip")
{
	auto_buf out = BUF_INIT(4096), other = BUF_INIT(4096);

	CHECK_OK(body_create(WITH(&create, {OPT_MEMORY, "1025k"}), &out));
	CHECK_STR(out.at, "{\"limits\":{\"memoryMB\":2}}");
	auto_err err = body_create(WITH(&create, {OPT_MEMORY, "512"}), &other);

	CHECK(err && strstr(err_hint_of(err), "512m"));
}

TEST(nonsense, "values that are none are refused with an example")
{
	static const struct given bad[] = {
		{OPT_MEMORY, "much"}, {OPT_CPUS, "nan"}, {OPT_CPUS, "-1"},  {OPT_CPUS, "0"},
		{OPT_PIDS, "0"},      {OPT_PIDS, "x"},	 {OPT_LABEL, "=x"}, {OPT_TIMEOUT, "0s"}};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		auto_buf out = BUF_INIT(4096);
		auto_err err = body_create(with(&create, 1, &bad[i]), &out);

		CHECK(err && err_kind(err) == ERR_INVALID && err_hint_of(err));
	}
}

TEST(env, "variables come from files, the command line and our own environment, the last wins")
{
	auto_buf out = BUF_INIT(4096);
	char path[] = "/tmp/cove-env-"
		      "XX"
		      "XX"
		      "XX";
	int fd = mkstemp(path);

	setenv("COVE_TEST_OWN", "mine", 1);
	CHECK(dprintf(fd, "# words\n\nA=1\n B=two words \r\n") > 0);
	close(fd);
	CHECK_OK(body_create(WITH(&run, {OPT_ENV, "A=2=3"}, {OPT_ENV_FILE, path},
				  {OPT_ENV, "COVE_TEST_OWN"}, {OPT_ENV, "COVE_TEST_ABSENT"},
				  {OPT_ENV, "C="}),
			     &out));
	unlink(path);
	CHECK_STR(out.at, "{\"limits\":{},\"env\":{\"A\":\"2=3\",\"B\":\"two words\","
			  "\"COVE_TEST_OWN\":\"mine\",\"C\":\"\"}}");
	CHECK_ERR(body_create(WITH(&run, {OPT_ENV_FILE, "/nonexistent"}), &out), INVALID);
	CHECK_ERR(body_create(WITH(&run, {OPT_ENV, "=x"}), &out), INVALID);
}

TEST(command, "a command travels as its words, a line as a line, never both and never neither")
{
	char *words[] = {(char[]){"echo"}, (char[]){"a b; c"}};
	struct body_exec exec = {.argv = words, .count = 2}, none = {0};
	auto_buf out = BUF_INIT(4096), line = BUF_INIT(4096);

	CHECK_OK(body_execute(WITH(&run, {OPT_USER, "1000"}), &exec, &out));
	CHECK_STR(out.at, "{\"argv\":[\"echo\",\"a b; c\"],"
			  "\"sessionId\":\"__DISABLE_SESSION__\",\"user\":\"1000\"}");
	CHECK_OK(body_execute(WITH(&run, {OPT_SHELL, "a | b"}), &none, &line));
	CHECK(strstr(line.at, "\"command\":\"a | b\""));
	CHECK_ERR(body_execute(WITH(&run, {OPT_SHELL, "a | b"}), &exec, &line), INVALID);
	CHECK_ERR(body_execute(WITH(&run, {OPT_USER, "1"}), &none, &line), INVALID);
}

TEST(input, "input that is text travels as text, all else as base64")
{
	char *words[] = {(char[]){"cat"}};
	struct body_exec exec = {.argv = words, .count = 1, .input = STR("h\xc3\xa9\n")};
	auto_buf text = BUF_INIT(4096), bytes = BUF_INIT(4096);

	CHECK_OK(body_execute(WITH(&run, {OPT_QUIET, NULL}), &exec, &text));
	CHECK(strstr(text.at, "\"stdin\":\"h\xc3\xa9\\n\"") && !strstr(text.at, "stdinEncoding"));
	exec.input = (struct str){"\xff\0", 2};
	CHECK_OK(body_execute(WITH(&run, {OPT_QUIET, NULL}), &exec, &bytes));
	CHECK(strstr(bytes.at, "\"stdin\":\"/wA=\",\"stdinEncoding\":\"base64\""));
}

TEST(too_much, "input that does not fit into a request is refused")
{
	char *words[] = {(char[]){"cat"}};
	struct body_exec exec = {.argv = words, .count = 1};
	auto_buf out = BUF_INIT(4 * BODY_MAX);
	auto_free char *big = mem_new(BODY_MAX);

	memset(big, 'x', BODY_MAX);
	exec.input = (struct str){big, BODY_MAX};
	CHECK_ERR(body_execute(WITH(&run, {OPT_QUIET, NULL}), &exec, &out), TOO_LARGE);
}
