#include "api/health.h"

#include "door/door.h"
#include "fleet/queue.h"
#include "store/store.h"

#define TEXT_MAX 8192
#define FRESH_MS 10

static void write_boxes(struct json_out *out, const struct fleet_view *view)
{
	json_key(out, "boxes");
	json_begin(out, '{');
	json_put_int(out, "total", (int64_t)view->boxes);
	json_put_int(out, "creating", (int64_t)view->creating);
	json_put_int(out, "failed", (int64_t)view->failed);
	json_put_int(out, "created", (int64_t)view->created);
	json_put_int(out, "lost", (int64_t)view->lost);
	json_end(out, '}');
	json_put_int(out, "execs", (int64_t)view->execs);
}

static void write_engine(struct json_out *out, const struct door *door)
{
	struct http_stats http = http_server_stats(door->server);
	struct loop_stats loop = loop_stats(door->loop);

	json_key(out, "http");
	json_begin(out, '{');
	json_put_int(out, "requests", (int64_t)http.requests);
	json_put_int(out, "connections", (int64_t)http.conns);
	json_put_int(out, "open", http.open);
	json_put_int(out, "refused", (int64_t)http.refused);
	json_end(out, '}');
	json_key(out, "loop");
	json_begin(out, '{');
	json_put_int(out, "turns", (int64_t)loop.turns);
	json_put_int(out, "slowTurns", (int64_t)loop.slow_turns);
	json_put_int(out, "slowestUs", loop.slowest_us);
	json_put_int(out, "tasks", task_count());
	json_end(out, '}');
}

static void write_store(struct json_out *out, const struct store *store)
{
	struct store_stats stats = store_stats(store);

	json_key(out, "store");
	json_begin(out, '{');
	json_put_text(out, "health", store_health_word(store_health(store)));
	json_put_int(out, "schema", stats.schema);
	json_put_int(out, "deeds", (int64_t)stats.deeds);
	json_put_int(out, "commits", (int64_t)stats.commits);
	json_put_int(out, "failures", (int64_t)stats.failures);
	json_put_int(out, "waiting", (int64_t)stats.waiting);
	json_put_int(out, "lost", (int64_t)stats.lost);
	json_end(out, '}');
}

static void write_host(struct json_out *out, const struct fleet_view *view,
		       const struct spec_bounds *bounds)
{
	const struct order_host *host = view->host;

	json_put_bool(out, "warden", host != NULL);
	json_key(out, "host");
	json_begin(out, '{');
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

static void write_queue(struct json_out *out, const struct door *door)
{
	struct queue_view queue = queue_look(door->fleet);

	json_key(out, "queue");
	json_begin(out, '{');
	json_put_int(out, "building", queue.building);
	json_put_int(out, "waiting", queue.waiting);
	json_put_int(out, "waited", (int64_t)queue.waited);
	json_put_int(out, "refused", (int64_t)queue.refused);
	json_end(out, '}');
}

static void health_write_all(struct json_out *out, struct door *door, bool is_ready, bool in_detail)
{
	json_begin(out, '{');
	// Without a warden nothing can be made, but it will be back in a moment.
	json_put_text(out, "status", is_ready ? "ok" : "starting");
	json_put_text(out, "version", door->version);
	if (in_detail) {
		struct fleet_view view = fleet_look(door->fleet);

		json_put_int(out, "uptimeMs", loop_now(door->loop) - door->started_ms);
		write_boxes(out, &view);
		write_engine(out, door);
		write_queue(out, door);
		if (door->fleet->store)
			write_store(out, door->fleet->store);
		write_host(out, &view, fleet_bounds(door->fleet));
	}
	json_end(out, '}');
}

// Written anew when something happened to a box, else every FRESH_MS: whoever asks all the time
// costs no more readings of the host than whoever asks often.
static const struct buf *in_detail(struct door *door, bool is_ready)
{
	struct buf *text = &door->health.text;
	uint64_t changes = fleet_changes(door->fleet);
	struct json_out out;

	if (loop_now(door->loop) < door->health.until && changes == door->health.changes &&
	    is_ready == door->health.ready)
		return text;
	buf_done(text);
	*text = BUF_INIT(TEXT_MAX);
	out = json_to(text);
	health_write_all(&out, door, is_ready, true);
	door->health.until = loop_now(door->loop) + FRESH_MS;
	door->health.changes = changes;
	door->health.ready = is_ready;
	return text;
}

// What a tenant's key may know: how it goes, and what is its own.
static void write_own(struct json_out *out, struct door *door, const struct who *who, bool is_ready)
{
	struct fleet_view view = fleet_look_own(door->fleet, who);

	json_begin(out, '{');
	json_put_text(out, "status", is_ready ? "ok" : "starting");
	json_put_text(out, "version", door->version);
	write_boxes(out, &view);
	json_end(out, '}');
}

fallible api_health(struct http *x)
{
	struct door *door = door_of(x);
	bool is_ready = fleet_is_ready(door->fleet);
	auto_buf body = BUF_INIT(TEXT_MAX);
	struct json_out out = json_to(&body);

	if (door_who(x) && door_who(x)->role != WHO_OPERATOR) {
		write_own(&out, door, door_who(x), is_ready);
		return http_reply_json(x, 200, &body);
	}
	if (door_who(x)) {
		const struct buf *text = in_detail(door, is_ready);

		// A copy: it may be written anew while a slow client reads this one.
		if (!buf_ok(text))
			return http_reply_json(x, 200, text);
		return http_reply(
			x, 200, NULL,
			(struct str){arena_dup(x->arena, text->at, text->len), text->len});
	}
	health_write_all(&out, door, is_ready, false);
	return http_reply_json(x, 200, &body);
}
