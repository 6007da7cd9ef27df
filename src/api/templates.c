// Routes for templates. An import streams a tar archive to the warden; freezing makes a fixed
// template of the host's root. manager/templates decides who may, and checks names and archives.
#include "api/handlers.h"
#include "api/images.h"
#include "api/template_json.h"
#include "base/clock.h"
#include "codec/tar.h"
#include "gateway/gateway.h"
#include "manager/exports.h"
#include "manager/pulled.h"

#define REPLY_MAX (1 << 20)
#define PIECE (64 * 1024)

static void templates_put_count(struct json_out *out, const char *key, uint64_t value)
{
	json_key(out, key);
	if (value)
		json_add_int(out, (int64_t)value);
	else
		json_add_null(out);
}

// The note of a snapshot, see manager/snapshot_note.h.
static void put_lineage(struct json_out *out, const char *note)
{
	struct str source = {0}, parent = {0}, first = {0};
	auto_json json = NULL;
	bool stopped = false;
	auto_err err = json_read(str_of(note), &json);

	if (err)
		return;
	err_free(json_bool(json_get(json, "stopped"), "stopped", &stopped));
	source = json_chars(json_get(json, "source"));
	parent = json_chars(json_get(json, "parent"));
	first = json_chars(json_get(json, "template"));
	json_put_str(out, "source", source);
	if (parent.len)
		json_put_str(out, "parent", parent);
	else
		json_put_text(out, "parent", NULL);
	json_put_text(out, "consistency", stopped ? "clean" : "crash");
	json_put_begin(out, "lineage", '{');
	json_put_str(out, "sandbox", source);
	if (parent.len)
		json_put_str(out, "snapshot", parent);
	else
		json_put_text(out, "snapshot", NULL);
	json_put_str(out, "template", first);
	json_end(out, '}');
}

void template_put(struct json_out *out, const struct template *template)
{
	auto_buf time = BUF_INIT(64);

	if (template->created_ms)
		clock_iso(template->created_ms, &time);
	json_put_text(out, "name", template->name);
	json_put_text(out, "kind", template->kind);
	templates_put_count(out, "bytes", template->bytes);
	templates_put_count(out, "files", template->files);
	json_put_text(out, "createdAt", time.len ? time.at : NULL);
	if (template->note[0])
		put_lineage(out, template->note);
}

static void write_template(struct http *x, struct json_out *out, const struct template *template)
{
	json_begin(out, '{');
	if (template->image)
		pulled_put_json(out, gateway_of(x)->manager, template->image);
	else
		template_put(out, template);
	json_end(out, '}');
}

static fallible templates_answer(struct http *x, int status, const struct template *template)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);

	write_template(x, &out, template);
	return http_reply_json(x, status, &body);
}

fallible api_templates_list(struct http *x)
{
	auto_free struct template *all = NULL;
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	size_t count;

	TRY(templates_all(gateway_of(x)->manager, gateway_who(x), &all, &count));
	json_begin(&out, '{');
	json_put_begin(&out, "items", '[');
	for (size_t i = 0; i < count; i++)
		write_template(x, &out, &all[i]);
	json_end(&out, ']');
	json_put_text(&out, "cursor", NULL);
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

fallible api_templates_get(struct http *x)
{
	struct template template;

	TRY(templates_get(gateway_of(x)->manager, gateway_who(x), x->params[0], &template));
	return templates_answer(x, 200, &template);
}

fallible api_templates_forget(struct http *x)
{
	TRY(templates_forget(gateway_of(x)->manager, gateway_who(x), x->params[0]));
	return http_reply_empty(x, 204);
}

static size_t export_head(const struct export_file *file, char *room)
{
	bool is_dir = str_ends(str_of(file->path), "/");
	struct tar_head head = {.type = is_dir ? TAR_DIRECTORY : TAR_FILE,
				.path = str_of(file->path),
				.size = file->size,
				.mode = is_dir ? 0755 : 0644};

	return tar_write(&head, room, TAR_HEAD_MAX); // never 0: the path is short
}

static fallible export_put_file(struct http *x, const struct export_file *file, char *room)
{
	static const char zeros[TAR_BLOCK];

	TRY(http_write(x, room, export_head(file, room)));
	if (file->fd >= 0)
		TRY(http_send_file(x, file->fd, 0, file->size));
	else if (file->text)
		TRY(http_write(x, file->text, (size_t)file->size));
	return tar_padding(file->size) ? http_write(x, zeros, tar_padding(file->size)) : OK;
}

static fallible export_send(struct http *x, const struct export *export)
{
	static const char zeros[2 * TAR_BLOCK];
	char *room = arena_take(x->arena, TAR_HEAD_MAX);
	uint64_t len = sizeof(zeros);

	for (size_t i = 0; i < export->count; i++)
		len += export_head(&export->files[i], room) + export->files[i].size +
		       tar_padding(export->files[i].size);
	http_be_patient(x);
	TRY(http_begin_sized(x, 200, "application/x-tar", len));
	for (size_t i = 0; i < export->count; i++)
		TRY(export_put_file(x, &export->files[i], room));
	TRY(http_write(x, zeros, sizeof(zeros)));
	return http_end(x);
}

fallible api_templates_export(struct http *x)
{
	struct export_request request = {.name = x->params[0]};
	struct str compression = http_query(x, "compression");
	auto_export export = NULL;

	TRY(gateway_flag(x, "squash", &request.squash));
	request.zstd = str_is(compression, "zstd");
	if (compression.at && !request.zstd && !str_is(compression, "gzip"))
		return err_hint(err_new(INVALID, "bad_field", "there is no such 'compression'"),
				"gzip or zstd");
	TRY(http_while_away(
		x, HTTP_PROBE_HEAD,
		exports_make(gateway_of(x)->manager, gateway_who(x), &request, &export)));
	return export_send(x, export);
}

static fallible api_templates_freeze(struct http *x, const struct json *json)
{
	static const char *const known[] = {"name", "from", NULL};
	struct str name = {0}, from = STR("host");
	struct template template;

	TRY(json_only(json, known));
	TRY(json_str(json_get(json, "name"), "name", &name));
	TRY(json_str(json_get(json, "from"), "from", &from));
	if (!name.at)
		return err_new(INVALID, "bad_field", "'name' is missing");
	if (!str_is(from, "host"))
		return err_hint(err_new(NOT_OFFERED, "not_offered",
					"only the template 'host' can be frozen"),
				"send {\"name\":NAME,\"from\":\"host\"}");
	TRY(templates_freeze(gateway_of(x)->manager, gateway_who(x), name, &template));
	return templates_answer(x, 201, &template);
}

static fallible api_templates_import(struct http *x)
{
	struct str name = http_query(x, "name");
	auto_templates_import to = NULL;
	struct template template;
	char *piece;
	size_t got;

	if (!name.at)
		return err_hint(err_new(INVALID, "bad_field", "'name' is missing"),
				"POST /v1/templates?name=NAME with the archive as the body");
	TRY(templates_import_begin(gateway_of(x)->manager, gateway_who(x), name, &to));
	piece = arena_take(x->arena, PIECE);
	do {
		TRY(http_read(x, piece, PIECE, &got));
		if (got)
			TRY(templates_import_write(to, piece, got));
	} while (got);
	TRY(templates_import_end(to, &template));
	return templates_answer(x, 201, &template);
}

fallible api_templates_make(struct http *x)
{
	struct str type = http_field(x, "Content-Type");

	auto_json json = NULL;

	if (type.len < 16 || !str_eq_nocase((struct str){type.at, 16}, STR("application/json")))
		return api_templates_import(x);
	TRY(gateway_json(x, &json, NULL));
	TRY(json_want(json, "body", JSON_OBJECT));
	return json_get(json, "image") ? images_pull(x, json) : api_templates_freeze(x, json);
}
