// The record of a sandbox: made from a spec, written as JSON for clients. It owns its texts, maps,
// policy and retention; record_done() frees them.
#include "types/record.h"

#include <stdio.h>

#include "base/clock.h"
#include "types/launch.h"

const char *state_word(enum state state)
{
	static const char *const words[] = {
#define X(name, word) [STATE_##name] = word,
		STATES(X)
#undef X
	};

	return words[state];
}

void record_init(struct record *record, struct spec *spec, const char *id)
{
	*record = (struct record){
		.state = STATE_CREATING,
		.ephemeral = spec->ephemeral,
		.limits = spec->limits,
		.env = spec->env,
		.workdir = spec->workdir,
		.launch = spec->launch,
		.labels = spec->labels,
		.volumes = spec->volumes,
		.retention = spec->retention,
		.network = spec->network,
		.created_ms = clock_steady_ms(),
	};
	if (spec->ttl_ms)
		record->ends_ms = clock_steady_ms() + (int64_t)spec->ttl_ms;
	spec->env = spec->labels = (struct env_map){0};
	spec->workdir = spec->launch = NULL;
	spec->volumes = (struct volume_mounts){0};
	spec->retention.base_url = NULL;
	spec->network = NULL;
	snprintf(record->id, sizeof(record->id), "%s", id);
	snprintf(record->short_id, sizeof(record->short_id), "%.*s", ID_SHORT_LEN,
		 id + strlen("box-"));
	snprintf(record->tenant, sizeof(record->tenant), "%s", spec->tenant);
	snprintf(record->user, sizeof(record->user), "%s", spec->user);
	snprintf(record->login, sizeof(record->login), "%s", spec->login);
	snprintf(record->name, sizeof(record->name), "%s", spec->name);
	snprintf(record->idempotency, sizeof(record->idempotency), "%s", spec->idempotency);
	snprintf(record->template, sizeof(record->template), "%s", spec->template);
	snprintf(record->root, sizeof(record->root), "%s", spec->root);
	record->image = spec->image_digest;
	spec->image_digest = NULL;
	memcpy(record->fork, spec->fork, sizeof(record->fork));
}

void record_done(struct record *record)
{
	env_map_done(&record->env);
	env_map_done(&record->labels);
	free(record->workdir);
	free(record->launch);
	free(record->image);
	volume_mounts_done(&record->volumes);
	retention_done(&record->retention);
	policy_free(record->network);
}

// A tenant's own template is stored as "TENANT.NAME".
const char *record_template(const struct record *record)
{
	size_t len = strlen(record->tenant);

	if (len && !strncmp(record->template, record->tenant, len) && record->template[len] == '.')
		return record->template + len + 1;
	return record->template;
}

const char *record_workdir(const struct record *record)
{
	return record->workdir ? record->workdir : RECORD_WORKDIR;
}

const char *record_host(const struct record *record)
{
	return record->name[0] ? record->name : record->short_id;
}

bool record_has_labels(const struct record *record, const struct env_map *wanted)
{
	for (size_t i = 0; i < wanted->count; i++) {
		const char *value = env_map_get(&record->labels, str_of(wanted->at[i].name));

		if (!value || strcmp(value, wanted->at[i].value) != 0)
			return false;
	}
	return true;
}

static void record_put_time(struct json_out *out, const char *key, int64_t wall_ms)
{
	if (wall_ms)
		json_put_time(out, key, wall_ms);
	else
		json_put_text(out, key, NULL);
}

void record_put(struct json_out *out, const struct record *record)
{
	const struct policy off = POLICY_INIT(POLICY_OFF);

	json_put_text(out, "id", record->id);
	json_put_text(out, "shortId", record->short_id);
	json_put_text(out, "name", record->name[0] ? record->name : NULL);
	if (record->tenant[0])
		json_put_text(out, "tenant", record->tenant);
	json_put_text(out, "state", state_word(record->state));
	if (record->reason[0])
		json_put_text(out, "reason", record->reason);
	if (record->wait.reason) {
		json_key(out, "waiting");
		json_begin(out, '{');
		json_put_text(out, "reason", record->wait.reason);
		if (record->wait.operation)
			json_put_text(out, "operation", record->wait.operation);
		else
			json_put_int(out, "position", record->wait.position);
		json_end(out, '}');
	}
	json_put_text(out, "template", record_template(record));
	if (record->image)
		json_put_text(out, "image", record->image);
	json_put_text(out, "user", record->user[0] ? record->user : "root");
	json_put_text(out, "workdir", record_workdir(record));
	launch_put(out, record->launch);
	json_key(out, "limits");
	spec_write_limits(out, &record->limits);
	json_key(out, "labels");
	env_map_write(out, &record->labels);
	json_key(out, "network");
	policy_write(out, record->network ? record->network : &off);
	if (record->volumes.count) {
		json_key(out, "volumes");
		volume_mounts_write(out, &record->volumes);
	}
	retention_write(out, &record->retention);
	if (record->state == STATE_ARCHIVED)
		json_put_int(out, "archiveBytes", (int64_t)record->archive_bytes);
	if (record->ephemeral)
		json_put_bool(out, "ephemeral", true);
	if (record->unsynced_ms)
		json_put_bool(out, "unsynced", true);
	record_put_time(out, "createdAt", record->created_ms);
	record_put_time(out, "startedAt", record->started_ms);
	record_put_time(out, "endsAt", record->ends_ms);
}

void record_write(struct json_out *out, const struct record *record)
{
	json_begin(out, '{');
	record_put(out, record);
	json_end(out, '}');
}
