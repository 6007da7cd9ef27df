#include "types/record.h"

#include "tap.h"

static void make(struct record *record, const char *name)
{
	struct spec spec = {.limits = LIMITS_DEFAULT, .template = "host"};
	char id[ID_BOX_LEN + 1];

	snprintf(spec.name, sizeof(spec.name), "%s", name);
	env_map_set(&spec.labels, STR("team"), STR("red"));
	env_map_set(&spec.labels, STR("tier"), STR("1"));
	env_map_set(&spec.env, STR("SECRET"), STR("hidden"));
	id_box(id);
	record_init(record, &spec, id);
	spec_done(&spec);
}
#define auto_record on_exit_call(record_done) struct record

TEST(shown, "a record is shown with the fields of docs/API.md, and without its environment")
{
	auto_record record = {0};
	auto_buf text = BUF_INIT(8192);
	struct json_out out = json_to(&text);
	auto_json json = NULL;
	struct str word = {0};

	make(&record, "web");
	record_write(&out, &record);
	CHECK_OK(json_read(buf_view(&text), &json));
	CHECK_OK(json_str(json_get(json, "id"), "id", &word));
	CHECK(id_is_box(word));
	CHECK_OK(json_str(json_get(json, "shortId"), "shortId", &word));
	CHECK(word.len == ID_SHORT_LEN && !memcmp(word.at, record.id + 4, ID_SHORT_LEN));
	CHECK_OK(json_str(json_get(json, "state"), "state", &word));
	CHECK(str_is(word, "creating"));
	CHECK(json_get(json, "limits") && json_get(json, "labels") && json_get(json, "network"));
	CHECK(json_get(json, "createdAt") && !json_get(json, "startedAt"));
	CHECK(strstr(text.at, "\"endsAt\":null") && strstr(text.at, "\"inodes\":null"));
	CHECK(!strstr(text.at, "hidden"));
}

TEST(labels, "a record has labels when it has all of them with their values")
{
	auto_record record = {0};
	auto_pairs wanted = {0};

	make(&record, "");
	CHECK(record_has_labels(&record, &wanted));
	env_map_set(&wanted, STR("team"), STR("red"));
	CHECK(record_has_labels(&record, &wanted));
	env_map_set(&wanted, STR("tier"), STR("2"));
	CHECK(!record_has_labels(&record, &wanted));
}

TEST(host, "a box's host name is its name, else its short id")
{
	auto_record named = {0}, bare = {0};

	make(&named, "web");
	make(&bare, "");
	CHECK_STR(record_host(&named), "web");
	CHECK_STR(record_host(&bare), bare.short_id);
}
