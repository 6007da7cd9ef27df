// Budgets: the operator sets and removes them, a tenant reads its own. manager/budgets decides who
// may.
#include "manager/budgets.h"

#include "api/handlers.h"
#include "gateway/gateway.h"

#define REPLY_MAX (4u << 20)

static fallible api_budgets_answer(struct http *x, int status, const struct budget_line *line)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);

	budgets_put(&out, gateway_of(x)->manager, line);
	return http_reply_json(x, status, &body);
}

fallible api_budgets_list(struct http *x)
{
	const struct manager *manager = gateway_of(x)->manager;
	const struct budget_line *line = NULL;
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);

	TRY(budgets_ask_list(gateway_who(x)));
	json_begin(&out, '{');
	json_put_begin(&out, "items", '[');
	while ((line = budgets_next(manager, gateway_who(x), line)))
		budgets_put(&out, manager, line);
	json_end(&out, ']');
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

fallible api_budgets_get(struct http *x)
{
	const struct budget_line *line;

	TRY(budgets_get(gateway_of(x)->manager, gateway_who(x), x->params[0], &line));
	return api_budgets_answer(x, 200, line);
}

fallible api_budgets_set(struct http *x)
{
	const struct budget_line *line;
	auto_json json = NULL;
	bool made;

	TRY(gateway_json(x, &json, NULL));
	TRY(budgets_set(gateway_of(x)->manager, gateway_who(x), x->params[0], json, &line, &made));
	return api_budgets_answer(x, made ? 201 : 200, line);
}

fallible api_budgets_drop(struct http *x)
{
	TRY(budgets_drop(gateway_of(x)->manager, gateway_who(x), x->params[0]));
	return http_reply_empty(x, 204);
}
