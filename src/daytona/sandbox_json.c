// Writes a record as Daytona's sandbox object. A frozen sandbox is `started`: any request wakes it.
// Labels of cove's own are not shown.
#include "daytona/sandbox_json.h"

#include "daytona/create.h"
#include "daytona/network.h"
#include "gateway/gateway.h"
#include "types/preview_token.h"

#define GIB (1024.0 * 1024 * 1024)

static const struct {
	const char *state, *desired;
} states[STATE_COUNT] = {
	[STATE_CREATING] = {"creating", "started"},	[STATE_RUNNING] = {"started", "started"},
	[STATE_PAUSED] = {"paused", "paused"},		[STATE_FROZEN] = {"started", "started"},
	[STATE_STOPPED] = {"stopped", "stopped"},	[STATE_ARCHIVED] = {"archived", "archived"},
	[STATE_DELETING] = {"destroying", "destroyed"}, [STATE_FAILED] = {"error", "started"},
};

const char *sandbox_json_state(const struct record *record)
{
	return states[record->state].state;
}

void sandbox_json_name(const struct record *record, char out[FOREIGN_NAME_MAX + 2])
{
	foreign_name_read(record->name[0] ? record->name : record->id, id_is_name, out);
}

const char *sandbox_json_toolbox(struct http *x, const struct record *record)
{
	const char *base = record->retention.base_url;

	if (!base)
		base = gateway_origin(x);
	return arena_fmt(x->arena, "%s/daytona/toolbox", base);
}

static void sandbox_json_labels(struct json_out *out, const struct env_map *labels)
{
	json_put_begin(out, "labels", '{');
	for (size_t i = 0; i < labels->count; i++)
		if (!str_starts(str_of(labels->at[i].name), ENV_MAP_RESERVED))
			json_put_text(out, labels->at[i].name, labels->at[i].value);
	json_end(out, '}');
}

static void put_size(struct json_out *out, const char *key, uint64_t bytes)
{
	json_key(out, key);
	json_add_double(out, (double)bytes / GIB);
}

static void put_interval(struct json_out *out, const char *key, const struct record *record,
			 const char *label, int64_t preset)
{
	const char *text = env_map_get(&record->labels, str_of(label));
	uint64_t minutes = 0;
	bool kept = text && str_to_u64(str_of(text), 0, CREATE_MINUTES_MAX, &minutes);

	json_put_int(out, key, kept ? (int64_t)minutes : preset);
}

static void sandbox_json_times(struct json_out *out, const struct record *record)
{
	const struct entry *entry = link_of(record, struct entry, record);
	const struct retention *retention = &record->retention;
	int64_t idle_ms = loop_now(entry->manager->loop) - entry->idle.busy_ms;
	int64_t changed = record->started_ms ? record->started_ms : record->created_ms;

	json_put_int(
		out, "autoStopInterval",
		retention->keep_alive ? 0 : (int64_t)((retention->sleep_after_ms + 59999) / 60000));
	json_put_int(out, "autoArchiveInterval",
		     retention->archive_after_ms
			     ? (int64_t)((retention->archive_after_ms + 59999) / 60000)
			     : CREATE_MINUTES_MAX);
	put_interval(out, "autoDeleteInterval", record, ENV_MAP_AUTO_DELETE, -1);
	json_put_time(out, "createdAt", record->created_ms);
	json_put_time(out, "updatedAt", changed);
	json_put_time(out, "lastActivityAt", clock_wall_ms() - idle_ms);
	if (record->ends_ms)
		json_put_time(out, "autoDestroyAt",
			      clock_wall_ms() + record->ends_ms - clock_steady_ms());
}

static void sandbox_json_network(struct json_out *out, const struct policy *network)
{
	auto_buf domains = BUF_INIT(64 * 1024), addresses = BUF_INIT(64 * 1024);

	json_put_bool(out, "networkBlockAll", !network || network->mode == POLICY_OFF);
	if (!network || network->mode != POLICY_ALLOW)
		return;
	network_list(network, false, &domains);
	network_list(network, true, &addresses);
	if (domains.len || !addresses.len)
		json_put_str(out, "domainAllowList", buf_view(&domains));
	if (addresses.len)
		json_put_str(out, "networkAllowList", buf_view(&addresses));
}

static void sandbox_json_volumes(struct json_out *out, const struct volume_mounts *mounts)
{
	json_put_begin(out, "volumes", '[');
	for (size_t i = 0; i < mounts->count; i++) {
		json_begin(out, '{');
		json_put_text(out, "volumeId", mounts->at[i].id);
		json_put_text(out, "mountPath", mounts->at[i].path);
		if (mounts->at[i].subpath[0])
			json_put_text(out, "subpath", mounts->at[i].subpath);
		json_end(out, '}');
	}
	json_end(out, ']');
}

static void sandbox_json_source(struct json_out *out, const struct record *record, bool whole)
{
	char snapshot[FOREIGN_NAME_MAX + 2];

	if (!record->image) {
		foreign_name_read(record_template(record), id_is_template, snapshot);
		json_put_text(out, "snapshot", snapshot);
		return;
	}
	json_put_text(out, "snapshot", NULL);
	if (!whole)
		return;
	auto_buf line = BUF_INIT(4096);

	buf_fmt(&line, "FROM %s\n", record->image);
	json_put_begin(out, "buildInfo", '{');
	json_put_str(out, "dockerfileContent", buf_view(&line));
	json_end(out, '}');
}

void sandbox_json_put(struct http *x, struct json_out *out, const struct record *record,
		      const char *state, bool whole)
{
	bool failed = record->state == STATE_FAILED;
	char name[FOREIGN_NAME_MAX + 2];

	json_begin(out, '{');
	json_put_text(out, "id", record->id);
	json_put_text(out, "organizationId", record->tenant[0] ? record->tenant : "default");
	sandbox_json_name(record, name);
	json_put_text(out, "name", name);
	json_put_text(out, "user", record->user[0] ? record->user : "root");
	sandbox_json_labels(out, &record->labels);
	json_put_bool(out, "public", env_map_get(&record->labels, STR(PREVIEW_TOKEN_PUBLIC)));
	sandbox_json_network(out, record->network);
	json_put_text(out, "target", "local");
	json_key(out, "cpu");
	json_add_double(out, (double)record->limits.cpu_milli / 1000);
	json_put_int(out, "gpu", 0);
	put_size(out, "memory", record->limits.memory);
	put_size(out, "disk", record->limits.disk);
	json_put_text(out, "toolboxProxyUrl", sandbox_json_toolbox(x, record));
	json_put_text(out, "state", state ? state : states[record->state].state);
	json_put_text(out, "desiredState", state ? state : states[record->state].desired);
	sandbox_json_source(out, record, whole);
	json_put_text(out, "errorReason", failed ? record->reason : NULL);
	json_put_bool(out, "recoverable", failed && record->disk_kept);
	sandbox_json_times(out, record);
	json_put_text(out, "sandboxClass", "container");
	json_put_text(out, "backupState", "None");
	json_put_text(out, "daemonVersion", gateway_of(x)->version);
	if (whole) {
		json_key(out, "env");
		env_map_write(out, &record->env);
		sandbox_json_volumes(out, &record->volumes);
	}
	json_end(out, '}');
}
