// PUT /api/files/PATH: a file as a body. A worker thread copies the bytes from the client's socket
// to an unnamed file in the box, which is linked when all bytes have arrived. A client that
// disconnects, a full disk or a sandbox that ends leave the old file untouched. If the total length
// was known, the received part is parked: the client can query how much arrived and send the rest
// with Content-Range.
#include "codec/range.h"
#include "gateway/cancel_on_delete.h"
#include "loop/pump.h"
#include "toolbox/files.h"
#include "toolbox/files_entry.h"
#include "toolbox/handlers.h"
#include "toolbox/parked_upload.h"
#include "toolbox/raw.h"

#define COMMIT_MS 120000
#define SIZE_MOST (UINT64_MAX / 4)

struct put_ask {
	uint32_t mode, flags;
	bool has_range, asks; // asks: a query for how much has arrived
	uint64_t first, len, total;
	bool has_total;
	struct parking parking;
};

static fallible files_put_bad(struct path_arg *path_arg, const char *field, const char *code,
			      const char *why)
{
	path_arg->field = field;
	path_arg->code = code;
	return err_new(INVALID, "bad_field", "%s %s", field, why);
}

static fallible files_put_read_ask(struct path_arg *path_arg, struct put_ask *ask)
{
	struct http *x = path_arg->x;
	struct str mode = http_query(x, "mode"), range = http_field(x, "Content-Range");
	uint64_t announced = 0;
	bool known = http_length(x, &announced);

	*ask = (struct put_ask){
		.mode = FILEOP_KEEP_MODE, .flags = FILEOP_PARENTS, .len = SIZE_MOST};
	if (mode.at && !entry_mode(mode, &ask->mode))
		return files_put_bad(path_arg, "mode", "INVALID_MODE", "is not a mode, as 0644 is");
	if (str_is(str_trim(http_field(x, "If-None-Match")), "*"))
		ask->flags |= FILEOP_EXCLUSIVE;
	ask->has_range = range.at != NULL;
	if (ask->has_range && !range_content(str_trim(range), &ask->first, &ask->len, &ask->total))
		return files_put_bad(path_arg, "Content-Range", "INVALID_RANGE",
				     "must be 'bytes FIRST-LAST/TOTAL' or 'bytes */TOTAL'");
	ask->asks = ask->has_range && ask->len == 0;
	if (ask->has_range && known && announced != ask->len)
		return files_put_bad(path_arg, "Content-Range", "INVALID_RANGE",
				     "and Content-Length differ in length");
	if (!ask->has_range)
		ask->total = known ? announced : 0;
	ask->has_total = ask->has_range || known;
	ask->parking = (struct parking){
		.user = path_arg->files.user,
		.path = path_arg_absolute(path_arg, path_arg->path),
		.total = ask->total,
	};
	return OK;
}

// Answers 202 with the number of bytes received so far.
static fallible answer_part(struct path_arg *path_arg, const struct put_ask *ask, uint64_t have)
{
	auto_buf body = BUF_INIT(64 * 1024);
	struct json_out out = gateway_success(&body);
	struct http *x = path_arg->x;

	if (have)
		http_set(x, "Range",
			 str_of(arena_fmt(x->arena, "bytes=0-%llu", (unsigned long long)have - 1)));
	path_arg_put_name(&out, "path", path_arg->shown);
	json_put_int(&out, "received", (int64_t)have);
	json_put_int(&out, "total", (int64_t)ask->total);
	gateway_put_now(&out);
	json_end(&out, '}');
	return http_reply_json(x, 202, &body);
}

static fallible answer_whole(struct path_arg *path_arg, const struct fileop_stat *stat)
{
	auto_buf body = BUF_INIT(64 * 1024);
	struct json_out out = gateway_success(&body);
	const char *etag = raw_etag(path_arg->x, stat);

	http_set(path_arg->x, "ETag", str_of(etag));
	path_arg_put_name(&out, "path", path_arg->shown);
	json_put_int(&out, "size", (int64_t)stat->size);
	entry_put_mode(&out, stat->mode);
	json_put_text(&out, "etag", etag);
	return gateway_answer(path_arg->x, &out);
}

static fallible no_upload(void)
{
	return err_hint(err_new(CONFLICT, "no_upload", "there is no upload to go on with"),
			"ask with 'Content-Range: bytes */TOTAL', or begin again");
}

// Returns the parked upload that this request continues, at the right offset, or a new upload.
static fallible find_upload(struct path_arg *path_arg, const struct put_ask *ask,
			    struct files_upload **out)
{
	struct watch_state *watches = watch_state_of(path_arg->x);
	struct files_upload *upload = NULL;
	struct err *err;
	uint64_t have = 0;

	if (!ask->has_range || ask->first == 0)
		return files_begin(&path_arg->files, path_arg->path, ask->flags, ask->mode, out);
	upload = parked_upload_take(watches, &path_arg->ref, &ask->parking);
	if (!upload)
		return no_upload();
	err = pump_length(files_upload_fd(upload), &have);
	if (!err && have < ask->first)
		err = no_upload();
	if (!err)
		err = pump_cut(files_upload_fd(upload), ask->first);
	if (err) {
		parked_upload_put(watches, &path_arg->ref, &ask->parking, upload);
		return err;
	}
	*out = upload;
	return OK;
}

// Only an upload that was cut by the client's disconnect can be resumed, not one that failed on
// disk.
static bool may_go_on(const struct put_ask *ask, const struct err *err)
{
	return ask->has_total &&
	       (err_kind(err) == ERR_BAD_PEER || err_kind(err) == ERR_SLOW_CLIENT);
}

static fallible answer_ask(struct path_arg *path_arg, const struct put_ask *ask)
{
	struct watch_state *watches = watch_state_of(path_arg->x);
	struct files_upload *upload = parked_upload_take(watches, &path_arg->ref, &ask->parking);
	uint64_t have = 0;
	struct err *err;

	if (!upload)
		return answer_part(path_arg, ask, 0);
	err = pump_length(files_upload_fd(upload), &have);
	parked_upload_put(watches, &path_arg->ref, &ask->parking, upload);
	TRY(err);
	return answer_part(path_arg, ask, have);
}

static fallible files_put_receive(struct path_arg *path_arg, int fd, uint64_t max, uint64_t *out)
{
	auto_cancel_on_delete cancel_on_delete = cancel_on_delete_begin(path_arg->ref.entry,
									path_arg->x);

	return http_recv_file(path_arg->x, fd, max, out);
}

static fallible files_put_put(struct path_arg *path_arg)
{
	struct files_upload *upload = NULL;
	struct fileop_stat stat = {0};
	struct put_ask ask;
	struct err *err;
	uint64_t got = 0;

	TRY(path_arg_query(path_arg));
	TRY(path_arg_raw(path_arg, path_arg->x->params[1]));
	TRY(files_put_read_ask(path_arg, &ask));
	if (ask.asks)
		return answer_ask(path_arg, &ask);
	TRY(find_upload(path_arg, &ask, &upload));
	err = files_put_receive(path_arg, files_upload_fd(upload), ask.len, &got);
	if (!err && ask.has_range && got != ask.len)
		err = files_put_bad(path_arg, "Content-Range", "INVALID_RANGE",
				    "does not match the length of the body");
	if (err && may_go_on(&ask, err))
		parked_upload_put(watch_state_of(path_arg->x), &path_arg->ref, &ask.parking,
				  upload);
	else if (err)
		files_abort(upload);
	TRY(err);
	if (ask.has_range && ask.first + got < ask.total) {
		parked_upload_put(watch_state_of(path_arg->x), &path_arg->ref, &ask.parking,
				  upload);
		return answer_part(path_arg, &ask, ask.first + got);
	}
	TRY(files_commit(upload, loop_now(gateway_of(path_arg->x)->loop) + COMMIT_MS, &stat));
	return answer_whole(path_arg, &stat);
}

fallible toolbox_files_put(struct http *x)
{
	return path_arg_serve(x, "file.write", files_put_put);
}
