#include "types/policy.h"

#include "base/mem.h"
#include "tap.h"

static fallible read_policy(const char *text, struct policy *out)
{
	auto_json json = NULL;

	TRY(json_read(str_of(text), &json));
	return policy_read(json, POLICY_ALL, out);
}

static bool may(const struct policy *policy, const char *name, uint16_t port)
{
	return policy_judge(policy, HOSTNAME_NAME, name, port).allow;
}

TEST(modes, "N-12 off allows nothing, all allows every name and address, absent is the default")
{
	auto_policy off = POLICY_INIT(POLICY_OFF), all = POLICY_INIT(POLICY_OFF),
		    none = POLICY_INIT(POLICY_OFF);
	struct policy_verdict verdict;

	CHECK_OK(read_policy("{\"mode\":\"off\"}", &off));
	verdict = policy_judge(&off, HOSTNAME_NAME, "a", 443);
	CHECK(!verdict.allow && !policy_knows(&off, HOSTNAME_NAME, "a"));
	CHECK_STR(verdict.reason, "mode_off");
	CHECK_OK(read_policy("{\"mode\":\"all\"}", &all));
	verdict = policy_judge(&all, HOSTNAME_NAME, "a", 22);
	CHECK(verdict.allow && !verdict.inspect && policy_knows(&all, HOSTNAME_NAME, "a"));
	CHECK_STR(verdict.rule, "all");
	CHECK(policy_judge(&all, HOSTNAME_LITERAL, "1.2.3.4", 443).allow);
	CHECK(!policy_judge(&all, HOSTNAME_BAD, "", 443).allow);
	CHECK(!policy_knows(&all, HOSTNAME_BAD, ""));
	CHECK_OK(policy_read(NULL, POLICY_ALL, &none));
	CHECK(none.mode == POLICY_ALL && none.budgets.requests == BUDGET_NONE);
}

TEST(names, "NET-6 c exact names, suffixes, ports; 80 and 443 where none is said")
{
	auto_policy policy = POLICY_INIT(POLICY_OFF);
	struct policy_verdict verdict;

	CHECK_OK(read_policy("{\"allow\":[\"Example.COM.\",\"*.wild.test\",\"git.test:22\","
			     "\"*.p.test:8443\",\"203.0.113.7\",\"[2001:DB8::1]:443\"]}",
			     &policy));
	CHECK(policy.mode == POLICY_ALLOW);
	CHECK(may(&policy, "example.com", 80) && may(&policy, "example.com", 443));
	CHECK(!may(&policy, "example.com", 22) && !may(&policy, "a.example.com", 443));
	CHECK(!may(&policy, "xexample.com", 443) && !may(&policy, "com", 443));
	CHECK(may(&policy, "a.wild.test", 443) && may(&policy, "a.b.wild.test", 80));
	CHECK(!may(&policy, "wild.test", 443) && !may(&policy, "awild.test", 443));
	CHECK(may(&policy, "git.test", 22) && !may(&policy, "git.test", 443));
	CHECK(may(&policy, "a.p.test", 8443) && !may(&policy, "a.p.test", 443));
	verdict = policy_judge(&policy, HOSTNAME_NAME, "a.wild.test", 443);
	CHECK_STR(verdict.rule, "*.wild.test");
	verdict = policy_judge(&policy, HOSTNAME_NAME, "git.test", 443);
	CHECK_STR(verdict.reason, "port_not_allowed");
	verdict = policy_judge(&policy, HOSTNAME_NAME, "other.test", 443);
	CHECK(!verdict.rule);
	CHECK_STR(verdict.reason, "not_allowed");
	verdict = policy_judge(&policy, HOSTNAME_BAD, "", 443);
	CHECK_STR(verdict.reason, "no_name");
	CHECK(policy_judge(&policy, HOSTNAME_LITERAL, "203.0.113.7", 80).allow);
	CHECK(!policy_judge(&policy, HOSTNAME_LITERAL, "203.0.113.8", 80).allow);
	CHECK(policy_judge(&policy, HOSTNAME_LITERAL, "2001:db8::1", 443).allow);
	CHECK(!may(&policy, "203.0.113.7", 80)); // a name that looks like one is not one
	CHECK(policy_knows(&policy, HOSTNAME_NAME, "git.test"));
	CHECK(policy_knows(&policy, HOSTNAME_NAME, "x.p.test"));
	CHECK(!policy_knows(&policy, HOSTNAME_NAME, "p.test"));
	CHECK(!policy_knows(&policy, HOSTNAME_LITERAL, "203.0.113.7"));
}

TEST(ranges, "daytona 14: ranges of addresses, for every port or one")
{
	auto_policy policy = POLICY_INIT(POLICY_OFF), none = POLICY_INIT(POLICY_OFF);
	auto_buf text = BUF_INIT(4096);
	struct json_out out = json_to(&text);

	CHECK_OK(read_policy("{\"allow\":[\"192.0.2.77/24\",\"198.51.100.0/31:5432\","
			     "\"2001:DB8::ff/32\",\"[fd00::1]/8:22\"]}",
			     &policy));
	policy_write(&out, &policy);
	CHECK(strstr(text.at, "[\"192.0.2.0/24\",\"198.51.100.0/31:5432\","
			      "\"[2001:db8::]/32\",\"[fd00::]/8:22\"]"));
	CHECK(policy_judge(&policy, HOSTNAME_LITERAL, "192.0.2.0", 22).allow);
	CHECK(policy_judge(&policy, HOSTNAME_LITERAL, "192.0.2.255", 65535).allow);
	CHECK(!policy_judge(&policy, HOSTNAME_LITERAL, "192.0.3.0", 443).allow);
	CHECK(policy_judge(&policy, HOSTNAME_LITERAL, "198.51.100.1", 5432).allow);
	CHECK_STR(policy_judge(&policy, HOSTNAME_LITERAL, "198.51.100.1", 443).reason,
		  "port_not_allowed");
	CHECK(!policy_judge(&policy, HOSTNAME_LITERAL, "198.51.100.2", 5432).allow);
	CHECK(policy_judge(&policy, HOSTNAME_LITERAL, "2001:db8:ffff::1", 80).allow);
	CHECK(!policy_judge(&policy, HOSTNAME_LITERAL, "2001:db9::1", 80).allow);
	CHECK(policy_judge(&policy, HOSTNAME_LITERAL, "fd12::1", 22).allow);
	CHECK(!may(&policy, "192.0.2.1", 80)); // a name that looks like an address is not one
	CHECK(!policy_knows(&policy, HOSTNAME_NAME, "example.com"));
	CHECK_ERR(read_policy("{\"allow\":[\"192.0.2.0/33\"]}", &none), INVALID);
	CHECK_ERR(read_policy("{\"allow\":[\"192.0.2.0/\"]}", &none), INVALID);
	CHECK_ERR(read_policy("{\"allow\":[\"example.com/8\"]}", &none), INVALID);
	CHECK_ERR(read_policy("{\"inspect\":[\"192.0.2.0/24\"]}", &none), INVALID);
}

TEST(ech, "N-04 who hides a name gets through only where every name is allowed")
{
	auto_policy list = POLICY_INIT(POLICY_OFF), all = POLICY_INIT(POLICY_ALL);
	struct policy_verdict verdict;

	CHECK_OK(read_policy("{\"allow\":[\"a\",\"b\"],\"inspect\":[\"b\"]}", &list));
	verdict = policy_judge_ech(&list, HOSTNAME_NAME, "a", 443);
	CHECK(!verdict.allow);
	CHECK_STR(verdict.reason, "ech");
	CHECK(policy_judge_ech(&list, HOSTNAME_NAME, "b", 443).allow); // it is opened
	CHECK(policy_judge_ech(&all, HOSTNAME_NAME, "a", 443).allow);
}

TEST(inspection, "NET-12 inspected is what is listed, and what a secret may go to")
{
	auto_policy policy = POLICY_INIT(POLICY_OFF);

	CHECK_OK(read_policy("{\"mode\":\"all\",\"inspect\":[\"*.in.test\"],\"secrets\":[{"
			     "\"name\":\"KEY\",\"value\":\"v\",\"hosts\":[\"api.test\"]}]}",
			     &policy));
	CHECK(policy_judge(&policy, HOSTNAME_NAME, "a.in.test", 443).inspect);
	CHECK(policy_judge(&policy, HOSTNAME_NAME, "api.test", 443).inspect);
	CHECK(!policy_judge(&policy, HOSTNAME_NAME, "in.test", 443).inspect);
	CHECK(!policy_judge(&policy, HOSTNAME_NAME, "other.test", 443).inspect);
}

static const char *judged(const struct policy *policy, const char *name, const char *method,
			  const char *target)
{
	const char *reason = "?";

	return policy_judge_request(policy, name, str_of(method), str_of(target), &reason) ? "ok"
											   : reason;
}

TEST(requests, "rules of methods and paths bind the names they name")
{
	auto_policy policy = POLICY_INIT(POLICY_OFF);

	CHECK_OK(read_policy(
		"{\"mode\":\"all\",\"inspect\":[\"api.test\",\"*.w.test\"],\"rules\":["
		"{\"name\":\"api.test\",\"methods\":[\"GET\",\"HEAD\"],\"paths\":[\"/v1/*\",\"/"
		"ok\"]},"
		"{\"name\":\"api.test\",\"methods\":[\"POST\"],\"paths\":[\"/v1/new\"]},"
		"{\"name\":\"*.w.test\",\"methods\":[\"GET\"]}]}",
		&policy));
	CHECK_STR(judged(&policy, "free.test", "DELETE", "/x/../y"), "ok");
	CHECK_STR(judged(&policy, "api.test", "GET", "/v1/a?b=/../c"), "ok");
	CHECK_STR(judged(&policy, "api.test", "GET", "/v1/"), "ok");
	CHECK_STR(judged(&policy, "api.test", "HEAD", "/ok"), "ok");
	CHECK_STR(judged(&policy, "api.test", "GET", "/%76%31/a"), "ok");
	CHECK_STR(judged(&policy, "api.test", "POST", "/v1/new"), "ok");
	CHECK_STR(judged(&policy, "api.test", "POST", "/v1/old"), "path_not_allowed");
	CHECK_STR(judged(&policy, "api.test", "GET", "/v1"), "path_not_allowed");
	CHECK_STR(judged(&policy, "api.test", "GET", "/v2/a"), "path_not_allowed");
	CHECK_STR(judged(&policy, "api.test", "GET", "/ok/"), "path_not_allowed");
	CHECK_STR(judged(&policy, "api.test", "DELETE", "/v1/a"), "method_not_allowed");
	CHECK_STR(judged(&policy, "api.test", "get", "/v1/a"), "method_not_allowed");
	CHECK_STR(judged(&policy, "a.w.test", "GET", "/@scope%2fname"), "ok"); // any path
	CHECK_STR(judged(&policy, "a.w.test", "PUT", "/"), "method_not_allowed");
}

TEST(ambiguous, "a path that a server may read otherwise matches no rule")
{
	static const char *const bad[] = {"/v1/../admin",
					  "/v1/./a",
					  "/v1/%2e%2e/admin",
					  "/v1/.%2E/admin",
					  "/v1/..",
					  "/v1//a",
					  "//v1/a",
					  "/v1/a%2fb",
					  "/v1/a%2Fb",
					  "/v1/a\\b",
					  "/v1/%5c..%5cadmin",
					  "/v1/%00",
					  "/v1/%0d%0a",
					  "/v1/..;/admin",
					  "/v1/%",
					  "/v1/%zz",
					  "/v1/%252e%252e",
					  "*",
					  "http://x/v1/a",
					  "",
					  "/v1/a#/../b"};
	auto_policy policy = POLICY_INIT(POLICY_OFF);

	CHECK_OK(read_policy(
		"{\"inspect\":[\"a\"],\"rules\":[{\"name\":\"a\",\"paths\":[\"/v1/*\"]}]}",
		&policy));
	CHECK_STR(judged(&policy, "a", "GET", "/v1/..a/b..;c/...?d=..//#%zz"), "ok");
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		printf("# %s\n", bad[i]);
		CHECK_STR(judged(&policy, "a", "GET", bad[i]), "path_ambiguous");
	}
}

TEST(refused, "a policy that cannot be meant is refused as a whole")
{
	static const char *const bad[] = {
		"[]",
		"{\"mode\":\"on\"}",
		"{\"mode\":1}",
		"{\"more\":1}",
		"{\"allow\":\"a\"}",
		"{\"allow\":[1]}",
		"{\"allow\":[null]}",
		"{\"allow\":[\"\"]}",
		"{\"allow\":[\"ok.test\",\"*\"]}",
		"{\"allow\":[\"a.*.b\"]}",
		"{\"allow\":[\"*a.b\"]}",
		"{\"allow\":[\"*.\"]}",
		"{\"allow\":[\"*.1.2.3.4\"]}",
		"{\"allow\":[\"a:0\"]}",
		"{\"allow\":[\"a:65536\"]}",
		"{\"allow\":[\"a:80-90\"]}",
		"{\"allow\":[\"http://a\"]}",
		"{\"allow\":[\"a/b\"]}",
		"{\"allow\":[\"127.1\"]}",
		"{\"allow\":[\"a_b\"]}",
		"{\"inspect\":[\"a:443\"]}",
		"{\"inspect\":[\"1.2.3.4\"]}",
		"{\"budgets\":[]}",
		"{\"budgets\":{\"requests\":-1}}",
		"{\"budgets\":{\"requests\":1.5}}",
		"{\"budgets\":{\"perSecond\":0}}",
		"{\"budgets\":{\"other\":1}}",
		"{\"rules\":[{\"name\":\"a\"}]}",
		"{\"inspect\":[\"a.b\"],\"rules\":[{\"name\":\"*.b\"}]}",
		"{\"inspect\":[\"*.b\"],\"rules\":[{\"name\":\"b\"}]}",
		"{\"inspect\":[\"a\"],\"rules\":[{}]}",
		"{\"inspect\":[\"a\"],\"rules\":[{\"name\":\"a\",\"methods\":[\"get\"]}]}",
		"{\"inspect\":[\"a\"],\"rules\":[{\"name\":\"a\",\"methods\":[\"GET\",\"\"]}]}",
		"{\"inspect\":[\"a\"],\"rules\":[{\"name\":\"a\",\"paths\":[\"x\"]}]}",
		"{\"inspect\":[\"a\"],\"rules\":[{\"name\":\"a\",\"paths\":[\"/a*b\"]}]}",
		"{\"inspect\":[\"a\"],\"rules\":[{\"name\":\"a\",\"paths\":[\"/a?b\"]}]}",
		"{\"inspect\":[\"a\"],\"rules\":[{\"name\":\"a\",\"other\":1}]}",
		"{\"secrets\":[{\"name\":\"A\",\"value\":\"v\"}]}",
		"{\"secrets\":[{\"name\":\"A\",\"value\":\"v\",\"hosts\":[]}]}",
		"{\"secrets\":[{\"name\":\"1A\",\"value\":\"v\",\"hosts\":[\"a\"]}]}",
		"{\"secrets\":[{\"name\":\"A=B\",\"value\":\"v\",\"hosts\":[\"a\"]}]}",
		"{\"secrets\":[{\"value\":\"v\",\"hosts\":[\"a\"]}]}",
		"{\"secrets\":[{\"name\":\"A\",\"value\":\"\",\"hosts\":[\"a\"]}]}",
		"{\"secrets\":[{\"name\":\"A\",\"value\":\"x\\r\\ny\",\"hosts\":[\"a\"]}]}",
	};
	struct policy policy = POLICY_INIT(POLICY_OFF);

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		printf("# %s\n", bad[i]);
		CHECK_ERR(read_policy(bad[i], &policy), INVALID);
		CHECK(policy.mode == POLICY_OFF && !policy.allow && !policy.secrets);
	}
	CHECK_ERR(read_policy("{\"secrets\":[{\"name\":\"A\",\"value\":\"v\",\"hosts\":[\"a\"],"
			      "\"placeholder\":\"cove-secret-00000000000000000000000000000000\"}]}",
			      &policy),
		  INVALID);
	CHECK_ERR(read_policy("{\"secrets\":[{\"name\":\"A\",\"value\":\"v\",\"hosts\":[\"a\"]},"
			      "{\"name\":\"A\",\"value\":\"v\",\"hosts\":[\"a\"]}]}",
			      &policy),
		  INVALID);
}

TEST(bounds, "lists are bounded")
{
	auto_policy policy = POLICY_INIT(POLICY_OFF);
	auto_buf text = BUF_INIT(1 << 20);

	buf_text(&text, "{\"allow\":[\"a\"");
	for (int i = 1; i < POLICY_ALLOW_MAX; i++)
		buf_text(&text, ",\"a\"");
	buf_text(&text, "]}");
	CHECK_OK(read_policy(text.at, &policy));
	CHECK(policy.allow_count == POLICY_ALLOW_MAX);
	text.len -= 2;
	buf_text(&text, ",\"a\"]}");
	CHECK_ERR(read_policy(text.at, &policy), INVALID);
}

static void text_of(const struct policy *policy, bool is_saved, struct buf *out)
{
	struct json_out json = json_to(out);

	if (is_saved)
		policy_save(&json, policy);
	else
		policy_write(&json, policy);
}

#define FULL                                                                                       \
	"{\"mode\":\"allow\",\"allow\":[\"a.test\",\"*.b.test:8443\",\"[::1]:80\"],"               \
	"\"inspect\":[\"a.test\"],\"budgets\":{\"requests\":0,\"connections\":2,\"bytesOut\":3,"   \
	"\"bytesIn\":9007199254740992,\"perSecond\":5},\"secrets\":[{\"name\":\"KEY\",%s"          \
	"\"hosts\":[\"a.test\",\"*.c.test\"]}],\"rules\":[{\"name\":\"a.test\",\"methods\":"       \
	"[\"GET\"],\"paths\":[\"/x*\"]},{\"name\":\"*.c.test\",\"methods\":[]}]}"

TEST(again, "what is written is read again as the same, without the values of secrets")
{
	auto_policy policy = POLICY_INIT(POLICY_OFF), again = POLICY_INIT(POLICY_OFF);
	auto_buf full = BUF_INIT(4096), want = BUF_INIT(4096), shown = BUF_INIT(4096),
		 saved = BUF_INIT(4096), twice = BUF_INIT(4096);
	auto_json json = NULL;

	buf_fmt(&full, FULL, "\"value\":\"s3cret\",");
	buf_fmt(&want, FULL, "");
	CHECK_OK(read_policy(full.at, &policy));
	CHECK(policy.budgets.requests == 0 && policy.budgets.per_second == 5);
	CHECK_STR(policy.secrets[0].value, "s3cret");
	text_of(&policy, false, &shown);
	CHECK_STR(shown.at, want.at);
	text_of(&policy, true, &saved);
	CHECK(!strstr(saved.at, "s3cret") && strstr(saved.at, policy.secrets[0].placeholder));
	CHECK_OK(json_read(buf_view(&saved), &json));
	CHECK_OK(policy_load(json, &again));
	CHECK(!again.secrets[0].value);
	CHECK(policy_set_secret(&again, "KEY", STR("s3cret")));
	CHECK(!policy_set_secret(&again, "OTHER", STR("x")));
	CHECK_STR(again.secrets[0].value, "s3cret");
	text_of(&again, true, &twice);
	CHECK_STR(twice.at, saved.at);
}

TEST(copies, "a copy is a whole policy, and the heap holds what it is given")
{
	auto_policy policy = POLICY_INIT(POLICY_OFF), copy = POLICY_INIT(POLICY_OFF);
	auto_buf full = BUF_INIT(4096), one = BUF_INIT(4096), two = BUF_INIT(4096);
	struct policy *moved;

	buf_fmt(&full, FULL, "\"value\":\"s3cret\",");
	CHECK_OK(read_policy(full.at, &policy));
	policy.secrets[0].sealed = mem_str("c2VhbGVk");
	policy_copy(&policy, &copy);
	text_of(&policy, true, &one);
	CHECK(strstr(one.at, "c2VhbGVk") != NULL);
	moved = policy_new(&policy);
	CHECK(policy.mode == POLICY_OFF && !policy.allow && !policy.secret_count);
	policy_free(moved);
	policy_free(NULL);
	text_of(&copy, true, &two);
	CHECK_STR(two.at, one.at);
	CHECK_STR(copy.secrets[0].value, "s3cret");
}

TEST(no_methods, "an empty list of methods allows none")
{
	auto_policy policy = POLICY_INIT(POLICY_OFF);

	CHECK_OK(read_policy("{\"inspect\":[\"a\"],\"rules\":[{\"name\":\"a\",\"methods\":[]}]}",
			     &policy));
	CHECK_STR(judged(&policy, "a", "GET", "/"), "method_not_allowed");
}

TEST(secrets, "a placeholder stands for its value at its hosts only")
{
	auto_policy policy = POLICY_INIT(POLICY_OFF);
	struct str placeholder;

	CHECK_OK(read_policy(
		"{\"mode\":\"all\",\"secrets\":[{\"name\":\"A\",\"value\":\"v\",\"hosts\":"
		"[\"a\"]},{\"name\":\"B\",\"value\":\"w\",\"hosts\":[\"*.b\"]}]}",
		&policy));
	placeholder = str_of(policy.secrets[0].placeholder);
	CHECK(placeholder.len == POLICY_PLACEHOLDER_LEN);
	CHECK(strcmp(placeholder.at, policy.secrets[1].placeholder) != 0);
	CHECK(policy_secret_is_for(&policy.secrets[0], "a", 1));
	CHECK(!policy_secret_is_for(&policy.secrets[0], "b", 1));
	CHECK(!policy_secret_is_for(&policy.secrets[0], "x.a", 1));
	CHECK(policy_secret_is_for(&policy.secrets[1], "x.b", 1));
	policy.secrets[1].expires_ms = 1000;
	CHECK(policy_secret_is_for(&policy.secrets[1], "x.b", 999));
	CHECK(!policy_secret_is_for(&policy.secrets[1], "x.b", 1000));
}

TEST(inherit, "a PATCH keeps values that it does not send, for the hosts they were for")
{
	auto_policy old = POLICY_INIT(POLICY_OFF), same = POLICY_INIT(POLICY_OFF),
		    wider = POLICY_INIT(POLICY_OFF), fresh = POLICY_INIT(POLICY_OFF),
		    unknown = POLICY_INIT(POLICY_OFF);

	CHECK_OK(read_policy("{\"secrets\":[{\"name\":\"A\",\"value\":\"v\",\"hosts\":[\"*.a\"]}]}",
			     &old));
	CHECK_OK(policy_inherit(&old, NULL));
	CHECK_OK(read_policy("{\"secrets\":[{\"name\":\"A\",\"hosts\":[\"x.a\"]}]}", &same));
	CHECK_ERR(policy_inherit(&same, NULL), INVALID);
	CHECK_OK(policy_inherit(&same, &old));
	CHECK_STR(same.secrets[0].value, "v");
	CHECK_STR(same.secrets[0].placeholder, old.secrets[0].placeholder);
	CHECK_OK(read_policy("{\"secrets\":[{\"name\":\"A\",\"hosts\":[\"x.a\",\"evil\"]}]}",
			     &wider));
	CHECK_ERR(policy_inherit(&wider, &old), INVALID);
	CHECK(!wider.secrets[0].value);
	CHECK_OK(read_policy("{\"secrets\":[{\"name\":\"A\",\"value\":\"w\",\"hosts\":[\"b\"]}]}",
			     &fresh));
	CHECK_OK(policy_inherit(&fresh, &old));
	CHECK_STR(fresh.secrets[0].value, "w");
	CHECK_STR(fresh.secrets[0].placeholder, old.secrets[0].placeholder);
	CHECK_OK(read_policy("{\"secrets\":[{\"name\":\"B\",\"hosts\":[\"x.a\"]}]}", &unknown));
	CHECK_ERR(policy_inherit(&unknown, &old), INVALID);
}

static fallible read_secret(const char *text, const struct policy_secret *old,
			    struct policy_secret *out)
{
	auto_json json = NULL;

	TRY(json_read(str_of(text), &json));
	return policy_secret_read(json, "KEY", old, out);
}

TEST(named,
     "an entry that names a tenant's secret has what that secret has, and is saved as a name")
{
	auto_policy policy = POLICY_INIT(POLICY_OFF), loaded = POLICY_INIT(POLICY_OFF);
	auto_policy_secret secret = {0};
	auto_buf shown = BUF_INIT(4096), saved = BUF_INIT(4096);
	auto_json json = NULL;

	CHECK_OK(read_policy("{\"mode\":\"allow\",\"secrets\":[\"KEY\"]}", &policy));
	CHECK_OK(policy_inherit(&policy, NULL));
	CHECK(policy.secrets[0].is_named && !policy.secrets[0].value);
	CHECK(!policy_inspects(&policy, "a"));
	CHECK_OK(read_secret(
		"{\"value\":\"v\",\"hosts\":[\"a\"],\"header\":{\"name\":\"X\",\"format\":"
		"\"Bearer {}\"}}",
		NULL, &secret));
	policy_fill_named(&policy.secrets[0], &secret);
	CHECK(policy_inspects(&policy, "a") && policy_secret_is_for(&policy.secrets[0], "a", 1));
	CHECK(policy.secrets[0].form == POLICY_HEADER);
	CHECK_STR(policy.secrets[0].format, "Bearer {}");
	text_of(&policy, false, &shown);
	CHECK_STR(shown.at, "{\"mode\":\"allow\",\"allow\":[],\"secrets\":[\"KEY\"]}");
	text_of(&policy, true, &saved);
	CHECK(!strstr(saved.at, "Bearer") && !strstr(saved.at, "hosts"));
	CHECK_OK(json_read(str_of(saved.at), &json));
	CHECK_OK(policy_load(json, &loaded));
	CHECK(loaded.secrets[0].is_named && loaded.secret_count == 1);
	CHECK_STR(loaded.secrets[0].placeholder, policy.secrets[0].placeholder);
	policy_fill_named(&policy.secrets[0], NULL);
	CHECK(!policy_inspects(&policy, "a") && !policy.secrets[0].value);
	CHECK_STR(policy.secrets[0].name, "KEY");
}

TEST(named_values, "a secret keeps a value that is not sent again, for the hosts that it had")
{
	auto_policy_secret old = {0}, same = {0}, wider = {0};

	CHECK_ERR(read_secret("{\"hosts\":[\"a\"]}", NULL, &old), INVALID);
	CHECK_OK(read_secret("{\"value\":\"v\",\"hosts\":[\"*.a\"]}", NULL, &old));
	CHECK_OK(read_secret("{\"hosts\":[\"x.a\"],\"query\":\"k\"}", &old, &same));
	CHECK_STR(same.value, "v");
	CHECK(same.form == POLICY_QUERY);
	CHECK_ERR(read_secret("{\"hosts\":[\"b\"]}", &old, &wider), INVALID);
}

TEST(hints, "a denied name comes with the line that would allow it")
{
	auto_buf out = BUF_INIT(256);

	policy_hint(&out, "web", "a.test", 443, "not_allowed");
	CHECK_STR(out.at, "cove policy web --allow a.test");
	buf_clear(&out);
	policy_hint(&out, "web", "2001:db8::1", 22, "port_not_allowed");
	CHECK_STR(out.at, "cove policy web --allow [2001:db8::1]:22");
	buf_clear(&out);
	policy_hint(&out, "web", "a.test", 5432, "not_inspected");
	CHECK_STR(out.at, "cove policy web --rule '* a.test'");
	buf_clear(&out);
	policy_hint(&out, "web", "", 0, "budget_requests");
	CHECK_STR(out.at, "cove policy web --budget requests=none");
	buf_clear(&out);
	policy_hint(&out, "web", "a.test", 443, "not_global"); // the operator's to allow
	policy_hint(&out, "web", "", 443, "not_allowed");
	CHECK(out.len == 0);
}

TEST(unbound, "a rule that takes any method and any path binds nothing")
{
	auto_policy policy = POLICY_INIT(POLICY_OFF);
	const char *reason = NULL;

	CHECK_OK(read_policy("{\"mode\":\"all\",\"inspect\":[\"a\",\"b\"],\"rules\":["
			     "{\"name\":\"a\",\"methods\":[\"GET\"]},{\"name\":\"a\"},"
			     "{\"name\":\"b\",\"methods\":[\"GET\"]}]}",
			     &policy));
	CHECK(!policy_has_rules(&policy, "a"));
	CHECK(policy_has_rules(&policy, "b"));
	CHECK(!policy_has_rules(&policy, "c"));
	CHECK(policy_judge_request(&policy, "a", STR("PUT"), STR("/%2f"), &reason));
	CHECK(!policy_judge_request(&policy, "b", STR("PUT"), STR("/"), &reason));
	CHECK_STR(reason, "method_not_allowed");
}
