// The text form of budgets, read and written. A budget names one thing and has one limit: two
// limits are two budgets.
#include "types/cost_budget.h"

#include <string.h>

#define LIMIT_MAX 1e12
#define MILLION 1000000

bool cost_budget_is_name(struct str name)
{
	for (size_t i = 0; i < name.len; i++) {
		char c = name.at[i];
		bool letter = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');

		if (!letter && (i == 0 || !strchr("._-", c)))
			return false;
	}
	return name.len && name.len <= COST_BUDGET_NAME_MAX;
}

static fallible cost_budget_bad(const char *what)
{
	return err_hint(err_new(INVALID, "bad_field", "%s", what),
			"write {\"match\": {\"tenant\": \"team-a\"}, \"period\": \"month\", "
			"\"cost\": 100}");
}

static fallible cost_budget_read_match(const struct json *match, struct cost_budget *out)
{
	static const char *const known[] = {"tenant", "label", "agentSession", NULL};
	struct str text = {0}, key = {0};

	if (!match)
		return cost_budget_bad("'match' is missing");
	TRY(json_want(match, "match", JSON_OBJECT));
	TRY(json_only(match, known));
	if (json_count(match) != 1)
		return cost_budget_bad("'match' must name one of tenant, label, agentSession");
	for (int i = 0; known[i]; i++) {
		if (!json_get(match, known[i]))
			continue;
		out->of = (enum cost_budget_of)i;
		TRY(json_str(json_get(match, known[i]), "match", &text));
	}
	if (!text.at || memchr(text.at, 0, text.len))
		return cost_budget_bad("'match' must hold a text");
	if (out->of == COST_BUDGET_TENANT) {
		if (text.len && !who_is_tenant(text))
			return cost_budget_bad("'match.tenant' is no name of a tenant");
		memcpy(out->tenant, text.at, text.len);
		return OK;
	}
	if (out->of == COST_BUDGET_LABEL) {
		struct str rest = text;

		str_cut(&rest, '=', &key);
		if (!rest.at || !env_map_is_label(key))
			return cost_budget_bad("'match.label' must be KEY=VALUE");
		memcpy(out->key, key.at, key.len);
		text = rest;
	}
	if (text.len >= sizeof(out->value) || (out->of == COST_BUDGET_SESSION && !text.len))
		return cost_budget_bad("'match' holds a text that is empty or too long");
	memcpy(out->value, text.at, text.len);
	return OK;
}

static const char *const cost_budget_units[] = {"cost", "cpuSeconds", "requests", NULL};
static const char *const cost_budget_periods[] = {"day", "month"};

static fallible cost_budget_read_limit(const struct json *object, struct cost_budget *out)
{
	double limit = 0;
	int count = 0;

	for (int i = 0; cost_budget_units[i]; i++) {
		const struct json *value = json_get(object, cost_budget_units[i]);

		if (!value)
			continue;
		out->unit = (enum cost_budget_unit)i;
		count++;
		TRY(json_double(value, cost_budget_units[i], 0, LIMIT_MAX, &limit));
	}
	if (count != 1)
		return cost_budget_bad("one of 'cost', 'cpuSeconds' and 'requests' must be given");
	out->limit = (uint64_t)(limit * (out->unit == COST_BUDGET_REQUESTS ? 1 : MILLION) + 0.5);
	return OK;
}

fallible cost_budget_read(const struct json *object, struct cost_budget *out)
{
	static const char *const known[] = {"match",	  "period",   "cost",
					    "cpuSeconds", "requests", NULL};
	struct cost_budget budget = {0};
	struct str period = {0};

	if (!object)
		return cost_budget_bad("the body is missing");
	TRY(json_want(object, "body", JSON_OBJECT));
	TRY(json_only(object, known));
	TRY(cost_budget_read_match(json_get(object, "match"), &budget));
	TRY(json_str(json_get(object, "period"), "period", &period));
	budget.period = str_is(period, "day") ? PERIOD_DAY : PERIOD_MONTH;
	if (!str_is(period, cost_budget_periods[budget.period]))
		return cost_budget_bad("'period' must be day or month");
	TRY(cost_budget_read_limit(object, &budget));
	*out = budget;
	return OK;
}

void cost_budget_put(struct json_out *out, const struct cost_budget *budget)
{
	json_put_begin(out, "match", '{');
	if (budget->of == COST_BUDGET_TENANT) {
		json_put_text(out, "tenant", budget->tenant);
	} else if (budget->of == COST_BUDGET_SESSION) {
		json_put_text(out, "agentSession", budget->value);
	} else {
		auto_buf label = BUF_INIT(sizeof(budget->key) + sizeof(budget->value));

		buf_fmt(&label, "%s=%s", budget->key, budget->value);
		json_put_str(out, "label", buf_view(&label));
	}
	json_end(out, '}');
	json_put_text(out, "period", cost_budget_periods[budget->period]);
	json_key(out, cost_budget_units[budget->unit]);
	if (budget->unit == COST_BUDGET_REQUESTS)
		json_add_int(out, (int64_t)budget->limit);
	else
		json_add_double(out, (double)budget->limit / MILLION);
}

bool cost_budget_covers(const struct cost_budget *budget, const char *tenant,
			const struct env_map *labels, const char *session_key)
{
	const char *value;

	if (budget->of == COST_BUDGET_TENANT)
		return !strcmp(budget->tenant, tenant);
	value = env_map_get(labels,
			    str_of(budget->of == COST_BUDGET_LABEL ? budget->key : session_key));
	return value && !strcmp(value, budget->value);
}

uint64_t cost_budget_used(const struct cost_budget *budget, const struct usage *used,
			  const struct prices *prices)
{
	if (budget->unit == COST_BUDGET_CPU)
		return used->cpu_us;
	return budget->unit == COST_BUDGET_REQUESTS ? used->requests : usage_cost(used, prices);
}
