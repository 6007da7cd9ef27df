// The verbs key and tenant: create, list, remove, set. A new key is printed once, on stdout, and
// nowhere else.
#include "base/mem.h"
#include "cli/body.h"
#include "cli/collection.h"
#include "cli/print.h"
#include "lib/fields.h"

#define KEYS_PATH "/v1/keys"
#define TENANTS_PATH "/v1/tenants"
#define BODY_MAX 65536

fallible keys_create(struct call *call)
{
	static const struct body_row rows[] = {
		{OPT_NAME, BODY_TEXT, "name"},
		{OPT_TENANT, BODY_TEXT, "tenant"},
		{OPT_SANDBOX, BODY_TEXT, "sandbox"},
		{OPT_SCOPE, BODY_LIST, "scopes"},
		{OPT_EXPIRES, BODY_TIME, "expiresIn"},
		{OPT_HOST, BODY_FLAG, "host"},
		{.key = NULL},
	};
	auto_buf body = BUF_INIT(BODY_MAX), text = BUF_INIT(REMOTE_REPLY_MAX);
	struct json_out out = json_to(&body);
	auto_remote remote = {0};
	auto_json key = NULL;

	json_begin(&out, '{');
	TRY(body_put(&out, call, rows));
	json_end(&out, '}');
	TRY(remote_open(&remote, call));
	TRY(remote_ask(&remote, "POST", KEYS_PATH, &body, &text, &key));
	if (call_has(call, OPT_JSON)) {
		print_json(buf_view(&text));
		return OK;
	}
	print_line("%s", fields_text(key, "key"));
	if (!call_has(call, OPT_QUIET))
		print_note("this is %s; it is shown this once", fields_text(key, "id"));
	return OK;
}

fallible keys_ls(struct call *call)
{
	static const struct column columns[] = {
		{"ID", "id", NULL},
		{"NAME", "name", NULL},
		{"TENANT", "tenant", NULL},
		{"SCOPES", "scopes", column_list},
		{"SANDBOX", "sandbox", NULL},
		{"EXPIRES", "expiresAt", NULL},
		{.head = NULL},
	};

	return collection_ls(call, &(struct collection){KEYS_PATH, "", "id", columns});
}

fallible keys_rm(struct call *call)
{
	return collection_rm(call, KEYS_PATH);
}

fallible keys_tenant_rm(struct call *call)
{
	return collection_rm(call, TENANTS_PATH);
}

fallible keys_tenant_set(struct call *call)
{
	static const struct body_row quota[] = {
		{OPT_BOXES, BODY_COUNT, "boxes"},   {OPT_EXECS, BODY_COUNT, "execs"},
		{OPT_MEMORY, BODY_MIB, "memoryMB"}, {OPT_DISK, BODY_MIB, "diskMB"},
		{OPT_CPUS, BODY_CPUS, "cpus"},	    {.key = NULL},
	};
	static const struct body_row rows[] = {
		{OPT_NETWORK, BODY_TEXT, "network"},
		{OPT_TEMPLATE, BODY_LIST, "templates"},
		{OPT_DEFAULT_TEMPLATE, BODY_TEXT, "defaultTemplate"},
		{OPT_IMAGE, BODY_LIST, "images"},
		{.key = NULL},
	};
	auto_free char *path = remote_path(TENANTS_PATH, call->words[0], "");
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out out = json_to(&body);

	json_begin(&out, '{');
	json_key(&out, "quota");
	json_begin(&out, '{');
	TRY(body_put(&out, call, quota));
	json_end(&out, '}');
	json_put_bool(&out, "host", call_has(call, OPT_HOST));
	TRY(body_put(&out, call, rows));
	json_end(&out, '}');
	return remote_act(call, "PUT", path, &body, NULL);
}

// "3/10": used/quota; "3/-": no quota.
static void put_share(const struct json *tenant, const char *key, struct buf *out)
{
	double used = 0, bound = 0;

	err_free(json_double(json_get(json_get(tenant, "used"), key), key, 0, 1e18, &used));
	err_free(json_double(json_get(json_get(tenant, "quota"), key), key, 0, 1e18, &bound));
	buf_fmt(out, "%g/", used);
	if (bound > 0)
		buf_fmt(out, "%g", bound);
	else
		buf_char(out, '-');
}

static void put_yes(const struct json *tenant, const char *key, struct buf *out)
{
	buf_text(out, fields_flag(tenant, key) ? "yes" : "no");
}

fallible keys_tenant_ls(struct call *call)
{
	static const struct column columns[] = {
		{"NAME", "name", NULL},
		{"BOXES", "boxes", put_share},
		{"MEMORY MB", "memoryMB", put_share},
		{"CPUS", "cpus", put_share},
		{"DISK MB", "diskMB", put_share},
		{"HOST", "host", put_yes},
		{"TEMPLATES", "templates", column_list},
		{.head = NULL},
	};

	return collection_ls(call, &(struct collection){TENANTS_PATH, "", "name", columns});
}
