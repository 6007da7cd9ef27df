// The verbs alerts ls, ack, silence, rules and test: what needs the operator, and where the notices
// of it go.
#include <stdlib.h>

#include "cli/body.h"
#include "cli/collection.h"
#include "lib/fields.h"

#define ALERTS_PATH "/v1/alerts"
#define RULES_PATH "/v1/alerts/rules"
#define BODY_MAX 65536

// The number, its threshold and the unit.
static void cli_alerts_put_value(const struct json *item, const char *key, struct buf *out)
{
	double value = 0, threshold = 0;

	err_free(json_double(json_get(item, key), key, -1e300, 1e300, &value));
	err_free(json_double(json_get(item, "threshold"), "threshold", -1e300, 1e300, &threshold));
	buf_fmt(out, "%.4g (%.4g) %s", value, threshold, fields_text(item, "unit"));
}

static void cli_alerts_put_number(const struct json *item, const char *key, struct buf *out)
{
	double value = 0;

	err_free(json_double(json_get(item, key), key, -1e300, 1e300, &value));
	buf_fmt(out, "%.4g", value);
}

static void cli_alerts_put_flag(const struct json *item, const char *key, struct buf *out)
{
	bool on = false;

	err_free(json_bool(json_get(item, key), key, &on));
	buf_text(out, on ? "yes" : "no");
}

fallible cli_alerts_ls(struct call *call)
{
	static const struct column columns[] = {
		{"ALERT", "id", NULL},		{"SEVERITY", "severity", NULL},
		{"STATE", "state", NULL},	{"VALUE", "value", cli_alerts_put_value},
		{"SINCE", "since", column_age}, {"ACKNOWLEDGED", "acknowledgedBy", NULL},
		{"WHAT", "summary", NULL},	{.head = NULL},
	};

	return collection_ls(call, &(struct collection){ALERTS_PATH, "", "id", columns});
}

fallible cli_alerts_ack(struct call *call)
{
	auto_free char *path = remote_path(ALERTS_PATH, call->words[0], "/acknowledge");

	return remote_act(call, "POST", path, NULL, NULL);
}

fallible cli_alerts_silence(struct call *call)
{
	auto_free char *path = remote_path(ALERTS_PATH, call->words[0], "/silence");
	const char *span = call->word_count > 1 ? call->words[1] : "1h";
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out out = json_to(&body);

	if (!strcmp(span, "off"))
		return remote_act(call, "DELETE", path, NULL, NULL);
	json_begin(&out, '{');
	json_put_text(&out, "for", span);
	if (call_has(call, OPT_COMMENT))
		json_put_text(&out, "comment", call_value(call, OPT_COMMENT));
	json_end(&out, '}');
	return remote_act(call, "POST", path, &body, NULL);
}

static fallible cli_alerts_list_rules(struct call *call)
{
	static const struct column columns[] = {
		{"RULE", "name", NULL},
		{"SEVERITY", "severity", NULL},
		{"THRESHOLD", "threshold", cli_alerts_put_number},
		{"UNIT", "unit", NULL},
		{"FOR S", "forSeconds", cli_alerts_put_number},
		{"ON", "enabled", cli_alerts_put_flag},
		{"WHAT", "summary", NULL},
		{.head = NULL},
	};

	return collection_ls(call, &(struct collection){RULES_PATH, "", "name", columns});
}

static fallible cli_alerts_put_threshold(struct json_out *out, const struct call *call)
{
	const char *text = call_value(call, OPT_THRESHOLD);
	char *end = NULL;
	double number = text ? strtod(text, &end) : 0;

	if (!text)
		return OK;
	if (end == text || *end || !(number >= 0))
		return err_new(INVALID, "bad_value", "'%s' is no number", text);
	json_key(out, "threshold");
	json_add_double(out, number);
	return OK;
}

fallible cli_alerts_rules(struct call *call)
{
	auto_free char *path = NULL;
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out out = json_to(&body);
	int64_t span_ms = -1;

	if (!call->word_count)
		return cli_alerts_list_rules(call);
	path = remote_path(RULES_PATH, call->words[0], "");
	TRY(body_ms(call, OPT_AFTER, "5m", &span_ms));
	json_begin(&out, '{');
	TRY(cli_alerts_put_threshold(&out, call));
	if (span_ms >= 0)
		json_put_int(&out, "forSeconds", span_ms / 1000);
	if (call_has(call, OPT_ON) || call_has(call, OPT_OFF))
		json_put_bool(&out, "enabled", call_has(call, OPT_ON));
	json_end(&out, '}');
	return remote_act(call, "PUT", path, &body, NULL);
}

fallible cli_alerts_test(struct call *call)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out out = json_to(&body);

	json_begin(&out, '{');
	json_put_text(&out, "sink", call->words[0]);
	json_end(&out, '}');
	return remote_act(call, "POST", ALERTS_PATH "/test", &body, NULL);
}
