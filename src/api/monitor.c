// Metrics and alerts. The host's numbers are for keys without a tenant; rules and silences for the
// operator.
#include "monitor/monitor.h"

#include "api/handlers.h"
#include "base/clock.h"
#include "base/metric.h"
#include "codec/text.h"
#include "codec/url.h"
#include "execution/execution.h"
#include "gateway/gateway.h"
#include "http/server.h"
#include "manager/access.h"

#define REPLY_MAX (8u << 20)
#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

static fallible monitor_ask(const struct http *x)
{
	return access_ask(gateway_who(x), ACCESS_METRICS);
}

// Gauges of parts that the monitor does not see.
static void metrics_set_gateway(const struct gateway *gateway)
{
	struct executions_view now;

	metric_set(METRIC_LIVE_CLIENTS, NULL, NULL,
		   (double)http_server_stats(gateway->server).open);
	if (!gateway->executions)
		return;
	now = executions_look(gateway->executions, NULL);
	metric_set(METRIC_EXECUTIONS_NOW, "queued", NULL, (double)now.queued);
	metric_set(METRIC_EXECUTIONS_NOW, "initializing", NULL, (double)now.initializing);
	metric_set(METRIC_EXECUTIONS_NOW, "ready", NULL, (double)now.ready);
	metric_set(METRIC_EXECUTIONS_NOW, "running", NULL, (double)now.running);
}

fallible api_metrics_text(struct http *x)
{
	auto_buf body = BUF_INIT(REPLY_MAX);

	TRY(monitor_ask(x));
	metrics_set_gateway(gateway_of(x));
	monitor_write_metrics(gateway_of(x)->monitor, &body);
	if (!buf_ok(&body))
		return err_new(UNAVAILABLE, "no_memory", "the answer is too large");
	return http_reply(x, 200, METRICS_TYPE, buf_view(&body));
}

fallible api_metrics(struct http *x)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);

	TRY(monitor_ask(x));
	json_begin(&out, '{');
	monitor_put_overview(&out, gateway_of(x)->monitor);
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

// ----------------------------------------------------------------------------------------- history

static fallible history_read_time(struct http *x, const char *key, int64_t *out)
{
	struct str text = http_query(x, key);
	uint64_t ms;

	if (!text.at)
		return OK;
	if (str_to_u64(text, 0, INT64_MAX / 2, &ms))
		*out = (int64_t)ms;
	else if (!text_read_time(text, out) || *out < 0)
		return err_hint(err_new(INVALID, "bad_field", "'%s' is no time", key),
				"write 2027-01-31T08:00:00Z, or milliseconds since 1970");
	return OK;
}

static fallible history_read_metrics(struct http *x, unsigned *out)
{
	struct str rest = x->url.query, key, value;

	while (url_pair(&rest, &key, &value)) {
		enum history_metric metric;

		if (!str_is(key, "metric"))
			continue;
		if (!history_metric_named(value, &metric))
			return err_hint(err_new(INVALID, "bad_field", "'metric' is unknown"),
					"cpu, memory, pids, disk, netIn, netOut, requests, denied, "
					"sandboxes, executions, failures, createP95");
		*out |= 1u << metric;
	}
	return OK;
}

// A deleted sandbox is for those who see the whole host, by its id.
static fallible history_read_box(struct http *x, struct str id, struct buf *key)
{
	struct entry *entry = NULL;
	struct err *err;

	x->params[0] = id;
	err = gateway_entry(x, ACCESS_READ, &entry);
	if (!err) {
		buf_clear(key);
		buf_fmt(key, "sandbox:%s", entry->record.id);
		entry_unref(entry);
		return OK;
	}
	if (err_kind(err) != ERR_NOT_FOUND || !id_is_box(id) || gateway_who(x)->tenant[0] ||
	    gateway_who(x)->box[0])
		return err;
	err_free(err);
	return monitor_ask(x);
}

// The key of the object whose history is asked for, if the caller may see it.
static fallible history_read_scope(struct http *x, struct buf *key)
{
	struct str scope = http_query(x, "scope"), rest = scope, kind;
	const struct who *who = gateway_who(x);

	buf_str(key, scope.len ? scope : STR("host"));
	if (!str_starts(scope, "sandbox:") && !str_starts(scope, "tenant:") &&
	    !str_starts(scope, "type:") && scope.len && !str_is(scope, "host"))
		return err_hint(err_new(INVALID, "bad_field", "'scope' is malformed"),
				"host, tenant:NAME, type:NAME or sandbox:ID");
	if (!buf_ok(key) || key->len > HISTORY_KEY_MAX)
		return err_new(INVALID, "bad_field", "'scope' is too long");
	str_cut(&rest, ':', &kind);
	if (str_starts(scope, "sandbox:"))
		return history_read_box(x, rest, key);
	if (str_starts(scope, "tenant:") && who->tenant[0] && !who->box[0] &&
	    str_is(rest, who->tenant))
		return access_ask(who, ACCESS_READ);
	return monitor_ask(x);
}

#define HISTORY_DEFAULT_MS 3600000ll

fallible api_history(struct http *x)
{
	auto_buf body = BUF_INIT(REPLY_MAX), key = BUF_INIT(512);
	struct json_out out = json_to(&body);
	struct history_query query = {.to_ms = clock_steady_ms()};
	struct str step = http_query(x, "step");
	uint64_t step_ms = 0;

	TRY(history_read_scope(x, &key));
	TRY(history_read_metrics(x, &query.metrics));
	TRY(history_read_time(x, "to", &query.to_ms));
	query.from_ms = query.to_ms > HISTORY_DEFAULT_MS ? query.to_ms - HISTORY_DEFAULT_MS : 0;
	TRY(history_read_time(x, "from", &query.from_ms));
	if (query.from_ms > query.to_ms)
		return err_new(INVALID, "bad_field", "'from' is after 'to'");
	if (step.at && (!str_to_ms(step, &step_ms) || !step_ms || step_ms > INT32_MAX))
		return err_hint(err_new(INVALID, "bad_field", "'step' is no time"), "write 5m");
	query.step_ms = (int64_t)step_ms;
	query.key = key.at;
	json_begin(&out, '{');
	TRY(history_put_answer(monitor_history(gateway_of(x)->monitor), &query, &out));
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

// ------------------------------------------------------------------------------------------ alerts

fallible api_alerts_list(struct http *x)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);

	TRY(monitor_ask(x));
	json_begin(&out, '{');
	TRY(alerts_put(&out, monitor_alerts(gateway_of(x)->monitor), http_query(x, "state")));
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

fallible api_alerts_rules(struct http *x)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);

	TRY(monitor_ask(x));
	json_begin(&out, '{');
	json_key(&out, "items");
	alerts_put_rules(&out, monitor_alerts(gateway_of(x)->monitor));
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

fallible api_alerts_acknowledge(struct http *x)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);

	TRY(access_ask(gateway_who(x), ACCESS_OPERATOR));
	TRY(alerts_acknowledge(monitor_alerts(gateway_of(x)->monitor), x->params[0], gateway_who(x),
			       &out));
	return http_reply_json(x, 200, &body);
}

#define SILENCE_MAX_MS (366ull * 86400000)

static fallible alerts_read_silence(struct http *x, struct json **body, uint64_t *for_ms,
				    struct str *comment)
{
	static const char *const known[] = {"for", "comment", NULL};
	struct str text = {0};

	TRY(gateway_object(x, body));
	TRY(json_only(*body, known));
	TRY(json_str(json_get(*body, "for"), "for", &text));
	TRY(json_str(json_get(*body, "comment"), "comment", comment));
	if (!text.len || !str_to_ms(text, for_ms) || !*for_ms || *for_ms > SILENCE_MAX_MS)
		return err_hint(
			err_new(INVALID, "bad_field", "'for' must be a time of up to a year"),
			"write 1h");
	if (comment->len > ALERT_COMMENT_MAX)
		return err_new(INVALID, "bad_field", "'comment' has more than %d bytes",
			       ALERT_COMMENT_MAX);
	return OK;
}

static fallible alerts_set_silence(struct http *x, uint64_t for_ms, struct str comment)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);

	TRY(alerts_silence(monitor_alerts(gateway_of(x)->monitor), x->params[0], (int64_t)for_ms,
			   comment, &out));
	return http_reply_json(x, 200, &body);
}

fallible api_alerts_silence(struct http *x)
{
	auto_json json = NULL;
	struct str comment = {0};
	uint64_t for_ms = 0;

	TRY(access_ask(gateway_who(x), ACCESS_OPERATOR));
	TRY(alerts_read_silence(x, &json, &for_ms, &comment));
	return alerts_set_silence(x, for_ms, comment);
}

fallible api_alerts_unsilence(struct http *x)
{
	TRY(access_ask(gateway_who(x), ACCESS_OPERATOR));
	return alerts_set_silence(x, 0, STR(""));
}

fallible api_alerts_set_rule(struct http *x)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	auto_json json = NULL;

	TRY(access_ask(gateway_who(x), ACCESS_OPERATOR));
	TRY(gateway_object(x, &json));
	TRY(alerts_set_rule(monitor_alerts(gateway_of(x)->monitor), x->params[0], json, &out));
	return http_reply_json(x, 200, &body);
}

fallible api_alerts_test(struct http *x)
{
	static const char *const known[] = {"sink", NULL};
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	auto_json json = NULL;
	struct str sink = {0};

	TRY(access_ask(gateway_who(x), ACCESS_OPERATOR));
	TRY(gateway_object(x, &json));
	TRY(json_only(json, known));
	TRY(json_str(json_get(json, "sink"), "sink", &sink));
	TRY(alerts_test(monitor_alerts(gateway_of(x)->monitor), sink));
	json_begin(&out, '{');
	json_put_str(&out, "sink", sink);
	json_put_text(&out, "outcome", "sent");
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}
