#include "types/spec.h"

#include "tap.h"

static const struct spec_bounds bounds = {
	.memory_max = 1024ull << 20,
	.cpu_milli_max = 4000,
	.output_max = 1024ull << 20,
};

static struct err *read_spec(const char *text, struct spec *out)
{
	auto_json json = NULL;
	struct err *err = json_read(str_of(text), &json);

	return err ? err : spec_read(json, &bounds, out);
}

// Its reason, or "ok". Static: read it before the next call.
static const char *verdict(const char *text)
{
	static char reason[64];
	auto_spec spec = {0};
	auto_err err = read_spec(text, &spec);

	snprintf(reason, sizeof(reason), "%s", err ? err_reason(err) : "ok");
	return reason;
}

TEST(defaults, "an empty body gives the owner's template and the default limits")
{
	auto_spec spec = {0};

	CHECK_OK(read_spec("{}", &spec));
	CHECK_STR(spec.template, "");
	CHECK_STR(spec.name, "");
	CHECK(spec.limits.memory == 512ull << 20);
	CHECK(spec.limits.pids == 256 && spec.limits.cpu_milli == 1000);
	CHECK(!spec.disk_asked);
}

TEST(no_body, "no body at all is an empty one")
{
	auto_spec spec = {0};

	CHECK_OK(spec_read(NULL, &bounds, &spec));
	CHECK_STR(spec.template, "");
}

TEST(whole, "every field is read")
{
	auto_spec spec = {0};

	CHECK_OK(read_spec(
		"{\"name\":\"web\",\"template\":\"debian-12\",\"limits\":{\"memoryMB\":64,"
		"\"cpus\":0.5,\"pids\":100,\"diskMB\":16,\"inodes\":1000,\"outputMB\":2,"
		"\"cpuTimeMs\":5,\"wallTimeMs\":6},\"env\":{\"A\":\"1\",\"B\":null},"
		"\"labels\":{\"team\":\"x\"},\"network\":{\"mode\":\"off\"}}",
		&spec));
	CHECK_STR(spec.name, "web");
	CHECK_STR(spec.template, "debian-12");
	CHECK(spec.limits.memory == 64ull << 20 && spec.limits.cpu_milli == 500);
	CHECK(spec.limits.pids == 100 && spec.limits.disk == 16ull << 20);
	CHECK(spec.limits.inodes == 1000 && spec.limits.output == 2ull << 20);
	CHECK(spec.limits.cpu_time_ms == 5 && spec.limits.wall_time_ms == 6);
	CHECK(spec.disk_asked);
	CHECK(spec.env.count == 1);
	CHECK_STR(env_map_get(&spec.env, STR("A")), "1");
	CHECK_STR(env_map_get(&spec.labels, STR("team")), "x");
}

TEST(kept_output, "output that is kept of all commands is a part of the disk unless it is said")
{
	auto_spec spec = {0};
	struct limits limits = {.disk = 400, .output = 64};

	CHECK(limits_kept_output(&limits) == 100);
	limits.output = 200;
	CHECK(limits_kept_output(&limits) == 200);
	limits.kept_output = 7;
	CHECK(limits_kept_output(&limits) == 7);
	CHECK_OK(read_spec("{\"limits\":{\"keptOutputMB\":3,\"diskMB\":16}}", &spec));
	CHECK(limits_kept_output(&spec.limits) == 3ull << 20);
	CHECK_STR(verdict("{\"limits\":{\"diskMB\":100,\"keptOutputMB\":101}}"), "bad_field");
	CHECK_STR(verdict("{\"limits\":{\"diskMB\":16,\"outputMB\":20,\"keptOutputMB\":20}}"),
		  "ok");
	CHECK_STR(verdict("{\"limits\":{\"keptOutputMB\":0}}"), "bad_field");
}

TEST(ranges, "a limit outside its range is refused, and the range is named")
{
	auto_spec spec = {0};
	auto_err err = read_spec("{\"limits\":{\"memoryMB\":8}}", &spec);

	CHECK(err && err_kind(err) == ERR_INVALID);
	CHECK_STR(err_reason(err), "bad_field");
	CHECK(strstr(err_message(err), "limits.memoryMB") && strstr(err_message(err), "16"));
	CHECK(strstr(err_message(err), "1024"));
	CHECK_STR(verdict("{\"limits\":{\"memoryMB\":1025}}"), "bad_field");
	CHECK_STR(verdict("{\"limits\":{\"memoryMB\":-1}}"), "bad_field");
	CHECK_STR(verdict("{\"limits\":{\"memoryMB\":\"64\"}}"), "bad_field");
	CHECK_STR(verdict("{\"limits\":{\"cpus\":0.04}}"), "bad_field");
	CHECK_STR(verdict("{\"limits\":{\"cpus\":4.1}}"), "bad_field");
	CHECK_STR(verdict("{\"limits\":{\"pids\":7}}"), "bad_field");
	CHECK_STR(verdict("{\"limits\":{\"pids\":32769}}"), "bad_field");
	CHECK_STR(verdict("{\"limits\":{\"diskMB\":15}}"), "bad_field");
	CHECK_STR(verdict("{\"limits\":{\"outputMB\":1025}}"), "bad_field");
	CHECK_STR(verdict("{\"limits\":{\"wallTimeMs\":0}}"), "bad_field");
	CHECK_STR(verdict("{\"limits\":[]}"), "bad_field");
}

TEST(unknown, "unknown fields are refused at every depth")
{
	CHECK_STR(verdict("{\"nmae\":\"x\"}"), "unknown_field");
	CHECK_STR(verdict("{\"limits\":{\"memory\":64}}"), "unknown_field");
	CHECK_STR(verdict("{\"network\":{\"modus\":\"off\"}}"), "unknown_field");
	CHECK_STR(verdict("[]"), "bad_field");
}

TEST(modes, "a mode that there is not is said, not ignored")
{
	CHECK_STR(verdict("{\"network\":{\"mode\":\"all\"}}"), "ok");
	CHECK_STR(verdict("{\"network\":{\"mode\":\"off\",\"allow\":[\"a\"]}}"), "ok");
	CHECK_STR(verdict("{\"network\":{\"mode\":\"on\"}}"), "bad_field");
	CHECK_STR(verdict("{\"network\":{}}"), "ok");
}

TEST(ttl, "a time to live is a span like sleepAfter")
{
	CHECK_STR(verdict("{\"ttl\":60}"), "ok");
	CHECK_STR(verdict("{\"ttl\":\"2h\"}"), "ok");
	CHECK_STR(verdict("{\"ttl\":0}"), "bad_field");
	CHECK_STR(verdict("{\"ttl\":\"60\"}"), "bad_field");
}

TEST(names, "names and templates follow their grammars")
{
	CHECK_STR(verdict("{\"name\":\"a-1\"}"), "ok");
	CHECK_STR(verdict("{\"name\":\"A\"}"), "bad_name");
	CHECK_STR(verdict("{\"name\":\"\"}"), "bad_name");
	CHECK_STR(verdict("{\"name\":\"a\\nFAKE\"}"), "bad_name");
	CHECK_STR(verdict("{\"name\":\"0123456789ab\"}"), "bad_name");
	CHECK_STR(verdict("{\"template\":\"../x\"}"), "bad_template");
	CHECK_STR(verdict("{\"template\":\"\"}"), "bad_template");
	CHECK_STR(verdict("{\"template\":\";id>/tmp/pwn\"}"), "bad_template");
}

TEST(environments, "names of variables are checked, and their number and size bounded")
{
	auto_buf many = BUF_INIT(1 << 20), large = BUF_INIT(1 << 20);

	CHECK_STR(verdict("{\"labels\":{\"cove/owner\":\"x\"}}"), "bad_label");
	CHECK_STR(verdict("{\"labels\":{\"cover/owner\":\"x\"}}"), "ok");
	CHECK_STR(verdict("{\"env\":{\"1A\":\"x\"}}"), "bad_env");
	CHECK_STR(verdict("{\"env\":{\"A=B\":\"x\"}}"), "bad_env");
	CHECK_STR(verdict("{\"env\":{\"\":\"x\"}}"), "bad_env");
	CHECK_STR(verdict("{\"env\":{\"A\":1}}"), "bad_field");
	buf_text(&many, "{\"env\":{\"A\":\"\"");
	for (int i = 0; i < ENV_MAP_ENV_MAX; i++)
		buf_fmt(&many, ",\"V%d\":\"\"", i);
	buf_text(&many, "}}");
	CHECK_STR(verdict(many.at), "bad_field");
	buf_text(&large, "{\"env\":{\"A\":\"");
	for (int i = 0; i < ENV_MAP_ENV_BYTES; i++)
		buf_char(&large, 'x');
	buf_text(&large, "\"}}");
	CHECK_STR(verdict(large.at), "bad_field");
}

TEST(labels, "labels are short plain words")
{
	CHECK_STR(verdict("{\"labels\":{\"a b\":\"x\"}}"), "bad_field");
	CHECK_STR(verdict("{\"labels\":{\"a.b/c-d\":\"x y\"}}"), "ok");
	CHECK_STR(verdict("{\"labels\":{\"-a\":\"x\"}}"), "bad_field");
	CHECK_STR(verdict("{\"labels\":{\"a\":\"x\\ny\"}}"), "bad_field");
	CHECK_STR(verdict("{\"labels\":{\"a\":null}}"), "bad_field");
	CHECK_STR(verdict("{\"labels\":{\"a\":{}}}"), "bad_field");
}

TEST(small_host, "defaults never exceed what the host has")
{
	struct spec_bounds small = {
		.memory_max = 128ull << 20, .cpu_milli_max = 500, .output_max = 8ull << 20};
	auto_spec spec = {0};

	CHECK_OK(spec_read(NULL, &small, &spec));
	CHECK(spec.limits.memory == small.memory_max && spec.limits.cpu_milli == 500);
	CHECK(spec.limits.output == small.output_max);
}

TEST(network, "a network is read, with whether its mode was said, and becomes the spec's own")
{
	auto_spec spec = {0}, listed = {0};
	auto_json json = NULL;
	auto_json list = NULL;

	CHECK_OK(json_read(STR("{\"network\":{\"budgets\":{\"requests\":3}}}"), &json));
	CHECK_OK(spec_read(json, &bounds, &spec));
	CHECK(spec.network && !spec.mode_said && spec.network->mode == POLICY_OFF);
	CHECK(spec.network->budgets.requests == 3);
	CHECK_OK(json_read(STR("{\"network\":{\"allow\":[\"a.b\"]}}"), &list));
	CHECK_OK(spec_read(list, &bounds, &listed));
	CHECK(listed.mode_said && listed.network->mode == POLICY_ALLOW);
	CHECK_STR(verdict("{\"network\":{\"secrets\":[{\"name\":\"A\",\"hosts\":[\"a\"]}]}}"),
		  "secret_without_value");
}
