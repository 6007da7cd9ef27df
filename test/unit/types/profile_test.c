#include "types/profile.h"

#include "tap.h"

static const struct profile *profile_of(struct profiles *profiles, const char *sections,
					const char *name)
{
	auto_err err = profiles_read(str_of(sections), profiles);

	return err ? NULL : profiles_find(profiles, str_of(name));
}

static const char *limits_refused(const struct profile *profile, const char *text)
{
	static char word[64];
	struct profile_limits limits = profile->limits;
	auto_json json = NULL;
	auto_err err = json_read(str_of(text), &json);

	if (!err)
		err = profile_read_limits(profile, json, &limits);
	snprintf(word, sizeof(word), "%s", err ? err_reason(err) : "");
	return word;
}

TEST(built_in, "D-3 five agent types, exactly")
{
	static const struct {
		const char *name;
		uint64_t memory, cpu, wall, requests;
	} rows[] = {
		{"ELICITATION", 256, 30, 300, 10},	{"TEST_WRITER", 512, 60, 600, 20},
		{"IMPLEMENTATION", 1024, 120, 900, 50}, {"CONTEXT_GATHERING", 256, 30, 300, 30},
		{"VALIDATION", 512, 60, 600, 20},
	};
	auto_profiles profiles = {0};

	profile_of(&profiles, "", "x");
	CHECK(profiles.count == 6);
	for (size_t i = 0; i < 5; i++) {
		const struct profile *profile = profiles_find(&profiles, str_of(rows[i].name));

		CHECK(profile && profile->limits.memory == rows[i].memory << 20);
		CHECK(profile && profile->limits.cpu_time_ms == rows[i].cpu * 1000);
		CHECK(profile && profile->limits.wall_time_ms == rows[i].wall * 1000);
		CHECK(profile && profile->limits.network_requests == rows[i].requests);
		CHECK(profile && profile->limits.storage == 200ull << 20);
	}
}

TEST(sections, "a section makes or changes a profile")
{
	auto_profiles profiles = {0};
	const struct profile *profile = profile_of(
		&profiles,
		"[profile lint]\nmemory_mb = 64\n[profile lint]\nmax_memory_mb = 128\ncpus = 0.5\n"
		"argv = [\"a\", \"b c\"]\nallow = x.test, *.y.test\n[prices]\ncpu_second = 1\n",
		"lint");

	CHECK(profile && profile->limits.memory == 64u << 20 && profile->max.memory == 128u << 20);
	CHECK(profile && profile->limits.cpu_milli == 500);
	CHECK_STR(profile->argv[1], "b c");
	CHECK_STR(profile->allow[1], "*.y.test");
	CHECK_STR(limits_refused(profile, "{\"memoryMB\":128}"), "");
	CHECK_STR(limits_refused(profile, "{\"memoryMB\":129}"), "above_ceiling");
	CHECK_STR(limits_refused(profile, "{\"wallTimeMs\":600001}"), "above_ceiling");
	CHECK_STR(limits_refused(profile, "{\"cats\":1}"), "unknown_field");
}

TEST(refused, "a malformed section is refused")
{
	static const char *const rows[] = {
		"[profile a b]\nx = 1\n",
		"[profile a]\nmemory_mb = many\n",
		"[profile a]\ncats = 1\n",
		"[profile a]\nargv = ls -l\n",
		"[profile a]\ntemplate = ../x\n",
		"[profile a]\nimage = a b\n",
		"[profile a]\ntemplate = x\nimage = y\n",
		"[profile a]\nimage = y\ntemplate = x\n",
		"[profile a]\nmemory_mb = -1\n",
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		auto_profiles profiles = {0};
		auto_err err = profiles_read(str_of(rows[i]), &profiles);

		CHECK(err && !strcmp(err_reason(err), "bad_config"));
	}
}

TEST(stored, "limits are read as they were written")
{
	struct profile_limits limits = {1u << 30, 2500, 60000, 7, 64u << 20, 1500, 99}, again = {0};
	auto_buf text = BUF_INIT(4096);
	struct json_out out = json_to(&text);
	auto_json json = NULL;

	profile_write_limits(&out, &limits);
	CHECK_OK(json_read(buf_view(&text), &json));
	CHECK(profile_load_limits(json, &again) && !memcmp(&limits, &again, sizeof(limits)));
}
