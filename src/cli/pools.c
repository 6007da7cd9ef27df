// The verbs pool set, ls, inspect and rm: a table of columns, and requests made from rows of
// options. A sandbox is claimed by --pool of create (cli/body).
#include "base/mem.h"
#include "cli/body.h"
#include "cli/collection.h"

#define POOLS_PATH "/v1/pools"
#define BODY_MAX (128 * 1024)

fallible cli_pool_set(struct call *call)
{
	static const struct body_row rows[] = {
		{OPT_TEMPLATE, BODY_TEXT, "template"},
		{OPT_COUNT, BODY_COUNT, "size"},
		{OPT_START, BODY_TEXT, "start"},
		{OPT_READY, BODY_TEXT, "ready"},
		{.key = NULL},
	};
	static const struct body_row limits[] = {
		{OPT_MEMORY, BODY_MIB, "memoryMB"}, {OPT_CPUS, BODY_CPUS, "cpus"}, {.key = NULL}};
	auto_free char *path = mem_fmt(POOLS_PATH "/%s", call->words[0]);
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out out = json_to(&body);

	json_begin(&out, '{');
	if (!call_has(call, OPT_TEMPLATE))
		json_put_text(&out, "template", "host");
	TRY(body_put(&out, call, rows));
	json_put_begin(&out, "limits", '{');
	TRY(body_put(&out, call, limits));
	json_end(&out, '}');
	json_end(&out, '}');
	return remote_act(call, "PUT", path, &body, "name");
}

fallible cli_pool_ls(struct call *call)
{
	static const struct column columns[] = {
		{"NAME", "name", NULL}, {"SIZE", "size", NULL},	    {"READY", "ready", NULL},
		{"HITS", "hits", NULL}, {"MISSES", "misses", NULL}, {"ERROR", "error", NULL},
		{.head = NULL},
	};

	return collection_ls(call, &(struct collection){POOLS_PATH, "", "name", columns});
}

fallible cli_pool_inspect(struct call *call)
{
	return collection_show(call, POOLS_PATH, NULL);
}

fallible cli_pool_rm(struct call *call)
{
	return collection_rm(call, POOLS_PATH);
}
