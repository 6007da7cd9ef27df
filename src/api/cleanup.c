#include "api/cleanup.h"

#include "door/door.h"
#include "fleet/access.h"

#define REPLY_MAX (1 << 20)

fallible api_cleanup_run(struct http *x)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	struct sweep_round round;

	TRY(access_ask(door_who(x), ACCESS_HOUSE));
	TRY(sweep_run(door_of(x)->sweep, &round));
	json_begin(&out, '{');
	sweep_round_put(&out, &round);
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

fallible api_cleanup_look(struct http *x)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);

	TRY(access_ask(door_who(x), ACCESS_HOUSE));
	json_begin(&out, '{');
	sweep_put(&out, door_of(x)->sweep);
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}
