// The inside of a sandbox as a whole: its environment, what it uses, its ports. The CPUs, memory
// and disk that are shown are its limits.
#include "base/clock.h"
#include "daytona/handlers.h"
#include "gateway/gateway.h"
#include "manager/exec.h"
#include "manager/sampler.h"

#define BODY_MAX (256 * 1024)
#define CHANGE_MAX (1 << 20)
#define SAMPLE_AGE_MS 500
#define PORTS_MAX 1024
#define PORTS_MS 5000
#define PORT_FIRST 3000
#define PORT_LAST 9999

// {set: {NAME: value}, unset: [NAME]}, as cove's own change: a name that is null is removed.
static fallible system_write_change(const struct json *body, struct buf *text)
{
	const struct json *set = json_get(body, "set"), *unset = json_get(body, "unset");
	struct json_out out = json_to(text);
	struct json *value = NULL;
	struct str name;

	json_begin(&out, '{');
	if (set)
		TRY(json_want(set, "set", JSON_OBJECT));
	for (size_t at = 0; set && json_next(set, &at, &name, &value);) {
		TRY(json_want(value, "set", JSON_STRING));
		json_key(&out, name.at);
		json_add_value(&out, value);
	}
	if (unset)
		TRY(json_want(unset, "unset", JSON_ARRAY));
	for (size_t i = 0; unset && i < json_count(unset); i++) {
		name = (struct str){0};
		TRY(json_str(json_at(unset, i), "unset", &name));
		if (!name.len)
			return err_new(INVALID, "bad_field", "'unset' must hold names");
		if (!set || !json_get(set, name.at))
			json_put_text(&out, name.at, NULL);
	}
	json_end(&out, '}');
	return buf_ok(text) ? OK : err_new(TOO_LARGE, "body_too_large", "the change is too large");
}

fallible daytona_system_env(struct http *x)
{
	auto_buf text = BUF_INIT(CHANGE_MAX);
	auto_json body = NULL;
	auto_json change = NULL;
	auto_box_ref ref = {0};

	TRY(gateway_object(x, &body));
	TRY(system_write_change(body, &text));
	TRY(json_read(buf_view(&text), &change));
	TRY(gateway_box(x, &ref));
	TRY(shells_change_env(&ref, change));
	return http_reply_empty(x, 200);
}

static void system_put_bytes(struct json_out *out, const char *key, uint64_t bytes)
{
	json_put_int(out, key, bytes == COUNTER_UNKNOWN ? 0 : (int64_t)bytes);
}

// The CPUs of a sandbox are its limit: all of them in use are 100 %.
fallible daytona_system_metrics(struct http *x)
{
	const struct sample *sample;
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out out = json_to(&body);
	const struct limits *limits;
	auto_box_ref ref = {0};
	double cpus, cores;

	TRY(gateway_box(x, &ref));
	sampler_refresh(ref.entry, SAMPLE_AGE_MS);
	sample = sampler_last(ref.entry);
	if (!sample || sample->counters.memory_charged == COUNTER_UNKNOWN)
		return err_new(UNAVAILABLE, "no_sample", "the counters could not be read");
	limits = &ref.entry->record.limits;
	cpus = (double)limits->cpu_milli / 1000;
	cores = sample->cores > 0 ? sample->cores : 0;
	json_begin(&out, '{');
	json_key(&out, "cpuCount");
	json_add_double(&out, cpus);
	json_key(&out, "cpuUsedPct");
	json_add_double(&out, cpus > 0 ? (double)(int64_t)(cores / cpus * 10000) / 100 : 0);
	system_put_bytes(&out, "memTotal", limits->memory);
	system_put_bytes(&out, "memUsed", sample->counters.memory_working);
	system_put_bytes(&out, "memCache",
			 sample->counters.memory_charged - sample->counters.memory_working);
	system_put_bytes(&out, "diskTotal", limits->disk);
	system_put_bytes(&out, "diskUsed", sample->disk);
	system_put_bytes(&out, "diskFree",
			 sample->disk < limits->disk ? limits->disk - sample->disk : 0);
	json_put_time(&out, "timestamp", clock_wall_ms());
	json_put_int(&out, "timestampUnix", clock_wall_ms() / 1000);
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

static fallible system_ports(struct http *x, struct box_ref *ref, struct fileop_port *ports,
			     size_t *out)
{
	struct files files;

	TRY(gateway_box(x, ref));
	files = gateway_files(x, ref, PORTS_MS);
	TRY(box_ref_explain(files_ports(&files, ports, PORTS_MAX, out)));
	*out = *out < PORTS_MAX ? *out : PORTS_MAX;
	return OK;
}

fallible daytona_system_ports(struct http *x)
{
	struct fileop_port *ports = arena_take(x->arena, PORTS_MAX * sizeof(*ports));
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out out = json_to(&body);
	auto_box_ref ref = {0};
	size_t count = 0;

	TRY(system_ports(x, &ref, ports, &count));
	json_begin(&out, '{');
	json_put_begin(&out, "ports", '[');
	for (size_t i = 0; i < count; i++)
		json_add_int(&out, ports[i].port);
	json_end(&out, ']');
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

fallible daytona_system_port_in_use(struct http *x)
{
	struct fileop_port *ports = arena_take(x->arena, PORTS_MAX * sizeof(*ports));
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out out = json_to(&body);
	auto_box_ref ref = {0};
	uint64_t port = 0;
	size_t count = 0;
	bool used = false;

	if (!str_to_u64(x->params[1], PORT_FIRST, PORT_LAST, &port))
		return err_new(INVALID, "bad_port", "the port must be within %d and %d", PORT_FIRST,
			       PORT_LAST);
	TRY(system_ports(x, &ref, ports, &count));
	for (size_t i = 0; i < count; i++)
		used |= ports[i].port == port;
	json_begin(&out, '{');
	json_put_bool(&out, "isInUse", used);
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}
