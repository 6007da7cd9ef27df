// Snapshots: the templates of cove, whose id is their name. One is made of an image, which is
// pulled, of a Dockerfile, which is built, or of the files of a sandbox. The answer to a create is
// active, but for builds: their state is that of the operation until the template is there, and
// their log can be followed meanwhile. A build that failed is shown as long as its operation is
// kept.

#include "manager/snapshots.h"

#include <stdio.h>

#include "base/mem.h"
#include "daytona/create.h"
#include "daytona/dockerfile.h"
#include "daytona/handlers.h"
#include "daytona/sandbox_json.h"
#include "gateway/gateway.h"
#include "manager/build_files.h"
#include "manager/pull.h"
#include "manager/snapshot_note.h"

#define REPLY_MAX (16 << 20)
#define PAGE_MAX 200
#define PAGE_DEFAULT 100
#define LOG_PIECE (32 * 1024)
#define GIB (1024.0 * 1024 * 1024)

// What a snapshot's sandboxes get unless their create says otherwise.
static void snapshot_put_size(struct json_out *out, const char *key, const struct json *limits,
			      const char *name, double preset, double scale)
{
	double value = 0;

	err_free(json_double(json_get(limits, name), name, 0, 1e18, &value));
	json_key(out, key);
	json_add_double(out, value > 0 ? value / scale : preset);
}

static void snapshot_put(struct json_out *out, const struct template *template)
{
	auto_buf time = BUF_INIT(64);
	auto_json note = NULL;
	char name[FOREIGN_NAME_MAX + 2];
	const struct json *limits;
	struct str source;

	if (template->note[0])
		err_free(json_read(str_of(template->note), &note));
	limits = note ? json_get(note, "limits") : NULL;
	source = json_chars(
		note && !snapshot_note_is_built(template->note) ? json_get(note, "source") : NULL);
	if (template->created_ms)
		clock_iso(template->created_ms, &time);
	json_begin(out, '{');
	foreign_name_read(template->name, id_is_template, name);
	json_put_text(out, "id", name);
	json_put_text(out, "name", name);
	json_put_bool(out, "general", !strcmp(template->kind, "host"));
	json_put_text(out, "imageName", template->image ? template->image->reference : NULL);
	json_put_text(out, "state", "active");
	json_key(out, "size");
	json_add_double(out, (double)template->bytes / GIB);
	json_put_text(out, "entrypoint", NULL);
	snapshot_put_size(out, "cpu", limits, limit_rows[LIMIT_CPUS].stored, 1, 1000);
	json_put_int(out, "gpu", 0);
	snapshot_put_size(out, "mem", limits, limit_rows[LIMIT_MEMORY].stored,
			  CREATE_MEMORY_MB / 1024.0, GIB);
	snapshot_put_size(out, "disk", limits, limit_rows[LIMIT_DISK].stored,
			  CREATE_DISK_MB / 1024.0, GIB);
	json_put_text(out, "errorReason", NULL);
	json_put_text(out, "createdAt", time.len ? time.at : "1970-01-01T00:00:00.000Z");
	json_put_text(out, "updatedAt", time.len ? time.at : "1970-01-01T00:00:00.000Z");
	json_put_text(out, "lastUsedAt", NULL);
	if (source.len)
		json_put_str(out, "sourceSandboxId", source);
	else
		json_put_text(out, "sourceSandboxId", NULL);
	json_end(out, '}');
}

// The template that the path names.
static struct str snapshot_key(const struct http *x)
{
	char form[FOREIGN_NAME_MAX + 2];

	return foreign_name_write(x->params[0], id_is_template, form)
		       ? str_of(arena_fmt(x->arena, "%s", form))
		       : x->params[0];
}

// The last build of that name; NULL: the caller may know of none.
static struct operation *snapshot_find_build(const struct http *x, struct str name)
{
	struct operation *operation, *last = NULL;
	size_t at = 0;

	while (operations_next(gateway_of(x)->manager, &at, &operation))
		if (operation->kind == OPERATION_BUILD && operation->name &&
		    str_is(name, operation->name) &&
		    !strcmp(operation->tenant, gateway_who(x)->tenant) &&
		    (!last || operation->created_ms >= last->created_ms))
			last = operation;
	return last;
}

static void snapshot_put_build(struct json_out *out, const struct operation *operation)
{
	static const char *const nulls[] = {"imageName", "size", "entrypoint", "lastUsedAt",
					    "sourceSandboxId"};
	bool failed = operation->state == OPERATION_FAILED ||
		      operation->state == OPERATION_CANCELLED;
	char name[FOREIGN_NAME_MAX + 2];

	json_begin(out, '{');
	foreign_name_read(operation->name, id_is_template, name);
	json_put_text(out, "id", name);
	json_put_text(out, "name", name);
	json_put_bool(out, "general", false);
	json_put_text(out, "state",
		      failed				     ? "build_failed"
		      : operation->state == OPERATION_QUEUED ? "pending"
							     : "building");
	for (size_t i = 0; i < sizeof(nulls) / sizeof(*nulls); i++)
		json_put_text(out, nulls[i], NULL);
	json_put_int(out, "cpu", 1);
	json_put_int(out, "gpu", 0);
	json_put_int(out, "mem", CREATE_MEMORY_MB / 1024);
	json_put_int(out, "disk", CREATE_DISK_MB / 1024);
	json_put_text(out, "errorReason",
		      failed ? operation->err ? err_message(operation->err) : "the build was ended"
			     : NULL);
	json_put_time(out, "createdAt", operation->created_ms);
	json_put_time(out, "updatedAt",
		      operation->ended_ms ? operation->ended_ms : operation->created_ms);
	json_end(out, '}');
}

static fallible snapshot_answer(struct http *x, struct str name)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	const struct operation *build;
	struct template template;
	struct err *err = templates_get(gateway_of(x)->manager, gateway_who(x), name, &template);

	if (err && err_kind(err) == ERR_NOT_FOUND && (build = snapshot_find_build(x, name)) &&
	    build->state != OPERATION_SUCCEEDED) {
		err_free(err);
		snapshot_put_build(&out, build);
		return http_reply_json(x, 200, &body);
	}
	TRY(err);
	snapshot_put(&out, &template);
	return http_reply_json(x, 200, &body);
}

// ------------------------------------------------------------------------------------ logs

fallible daytona_snapshots_logs_url(struct http *x)
{
	auto_buf body = BUF_INIT(4096);
	struct json_out out = json_to(&body);

	TRY(access_ask(gateway_who(x), ACCESS_READ));
	if (!snapshot_find_build(x, snapshot_key(x)))
		return err_absent("no_template", "build of a snapshot", x->params[0]);
	json_begin(&out, '{');
	json_put_text(&out, "url",
		      arena_fmt(x->arena, "%s/daytona/snapshots/" STR_FMT "/build-logs",
				gateway_origin(x), STR_ARG(snapshot_key(x))));
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

static fallible snapshot_send_logs(struct http *x, struct operation *build, bool follows)
{
	char *room = arena_take(x->arena, LOG_PIECE);
	uint64_t offset = 0;
	size_t len;

	http_be_patient(x);
	TRY(http_begin(x, 200, "text/plain"));
	for (;;) {
		uint64_t seen = build->version;
		bool ended = operation_has_ended(build);

		do {
			TRY(build_log_read(gateway_of(x)->manager, build, offset, room, LOG_PIECE,
					   &len));
			offset += len;
			if (len)
				TRY(http_write(x, room, len));
		} while (len);
		if (ended || !follows)
			return http_end(x);
		if (build->version == seen)
			TRY(http_while_away(x, (struct str){0},
					    condition_wait(&build->changed, CLOCK_NEVER)));
	}
}

fallible daytona_snapshots_logs(struct http *x)
{
	struct operation *build;
	bool follows = false;
	struct err *err;

	TRY(access_ask(gateway_who(x), ACCESS_READ));
	TRY(gateway_flag(x, "follow", &follows));
	build = snapshot_find_build(x, snapshot_key(x));
	if (!build)
		return err_absent("no_template", "build of a snapshot", x->params[0]);
	build->holds++;
	err = snapshot_send_logs(x, build, follows);
	operation_drop(build);
	return err;
}

fallible daytona_snapshots_get(struct http *x)
{
	return snapshot_answer(x, snapshot_key(x));
}

fallible daytona_snapshots_delete(struct http *x)
{
	TRY(templates_forget(gateway_of(x)->manager, gateway_who(x), snapshot_key(x)));
	return http_reply_empty(x, 200);
}

static fallible snapshots_read_number(struct http *x, const char *key, uint64_t max, uint64_t *out)
{
	struct str text = http_query(x, key);

	if (text.len && !str_to_u64(text, 1, max, out))
		return err_new(INVALID, "bad_field", "'%s' must be within 1 and %llu", key,
			       (unsigned long long)max);
	return OK;
}

static bool is_of_source(const struct template *template, struct str source)
{
	return !source.len ||
	       (!snapshot_note_is_built(template->note) &&
		memmem(template->note, strlen(template->note), source.at, source.len));
}

fallible daytona_snapshots_list(struct http *x)
{
	struct str source = http_query(x, "sourceSandboxId");
	auto_free struct template *all = NULL;
	uint64_t limit = PAGE_DEFAULT, page = 1;
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	size_t count = 0, kept = 0, from;

	TRY(snapshots_read_number(x, "limit", PAGE_MAX, &limit));
	TRY(snapshots_read_number(x, "page", UINT32_MAX, &page));
	TRY(templates_all(gateway_of(x)->manager, gateway_who(x), &all, &count));
	for (size_t i = 0; i < count; i++)
		if (is_of_source(&all[i], source))
			all[kept++] = all[i];
	from = (page - 1) * limit < kept ? (size_t)((page - 1) * limit) : kept;
	json_begin(&out, '{');
	json_put_begin(&out, "items", '[');
	for (size_t i = from; i < kept && i - from < limit; i++)
		snapshot_put(&out, &all[i]);
	json_end(&out, ']');
	json_put_int(&out, "total", (int64_t)kept);
	json_put_int(&out, "page", (int64_t)page);
	json_put_int(&out, "totalPages", (int64_t)((kept + limit - 1) / limit));
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

// ------------------------------------------------------------------------------------------ create

static fallible snapshot_pull(struct http *x, struct str name, struct str image)
{
	struct pull_ask ask = {.image = image, .name = name};
	struct operation *operation = NULL;

	TRY(pull_begin(gateway_of(x)->manager, gateway_who(x), &ask, &operation));
	return dockerfile_await(x, operation);
}

// What a template of cove does not keep.
static fallible snapshot_refuse(const struct json *body)
{
	static const struct {
		const char *key, *hint;
	} rows[] = {
		{"cpu", "give 'resources' when a sandbox is made"},
		{"memory", "give 'resources' when a sandbox is made"},
		{"disk", "give 'resources' when a sandbox is made"},
		{"gpu", "leave it out"},
		{"entrypoint", "start the program as a session command"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (create_is_asked(json_get(body, rows[i].key)))
			return err_hint(err_new(NOT_OFFERED, "not_offered",
						"cove keeps no '%s' with a snapshot", rows[i].key),
					"%s", rows[i].hint);
	return OK;
}

fallible daytona_snapshots_create(struct http *x)
{
	struct dockerfile_source source = {0};
	struct operation *operation = NULL;
	struct str name = {0}, image = {0};
	char form[FOREIGN_NAME_MAX + 2];
	struct template template;
	auto_json body = NULL;
	auto_err err = NULL;

	TRY(gateway_object(x, &body));
	TRY(json_str(json_get(body, "name"), "name", &name));
	TRY(json_str(json_get(body, "imageName"), "imageName", &image));
	if (!name.len)
		return err_new(INVALID, "bad_field", "'name' is missing");
	TRY(create_name(name, id_is_template, form));
	name = str_of(form);
	TRY(snapshot_refuse(body));
	TRY(create_dockerfile(body, &source.text));
	TRY(create_hashes(body, &source.hashes));
	if (!image.len == !source.text.len)
		return err_new(INVALID, "bad_field", "there must be 'imageName' or 'buildInfo'");
	err = templates_get(gateway_of(x)->manager, gateway_who(x), name, &template);
	if (!err)
		return err_new(CONFLICT, "template_exists", "there is a snapshot of this name");
	if (err_kind(err) != ERR_NOT_FOUND)
		return take_ptr(err);
	http_be_patient(x);
	if (image.len || create_from_line(source.text, &image)) {
		TRY(snapshot_pull(x, name, image));
		return snapshot_answer(x, name);
	}
	TRY(dockerfile_begin(x, name, &source, &operation));
	operation_drop(operation);
	return snapshot_answer(x, name);
}

// ------------------------------------------------------------------------------------ of a sandbox

fallible daytona_snapshots_of_sandbox(struct http *x)
{
	struct str name = {0};
	char form[FOREIGN_NAME_MAX + 2] = "";
	struct snapshot made;
	auto_json body = NULL;

	TRY(gateway_object(x, &body));
	TRY(json_str(json_get(body, "name"), "name", &name));
	if (!name.len)
		return err_new(INVALID, "bad_field", "'name' is missing");
	TRY(create_name(name, id_is_template, form));
	TRY(snapshots_make(gateway_of(x)->manager, gateway_who(x), x->params[0], str_of(form),
			   &made));
	return daytona_sandbox_get(x);
}

fallible daytona_snapshots_fork(struct http *x)
{
	struct fork_request request = {.count = 1, .secrets = true};
	const struct record *record;
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	char form[FOREIGN_NAME_MAX + 2] = "";
	struct create_grant grant;
	struct str name = {0};
	auto_json json = NULL;
	struct fork fork = {0};

	TRY(access_create(gateway_who(x), &grant));
	TRY(gateway_json(x, &json, NULL));
	if (json)
		TRY(json_str(json_get(json, "name"), "name", &name));
	if (name.len)
		TRY(create_name(name, id_is_name, form));
	snprintf(request.name, sizeof(request.name), "%.*s", ID_NAME_MAX, form);
	TRY(snapshots_fork(gateway_of(x)->manager, &grant, x->params[0], &request, &fork));
	if (fork.err)
		return fork.err;
	TRY(manager_get(gateway_of(x)->manager, gateway_who(x), str_of(fork.id), &record));
	sandbox_json_put(x, &out, record, NULL, true);
	return http_reply_json(x, 200, &body);
}
