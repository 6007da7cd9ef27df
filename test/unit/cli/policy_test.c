#include "cli/policy.h"

#include <stdlib.h>

#include "tap.h"

static const struct verb verb = {VERB_POLICY, 0, "policy", "BOX", "", NULL, 1, 1};
static char web[] = "web", *words[] = {web, NULL};
static struct given given[8];
static struct call call;

static struct call *with(size_t count, const struct given *list)
{
	memcpy(given, list, count * sizeof(*list));
	call = (struct call){.verb = &verb,
			     .given = given,
			     .given_count = count,
			     .words = words,
			     .word_count = 1};
	return &call;
}
#define WITH(...)                                                                                  \
	with(sizeof((struct given[]){__VA_ARGS__}) / sizeof(struct given),                         \
	     (struct given[]){__VA_ARGS__})

static struct err *edit(const struct call *asked, const char *now, struct buf *out)
{
	auto_json json = NULL;

	if (now)
		TRY(json_read(str_of(now), &json));
	return cli_policy_edit(asked, json, out);
}

#define CHECK_EDIT(asked, now, want)                                                               \
	do {                                                                                       \
		auto_buf out = BUF_INIT(65536);                                                    \
		CHECK_OK(edit(asked, now, &out));                                                  \
		CHECK_STR(out.at, want);                                                           \
	} while (0)
#define CHECK_BAD(asked, now, kind)                                                                \
	do {                                                                                       \
		auto_buf out = BUF_INIT(65536);                                                    \
		CHECK_ERR(edit(asked, now, &out), kind);                                           \
	} while (0)

#define REST "\"inspect\":[],\"budgets\":{},\"secrets\":[],\"rules\":[]}"

TEST(allow, "an allowed name is added once, and changes mode off to allow")
{
	CHECK_EDIT(WITH({OPT_ALLOW, "a.test"}, {OPT_ALLOW, "b.test:22"}), "{\"mode\":\"off\"}",
		   "{\"mode\":\"allow\",\"allow\":[\"a.test\",\"b.test:22\"]," REST);
	CHECK_EDIT(WITH({OPT_ALLOW, "A.test"}, {OPT_ALLOW, "c"}),
		   "{\"mode\":\"allow\",\"allow\":[\"a.test\"]}",
		   "{\"mode\":\"allow\",\"allow\":[\"a.test\",\"c\"]," REST);
	CHECK_EDIT(WITH({OPT_ALLOW, "a"}), "{\"mode\":\"all\"}",
		   "{\"mode\":\"all\",\"allow\":[\"a\"]," REST);
	CHECK_EDIT(WITH({OPT_ALLOW, "a"}, {OPT_NETWORK, "off"}), NULL,
		   "{\"mode\":\"off\",\"allow\":[\"a\"]," REST);
}

TEST(deny, "a denied name is removed from every list, with its ports, and no other name is")
{
	static const char now[] =
		"{\"mode\":\"allow\",\"allow\":[\"a.test\",\"a.test:22\",\"a.test.b\",\"[::1]:80\"]"
		","
		"\"inspect\":[\"a.test\",\"c\"],\"budgets\":{\"requests\":5},"
		"\"secrets\":[{\"name\":\"K\",\"hosts\":[\"a.test\"]},"
		"{\"name\":\"L\",\"hosts\":[\"a.test\",\"c\"]}],"
		"\"rules\":[{\"name\":\"a.test\"},{\"name\":\"c\",\"methods\":[\"GET\"]}]}";

	CHECK_EDIT(WITH({OPT_DENY, "a.test"}, {OPT_DENY, "[::1]"}), now,
		   "{\"mode\":\"allow\",\"allow\":[\"a.test.b\"],\"inspect\":[\"c\"],"
		   "\"budgets\":{\"requests\":5},\"secrets\":[{\"name\":\"L\",\"hosts\":[\"c\"]}],"
		   "\"rules\":[{\"name\":\"c\",\"methods\":[\"GET\"]}]}");
	CHECK_EDIT(WITH({OPT_DENY, "a.test:22"}),
		   "{\"mode\":\"allow\",\"allow\":[\"a.test\",\"a.test:22\",\"a.test:2222\"]}",
		   "{\"mode\":\"allow\",\"allow\":[\"a.test\",\"a.test:2222\"]," REST);
	CHECK_BAD(WITH({OPT_DENY, "nobody"}), now, NOT_FOUND);
	CHECK_BAD(WITH({OPT_DENY, "a"}), "{\"mode\":\"all\",\"allow\":[\"a\"]}", INVALID);
}

TEST(rules, "a rule has methods, a host and a path, and its host is inspected")
{
	CHECK_EDIT(
		WITH({OPT_RULE, "GET,HEAD api.test/v1/*"}, {OPT_RULE, "* b"}),
		"{\"mode\":\"all\",\"inspect\":[\"b\"]}",
		"{\"mode\":\"all\",\"allow\":[],\"inspect\":[\"b\",\"api.test\"],\"budgets\":{},"
		"\"secrets\":[],\"rules\":[{\"name\":\"api.test\",\"methods\":[\"GET\",\"HEAD\"],"
		"\"paths\":[\"/v1/*\"]},{\"name\":\"b\"}]}");
	CHECK_BAD(WITH({OPT_RULE, "api.test/v1"}), NULL, INVALID);
	CHECK_BAD(WITH({OPT_RULE, "GET /v1"}), NULL, INVALID);
	CHECK_BAD(WITH({OPT_RULE, "GET a b"}), NULL, INVALID);
}

TEST(budgets, "budgets are set one by one; sizes have units; none removes one")
{
	CHECK_EDIT(WITH({OPT_BUDGET, "bytesOut=1m"}, {OPT_BUDGET, "rate=3"},
			{OPT_BUDGET, "requests=none"}),
		   "{\"mode\":\"all\",\"budgets\":{\"requests\":5,\"connections\":0}}",
		   "{\"mode\":\"all\",\"allow\":[],\"inspect\":[],\"budgets\":{\"connections\":0,"
		   "\"bytesOut\":1048576,\"perSecond\":3},\"secrets\":[],\"rules\":[]}");
	CHECK_BAD(WITH({OPT_BUDGET, "requests"}), NULL, INVALID);
	CHECK_BAD(WITH({OPT_BUDGET, "requests=many"}), NULL, INVALID);
	CHECK_BAD(WITH({OPT_BUDGET, "luck=1"}), NULL, INVALID);
}

TEST(secrets, "a secret's value comes from our environment or the line; others keep theirs")
{
	static const char now[] =
		"{\"mode\":\"all\",\"secrets\":[{\"name\":\"K\",\"hosts\":[\"a\"]},"
		"{\"name\":\"KEY\",\"hosts\":[\"b\"]}]}";

	setenv("TEST_SECRET", "s3cr3t", 1);
	unsetenv("TEST_NONE");
	CHECK_EDIT(WITH({OPT_SECRET, "TEST_SECRET@a,*.b"}, {OPT_SECRET, "K=x=y@z@c"}), now,
		   "{\"mode\":\"all\",\"allow\":[],\"inspect\":[],\"budgets\":{},\"secrets\":["
		   "{\"name\":\"KEY\",\"hosts\":[\"b\"]},"
		   "{\"name\":\"TEST_SECRET\",\"value\":\"s3cr3t\",\"hosts\":[\"a\",\"*.b\"]},"
		   "{\"name\":\"K\",\"value\":\"x=y@z\",\"hosts\":[\"c\"]}],\"rules\":[]}");
	CHECK_EDIT(WITH({OPT_SECRET, "K@"}), now,
		   "{\"mode\":\"all\",\"allow\":[],\"inspect\":[],\"budgets\":{},\"secrets\":["
		   "{\"name\":\"KEY\",\"hosts\":[\"b\"]}],\"rules\":[]}");
	CHECK_BAD(WITH({OPT_SECRET, "TEST_NONE@a"}), NULL, INVALID);
	CHECK_BAD(WITH({OPT_SECRET, "K=v"}), NULL, INVALID);
	CHECK_BAD(WITH({OPT_SECRET, "=v@a"}), NULL, INVALID);
}
