// Runs a round of the janitor (manager/sweep) and reports it, or reports the last one. For the
// operator only. A round that is already running is waited for.
#include "api/handlers.h"
#include "gateway/gateway.h"
#include "manager/access.h"

#define REPLY_MAX (1 << 20)

fallible api_cleanup_run(struct http *x)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	struct sweep_round round;

	TRY(access_ask(gateway_who(x), ACCESS_OPERATOR));
	TRY(sweep_run(gateway_of(x)->sweep, &round));
	json_begin(&out, '{');
	sweep_round_put(&out, &round);
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

fallible api_cleanup_look(struct http *x)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);

	TRY(access_ask(gateway_who(x), ACCESS_OPERATOR));
	json_begin(&out, '{');
	sweep_put(&out, gateway_of(x)->sweep);
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}
