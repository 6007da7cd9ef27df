// What sandboxes and the host use now: one sandbox, or the sums of all that the caller sees. A
// stream sends the same object again and again. Unknown is null, never 0.
#include "api/stats.h"

#include <math.h>

#include "api/events.h"
#include "api/handlers.h"
#include "base/clock.h"
#include "box/freeze.h"
#include "box/term.h"
#include "codec/sse.h"
#include "execution/execution.h"
#include "gateway/gateway.h"
#include "manager/host_load.h"
#include "manager/pools.h"
#include "manager/sampler.h"
#include "manager/usage.h"
#include "monitor/monitor.h"

#define REPLY_MAX (256 * 1024)
#define EVERY_MIN_MS 100
#define EVERY_MAX_MS 60000
#define EVERY_MS 1000
#define AGE_MS 500 // a younger sample is not read again for a single request

static void stats_put_counter(struct json_out *out, const char *key, uint64_t value)
{
	json_key(out, key);
	if (value == COUNTER_UNKNOWN)
		json_add_null(out);
	else
		json_add_int(out, value > INT64_MAX ? INT64_MAX : (int64_t)value);
}

static void stats_put_limit(struct json_out *out, const char *key, uint64_t limit)
{
	stats_put_counter(out, key, limit ? limit : COUNTER_UNKNOWN);
}

// To a ten-thousandth: more digits of a rate say nothing.
static void stats_put_rate(struct json_out *out, const char *key, double value)
{
	json_key(out, key);
	json_add_double(out, value < 0 ? NAN : (double)(int64_t)(value * 10000 + 0.5) / 10000);
}

static void stats_put_network(struct json_out *out, const struct sample_network *network)
{
	json_put_begin(out, "network", '{');
	stats_put_counter(out, "connections", network->connections);
	stats_put_counter(out, "requests", network->requests);
	stats_put_counter(out, "bytesIn", network->bytes_in);
	stats_put_counter(out, "bytesOut", network->bytes_out);
	stats_put_counter(out, "denied", network->denied);
	json_end(out, '}');
}

static void stats_count_term(struct term *term, void *arg)
{
	(void)term;
	++*(int64_t *)arg;
}

// Since the sample that a stream sent before: another reader may have read in between. `was`
// becomes the sample that is sent now.
static double stats_cores(struct sample *was, const struct sample *now)
{
	uint64_t from = was->counters.cpu_us, to = now->counters.cpu_us;
	int64_t span_ms = now->time_ms - was->time_ms;
	double cores = now->cores;

	if (was->time_ms && span_ms == 0)
		cores = was->cores;
	else if (was->time_ms && was->epoch == now->epoch && from != COUNTER_UNKNOWN &&
		 to != COUNTER_UNKNOWN)
		cores = to > from ? (double)(to - from) / ((double)span_ms * 1000) : 0;
	*was = *now;
	was->cores = cores;
	return cores;
}

// A disk that was made with a limit has so many free ones at first; any other may use all that its
// file system has. Unknown where the file system has no fixed number.
static void stats_put_inodes(struct json_out *out, const struct sample *sample,
			     const struct limits *limits)
{
	bool known = sample->inodes != COUNTER_UNKNOWN;
	uint64_t limit = limits->inodes || !known ? limits->inodes : sample->inodes;
	uint64_t used = known && limit > sample->inodes_free ? limit - sample->inodes_free : 0;

	stats_put_counter(out, "inodes", known ? used : COUNTER_UNKNOWN);
	stats_put_limit(out, "inodeLimit", limit);
}

void stats_put_box(struct json_out *out, const struct entry *entry, struct sample *was)
{
	static const struct sample none = {
		.disk = COUNTER_UNKNOWN, .inodes = COUNTER_UNKNOWN, .cores = -1};
	const struct sample *sample = sampler_last(entry);
	struct counters counters = sample ? sample->counters : counters_unknown();
	const struct limits *limits = &entry->record.limits;
	double cores = sample ? stats_cores(was, sample) : -1;
	int64_t terms = 0, now = clock_steady_ms();

	json_begin(out, '{');
	json_put_text(out, "sandbox", entry->record.id);
	json_put_time(out, "time", sample ? sample->time_ms : now);
	json_put_int(out, "ageMs", sample ? now - sample->time_ms : 0);
	json_put_text(out, "state", state_word(entry->record.state));
	json_put_int(out, "epoch", sample ? (int64_t)sample->epoch : 0);
	sample = sample ? sample : &none;
	json_put_begin(out, "cpu", '{');
	stats_put_counter(out, "usedUs", counters.cpu_us);
	stats_put_rate(out, "cores", cores);
	stats_put_rate(out, "limitCores", (double)limits->cpu_milli / 1000);
	stats_put_counter(out, "throttledUs", counters.throttled_us);
	json_end(out, '}');
	json_put_begin(out, "memory", '{');
	stats_put_counter(out, "workingSetBytes", counters.memory_working);
	stats_put_counter(out, "chargedBytes", counters.memory_charged);
	stats_put_counter(out, "peakBytes", counters.memory_peak);
	stats_put_limit(out, "limitBytes", limits->memory);
	stats_put_counter(out, "oomKills", counters.oom_kills);
	json_end(out, '}');
	json_put_begin(out, "pids", '{');
	stats_put_counter(out, "count", counters.pids);
	stats_put_limit(out, "limit", limits->pids);
	json_end(out, '}');
	json_put_begin(out, "disk", '{');
	stats_put_counter(out, "bytes", sample->disk);
	stats_put_limit(out, "limitBytes", limits->disk);
	stats_put_inodes(out, sample, limits);
	stats_put_counter(out, "readBytes", counters.read_bytes);
	stats_put_counter(out, "writeBytes", counters.write_bytes);
	json_end(out, '}');
	stats_put_network(out, &sample->network);
	if (entry->box)
		term_each(entry->box, stats_count_term, &terms);
	json_put_int(out, "execs", entry->box ? box_execs(entry->box) : 0);
	json_put_int(out, "terminals", terms);
	json_end(out, '}');
}

// ------------------------------------------------------------------------------------- the host

struct stats_host {
	struct sampler_sums sums;
	uint64_t templates, tapes;
	bool whole; // of the host, not of one tenant
};

static struct stats_host stats_sum(struct manager *manager, const struct who *who)
{
	struct stats_host host = {.sums = sampler_sum(manager, who),
				  .whole = who->role == WHO_OPERATOR && !who->box[0]};
	struct str key;
	void *value;

	for (size_t at = 0; map_next(manager->accounts.by_name, &at, &key, &value);) {
		const struct account *account = value;

		if (!access_sees(who, account->tenant.name, ""))
			continue;
		host.templates += account->used.templates + account->used.images +
				  account->used.steps;
		host.tapes += account->output.kept;
	}
	return host;
}

static void stats_put_nulls(struct json_out *out, const char *key, const char *const *names)
{
	json_put_begin(out, key, '{');
	for (; *names; names++)
		json_put_text(out, *names, NULL);
	json_end(out, '}');
}

// Of the last five minutes. Times of the host's creates and starts of commands are not a tenant's.
static void stats_put_latency(struct json_out *out, const char *key, enum metric metric, bool whole)
{
	static const char *const names[] = {"p50Ms", "p95Ms", "p99Ms", "count", NULL};

	if (!whole) {
		stats_put_nulls(out, key, names);
		return;
	}
	json_put_begin(out, key, '{');
	monitor_put_latency(out, metric, WINDOW_MINUTES);
	json_end(out, '}');
}

static void stats_put_executions(struct json_out *out, const struct executions *executions,
				 const struct who *who)
{
	struct executions_view now = {0};

	if (executions)
		now = executions_look(executions, who);
	json_put_begin(out, "executions", '{');
	stats_put_counter(out, "queued", executions ? now.queued : COUNTER_UNKNOWN);
	stats_put_counter(out, "running",
			  executions ? now.initializing + now.ready + now.running
				     : COUNTER_UNKNOWN);
	json_end(out, '}');
}

static void stats_put_failures(struct json_out *out, struct monitor *monitor, bool whole)
{
	struct monitor_failures failures = {NAN, NAN, COUNTER_UNKNOWN};

	if (whole && monitor)
		failures = monitor_failures(monitor);
	json_put_begin(out, "failureRate", '{');
	json_key(out, "total");
	json_add_double(out, failures.total);
	json_key(out, "infrastructure");
	json_add_double(out, failures.infrastructure);
	stats_put_counter(out, "samples", failures.samples);
	json_end(out, '}');
}

void stats_put_host(struct json_out *out, const struct gateway *gateway, const struct who *who)
{
	struct manager *manager = gateway->manager;
	struct pools_sums pools = pools_sum(manager, who);
	struct stats_host host = stats_sum(manager, who);
	struct admit_view room = admit_look(manager->admit, loop_now(manager->loop));
	struct host_load_view load = {.cores_used = -1, .cores_daemon = -1, .load1 = -1};
	uint64_t unknown = COUNTER_UNKNOWN;

	if (manager->host_load && host.whole)
		load = host_load_look(manager->host_load, clock_us());
	json_begin(out, '{');
	json_put_time(out, "time", clock_steady_ms());
	json_put_begin(out, "cpu", '{');
	stats_put_rate(out, "cores",
		       host.whole ? (double)admit_cpu_milli(manager->admit) / 1000 : -1);
	stats_put_rate(out, "used", load.cores_used);
	stats_put_rate(out, "sandboxes", host.sums.cores);
	stats_put_rate(out, "daemon", load.cores_daemon);
	stats_put_rate(out, "load1", load.load1);
	json_end(out, '}');
	json_put_begin(out, "memory", '{');
	stats_put_counter(out, "totalBytes", host.whole ? admit_memory(manager->admit) : unknown);
	stats_put_counter(out, "availableBytes", host.whole ? room.memory_free : unknown);
	stats_put_counter(out, "sandboxesBytes", host.sums.memory);
	stats_put_counter(out, "daemonBytes", load.daemon_memory ? load.daemon_memory : unknown);
	json_end(out, '}');
	json_put_begin(out, "disk", '{');
	stats_put_counter(out, "totalBytes", host.whole ? admit_disk(manager->admit) : unknown);
	stats_put_counter(out, "freeBytes",
			  host.whole && !room.disk_unknown ? room.disk_free : unknown);
	stats_put_counter(out, "sandboxesBytes", host.sums.disk);
	stats_put_counter(out, "templatesBytes", host.templates);
	stats_put_counter(out, "tapesBytes", host.tapes);
	stats_put_counter(out, "trashBytes", host.whole ? usage_ask_trash(manager) : unknown);
	json_end(out, '}');
	json_put_begin(out, "pids", '{');
	stats_put_counter(out, "used", host.whole ? room.tasks : host.sums.pids);
	stats_put_counter(out, "max", host.whole ? room.tasks_max : unknown);
	json_end(out, '}');
	json_put_begin(out, "sandboxes", '{');
	for (enum state state = 0; state < STATE_COUNT; state++)
		json_put_int(out, state_word(state), (int64_t)host.sums.states[state]);
	json_end(out, '}');
	stats_put_executions(out, gateway->executions, who);
	json_put_begin(out, "pool", '{');
	stats_put_counter(out, "ready", pools.ready);
	stats_put_counter(out, "hits", pools.hits);
	stats_put_counter(out, "misses", pools.misses);
	json_end(out, '}');
	json_put_begin(out, "latency", '{');
	stats_put_latency(out, "create", METRIC_BOX_CREATE, host.whole);
	stats_put_latency(out, "exec", METRIC_EXEC_START, host.whole);
	json_end(out, '}');
	stats_put_failures(out, gateway->monitor, host.whole);
	stats_put_network(out, &host.sums.network);
	json_end(out, '}');
}

// ------------------------------------------------------------------------------------- requests

struct stats_asked {
	struct entry *entry; // NULL: the host
	bool stream;
	uint64_t every_ms;
	struct sample sent; // time_ms 0: none yet
};

static fallible stats_read(struct http *x, struct stats_asked *out)
{
	struct str every = http_query(x, "everyMs");

	out->every_ms = EVERY_MS;
	out->stream = every.at || events_wants_stream(x);
	if (every.at && !str_to_u64(every, EVERY_MIN_MS, EVERY_MAX_MS, &out->every_ms))
		return err_new(INVALID, "bad_field", "'everyMs' must be a number from %d to %d",
			       EVERY_MIN_MS, EVERY_MAX_MS);
	return OK;
}

static void stats_put(struct http *x, struct stats_asked *asked, struct json_out *out)
{
	if (!asked->entry) {
		stats_put_host(out, gateway_of(x), gateway_who(x));
		return;
	}
	sampler_refresh(asked->entry, asked->stream ? (int64_t)asked->every_ms / 2 : AGE_MS);
	stats_put_box(out, asked->entry, &asked->sent);
}

static bool stats_goes_on(const struct http *x, const struct stats_asked *asked)
{
	const struct entry *entry = asked->entry;

	return !gateway_of(x)->manager->closing &&
	       (!entry || (entry->listed && entry->record.state != STATE_DELETING));
}

// Wakes early when the state of the sandbox changes.
static fallible stats_pause(struct http *x, const struct stats_asked *asked)
{
	int64_t until = loop_now(gateway_of(x)->loop) + (int64_t)asked->every_ms;
	struct err *err;

	if (!asked->entry)
		return task_sleep_until(until);
	err = condition_wait(&asked->entry->changed, until);
	if (err && err_kind(err) == ERR_TIMEOUT) {
		err_free(err);
		return OK;
	}
	return err;
}

static fallible stats_stream(struct http *x, struct stats_asked *asked)
{
	x->feed = true;
	http_set(x, "Cache-Control", STR("no-cache"));
	TRY(http_begin_with(x, 200, "text/event-stream", STR(":\n\n")));
	while (stats_goes_on(x, asked)) {
		auto_buf body = BUF_INIT(REPLY_MAX), text = BUF_INIT(REPLY_MAX);
		struct json_out out = json_to(&body);

		stats_put(x, asked, &out);
		sse_put(&text, STR("stats"), (struct str){0}, buf_view(&body));
		TRY(http_write(x, text.at, text.len));
		if (stats_goes_on(x, asked))
			TRY(http_while_away(x, HTTP_PROBE_EVENT, stats_pause(x, asked)));
	}
	return http_end(x);
}

static fallible stats_answer(struct http *x, struct stats_asked *asked)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);

	if (asked->stream)
		return stats_stream(x, asked);
	stats_put(x, asked, &out);
	return http_reply_json(x, 200, &body);
}

fallible api_stats_box(struct http *x)
{
	auto_entry entry = NULL;
	struct stats_asked asked = {0};

	TRY(gateway_entry(x, ACCESS_READ, &entry));
	TRY(stats_read(x, &asked));
	asked.entry = entry;
	return stats_answer(x, &asked);
}

fallible api_stats_host(struct http *x)
{
	struct stats_asked asked = {0};

	TRY(access_ask(gateway_who(x), ACCESS_READ));
	TRY(stats_read(x, &asked));
	return stats_answer(x, &asked);
}
