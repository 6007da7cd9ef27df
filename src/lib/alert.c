// Alerts: their list, what an operator does with one of them, rules and sinks. Numbers that the
// answer lacks, or that are null, become 0, texts "".
#include "base/mem.h"
#include "codec/text.h"
#include "lib/fields.h"
#include "lib/http_call.h"

#define ALERT_BODY_MAX 65536
#define ALERT_PATH_MAX 65536
#define ALERT_PATH "/v1/alerts"

static double alert_real(const struct json *object, const char *key)
{
	double value = 0;

	err_free(json_double(json_get(object, key), key, -1e300, 1e300, &value));
	return value;
}

// ALERT_PATH and its part "/NAME/…", freed by the caller.
static char *alert_path(const char *part, const char *name, const char *rest)
{
	auto_buf path = BUF_INIT(ALERT_PATH_MAX);

	buf_text(&path, ALERT_PATH);
	buf_text(&path, part);
	text_percent(&path, str_of(name));
	buf_text(&path, rest);
	return mem_dup(path.at, path.len);
}

static fallible alert_each(const struct json *page, cove_alert_fn *each, void *arg)
{
	const struct json *items = json_get(page, "items");

	for (size_t i = 0; items && i < json_count(items); i++) {
		const struct json *item = json_at(items, i);
		struct cove_alert alert = {
			.id = fields_text(item, "id"),
			.rule = fields_text(item, "rule"),
			.severity = fields_text(item, "severity"),
			.state = fields_text(item, "state"),
			.value = alert_real(item, "value"),
			.threshold = alert_real(item, "threshold"),
			.unit = fields_text(item, "unit"),
			.summary = fields_text(item, "summary"),
			.hint = fields_text(item, "hint"),
			.sandbox = fields_text(item, "sandbox"),
			.since = fields_text(item, "since"),
			.resolved_at = fields_text(item, "resolvedAt"),
			.acknowledged_by = fields_text(item, "acknowledgedBy"),
			.silenced_until = fields_text(item, "silencedUntil"),
			.comment = fields_text(item, "comment"),
		};

		if (each(arg, &alert))
			return err_new(CANCELLED, "cancelled", "the listing was ended");
	}
	return OK;
}

static fallible alert_list(struct cove *cove, const char *state, cove_alert_fn *each, void *arg)
{
	auto_free char *path = state ? alert_path("?state=", state, "") : mem_str(ALERT_PATH);
	auto_json page = NULL;

	TRY(http_call_json(cove, "GET", path, NULL, &page));
	return alert_each(page, each, arg);
}

enum cove_kind cove_alerts(struct cove *cove, const char *state, cove_alert_fn *each, void *arg,
			   struct cove_error *error)
{
	return private_call(cove, alert_list(cove, state, each, arg), error);
}

enum cove_kind cove_alert_acknowledge(struct cove *cove, const char *id, struct cove_error *error)
{
	auto_free char *path = alert_path("/", id, "/acknowledge");

	return private_call(cove, http_call_text(cove, "POST", path, NULL, NULL, NULL), error);
}

enum cove_kind cove_alert_silence(struct cove *cove, const char *id, uint64_t seconds,
				  const char *comment, struct cove_error *error)
{
	auto_free char *path = alert_path("/", id, "/silence");
	auto_free char *span = mem_fmt("%llus", (unsigned long long)seconds);
	auto_buf body = BUF_INIT(ALERT_BODY_MAX);
	struct json_out out = json_to(&body);

	if (!seconds)
		return private_call(cove, http_call_text(cove, "DELETE", path, NULL, NULL, NULL),
				    error);
	json_begin(&out, '{');
	json_put_text(&out, "for", span);
	fields_put_text(&out, "comment", comment);
	json_end(&out, '}');
	return private_call(cove, http_call_text(cove, "POST", path, NULL, &body, NULL), error);
}

enum cove_kind cove_alert_rule_set(struct cove *cove, const char *name,
				   const struct cove_alert_rule *rule, struct cove_error *error)
{
	auto_free char *path = alert_path("/rules/", name, "");
	auto_buf body = BUF_INIT(ALERT_BODY_MAX);
	struct json_out out = json_to(&body);

	json_begin(&out, '{');
	if (rule->threshold) {
		json_key(&out, "threshold");
		json_add_double(&out, *rule->threshold);
	}
	if (rule->for_seconds)
		json_put_int(&out, "forSeconds", (int64_t)*rule->for_seconds);
	if (rule->enabled)
		json_put_bool(&out, "enabled", *rule->enabled);
	json_end(&out, '}');
	return private_call(cove, http_call_text(cove, "PUT", path, NULL, &body, NULL), error);
}

enum cove_kind cove_alert_test(struct cove *cove, const char *sink, struct cove_error *error)
{
	auto_buf body = BUF_INIT(ALERT_BODY_MAX);
	struct json_out out = json_to(&body);

	json_begin(&out, '{');
	json_put_text(&out, "sink", sink);
	json_end(&out, '}');
	return private_call(
		cove, http_call_text(cove, "POST", ALERT_PATH "/test", NULL, &body, NULL), error);
}
