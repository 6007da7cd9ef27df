// The verbs budget set, ls, inspect and rm: what a tenant, a label or an agent session may use in a
// day or a month.
#include <stdlib.h>

#include "base/mem.h"
#include "cli/body.h"
#include "cli/collection.h"
#include "lib/fields.h"

#define BUDGETS_PATH "/v1/budgets"
#define BODY_MAX 65536

static fallible budgets_put_match(struct json_out *out, const struct call *call)
{
	static const struct {
		enum opt opt;
		const char *key;
	} rows[] = {{OPT_TENANT, "tenant"}, {OPT_LABEL, "label"}, {OPT_SESSION, "agentSession"}};
	int count = 0;

	json_put_begin(out, "match", '{');
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		if (!call_has(call, rows[i].opt))
			continue;
		json_put_text(out, rows[i].key, call_value(call, rows[i].opt));
		count++;
	}
	json_end(out, '}');
	if (count == 1)
		return OK;
	return err_hint(err_new(INVALID, "bad_value", "a budget is of one thing"),
			"--tenant NAME, --label NAME=VALUE or --agent-session ID");
}

static fallible budgets_put_number(struct json_out *out, const struct call *call, enum opt opt,
				   const char *key)
{
	const char *text = call_value(call, opt);
	char *end = NULL;
	double number = text ? strtod(text, &end) : 0;

	if (!text)
		return OK;
	if (end == text || *end || !(number >= 0))
		return err_new(INVALID, "bad_value", "'%s' is no number", text);
	json_key(out, key);
	json_add_double(out, number);
	return OK;
}

fallible cli_budget_set(struct call *call)
{
	auto_free char *path = remote_path(BUDGETS_PATH, call->words[0], "");
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out out = json_to(&body);
	int64_t cpu_ms = -1;

	TRY(body_ms(call, OPT_CPU_TIME, "100h", &cpu_ms));
	json_begin(&out, '{');
	TRY(budgets_put_match(&out, call));
	json_put_text(&out, "period",
		      call_has(call, OPT_PERIOD) ? call_value(call, OPT_PERIOD) : "month");
	TRY(budgets_put_number(&out, call, OPT_COST, "cost"));
	TRY(budgets_put_number(&out, call, OPT_REQUESTS, "requests"));
	if (cpu_ms >= 0) {
		json_key(&out, "cpuSeconds");
		json_add_double(&out, (double)cpu_ms / 1000);
	}
	json_end(&out, '}');
	return remote_act(call, "PUT", path, &body, NULL);
}

static void budgets_put_whose(const struct json *budget, const char *key, struct buf *out)
{
	static const char *const keys[] = {"tenant", "label", "agentSession", NULL};
	const struct json *match = json_get(budget, key);

	for (int i = 0; keys[i]; i++)
		if (json_get(match, keys[i]))
			buf_fmt(out, "%s %s", keys[i], fields_text(match, keys[i]));
}

static void budgets_put_limit(const struct json *budget, const char *key, struct buf *out)
{
	static const char *const units[] = {"cost", "cpuSeconds", "requests", NULL};
	double limit = 0;

	(void)key;
	for (int i = 0; units[i]; i++) {
		if (!json_get(budget, units[i]))
			continue;
		err_free(json_double(json_get(budget, units[i]), units[i], 0, 1e18, &limit));
		buf_fmt(out, "%g %s", limit, units[i]);
	}
}

static void budgets_put_part(const struct json *budget, const char *key, struct buf *out)
{
	double part = -1;

	err_free(json_double(json_get(budget, key), key, 0, 1e18, &part));
	if (part >= 0)
		buf_fmt(out, "%.0f %%", part * 100);
}

fallible cli_budget_ls(struct call *call)
{
	static const struct column columns[] = {
		{"NAME", "name", NULL},
		{"OF", "match", budgets_put_whose},
		{"PERIOD", "period", NULL},
		{"LIMIT", "limit", budgets_put_limit},
		{"USED", "part", budgets_put_part},
		{"STATE", "state", NULL},
		{"ENDS", "periodEnd", NULL},
		{.head = NULL},
	};

	return collection_ls(call, &(struct collection){BUDGETS_PATH, "", "name", columns});
}

fallible cli_budget_inspect(struct call *call)
{
	return collection_show(call, BUDGETS_PATH, NULL);
}

fallible cli_budget_rm(struct call *call)
{
	return collection_rm(call, BUDGETS_PATH);
}
