#include "api/dev.h"

#include "conv/faults.h"
#include "door/door.h"
#include "fleet/access.h"

#define REPLY_MAX (1 << 20)

static fallible ask(const struct http *x)
{
	TRY(access_ask(door_who(x), ACCESS_HOUSE));
	if (faults_are_open())
		return OK;
	return err_hint(err_new(FORBIDDEN, "not_dev", "faults are for --dev only"),
			"start cove with --dev");
}

static fallible answer(struct http *x)
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

	TRY(ask(x));
	TRY(door_json(x, &json, NULL));
	TRY(faults_set(json));
	return answer(x);
}

fallible api_dev_list(struct http *x)
{
	TRY(ask(x));
	return answer(x);
}

fallible api_dev_clear(struct http *x)
{
	TRY(ask(x));
	faults_clear();
	return http_reply_empty(x, 204);
}
