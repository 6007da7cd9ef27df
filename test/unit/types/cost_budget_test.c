#include "types/cost_budget.h"

#include "tap.h"

static const char *verdict(const char *text, struct cost_budget *out)
{
	static char reason[40];
	auto_json json = NULL;
	auto_err err = json_read(str_of(text), &json);

	if (!err)
		err = cost_budget_read(json, out);
	snprintf(reason, sizeof(reason), "%s", err ? err_reason(err) : "ok");
	return reason;
}

TEST(reads, "a budget is of one thing and has one limit")
{
	struct cost_budget budget = {0};
	auto_buf text = BUF_INIT(1000);
	struct json_out out = json_to(&text);

	CHECK_STR(verdict("{\"match\":{\"label\":\"a=b=c\"},\"period\":\"day\",\"cost\":1.25}",
			  &budget),
		  "ok");
	CHECK_STR(budget.key, "a");
	CHECK_STR(budget.value, "b=c");
	CHECK(budget.limit == 1250000 && budget.period == PERIOD_DAY);
	json_begin(&out, '{');
	cost_budget_put(&out, &budget);
	json_end(&out, '}');
	CHECK_STR(text.at, "{\"match\":{\"label\":\"a=b=c\"},\"period\":\"day\",\"cost\":1.25}");
	CHECK_STR(verdict("{\"match\":{\"tenant\":\"\"},\"period\":\"month\",\"requests\":7}",
			  &budget),
		  "ok");
	CHECK(budget.limit == 7 && budget.unit == COST_BUDGET_REQUESTS);
	CHECK_STR(verdict("{\"match\":{\"tenant\":\"a\",\"label\":\"a=b\"},\"period\":\"day\","
			  "\"cost\":1}",
			  &budget),
		  "bad_field");
	CHECK_STR(verdict("{\"match\":{\"tenant\":\"a\"},\"period\":\"day\",\"cost\":1,"
			  "\"requests\":1}",
			  &budget),
		  "bad_field");
	CHECK_STR(verdict("{\"match\":{\"tenant\":\"a\"},\"period\":\"year\",\"cost\":1}", &budget),
		  "bad_field");
	CHECK_STR(verdict("{\"match\":{\"tenant\":5},\"period\":\"day\",\"cost\":1}", &budget),
		  "bad_field");
	CHECK(budget.limit == 7);
	CHECK(cost_budget_is_name(STR("a.b-1")) && !cost_budget_is_name(STR("-a")) &&
	      !cost_budget_is_name(STR("")) && !cost_budget_is_name(STR("A")));
}

TEST(covers, "a budget covers the sandboxes of its tenant, label or agent session")
{
	struct cost_budget tenant = {.of = COST_BUDGET_TENANT, .tenant = "a"};
	struct cost_budget label = {.of = COST_BUDGET_LABEL, .key = "k", .value = "v"};
	struct cost_budget session = {.of = COST_BUDGET_SESSION, .value = "s1"};
	auto_pairs labels = {0};

	env_map_set(&labels, STR("k"), STR("v"));
	env_map_set(&labels, STR("of"), STR("s1"));
	CHECK(cost_budget_covers(&tenant, "a", &labels, "of") &&
	      !cost_budget_covers(&tenant, "b", &labels, "of"));
	CHECK(cost_budget_covers(&label, "b", &labels, "of"));
	CHECK(cost_budget_covers(&session, "b", &labels, "of") &&
	      !cost_budget_covers(&session, "b", &labels, "other"));
	env_map_set(&labels, STR("k"), STR("w"));
	CHECK(!cost_budget_covers(&label, "b", &labels, "of"));
}
