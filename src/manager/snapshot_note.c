// The note that the warden keeps with a snapshot: written from the record of its sandbox, read for
// the creates that start from it.
#include "manager/snapshot_note.h"

#include <stdio.h>

#include "base/mem.h"

#define ASK_MS 30000

static void put_limits(struct json_out *out, const struct limits *limits)
{
	json_put_begin(out, "limits", '{');
	for (enum limit i = 0; i < LIMIT_COUNT; i++)
		json_put_int(out, limit_rows[i].stored, (int64_t)limit_of(limits, i));
	json_end(out, '}');
}

static bool note_keep(const struct buf *text, char out[ORDER_NOTE_MAX])
{
	if (!buf_ok(text))
		return false;
	memcpy(out, text->at, text->len + 1);
	return true;
}

static bool note_try(const struct entry *entry, const char *parent, const char *template,
		     bool with_workdir, char out[ORDER_NOTE_MAX])
{
	const struct record *record = &entry->record;
	auto_buf text = BUF_INIT(ORDER_NOTE_MAX - 1);
	struct json_out json = json_to(&text);

	json_begin(&json, '{');
	json_put_text(&json, "source", record->id);
	if (parent[0])
		json_put_text(&json, "parent", parent);
	json_put_text(&json, "template", template);
	json_put_bool(&json, "stopped", state_is_stopped(record->state));
	if (env_map_get(&record->labels, STR(BOX_BUILD_LABEL))) {
		json_put_bool(&json, "built", true);
		json_end(&json, '}');
		return note_keep(&text, out);
	}
	if (record->user[0])
		json_put_text(&json, "user", record->user);
	if (record->workdir && with_workdir)
		json_put_text(&json, "workdir", record->workdir);
	put_limits(&json, &record->limits);
	json_end(&json, '}');
	return note_keep(&text, out);
}

static fallible note_ask(struct manager *manager, const char *template, struct json **out)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	struct order order = {.kind = ORDER_DESCRIBE};
	int fds[ORDER_FDS_MAX];

	snprintf(order.name, sizeof(order.name), "%s", template);
	TRY(ask_order(manager->ask, &order, answer, fds, loop_now(manager->loop) + ASK_MS));
	return answer->note[0] ? json_read(str_of(answer->note), out) : OK;
}

// A path that is too long for the note is left out: then the default holds.
fallible snapshot_note_write(struct entry *entry, char out[ORDER_NOTE_MAX])
{
	struct str template = str_of(record_template(&entry->record));
	char parent[TEMPLATE_NAME_MAX] = "", first[TEMPLATE_NAME_MAX];
	auto_json note = NULL;

	if (strcmp(entry->record.template, "host") != 0)
		TRY(note_ask(entry->manager, entry->record.template, &note));
	if (note) {
		snprintf(parent, sizeof(parent), STR_FMT, STR_ARG(template));
		TRY(json_str(json_get(note, "template"), "template", &template));
	}
	snprintf(first, sizeof(first), STR_FMT, STR_ARG(template));
	if (note_try(entry, parent, first, true, out) || note_try(entry, parent, first, false, out))
		return OK;
	return err_new(INTERNAL, "internal", "the note of a snapshot does not fit");
}

bool snapshot_note_is_built(const char *note)
{
	auto_json json = NULL;
	bool built = false;
	auto_err err = json_read(str_of(note), &json);

	if (!err)
		err_free(json_bool(json_get(json, "built"), "built", &built));
	return built;
}

static fallible fill_limits(const struct manager *manager, const struct json *note,
			    struct spec *spec)
{
	const struct json *limits = json_get(note, "limits");

	for (enum limit i = 0; limits && i < LIMIT_COUNT; i++) {
		uint64_t value = limit_of(&spec->limits, i);

		if (spec->limits_said >> i & 1)
			continue;
		TRY(json_u64(json_get(limits, limit_rows[i].stored), limit_rows[i].stored, 0,
			     LIMITS_MAX, &value));
		*limit_at(&spec->limits, i) = value;
	}
	if (spec->limits.memory > manager->bounds.memory_max)
		spec->limits.memory = manager->bounds.memory_max;
	if (spec->limits.cpu_milli > manager->bounds.cpu_milli_max)
		spec->limits.cpu_milli = manager->bounds.cpu_milli_max;
	if (spec->limits.output > manager->bounds.output_max)
		spec->limits.output = manager->bounds.output_max;
	return OK;
}

fallible snapshot_note_fill(struct manager *manager, struct spec *spec)
{
	struct str user = {0}, workdir = {0};
	auto_json note = NULL;

	if (!strcmp(spec->template, "host"))
		return OK;
	TRY(note_ask(manager, spec->template, &note));
	if (!note)
		return OK;
	TRY(json_str(json_get(note, "user"), "user", &user));
	TRY(json_str(json_get(note, "workdir"), "workdir", &workdir));
	if (!spec->user[0] && user.len && user.len < sizeof(spec->user))
		snprintf(spec->user, sizeof(spec->user), STR_FMT, STR_ARG(user));
	if (!spec->workdir && workdir.len)
		spec->workdir = mem_dup(workdir.at, workdir.len);
	return fill_limits(manager, note, spec);
}
