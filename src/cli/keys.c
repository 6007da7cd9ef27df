// The verbs key and tenant: create, list, remove, set. A new key is printed once, on stdout, and
// nowhere else.
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "cli/boxes.h"
#include "cli/print.h"
#include "cli/verbs.h"

#define KEYS_PATH "/v1/keys"
#define TENANTS_PATH "/v1/tenants"
#define BODY_MAX 65536
#define MIB (1ull << 20)

// Every value of a repeated option as an array; none: omitted.
static void cli_keys_put_list(struct json_out *out, const struct call *call, enum opt opt,
			      const char *key)
{
	const char *value;

	if (!call_has(call, opt))
		return;
	json_key(out, key);
	json_begin(out, '[');
	for (size_t at = 0; call_next(call, opt, &at, &value);)
		json_add_text(out, value);
	json_end(out, ']');
}

static void put_text(struct json_out *out, const struct call *call, enum opt opt, const char *key)
{
	if (call_has(call, opt))
		json_put_text(out, key, call_value(call, opt));
}

static fallible bad_value(const char *what, const char *value, const char *example)
{
	return err_hint(err_new(INVALID, "bad_value", "%s '%s' is malformed", what, value),
			"for example %s", example);
}

static fallible cli_keys_put_time(struct json_out *out, const struct call *call, enum opt opt,
				  const char *key)
{
	const char *text = call_value(call, opt);
	uint64_t ms = 0;

	if (!text)
		return OK;
	if (str_to_u64(str_of(text), 1, UINT32_MAX, &ms)) // bare numbers are seconds, as elsewhere
		ms *= 1000;
	else if (!str_to_ms(str_of(text), &ms))
		return bad_value("the time", text, "720h");
	json_key(out, key);
	json_add_double(out, (double)ms / 1000);
	return OK;
}

fallible keys_create(struct call *call)
{
	auto_buf body = BUF_INIT(BODY_MAX), text = BUF_INIT(REMOTE_REPLY_MAX);
	struct json_out out = json_to(&body);
	auto_remote remote = {0};
	auto_json key = NULL;

	json_begin(&out, '{');
	put_text(&out, call, OPT_NAME, "name");
	put_text(&out, call, OPT_TENANT, "tenant");
	put_text(&out, call, OPT_SANDBOX, "sandbox");
	cli_keys_put_list(&out, call, OPT_SCOPE, "scopes");
	TRY(cli_keys_put_time(&out, call, OPT_EXPIRES, "expiresIn"));
	if (call_has(call, OPT_HOST))
		json_put_bool(&out, "host", true);
	json_end(&out, '}');
	TRY(remote_open(&remote, call));
	TRY(remote_ask(&remote, "POST", KEYS_PATH, &body, &text, &key));
	if (call_has(call, OPT_JSON))
		print_json(buf_view(&text));
	else
		print_line("%s", boxes_text(key, "key"));
	if (!call_has(call, OPT_JSON) && !call_has(call, OPT_QUIET))
		print_note("this is %s; it is shown this once", boxes_text(key, "id"));
	return OK;
}

static void add_list(struct grid *grid, const struct json *array)
{
	auto_buf text = BUF_INIT(4096);

	for (size_t i = 0; array && i < json_count(array); i++) {
		if (i)
			buf_char(&text, ',');
		buf_str(&text, json_chars(json_at(array, i)));
	}
	grid_add(grid, text.len ? text.at : "-");
}

static void add_text(struct grid *grid, const struct json *object, const char *key)
{
	const char *text = boxes_text(object, key);

	grid_add(grid, *text ? text : "-");
}

static fallible add_key(const struct json *key, void *arg)
{
	add_text(arg, key, "id");
	add_text(arg, key, "name");
	add_text(arg, key, "tenant");
	add_list(arg, json_get(key, "scopes"));
	add_text(arg, key, "sandbox");
	add_text(arg, key, "expiresAt");
	return OK;
}

static fallible print_word(const struct json *item, void *arg)
{
	print_line("%s", boxes_text(item, arg));
	return OK;
}

static fallible cli_keys_list(struct call *call, const char *path, const char *word,
			      const char *const *heads, boxes_fn *add)
{
	auto_remote remote = {0};
	auto_grid grid = {0};

	TRY(remote_open(&remote, call));
	if (call_has(call, OPT_JSON))
		return boxes_dump(&remote, path, "");
	if (call_has(call, OPT_QUIET))
		return boxes_each(&remote, path, "", print_word, (void *)word, NULL);
	while (heads[grid.columns])
		grid.columns++;
	for (size_t i = 0; heads[i]; i++)
		grid_add(&grid, heads[i]);
	TRY(boxes_each(&remote, path, "", add, &grid, NULL));
	grid_print(&grid, stdout);
	return OK;
}

fallible keys_ls(struct call *call)
{
	static const char *const heads[] = {"ID",      "NAME",	  "TENANT", "SCOPES",
					    "SANDBOX", "EXPIRES", NULL};

	return cli_keys_list(call, KEYS_PATH, "id", heads, add_key);
}

static fallible remove_all(struct call *call, const char *collection)
{
	auto_remote remote = {0};

	TRY(remote_open(&remote, call));
	for (int i = 0; i < call->word_count; i++) {
		auto_free char *path = remote_path(collection, call->words[i], "");
		struct err *err = remote_ask(&remote, "DELETE", path, NULL, NULL, NULL);

		if (err && err_kind(err) == ERR_NOT_FOUND && call_has(call, OPT_FORCE)) {
			err_free(err);
			continue;
		}
		TRY(err);
		if (!call_has(call, OPT_QUIET))
			print_line("%s", call->words[i]);
	}
	return OK;
}

fallible keys_rm(struct call *call)
{
	return remove_all(call, KEYS_PATH "/");
}

fallible keys_tenant_rm(struct call *call)
{
	return remove_all(call, TENANTS_PATH "/");
}

static fallible cli_keys_put_count(struct json_out *out, const struct call *call, enum opt opt,
				   const char *key)
{
	const char *text = call_value(call, opt);
	uint64_t number = 0;

	if (!text)
		return OK;
	if (!str_to_u64(str_of(text), 1, UINT32_MAX, &number))
		return bad_value("the number", text, "10");
	json_put_int(out, key, (int64_t)number);
	return OK;
}

static fallible put_size(struct json_out *out, const struct call *call, enum opt opt,
			 const char *key)
{
	const char *text = call_value(call, opt);
	uint64_t bytes = 0;

	if (!text)
		return OK;
	if (!str_to_bytes(str_of(text), &bytes) || bytes < MIB)
		return bad_value("the size", text, "2g");
	json_put_int(out, key, (int64_t)((bytes + MIB - 1) / MIB));
	return OK;
}

static fallible put_quota(struct json_out *out, const struct call *call)
{
	const char *cpus = call_value(call, OPT_CPUS);
	char *end = NULL;

	json_key(out, "quota");
	json_begin(out, '{');
	TRY(cli_keys_put_count(out, call, OPT_BOXES, "boxes"));
	TRY(cli_keys_put_count(out, call, OPT_EXECS, "execs"));
	TRY(put_size(out, call, OPT_MEMORY, "memoryMB"));
	TRY(put_size(out, call, OPT_DISK, "diskMB"));
	if (cpus) {
		double number = strtod(cpus, &end);

		if (end == cpus || *end || !(number > 0 && number < 1e6))
			return bad_value("the share of CPUs", cpus, "2.5");
		json_key(out, "cpus");
		json_add_double(out, number);
	}
	json_end(out, '}');
	return OK;
}

fallible keys_tenant_set(struct call *call)
{
	auto_free char *path = remote_path(TENANTS_PATH "/", call->words[0], "");
	auto_buf body = BUF_INIT(BODY_MAX), text = BUF_INIT(REMOTE_REPLY_MAX);
	struct json_out out = json_to(&body);
	auto_remote remote = {0};

	json_begin(&out, '{');
	TRY(put_quota(&out, call));
	json_put_bool(&out, "host", call_has(call, OPT_HOST));
	if (call_value(call, OPT_NETWORK))
		json_put_text(&out, "network", call_value(call, OPT_NETWORK));
	cli_keys_put_list(&out, call, OPT_TEMPLATE, "templates");
	json_end(&out, '}');
	TRY(remote_open(&remote, call));
	TRY(remote_ask(&remote, "PUT", path, &body, &text, NULL));
	if (call_has(call, OPT_JSON))
		print_json(buf_view(&text));
	else if (!call_has(call, OPT_QUIET))
		print_line("%s", call->words[0]);
	return OK;
}

// "3/10": used/quota; "3/-": no quota.
static void add_share(struct grid *grid, const struct json *tenant, const char *key)
{
	double used = 0, bound = 0;
	auto_free char *text = NULL;

	err_free(json_double(json_get(json_get(tenant, "used"), key), key, 0, 1e18, &used));
	err_free(json_double(json_get(json_get(tenant, "quota"), key), key, 0, 1e18, &bound));
	text = bound > 0 ? mem_fmt("%g/%g", used, bound) : mem_fmt("%g/-", used);
	grid_add(grid, text);
}

static fallible add_tenant(const struct json *tenant, void *arg)
{
	struct json *host = json_get(tenant, "host");
	bool may = false;

	err_free(json_bool(host, "host", &may));
	add_text(arg, tenant, "name");
	add_share(arg, tenant, "boxes");
	add_share(arg, tenant, "memoryMB");
	add_share(arg, tenant, "cpus");
	add_share(arg, tenant, "diskMB");
	grid_add(arg, may ? "yes" : "no");
	add_list(arg, json_get(tenant, "templates"));
	return OK;
}

fallible keys_tenant_ls(struct call *call)
{
	static const char *const heads[] = {"NAME",    "BOXES", "MEMORY MB", "CPUS",
					    "DISK MB", "HOST",	"TEMPLATES", NULL};

	return cli_keys_list(call, TENANTS_PATH, "name", heads, add_tenant);
}
