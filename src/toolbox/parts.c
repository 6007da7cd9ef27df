// A few tasks upload one part after another. Each part is tried three times; a 4xx status and a
// forbidden address are final at once. The request gets all ETags or one error. It always waits for
// its tasks, because they read the archive fd that it holds. Presigned URLs are secrets: errors
// name only the part and the host.
#include <unistd.h>

#include "base/mem.h"
#include "gateway/outbound.h"
#include "gateway/upload_put.h"
#include "loop/closer.h"
#include "toolbox/handlers.h"
#include "toolbox/path_arg.h"

#define PARTS_MAX 10000 // parts of one upload, the limit of object stores
#define AT_ONCE 4
#define TRIES 3
#define RETRY_MS 250
#define DIAL_MS 10000
#define SILENCE_MS 30000
#define ETAG_MAX 1024
#define URL_MAX 8192
#define ARCHIVES "/var/backups/"
#define HTTPS 443

struct part {
	uint64_t number, offset, size;
	struct url url;
	struct buf etag;
};

struct parts {
	struct path_arg *path_arg;
	struct part *at;
	size_t count, next;
	int file;
	struct task *tasks[AT_ONCE];
	uint32_t running;
	struct err *err; // the first error
	uint64_t failed; // the number of its part; 0: none
	struct condition ended;
};

static fallible parts_bad(const char *field, const char *why)
{
	return err_new(INVALID, "bad_backup", "'%s' %s", field, why);
}

static fallible read_part(const struct json *json, struct part *part)
{
	struct str url = {0};

	TRY(json_want(json, "parts", JSON_OBJECT));
	if (!json_get(json, "partNumber") || !json_get(json, "offset") || !json_get(json, "size"))
		return parts_bad("parts", "must have partNumber, url, offset and size");
	TRY(json_u64(json_get(json, "partNumber"), "parts.partNumber", 1, PARTS_MAX,
		     &part->number));
	TRY(json_u64(json_get(json, "offset"), "parts.offset", 0, 1ull << 53, &part->offset));
	TRY(json_u64(json_get(json, "size"), "parts.size", 1, 1ull << 53, &part->size));
	TRY(json_str(json_get(json, "url"), "parts.url", &url));
	part->etag = BUF_INIT(ETAG_MAX);
	if (url.len > URL_MAX || !url_absolute(url, &part->url) ||
	    !str_is(part->url.scheme, "https"))
		return parts_bad("parts.url", "must be an https URL");
	return OK;
}

static bool is_archive(struct str path)
{
	struct str rest = path, part;

	if (!str_starts(path, ARCHIVES) || path.len == sizeof(ARCHIVES) - 1)
		return false;
	while (str_cut(&rest, '/', &part))
		if (str_is(part, ".."))
			return false;
	return true;
}

static fallible toolbox_parts_read_body(struct parts *parts, const struct json *json)
{
	const struct json *list = json_get(json, "parts");
	struct str archive = {0};

	TRY(json_str(json_get(json, "archivePath"), "archivePath", &archive));
	if (!is_archive(archive))
		return parts_bad("archivePath", "must be a file in " ARCHIVES);
	TRY(path_arg_text(parts->path_arg, "archivePath", archive));
	TRY(json_want(list, "parts", JSON_ARRAY));
	parts->count = list ? json_count(list) : 0;
	if (!parts->count || parts->count > PARTS_MAX)
		return parts_bad("parts", "must have 1 to 10000 entries");
	parts->at = arena_take(parts->path_arg->x->arena, parts->count * sizeof(*parts->at));
	memset(parts->at, 0, parts->count * sizeof(*parts->at));
	for (size_t i = 0; i < parts->count; i++)
		TRY(read_part(json_at(list, i), &parts->at[i]));
	return OK;
}

static fallible open_archive(struct parts *parts)
{
	struct path_arg *path_arg = parts->path_arg;
	struct fileop_stat stat;

	TRY(files_open(&path_arg->files, path_arg->path, &parts->file, &stat));
	for (size_t i = 0; i < parts->count; i++)
		if (parts->at[i].offset > stat.size ||
		    parts->at[i].size > stat.size - parts->at[i].offset)
			return parts_bad("parts", "must lie inside of the archive");
	return OK;
}

static fallible parts_refused(int status)
{
	if (status >= 500 || status == 408 || status == 429)
		return err_new(BAD_PEER, "refused", "the server answered %d", status);
	return err_hint(err_new(FORBIDDEN, "refused", "the server answered %d", status),
			"the URL may have expired, or be signed for something else");
}

static fallible send_once(struct parts *parts, struct part *part)
{
	struct http *x = parts->path_arg->x;
	const struct url *url = &part->url;
	uint16_t port = url->port ? url->port : HTTPS;
	auto_free char *name = mem_dup(url->host.at, url->host.len);
	bool v6 = memchr(url->host.at, ':', url->host.len);
	auto_free char *bare = mem_fmt(v6 ? "[%s]" : "%s", name);
	auto_free char *host = mem_fmt("%s:%u", bare, port);
	struct upload_put put = {
		.name = name,
		.host = str_of(port == HTTPS ? bare : host),
		.file = parts->file,
		.offset = part->offset,
		.size = part->size,
	};
	auto_free char *target = mem_fmt(STR_FMT "%s" STR_FMT, STR_ARG(url->path),
					 url->query.len ? "?" : "", STR_ARG(url->query));
	on_exit_call(stream_close) struct stream stream = {.fd = -1};
	int status = 0;

	put.target = str_of(target);
	buf_clear(&part->etag);
	TRY(outbound_open(&gateway_of(x)->outbound, gateway_of(x)->loop, url->host, port,
			  loop_now(gateway_of(x)->loop) + DIAL_MS, &stream));
	TRY(upload_put_send(&stream, gateway_of(x)->outbound.trust, &put, SILENCE_MS, &status,
			    &part->etag));
	if (status < 200 || status > 299)
		return parts_refused(status);
	return part->etag.len ? OK : err_new(BAD_PEER, "bad_reply", "the server sent no ETag");
}

static bool is_final(const struct err *err)
{
	return (err_kind(err) != ERR_BAD_PEER && err_kind(err) != ERR_TIMEOUT) ||
	       !strcmp(err_reason(err), "unknown_name");
}

static fallible toolbox_parts_send(struct parts *parts, struct part *part)
{
	struct loop *loop = gateway_of(parts->path_arg->x)->loop;

	for (int tries = 1;; tries++) {
		struct err *err = send_once(parts, part);

		if (!err || is_final(err) || tries == TRIES)
			return err;
		err_free(err);
		TRY(task_sleep_until(loop_now(loop) + (RETRY_MS << tries)));
	}
}

static void toolbox_parts_send_parts(void *arg)
{
	struct parts *parts = arg;

	while (!parts->err && parts->next < parts->count) {
		struct part *part = &parts->at[parts->next++];
		struct err *err = toolbox_parts_send(parts, part);

		if (!err || parts->err) {
			err_free(err);
			continue;
		}
		parts->err = err;
		parts->failed = part->number;
	}
	for (size_t i = 0; i < AT_ONCE; i++)
		if (parts->tasks[i] == task_current())
			parts->tasks[i] = NULL;
	parts->running--;
	condition_signal(&parts->ended);
}

static void parts_stop(struct parts *parts)
{
	for (size_t i = 0; i < AT_ONCE; i++)
		if (parts->tasks[i])
			task_cancel(parts->tasks[i]);
}

static fallible send_all(struct parts *parts)
{
	struct http *x = parts->path_arg->x;
	struct err *gone;

	condition_init(&parts->ended);
	gone = http_away(x, HTTP_PROBE_HEAD);
	if (gone)
		return gone;
	while (parts->running < AT_ONCE && parts->running < parts->count) {
		parts->tasks[parts->running++] = task_start(gateway_of(x)->loop, "parts",
							    toolbox_parts_send_parts, parts);
	}
	while (parts->running && !parts->err && !gone)
		gone = condition_wait(&parts->ended, CLOCK_NEVER);
	parts_stop(parts);
	task_shield(true);
	while (parts->running)
		err_free(condition_wait(&parts->ended, CLOCK_NEVER));
	task_shield(false);
	http_back(x);
	if (!gone)
		return take_ptr(parts->err);
	err_free(take_ptr(parts->err));
	return gone;
}

static fallible toolbox_parts_answer(struct parts *parts)
{
	auto_buf body = BUF_INIT(16 << 20);
	struct json_out out = gateway_success(&body);

	json_key(&out, "parts");
	json_begin(&out, '[');
	for (size_t i = 0; i < parts->count; i++) {
		json_begin(&out, '{');
		json_put_int(&out, "partNumber", (int64_t)parts->at[i].number);
		json_put_str(&out, "etag", buf_view(&parts->at[i].etag));
		json_end(&out, '}');
	}
	json_end(&out, ']');
	return gateway_answer(parts->path_arg->x, &out);
}

static void parts_end(struct parts *parts)
{
	closer_drop(&parts->file);
	for (size_t i = 0; parts->at && i < parts->count; i++)
		buf_done(&parts->at[i].etag);
}

// Errors of the request, the sandbox or the client keep their reason.
static fallible toolbox_parts_face(const struct parts *parts, struct err *err)
{
	static const char *const own[] = {"bad_backup", "bad_json", "bad_content_type",
					  "not_global"};

	if (!err || err_kind(err) == ERR_CANCELLED || err_kind(err) == ERR_GONE)
		return err;
	for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
		if (!strcmp(err_reason(err), own[i]))
			return err;
	if (!strcmp(err_reason(err), "bad_field"))
		return err_recast(err, ERR_INVALID, "bad_backup", "%s", err_message(err));
	if (!parts->failed)
		return err_recast(err, ERR_CONFLICT, "backup_create", "%s", err_message(err));
	return err_recast(err, ERR_CONFLICT, "backup_create", "part %llu was not sent: %s",
			  (unsigned long long)parts->failed, err_message(err));
}

static fallible toolbox_parts_upload(struct path_arg *path_arg)
{
	on_exit_call(parts_end) struct parts parts = {.path_arg = path_arg, .file = -1};
	auto_json json = NULL;
	struct err *err = path_arg_json(path_arg, &json);

	path_arg->field = path_arg->code = NULL;
	if (!err)
		err = toolbox_parts_read_body(&parts, json);
	path_arg->field = path_arg->code = NULL;
	if (!err)
		err = open_archive(&parts);
	if (!err)
		err = send_all(&parts);
	TRY(toolbox_parts_face(&parts, err));
	return toolbox_parts_answer(&parts);
}

fallible toolbox_backup_upload(struct http *x)
{
	return path_arg_serve(x, "backup.create", toolbox_parts_upload);
}
