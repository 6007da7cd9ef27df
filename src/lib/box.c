// Sandboxes: create, find, change and list. A handle is a key and the last answer of the server;
// its strings are replaced by the next answer. The sandbox itself is not affected by freeing the
// handle.
#include "lib/box.h"

#include "base/mem.h"
#include "codec/text.h"
#include "lib/fields.h"
#include "lib/http_call.h"
#include "types/limits.h"

#define SPEC_MAX (1 << 20)

char *lib_box_path(const struct cove_box *box, const char *rest)
{
	return mem_fmt("%s%s", box->base, rest);
}

fallible lib_box_post(const struct cove_box *box, const char *rest, const struct buf *body,
		      struct json **out)
{
	auto_free char *path = lib_box_path(box, rest);

	if (out)
		return http_call_json(box->cove, "POST", path, body, out);
	return http_call_text(box->cove, "POST", path, NULL, body, NULL);
}

static char *path_of(const char *key)
{
	auto_buf path = BUF_INIT(1 << 20);

	buf_text(&path, LIB_BOXES "/");
	text_percent(&path, str_of(key));
	return buf_take(&path);
}

struct cove_box *cove_box_at(struct cove *cove, const char *key)
{
	struct cove_box *box = mem_new_of(struct cove_box);

	box->cove = cove;
	box->key = mem_str(key);
	box->base = path_of(key);
	return box;
}

void cove_box_free(struct cove_box *box)
{
	if (!box)
		return;
	json_free(box->info);
	free(box->text);
	free(box->key);
	free(box->base);
	free(box);
}

const char *cove_box_id(const struct cove_box *box)
{
	const char *id = fields_text(box->info, "id");

	return *id ? id : box->key;
}

static fallible lib_box_put_limits(struct json_out *out, const struct cove_box_spec *spec)
{
#define F(field, name, unit, least, most, stored, client, ...) {name, (double)spec->client},
	const struct {
		const char *key;
		double value;
	} rows[] = {LIMITS_FIELDS(F)};
#undef F

	if (spec->cpus < 0)
		return err_new(INVALID, "bad_value", "the number of CPUs must be positive");
	json_key(out, "limits");
	json_begin(out, '{');
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		if (rows[i].value <= 0)
			continue;
		json_key(out, rows[i].key);
		json_add_double(out, rows[i].value);
	}
	json_end(out, '}');
	return OK;
}

// The API takes seconds.
static void put_span(struct json_out *out, const char *key, int64_t ms)
{
	if (ms <= 0)
		return;
	json_key(out, key);
	json_add_double(out, (double)ms / 1000);
}

static fallible put_spec(struct buf *to, const struct cove_box_spec *spec, bool named)
{
	struct json_out out = json_to(to);

	json_begin(&out, '{');
	if (spec->name && named)
		json_put_text(&out, "name", spec->name);
	if (spec->pool)
		json_put_text(&out, "pool", spec->pool);
	if (spec->from)
		json_put_text(&out, "template", spec->from);
	if (spec->image)
		json_put_text(&out, "image", spec->image);
	if (spec->pull)
		json_put_text(&out, "pull", spec->pull);
	TRY(lib_box_put_limits(&out, spec));
	put_span(&out, "sleepAfter", spec->sleep_after_ms);
	put_span(&out, "archiveAfter", spec->archive_after_ms);
	put_span(&out, "ttl", spec->ttl_ms);
	if (spec->keep_alive)
		json_put_bool(&out, "keepAlive", true);
	if (spec->ephemeral)
		json_put_bool(&out, "ephemeral", true);
	if (spec->user)
		json_put_text(&out, "user", spec->user);
	if (spec->workdir)
		json_put_text(&out, "workdir", spec->workdir);
	if (spec->start)
		json_put_text(&out, "start", spec->start);
	if (spec->ready)
		json_put_text(&out, "ready", spec->ready);
	fields_network(&out, spec->network, spec->allow);
	fields_names(&out, "secrets", spec->secrets);
	TRY(fields_volumes(&out, spec->volumes));
	TRY(fields_pairs(&out, "env", spec->env));
	TRY(fields_pairs(&out, "labels", spec->labels));
	json_end(&out, '}');
	return OK;
}

// Keeps the server's answer about the box.
static fallible lib_box_learn(struct cove_box *box, struct buf *text)
{
	auto_json info = NULL;

	TRY(http_call_object(buf_view(text), &info));
	json_free(box->info);
	free(box->text);
	box->info = take_ptr(info);
	box->text = buf_take(text);
	return OK;
}

// Makes a handle from an answer that contains its id.
static fallible lib_box_born(struct cove *cove, struct buf *text, struct cove_box **out)
{
	auto_json info = NULL;
	struct cove_box *box;
	struct err *err;

	TRY(http_call_object(buf_view(text), &info));
	if (!*fields_text(info, "id"))
		return err_new(BAD_PEER, "bad_reply", "the daemon gave a sandbox but no id");
	box = cove_box_at(cove, fields_text(info, "id"));
	err = lib_box_learn(box, text);
	if (err) {
		cove_box_free(box);
		return err;
	}
	*out = box;
	return OK;
}

static fallible lib_box_make(struct cove *cove, const char *method, const char *path,
			     const struct cove_box_spec *spec, struct cove_box **out)
{
	static const struct cove_box_spec none;
	auto_buf body = BUF_INIT(SPEC_MAX), text = BUF_INIT(PRIVATE_REPLY_MAX);

	if (!spec)
		spec = &none;
	TRY(put_spec(&body, spec, strcmp(method, "POST") == 0));
	TRY(http_call_text(cove, method, path, spec->key, &body, &text), "make a sandbox");
	return lib_box_born(cove, &text, out);
}

enum cove_kind cove_box_ensure(struct cove *cove, const char *name,
			       const struct cove_box_spec *spec, struct cove_box **out,
			       struct cove_error *error)
{
	auto_free char *path = path_of(name);

	return private_call(cove, lib_box_make(cove, "PUT", path, spec, out), error);
}

enum cove_kind cove_box_create(struct cove *cove, const struct cove_box_spec *spec,
			       struct cove_box **out, struct cove_error *error)
{
	return private_call(cove, lib_box_make(cove, "POST", LIB_BOXES, spec, out), error);
}

static fallible lib_box_look(struct cove_box *box)
{
	auto_buf text = BUF_INIT(PRIVATE_REPLY_MAX);

	TRY(http_call_text(box->cove, "GET", box->base, NULL, NULL, &text));
	return lib_box_learn(box, &text);
}

enum cove_kind cove_box_find(struct cove *cove, const char *key, struct cove_box **out,
			     struct cove_error *error)
{
	struct cove_box *box = cove_box_at(cove, key);
	struct err *err;

	private_begin(cove);
	err = lib_box_look(box);
	if (err) {
		cove_box_free(box);
		return private_end(cove, err, error);
	}
	*out = box;
	return COVE_OK;
}

static struct cove_box_info lib_box_info_of(const struct json *info, const char *text)
{
	return (struct cove_box_info){
		.id = fields_text(info, "id"),
		.short_id = fields_text(info, "shortId"),
		.name = fields_text(info, "name"),
		.from = fields_text(info, "template"),
		.state = fields_text(info, "state"),
		.created_at = fields_text(info, "createdAt"),
		.json = text,
	};
}

enum cove_kind cove_box_info(struct cove_box *box, struct cove_box_info *out,
			     struct cove_error *error)
{
	struct err *err;

	private_begin(box->cove);
	err = lib_box_look(box);
	if (!err)
		*out = lib_box_info_of(box->info, box->text);
	return private_end(box->cove, err, error);
}

enum cove_kind cove_box_delete(struct cove_box *box, struct cove_error *error)
{
	return private_call(
		box->cove, http_call_text(box->cove, "DELETE", box->base, NULL, NULL, NULL), error);
}

enum cove_kind cove_box_delete_unsynced(struct cove_box *box, struct cove_error *error)
{
	auto_free char *path = mem_fmt("%s?force=true", box->base);

	return private_call(box->cove, http_call_text(box->cove, "DELETE", path, NULL, NULL, NULL),
			    error);
}

static enum cove_kind lib_box_step(struct cove_box *box, const char *word, struct cove_error *error)
{
	auto_free char *path = mem_fmt("%s/%s", box->base, word);
	auto_buf text = BUF_INIT(PRIVATE_REPLY_MAX);
	struct err *err;

	private_begin(box->cove);
	err = http_call_text(box->cove, "POST", path, NULL, NULL, &text);
	if (!err)
		err = lib_box_learn(box, &text);
	return private_end(box->cove, err, error);
}

enum cove_kind cove_box_pause(struct cove_box *box, struct cove_error *error)
{
	return lib_box_step(box, "pause", error);
}

enum cove_kind cove_box_resume(struct cove_box *box, struct cove_error *error)
{
	return lib_box_step(box, "resume", error);
}

enum cove_kind cove_box_stop(struct cove_box *box, struct cove_error *error)
{
	return lib_box_step(box, "stop", error);
}

enum cove_kind cove_box_start(struct cove_box *box, struct cove_error *error)
{
	return lib_box_step(box, "start", error);
}

enum cove_kind cove_box_archive(struct cove_box *box, struct cove_error *error)
{
	return lib_box_step(box, "archive", error);
}

static fallible lib_box_limit(struct cove_box *box, const struct cove_box_spec *limits)
{
	auto_buf body = BUF_INIT(SPEC_MAX);
	struct json_out out = json_to(&body);

	json_begin(&out, '{');
	TRY(lib_box_put_limits(&out, limits));
	json_end(&out, '}');
	return http_call_text(box->cove, "PATCH", box->base, NULL, &body, NULL);
}

enum cove_kind cove_box_limit(struct cove_box *box, const struct cove_box_spec *limits,
			      struct cove_error *error)
{
	return private_call(box->cove, lib_box_limit(box, limits), error);
}

enum cove_kind cove_box_network(struct cove_box *box, const struct cove_network *network,
				struct cove_error *error)
{
	auto_buf body = BUF_INIT(SPEC_MAX);
	struct json_out out = json_to(&body);

	json_begin(&out, '{');
	json_key(&out, "network");
	json_begin(&out, '{');
	fields_put_text(&out, "mode", network->mode);
	fields_names(&out, "allow", network->allow);
	fields_names(&out, "inspect", network->inspect);
	fields_names(&out, "secrets", network->secrets);
	json_end(&out, '}');
	json_end(&out, '}');
	return private_call(
		box->cove, http_call_text(box->cove, "PATCH", box->base, NULL, &body, NULL), error);
}

static fallible each_of(const struct json *page, cove_box_fn *each, void *arg)
{
	struct json *items = json_get(page, "items");

	for (size_t i = 0; items && i < json_count(items); i++) {
		struct cove_box_info info = lib_box_info_of(json_at(items, i), "");

		if (each(arg, &info))
			return err_new(CANCELLED, "cancelled", "the listing was ended");
	}
	return OK;
}

enum cove_kind cove_box_snapshot(struct cove_box *box, const char *name, struct cove_error *error)
{
	auto_free char *path = mem_fmt("%s/snapshot", box->base);
	auto_buf body = BUF_INIT(1 << 12);
	struct json_out out = json_to(&body);

	json_begin(&out, '{');
	json_put_text(&out, "name", name);
	json_end(&out, '}');
	return private_call(box->cove, http_call_text(box->cove, "POST", path, NULL, &body, NULL),
			    error);
}

static fallible fork_each(const struct json *page, cove_box_fn *each, void *arg)
{
	const struct json *items = json_get(page, "items");
	struct err *first = OK;

	for (size_t i = 0; items && i < json_count(items); i++) {
		const struct json *item = json_at(items, i), *failed = json_get(item, "error");
		struct cove_box_info info = lib_box_info_of(json_get(item, "sandbox"), "");

		if (failed && !first)
			first = err_from(ERR_EXHAUSTED, fields_text(failed, "reason"),
					 fields_text(failed, "message"),
					 fields_text(failed, "hint"));
		else if (!failed && each(arg, &info) && !first)
			first = err_new(CANCELLED, "cancelled", "the listing was ended");
	}
	return first;
}

static fallible lib_box_fork(struct cove_box *box, unsigned int count, cove_box_fn *each, void *arg)
{
	auto_free char *path = mem_fmt("%s/fork", box->base);
	auto_buf body = BUF_INIT(64);
	auto_json page = NULL;

	buf_fmt(&body, "{\"count\":%u}", count);
	TRY(http_call_json(box->cove, "POST", path, &body, &page));
	return fork_each(page, each, arg);
}

enum cove_kind cove_box_fork(struct cove_box *box, unsigned int count, cove_box_fn *each, void *arg,
			     struct cove_error *error)
{
	private_begin(box->cove);
	return private_end(box->cove, lib_box_fork(box, count, each, arg), error);
}

static fallible lib_box_list(struct cove *cove, const char *const *labels, cove_box_fn *each,
			     void *arg)
{
	auto_free char *cursor = NULL;

	do {
		auto_buf path = BUF_INIT(1 << 20);
		auto_json page = NULL;

		buf_text(&path, LIB_BOXES);
		for (const char *const *at = labels; at && *at; at++) {
			buf_text(&path, at == labels ? "?label=" : "&label=");
			text_percent(&path, str_of(*at));
		}
		if (cursor) {
			buf_text(&path, labels && *labels ? "&cursor=" : "?cursor=");
			text_percent(&path, str_of(cursor));
		}
		TRY(http_call_json(cove, "GET", path.at, NULL, &page));
		TRY(each_of(page, each, arg));
		free(cursor);
		cursor = *fields_text(page, "cursor") ? mem_str(fields_text(page, "cursor")) : NULL;
	} while (cursor);
	return OK;
}

enum cove_kind cove_box_list(struct cove *cove, const char *const *labels, cove_box_fn *each,
			     void *arg, struct cove_error *error)
{
	return private_call(cove, lib_box_list(cove, labels, each, arg), error);
}
