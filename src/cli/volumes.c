// The verbs volume create, ls, inspect and rm. A sandbox gets a volume by --volume of create and
// run (cli/body).
#include "base/mem.h"
#include "cli/body.h"
#include "cli/collection.h"
#include "lib/fields.h"

#define VOLUMES_PATH "/v1/volumes"
#define BODY_MAX 4096

fallible cli_volume_create(struct call *call)
{
	static const struct body_row rows[] = {{OPT_SIZE, BODY_MIB, "sizeMB"}, {.key = NULL}};
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out out = json_to(&body);

	json_begin(&out, '{');
	json_put_text(&out, "name", call->words[0]);
	TRY(body_put(&out, call, rows));
	json_end(&out, '}');
	return remote_act(call, "POST", VOLUMES_PATH, &body, "name");
}

static void volume_put_bytes(const struct json *volume, const char *key, struct buf *out)
{
	if (json_type(json_get(volume, key)) == JSON_NUMBER)
		buf_fmt(out, "%lld MB", (long long)(fields_number(volume, key, 0) >> 20));
}

static void volume_put_size(const struct json *volume, const char *key, struct buf *out)
{
	if (json_type(json_get(volume, key)) == JSON_NUMBER)
		buf_fmt(out, "%lld MB", (long long)fields_number(volume, key, 0));
}

static void volume_put_users(const struct json *volume, const char *key, struct buf *out)
{
	buf_fmt(out, "%zu", json_count(json_get(volume, key)));
}

fallible cli_volume_ls(struct call *call)
{
	static const struct column columns[] = {
		{"NAME", "name", NULL},
		{"STATE", "state", NULL},
		{"USED", "bytes", volume_put_bytes},
		{"LIMIT", "sizeMB", volume_put_size},
		{"SANDBOXES", "usedBy", volume_put_users},
		{"CREATED", "createdAt", column_age},
		{.head = NULL},
	};

	return collection_ls(call, &(struct collection){VOLUMES_PATH, "", "name", columns});
}

fallible cli_volume_inspect(struct call *call)
{
	return collection_show(call, VOLUMES_PATH, NULL);
}

fallible cli_volume_rm(struct call *call)
{
	return collection_rm(call, VOLUMES_PATH);
}
