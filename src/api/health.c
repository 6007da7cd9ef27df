// The health of the daemon: 503 when no sandbox can be made or kept. Without a key the answer is
// only its status. The operator's detailed answer has the reasons, reads the host and is cached in
// the gateway; a tenant gets the status and its own numbers.
#include "api/handlers.h"
#include "gateway/gateway.h"
#include "manager/queue.h"
#include "monitor/monitor.h"
#include "store/store.h"

#define TEXT_MAX 16384
#define FRESH_MS 10

static void write_boxes(struct json_out *out, const struct manager_view *view)
{
	json_put_begin(out, "boxes", '{');
	json_put_int(out, "total", (int64_t)view->boxes);
	json_put_int(out, "creating", (int64_t)view->creating);
	json_put_int(out, "failed", (int64_t)view->failed);
	json_put_int(out, "created", (int64_t)view->created);
	json_put_int(out, "lost", (int64_t)view->lost);
	json_end(out, '}');
	json_put_int(out, "execs", (int64_t)view->execs);
}

static void write_engine(struct json_out *out, const struct gateway *gateway)
{
	struct http_stats http = http_server_stats(gateway->server);
	struct loop_stats loop = loop_stats(gateway->loop);

	json_put_begin(out, "http", '{');
	json_put_int(out, "requests", (int64_t)http.requests);
	json_put_int(out, "connections", (int64_t)http.conns);
	json_put_int(out, "open", http.open);
	json_put_int(out, "refused", (int64_t)http.refused);
	json_end(out, '}');
	json_put_begin(out, "loop", '{');
	json_put_int(out, "turns", (int64_t)loop.turns);
	json_put_int(out, "slowTurns", (int64_t)loop.slow_turns);
	json_put_int(out, "slowestUs", loop.slowest_us);
	json_put_int(out, "tasks", task_count());
	json_end(out, '}');
}

static void write_store(struct json_out *out, const struct store *store)
{
	struct store_stats stats = store_stats(store);

	json_put_begin(out, "store", '{');
	json_put_text(out, "health", store_health_word(store_health(store)));
	json_put_int(out, "schema", stats.schema);
	json_put_int(out, "deeds", (int64_t)stats.deeds);
	json_put_int(out, "commits", (int64_t)stats.commits);
	json_put_int(out, "failures", (int64_t)stats.failures);
	json_put_int(out, "waiting", (int64_t)stats.waiting);
	json_put_int(out, "lost", (int64_t)stats.lost);
	json_end(out, '}');
}

static void write_host(struct json_out *out, const struct manager_view *view,
		       const struct spec_bounds *bounds)
{
	const struct order_host *host = view->host;

	json_put_bool(out, "warden", host != NULL);
	json_put_begin(out, "host", '{');
	json_put_int(out, "memoryBytes", (int64_t)bounds->memory_max);
	json_put_int(out, "memoryFreeBytes", (int64_t)view->room.memory_free);
	json_put_int(out, "memoryMarkBytes", (int64_t)view->room.memory_mark);
	json_key(out, "cpus");
	json_add_double(out, bounds->cpu_milli_max / 1000.0);
	json_put_int(out, "tasks", (int64_t)view->room.tasks);
	json_put_int(out, "tasksMax", (int64_t)view->room.tasks_max);
	json_put_int(out, "files", (int64_t)view->room.files);
	json_put_int(out, "filesMax", (int64_t)view->room.files_max);
	json_put_int(out, "hostFiles", (int64_t)view->room.host_files);
	json_put_int(out, "diskFreeBytes", (int64_t)view->room.disk_free);
	json_put_int(out, "diskMarkBytes", (int64_t)view->room.disk_mark);
	json_put_int(out, "inodesFree", (int64_t)view->room.inodes_free);
	json_put_int(out, "inodesMark", (int64_t)view->room.inodes_mark);
	if (host) {
		json_put_text(out, "disk", host->disk);
		json_put_bool(out, "limitsDisk", host->can_limit_disk);
		json_put_bool(out, "limitsInodes", host->can_limit_inodes);
		json_put_text(out, "cgroup", host->cgroup);
		json_put_text(out, "network", host->net);
		json_put_int(out, "boxesMax", host->boxes_max);
	}
	json_end(out, '}');
}

static void write_queue(struct json_out *out, const struct gateway *gateway)
{
	struct queue_view queue = queue_look(gateway->manager);

	json_put_begin(out, "queue", '{');
	json_put_int(out, "building", queue.building);
	json_put_int(out, "waiting", queue.waiting);
	json_put_int(out, "waited", (int64_t)queue.waited);
	json_put_int(out, "refused", (int64_t)queue.refused);
	json_end(out, '}');
}

static void health_write_all(struct json_out *out, struct gateway *gateway,
			     const struct monitor_health *health, bool in_detail)
{
	json_begin(out, '{');
	json_put_text(out, "status", monitor_health_word(health));
	json_put_text(out, "version", gateway->version);
	if (in_detail) {
		struct manager_view view = manager_look(gateway->manager);

		monitor_put_health(out, health);
		json_put_int(out, "uptimeMs", loop_now(gateway->loop) - gateway->started_ms);
		write_boxes(out, &view);
		write_engine(out, gateway);
		write_queue(out, gateway);
		if (gateway->manager->store)
			write_store(out, gateway->manager->store);
		write_host(out, &view, manager_bounds(gateway->manager));
	}
	json_end(out, '}');
}

// Rewritten when a box changed, else every FRESH_MS: frequent requests do not cause more reads of
// the host.
static const struct buf *in_detail(struct gateway *gateway, const struct monitor_health *health)
{
	struct buf *text = &gateway->health.text;
	uint64_t changes = manager_changes(gateway->manager);
	struct json_out out;

	if (loop_now(gateway->loop) < gateway->health.until && changes == gateway->health.changes &&
	    health->is_ready == gateway->health.ready)
		return text;
	buf_done(text);
	*text = BUF_INIT(TEXT_MAX);
	out = json_to(text);
	health_write_all(&out, gateway, health, true);
	gateway->health.until = loop_now(gateway->loop) + FRESH_MS;
	gateway->health.changes = changes;
	gateway->health.ready = health->is_ready;
	return text;
}

// A tenant's key sees readiness and its own numbers.
static void write_own(struct json_out *out, struct gateway *gateway, const struct who *who,
		      const struct monitor_health *health)
{
	struct manager_view view = manager_look_own(gateway->manager, who);

	json_begin(out, '{');
	json_put_text(out, "status", monitor_health_word(health));
	json_put_text(out, "version", gateway->version);
	write_boxes(out, &view);
	json_end(out, '}');
}

fallible api_health(struct http *x)
{
	struct gateway *gateway = gateway_of(x);
	auto_free struct monitor_health *health = mem_new_of(struct monitor_health);
	auto_buf body = BUF_INIT(TEXT_MAX);
	struct json_out out = json_to(&body);
	const struct who *who = gateway_who(x);
	int status;

	monitor_health(gateway->monitor, health);
	status = health->is_unhealthy ? 503 : 200;
	if (who && who->role == WHO_OPERATOR) {
		const struct buf *text = in_detail(gateway, health);

		// Copied: the cache may be rewritten while a slow client reads.
		if (!buf_ok(text))
			return http_reply_json(x, status, text);
		return http_reply(
			x, status, NULL,
			(struct str){arena_dup(x->arena, text->at, text->len), text->len});
	}
	if (who)
		write_own(&out, gateway, who, health);
	else
		health_write_all(&out, gateway, health, false);
	return http_reply_json(x, status, &body);
}
