// Any bytes as the body of any route. Two bytes choose the route of the joined table, the third
// says how the body comes; a line "WORD?QUERY" follows, whose word stands for every {name} of the
// path but the sandbox; the rest is the body. The sandbox runs as far as the manager knows, but its
// socket is closed and there is no warden: what was decoded is refused by the box, at once.
// Whatever came, there is one reply, and an error is one in the form that clients know.
#include <fcntl.h>

#include "api/api.h"
#include "base/log.h"
#include "box/exec_cgroup.h"
#include "box/private.h"
#include "box/tape.h"
#include "cloudflare/bridge.h"
#include "daytona/daytona.h"
#include "fuzz.h"
#include "gateway/gateway.h"
#include "http/in_process.h"
#include "manager/table.h"
#include "monitor/monitor.h"
#include "os/host_settings.h"
#include "toolbox/toolbox.h"

#define NAME "mfrggzdfmy2tqnrzgezdgnbvay" // a name for the bridge as well
#define WORD "x"			  // where the input has none
#define REPLY_MAX (16 << 20)
#define LINE_MOST 1024

static const struct who keyholder = {
	.role = WHO_OPERATOR, .scopes = WHO_MAY_ALL, .may_host = true, .name = "operator"};
static struct store *store;
static struct gateway gateway;
static struct sinks sinks; // none
static struct host_settings host_settings;
static size_t route_count;

// ------------------------------------------------------------------------------------ the house

static void must_work(struct err *err)
{
	if (err)
		fprintf(stderr, "%s\n", err_trail(err));
	MUST(!err);
}

static void open_house(void)
{
	struct manager_options options = {.boxes_max = 10, .output_max = 1 << 30, .tapes_dir = -1};
	struct http_limits limits = HTTP_LIMITS_DEFAULT;
	struct loop *still = NULL; // never turned: the warden is not even dialled

	log_open("fuzz", open("/dev/null", O_WRONLY | O_CLOEXEC));
	must_work(loop_new(&gateway.loop));
	must_work(loop_new(&still));
	must_work(admit_open(&options.admit));
	options.loop = gateway.loop;
	options.ask = ask_open(still, "/nonexistent/warden.sock");
	gateway.manager = manager_new(&options);
	gateway.manager->queue_wait_ms = 0; // there is no warden: a create is refused at once
	must_work(store_open(&(struct store_options){.loop = gateway.loop, .dir = -1}, &store));
	gateway.ring = keyring_new(gateway.manager, store);
	gateway.sweep = sweep_new(gateway.manager);
	must_work(monitor_new(&(struct monitor_options){.loop = gateway.loop,
							.manager = gateway.manager,
							.sweep = gateway.sweep,
							.store = store,
							.version = "0",
							.sinks = &sinks,
							.dir = -1},
			      &gateway.monitor));
	gateway.auth = authenticate_new(gateway.loop, &(struct authenticate_options){0});
	gateway.web = web_sessions_new(gateway.manager, store, gateway.ring,
				       (const uint8_t[SECRET_HASH]){0});
	gateway.idempotency_keys = idempotency_keys_new(gateway.loop);
	gateway.routes = router_join((const struct route *const[]){
		api_routes, toolbox_routes, cloudflare_routes, daytona_routes, NULL});
	gateway.version = "0";
	host_settings_open("/", &host_settings);
	gateway.look_at_host = host_settings_look;
	gateway.host_settings = &host_settings;
	must_work(http_server_open(gateway.loop, &limits, gateway_serve, gateway_refuse, &gateway,
				   &gateway.server));
	while (gateway.routes[route_count].method)
		route_count++;
}

static void free_box(struct deferred *later)
{
	struct box *box = link_of(later, struct box, free_later);

	box_end_kinds(box, BOX_END_FREED);
	tape_budget_drop(box->tape_budget);
	free(box);
}

// The box has an exec cgroup, so that a command is encoded whole before pid 1 is found missing.
static struct box *new_box(const char *id)
{
	struct box *box = box_new(gateway.loop, gateway.manager->ask, id, -1);

	box->phase = BOX_ALIVE;
	box->free_later.run = free_box;
	condition_init(&box->channel.room);
	box_exec_cgroup_give(box_exec_cgroup_add(box, 1, -1, NULL, 0), true);
	return box;
}

static struct entry *add_entry(void)
{
	struct spec spec = {.name = NAME, .limits = LIMITS_DEFAULT, .template = "host"};
	struct entry *entry = NULL;

	must_work(table_add(gateway.manager, &spec, &entry));
	entry->box = new_box(entry->record.id);
	entry_move(entry, STATE_RUNNING);
	return entry;
}

// By name and not by place: a route that is added leaves the others' inputs theirs.
static uint16_t route_mark(const struct route *route)
{
	const char *parts[] = {route->method, route->pattern};
	uint32_t mark = 2166136261;

	for (size_t i = 0; i < 2; i++)
		for (const char *at = parts[i]; *at; at++)
			mark = (mark ^ (uint8_t)*at) * 16777619;
	return (uint16_t)(mark ^ mark >> 16);
}

// The first whose mark is not below, as on a clock face.
static const struct route *choose(const uint8_t bytes[2])
{
	uint16_t at = (uint16_t)(bytes[0] << 8 | bytes[1]);
	const struct route *best = gateway.routes;

	for (size_t i = 1; i < route_count; i++)
		if ((uint16_t)(route_mark(&gateway.routes[i]) - at) <
		    (uint16_t)(route_mark(best) - at))
			best = &gateway.routes[i];
	return best;
}

// --------------------------------------------------------------------------------- the exchange

struct trip {
	const struct route *route;
	uint8_t how; // 3 bits of content type, a bit each: in pieces, header fields
	struct str word, query, body;
	struct buf target;
	size_t at; // of the body
	int status, heads, ends;
	bool is_whole, is_json;
	struct buf reply;
};

static fallible on_read(void *arg, void *room, size_t size, size_t *out)
{
	struct trip *trip = arg;
	size_t left = trip->body.len - trip->at, piece = 1 + trip->how % 61;

	size = size < left ? size : left;
	size = size < piece ? size : piece;
	if (size)
		memcpy(room, trip->body.at + trip->at, size);
	trip->at += size;
	*out = size;
	return OK;
}

static fallible on_head(void *arg, const struct in_process_head *head)
{
	struct trip *trip = arg;

	trip->heads++;
	trip->status = head->status;
	trip->is_json = str_is(head->type, "application/json");
	return OK;
}

static fallible on_bytes(void *arg, struct str bytes)
{
	struct trip *trip = arg;

	MUST(trip->heads == 1 && trip->ends == 0);
	buf_str(&trip->reply, bytes);
	return OK;
}

static void on_end(void *arg, bool is_whole)
{
	struct trip *trip = arg;

	trip->ends++;
	trip->is_whole = is_whole;
}

static void write_target(struct trip *trip)
{
	bool first = true;

	for (const char *at = trip->route->pattern; *at; at++) {
		if (*at != '{') {
			buf_char(&trip->target, *at);
			continue;
		}
		if (first && strncmp(at, "{id}", 4) == 0)
			buf_text(&trip->target, NAME);
		else
			buf_str(&trip->target, trip->word.len ? trip->word : STR(WORD));
		first = false;
		at += strcspn(at, "}");
	}
	if (trip->query.len) {
		buf_char(&trip->target, '?');
		buf_str(&trip->target, trip->query);
	}
}

static void ask(struct trip *trip)
{
	static const char *const types[] = {
		"application/json",
		"application/json; charset=utf-8",
		"application/octet-stream",
		"application/x-tar",
		"text/plain",
		"multipart/form-data; boundary=b",
		"",
		"application/zstd",
	};
	const struct http1_field fields[] = {
		{STR("Idempotency-Key"), STR("key")}, {STR("Range"), STR("bytes=1-2")},
		{STR("Session-Id"), STR("s1")},	      {STR("Accept"), STR("text/event-stream")},
		{STR("If-None-Match"), STR("*")},
	};
	struct in_process_calls calls = {trip->how & 8 ? on_read : NULL, on_head, on_bytes, on_end};
	const char *method = strcmp(trip->route->method, "*") ? trip->route->method : "POST";

	write_target(trip);
	in_process_run(in_process_new(
		&(struct in_process_ask){
			.loop = gateway.loop,
			.serve = gateway_inner,
			.app = &gateway,
			.principal = &keyholder,
			.method = str_of(method),
			.target = buf_view(&trip->target),
			.fields = fields,
			.field_count = trip->how & 16 ? sizeof(fields) / sizeof(*fields) : 0,
			.type = types[trip->how & 7],
			.body = trip->body,
		},
		&calls, trip));
}

// --------------------------------------------------------------------------------- the verdict

static bool is_text(const struct json *json, const char *key)
{
	const struct json *value = json_get(json, key);

	return value && json_type(value) == JSON_STRING;
}

static bool is_health(const struct route *route)
{
	return str_ends(str_of(route->pattern), "/health");
}

static bool is_fault(const struct trip *trip, const struct json *json)
{
	const struct json *context;

	if (!trip->is_whole || !trip->is_json || !json || json_type(json) != JSON_OBJECT)
		return false;
	context = json_get(json, "context");
	// A request that is none has no route yet: http/in_process answers it itself.
	if (str_starts(str_of(trip->route->pattern), "/daytona/") && !json_get(json, "httpStatus"))
		return is_text(json, "message") && json_get(json, "statusCode") &&
		       (is_text(json, "error") || is_text(json, "code")); // the toolbox has codes
	if (strstr(trip->route->pattern, "/proxy/")) // some are of Cloudflare's own proxy
		return is_text(json, "message") && (context || is_text(json, "error"));
	return is_text(json, "code") && is_text(json, "message") && context &&
	       json_type(context) == JSON_OBJECT;
}

static void judge(const struct trip *trip)
{
	auto_json json = NULL;

	MUST(trip->heads == 1 && trip->ends == 1 && buf_ok(&trip->reply));
	MUST(trip->status >= 200 && trip->status <= 599);
	if (trip->is_json && trip->is_whole && trip->reply.len)
		must_work(json_read_any(buf_view(&trip->reply), &json));
	if (trip->status < 400 || is_health(trip->route) || is_fault(trip, json))
		return;
	fprintf(stderr, "%s " STR_FMT ": %d " STR_FMT "\n", trip->route->method,
		STR_ARG(buf_view(&trip->target)), trip->status, STR_ARG(buf_view(&trip->reply)));
	MUST(!"an error in a form that clients do not know");
}

// The end of a sandbox is the warden's to verify, and is tried until there is one. A stream of
// stats ends when its client leaves.
static bool waits(const struct route *route)
{
	if (str_ends(str_of(route->pattern), "/stats"))
		return true;
	return strcmp(route->method, "DELETE") == 0 &&
	       (strcmp(route->pattern, "/v1/sandboxes/{id}") == 0 ||
		strcmp(route->pattern, "/v1/sandbox/{id}") == 0 ||
		strcmp(route->pattern, "/daytona/sandbox/{id}") == 0);
}

// A process that could not start is remembered: what is asked of it is decoded.
static void add_process(struct box *box)
{
	const char *const argv[] = {"true", NULL}, *const env[] = {NULL};
	struct exec_spec exec = {.argv = argv, .env = env, .cwd = "/", .user = ""};
	struct proc_spec spec = {
		.id = STR(WORD), .command = STR("true"), .keep_error = true, .exec = &exec};
	struct proc *never = NULL;
	auto_err err = procs_start(box, &spec, &never);

	MUST(err && !never);
}

static void travel(void *arg)
{
	struct trip *trip = arg;
	struct entry *entry = add_entry();

	if (strstr(trip->route->pattern, "/process/"))
		add_process(entry->box);
	ask(trip);
	table_remove(entry);
	err_free(task_sleep_until(0)); // what was put off to the end of the turn is done
	loop_stop(gateway.loop);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct str rest = {(const char *)bytes, len}, line = {0};
	struct trip trip = {.target = BUF_INIT(8 * LINE_MOST), .reply = BUF_INIT(REPLY_MAX)};

	if (!route_count)
		open_house();
	if (len < 3)
		return 0;
	trip.route = choose(bytes);
	trip.how = bytes[2];
	rest = str_skip(rest, 3);
	str_cut(&rest, '\n', &line);
	if (waits(trip.route) || line.len > LINE_MOST)
		return 0;
	trip.body = rest;
	trip.query = line;
	str_cut(&trip.query, '?', &trip.word);
	task_start(gateway.loop, "trip", travel, &trip);
	loop_run(gateway.loop);
	judge(&trip);
	buf_done(&trip.target);
	buf_done(&trip.reply);
	return 0;
}
