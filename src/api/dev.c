// Sets, lists and clears injected faults, and steps the wall clock, for tests. For the operator
// only, and only of a daemon that was started with --dev.
#include "api/dev.h"

#include "agent/faults.h"
#include "base/clock.h"
#include "gateway/gateway.h"
#include "manager/access.h"

#define REPLY_MAX (1 << 20)

static fallible dev_ask(const struct http *x)
{
	TRY(access_ask(gateway_who(x), ACCESS_OPERATOR));
	if (faults_are_open())
		return OK;
	return err_hint(err_new(FORBIDDEN, "not_dev", "faults are for --dev only"),
			"start cove with --dev");
}

static fallible dev_answer(struct http *x)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);

	json_begin(&out, '{');
	json_key(&out, "items");
	faults_write(&out);
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

fallible api_dev_set(struct http *x)
{
	auto_json json = NULL;

	TRY(dev_ask(x));
	TRY(gateway_json(x, &json, NULL));
	TRY(faults_set(json));
	return dev_answer(x);
}

#define STEP_MAX_MS (100ll * 366 * 86400000)

// Steps the daemon's wall clock forward or back: {stepMs}.
fallible api_dev_clock(struct http *x)
{
	static const char *const known[] = {"stepMs", "back", NULL};
	auto_json json = NULL;
	uint64_t step = 0;
	bool back = false;

	TRY(dev_ask(x));
	TRY(gateway_json(x, &json, NULL));
	TRY(json_want(json, "body", JSON_OBJECT));
	TRY(json_only(json, known));
	TRY(json_u64(json_get(json, "stepMs"), "stepMs", 0, STEP_MAX_MS, &step));
	TRY(json_bool(json_get(json, "back"), "back", &back));
	clock_step(back ? -(int64_t)step : (int64_t)step);
	return http_reply_empty(x, 204);
}

fallible api_dev_list(struct http *x)
{
	TRY(dev_ask(x));
	return dev_answer(x);
}

fallible api_dev_clear(struct http *x)
{
	TRY(dev_ask(x));
	faults_clear();
	return http_reply_empty(x, 204);
}
