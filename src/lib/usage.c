// Stats of a sandbox and of the host, history, usage of a period page by page, budgets.
// Unknown counts of the API are null, here -1.
#include <math.h>

#include "base/mem.h"
#include "codec/text.h"
#include "lib/box.h"
#include "lib/fields.h"
#include "lib/http_call.h"

#define USAGE_BODY_MAX 65536
#define USAGE_PATH_MAX 65536

static double usage_real(const struct json *object, const char *key)
{
	double value = -1;

	err_free(json_double(json_get(object, key), key, 0, 1e18, &value));
	return value;
}

static fallible usage_read_stats(struct cove_box *box, struct cove_stats *out)
{
	auto_free char *path = lib_box_path(box, "/stats");
	const struct json *network;
	auto_json stats = NULL;

	TRY(http_call_json(box->cove, "GET", path, NULL, &stats));
	network = json_get(stats, "network");
	*out = (struct cove_stats){
		.cores = usage_real(json_get(stats, "cpu"), "cores"),
		.epoch = fields_number(stats, "epoch", 0),
		.cpu_us = fields_number(json_get(stats, "cpu"), "usedUs", -1),
		.memory = fields_number(json_get(stats, "memory"), "workingSetBytes", -1),
		.pids = fields_number(json_get(stats, "pids"), "count", -1),
		.disk = fields_number(json_get(stats, "disk"), "bytes", -1),
		.requests = fields_number(network, "requests", -1),
		.bytes_in = fields_number(network, "bytesIn", -1),
		.bytes_out = fields_number(network, "bytesOut", -1),
		.inodes = fields_number(json_get(stats, "disk"), "inodes", -1),
		.inode_limit = fields_number(json_get(stats, "disk"), "inodeLimit", -1),
	};
	return OK;
}

enum cove_kind cove_box_stats(struct cove_box *box, struct cove_stats *out,
			      struct cove_error *error)
{
	return private_call(box->cove, usage_read_stats(box, out), error);
}

static fallible usage_read_host(struct cove *cove, struct cove_host_stats *out)
{
	const struct json *cpu, *memory, *disk, *executions, *network;
	auto_json stats = NULL;

	TRY(http_call_json(cove, "GET", "/v1/stats", NULL, &stats));
	cpu = json_get(stats, "cpu");
	memory = json_get(stats, "memory");
	disk = json_get(stats, "disk");
	executions = json_get(stats, "executions");
	network = json_get(stats, "network");
	*out = (struct cove_host_stats){
		.cores_used = usage_real(cpu, "used"),
		.cores_sandboxes = usage_real(cpu, "sandboxes"),
		.memory_available = fields_number(memory, "availableBytes", -1),
		.memory_sandboxes = fields_number(memory, "sandboxesBytes", -1),
		.disk_free = fields_number(disk, "freeBytes", -1),
		.disk_sandboxes = fields_number(disk, "sandboxesBytes", -1),
		.disk_templates = fields_number(disk, "templatesBytes", -1),
		.disk_output = fields_number(disk, "tapesBytes", -1),
		.disk_trash = fields_number(disk, "trashBytes", -1),
		.running = fields_number(json_get(stats, "sandboxes"), "running", -1),
		.executions_queued = fields_number(executions, "queued", -1),
		.executions_running = fields_number(executions, "running", -1),
		.requests = fields_number(network, "requests", -1),
		.bytes_in = fields_number(network, "bytesIn", -1),
		.bytes_out = fields_number(network, "bytesOut", -1),
	};
	return OK;
}

enum cove_kind cove_stats(struct cove *cove, struct cove_host_stats *out, struct cove_error *error)
{
	return private_call(cove, usage_read_host(cove, out), error);
}

// Element `at` of the array `key`; NaN: null.
static double usage_point(const struct json *series, const char *key, size_t at)
{
	double value = NAN;

	err_free(json_double(json_at(json_get(series, key), at), key, -1e300, 1e300, &value));
	return value;
}

static fallible usage_each_point(const struct json *answer, cove_point_fn *each, void *arg)
{
	const struct json *all = json_get(answer, "series");
	int64_t from_ms = 0, step_ms = fields_number(answer, "stepMs", 0);

	if (!text_read_time(str_of(fields_text(answer, "from")), &from_ms))
		return err_new(BAD_PEER, "bad_reply", "the history has no begin");
	for (size_t i = 0; all && i < json_count(all); i++) {
		const struct json *series = json_at(all, i);
		const struct json *avg = json_get(series, "avg");

		for (size_t at = 0; avg && at < json_count(avg); at++) {
			struct cove_point point = {
				.metric = fields_text(series, "metric"),
				.unit = fields_text(series, "unit"),
				.time_ms = from_ms + (int64_t)at * step_ms,
				.step_ms = step_ms,
				.avg = usage_point(series, "avg", at),
				.max = usage_point(series, "max", at),
				.covered = usage_point(series, "covered", at),
			};

			if (each(arg, &point))
				return err_new(CANCELLED, "cancelled", "the listing was ended");
		}
	}
	return OK;
}

static fallible usage_each(const struct json *page, cove_usage_fn *each, void *arg)
{
	const struct json *items = json_get(page, "items");

	for (size_t i = 0; i < json_count(items); i++) {
		const struct json *item = json_at(items, i);
		struct cove_usage usage = {
			.key = fields_text(item, "key"),
			.cpu_seconds = usage_real(item, "cpuSeconds"),
			.memory_gib_seconds = usage_real(item, "memoryGiBSeconds"),
			.disk_gib_hours = usage_real(item, "diskGiBHours"),
			.requests = fields_number(item, "requests", 0),
			.bytes_in = fields_number(item, "bytesIn", 0),
			.bytes_out = fields_number(item, "bytesOut", 0),
			.cost = fields_text(item, "cost"),
		};

		if (each(arg, &usage))
			return err_new(CANCELLED, "cancelled", "the listing was ended");
	}
	return OK;
}

static void usage_put_word(struct buf *path, const char *key, const char *word)
{
	if (!word)
		return;
	buf_fmt(path, "&%s=", key);
	text_percent(path, str_of(word));
}

static fallible usage_read_history(struct cove *cove, const struct cove_history_query *query,
				   cove_point_fn *each, void *arg)
{
	auto_buf path = BUF_INIT(USAGE_PATH_MAX);
	auto_json answer = NULL;

	buf_text(&path, "/v1/metrics/history?scope=");
	text_percent(&path, str_of(query->scope ? query->scope : "host"));
	for (size_t i = 0; query->metrics && query->metrics[i]; i++)
		usage_put_word(&path, "metric", query->metrics[i]);
	usage_put_word(&path, "from", query->from);
	usage_put_word(&path, "to", query->to);
	usage_put_word(&path, "step", query->step);
	TRY(http_call_json(cove, "GET", path.at, NULL, &answer));
	return usage_each_point(answer, each, arg);
}

enum cove_kind cove_history(struct cove *cove, const struct cove_history_query *query,
			    cove_point_fn *each, void *arg, struct cove_error *error)
{
	return private_call(cove, usage_read_history(cove, query, each, arg), error);
}

static fallible usage_list(struct cove *cove, const char *by, const char *from, const char *to,
			   cove_usage_fn *each, void *arg)
{
	auto_free char *cursor = NULL;

	do {
		auto_buf path = BUF_INIT(USAGE_PATH_MAX);
		auto_json page = NULL;

		buf_text(&path, "/v1/usage?limit=1000");
		usage_put_word(&path, "by", by);
		usage_put_word(&path, "from", from);
		usage_put_word(&path, "to", to);
		usage_put_word(&path, "cursor", cursor);
		TRY(http_call_json(cove, "GET", path.at, NULL, &page));
		TRY(usage_each(page, each, arg));
		free(cursor);
		cursor = *fields_text(page, "cursor") ? mem_str(fields_text(page, "cursor")) : NULL;
	} while (cursor);
	return OK;
}

enum cove_kind cove_usage(struct cove *cove, const char *by, const char *from, const char *to,
			  cove_usage_fn *each, void *arg, struct cove_error *error)
{
	return private_call(cove, usage_list(cove, by, from, to, each, arg), error);
}

static char *usage_budget_path(const char *name)
{
	auto_buf path = BUF_INIT(USAGE_PATH_MAX);

	buf_text(&path, "/v1/budgets/");
	text_percent(&path, str_of(name));
	return mem_dup(path.at, path.len);
}

static void usage_put_budget(struct json_out *out, const struct cove_budget_spec *spec)
{
	json_begin(out, '{');
	json_put_begin(out, "match", '{');
	if (spec->tenant)
		json_put_text(out, "tenant", spec->tenant);
	if (spec->label)
		json_put_text(out, "label", spec->label);
	if (spec->agent_session)
		json_put_text(out, "agentSession", spec->agent_session);
	json_end(out, '}');
	json_put_text(out, "period", spec->daily ? "day" : "month");
	if (spec->cost > 0) {
		json_key(out, "cost");
		json_add_double(out, spec->cost);
	}
	if (spec->cpu_seconds > 0) {
		json_key(out, "cpuSeconds");
		json_add_double(out, spec->cpu_seconds);
	}
	if (spec->requests)
		json_put_int(out, "requests", (int64_t)spec->requests);
	json_end(out, '}');
}

enum cove_kind cove_budget_set(struct cove *cove, const char *name,
			       const struct cove_budget_spec *spec, struct cove_error *error)
{
	auto_free char *path = usage_budget_path(name);
	auto_buf body = BUF_INIT(USAGE_BODY_MAX);
	struct json_out out = json_to(&body);

	usage_put_budget(&out, spec);
	return private_call(cove, http_call_text(cove, "PUT", path, NULL, &body, NULL), error);
}

enum cove_kind cove_budget_remove(struct cove *cove, const char *name, struct cove_error *error)
{
	auto_free char *path = usage_budget_path(name);

	return private_call(cove, http_call_text(cove, "DELETE", path, NULL, NULL, NULL), error);
}
