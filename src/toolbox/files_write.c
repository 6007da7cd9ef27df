// Writing a file: from JSON (POST /api/write) or from the body (PUT /api/files/PATH). Nothing is
// visible in the box before all bytes are there: a small file is one message, a large one an
// unnamed file that is linked at its end. A client that disconnects, a full disk or a sandbox that
// ends leave the old file untouched.
//
// The content of JSON goes, unescaped, to a spill buffer, because clients send the encoding behind
// it and may send the path there too. If the length of a PUT was known, the received part is parked
// for PARKED_MS: the client can query how much arrived and send the rest with Content-Range.
#include "codec/base64.h"
#include "codec/json_flow.h"
#include "codec/range.h"
#include "gateway/cancel_on_delete.h"
#include "loop/pump.h"
#include "toolbox/files.h"
#include "toolbox/handlers.h"
#include "toolbox/spill_buffer.h"
#include "toolbox/watch_state.h"

#define PARKED_MS 600000
#define PARKED_BOX_MAX 4 // per sandbox: each occupies one of its file workers
#define PARKED_MAX 64

// -------------------------------------------------------------------- interrupted uploads

// An interrupted upload, kept for PARKED_MS so that its client can resume. Each has a task that
// waits for its timeout, the end of its sandbox, or cancellation. Taking or replacing an upload
// cancels its task, which frees what is left.
struct parking {
	const char *user, *path; // absolute
	uint64_t total;		 // total length of the file
};

struct parked {
	struct link link; // in watches->uploads, oldest first; in no list: taken
	struct watch_state *watches;
	struct entry *entry;
	struct files_upload *upload;
	char *user, *path;
	uint64_t total;
	int64_t until;
	struct task *task;
};

static void parked_upload_unlist(struct parked *parked)
{
	link_drop(&parked->link);
	parked->watches->upload_count--;
}

static void wait_for_client(void *arg)
{
	struct parked *parked = arg;
	auto_err err = NULL;

	while (!err && parked->upload && entry_is_alive(parked->entry) &&
	       loop_now(parked->watches->loop) < parked->until)
		err = condition_wait(&parked->entry->changed, parked->until);
	if (parked->upload)
		parked_upload_unlist(parked);
	files_abort(parked->upload);
	entry_unref(parked->entry);
	free(parked->user);
	free(parked->path);
	free(parked);
}

static struct files_upload *toolbox_parked_upload_take(struct parked *parked)
{
	parked_upload_unlist(parked);
	task_cancel(parked->task);
	return take_ptr(parked->upload);
}

// Drops the oldest uploads above the limits of this sandbox and of all.
static void parked_upload_make_room(struct watch_state *watches, const struct entry *entry)
{
	size_t of_box = 0;

	list_each (at, &watches->uploads)
		of_box += link_of(at, struct parked, link)->entry == entry;
	list_each (at, &watches->uploads) {
		struct parked *parked = link_of(at, struct parked, link);
		bool same = parked->entry == entry;

		if ((same && of_box >= PARKED_BOX_MAX) || watches->upload_count >= PARKED_MAX) {
			of_box -= same;
			files_abort(toolbox_parked_upload_take(parked));
		}
	}
}

// Gives ownership to the caller; NULL: no such upload.
static struct files_upload *parked_upload_take(struct watch_state *watches,
					       const struct box_ref *ref,
					       const struct parking *parking)
{
	list_each (at, &watches->uploads) {
		struct parked *parked = link_of(at, struct parked, link);

		if (parked->entry == ref->entry && parked->total == parking->total &&
		    !strcmp(parked->user, parking->user) && !strcmp(parked->path, parking->path))
			return toolbox_parked_upload_take(parked);
	}
	return NULL;
}

// Takes ownership of the upload and keeps the sandbox in memory. At a limit the oldest parked
// upload is dropped.
static void parked_upload_put(struct watch_state *watches, const struct box_ref *ref,
			      const struct parking *parking, struct files_upload *upload)
{
	struct parked *parked = mem_new_of(struct parked);

	files_abort(parked_upload_take(watches, ref, parking));
	parked_upload_make_room(watches, ref->entry);
	entry_ref(ref->entry);
	*parked = (struct parked){
		.watches = watches,
		.entry = ref->entry,
		.upload = upload,
		.user = mem_str(parking->user),
		.path = mem_str(parking->path),
		.total = parking->total,
		.until = loop_now(watches->loop) + PARKED_MS,
	};
	link_add(&watches->uploads, &parked->link);
	watches->upload_count++;
	parked->task = task_start(watches->loop, "parked upload", wait_for_client, parked);
}

// ------------------------------------------------------------------------- from JSON

#define ROOM (64 * 1024)
#define BATCH (256 * 1024)    // sent to the box at a time
#define REST_MAX (128 * 1024) // all members but the content

struct write_ask {
	struct spill_buffer content;
	struct buf rest, piece;
	bool has_content, base64;
};

static void write_ask_done(struct write_ask *ask)
{
	spill_buffer_done(&ask->content);
	buf_done(&ask->rest);
	buf_done(&ask->piece);
}

static fallible too_long(struct path_arg *path_arg, uint64_t len)
{
	path_arg->actual_size = len;
	path_arg->max_size = FILES_CONTENT_MAX;
	return err_hint(
		err_new(TOO_LARGE, "file_too_large", "a body may have %d bytes", FILES_BODY_MAX),
		"use PUT /api/files/PATH, which takes any size");
}

static fallible take_part(struct path_arg *path_arg, struct json_flow *flow, struct str part,
			  struct write_ask *ask)
{
	enum json_flow_verdict verdict;

	do {
		verdict = json_flow(flow, &part, &ask->piece);
		TRY(spill_buffer_add(&ask->content, buf_view(&ask->piece)));
		buf_clear(&ask->piece);
	} while (verdict == JSON_FLOW_FULL);
	if (verdict == JSON_FLOW_MORE)
		return OK;
	path_arg_at(path_arg, flow->state && flow->seen ? "content" : "body", "INVALID_JSON");
	return err_new(INVALID, "bad_json", "the body is not JSON: %s", flow->fault);
}

// Parses the body: content to the spill buffer, other members to ask->rest.
static fallible take_body(struct path_arg *path_arg, struct write_ask *ask)
{
	struct http *x = path_arg->x;
	uint64_t announced = 0, total = 0;
	bool known = http_length(x, &announced);
	size_t size = known && announced < ROOM ? (size_t)announced + 1 : ROOM, n = 1;
	char *room = arena_take(x->arena, size);
	struct json_flow flow;

	if (known && announced > FILES_BODY_MAX)
		return too_long(path_arg, announced);
	json_flow_init(&flow, "content", &ask->rest);
	for (;;) {
		TRY(http_read(x, room, size, &n));
		if (n == 0)
			break;
		total += n;
		if (total > FILES_BODY_MAX)
			return too_long(path_arg, total);
		TRY(take_part(path_arg, &flow, (struct str){room, n}, ask));
	}
	ask->has_content = flow.seen;
	if (ask->rest.len)
		return OK;
	path_arg->field = "body";
	return err_new(INVALID, "bad_field", "the body is empty");
}

static fallible files_write_read_rest(struct path_arg *path_arg, struct write_ask *ask)
{
	const struct json *content = json_get(path_arg->json, "content");

	TRY(path_arg_user(path_arg));
	TRY(path_arg_path(path_arg, "path", NULL));
	TRY(path_arg_encoding(path_arg, &ask->base64, NULL));
	path_arg_at(path_arg, "content", "INVALID_TYPE");
	TRY(json_want(content, "content", JSON_STRING));
	if (!content)
		return path_arg_bad(path_arg, "content", "REQUIRED", "is missing");
	// A key "content" that is written with JSON escapes arrives among the other members.
	if (!ask->has_content)
		TRY(spill_buffer_add(&ask->content, json_chars(content)));
	path_arg->field = NULL;
	return OK;
}

// Decodes the next bytes of the file into ask->piece; none at the end.
static fallible next_piece(struct path_arg *path_arg, struct write_ask *ask, struct base64 *base64,
			   uint64_t *at, char *room)
{
	size_t n = 1;

	buf_clear(&ask->piece);
	while (ask->piece.len == 0 && n > 0) {
		TRY(spill_buffer_read(&ask->content, *at, room, BATCH, &n));
		*at += n;
		if (n ? !base64_feed(base64, (struct str){room, n}, &ask->piece)
		      : !base64_end(base64, &ask->piece))
			return path_arg_bad(path_arg, "content", "INVALID_BASE64", "is not base64");
	}
	return OK;
}

static fallible decode_to(struct path_arg *path_arg, struct write_ask *ask, int file)
{
	char *room = arena_take(path_arg->x->arena, BATCH);
	struct base64 base64 = {0};
	uint64_t at = 0, total = 0;

	for (;;) {
		TRY(next_piece(path_arg, ask, &base64, &at, room));
		if (ask->piece.len == 0)
			return OK;
		total += ask->piece.len;
		if (total > FILES_CONTENT_MAX)
			return files_too_large(path_arg, total);
		TRY(pump_put(file, ask->piece.at, ask->piece.len));
	}
}

static fallible put_large(struct path_arg *path_arg, struct write_ask *ask)
{
	struct files_upload *upload = NULL;
	struct fileop_stat stat;
	struct err *err;

	path_arg_within(path_arg, PATH_ARG_LONG_MS);
	TRY(files_begin(&path_arg->files, path_arg->path, FILEOP_PARENTS, FILEOP_KEEP_MODE,
			&upload));
	err = ask->base64 ? decode_to(path_arg, ask, files_upload_fd(upload))
			  : spill_buffer_copy(&ask->content, files_upload_fd(upload));
	if (!err)
		return files_commit(upload, path_arg->files.deadline, &stat);
	files_abort(upload);
	return err;
}

static fallible put_small(struct path_arg *path_arg, struct write_ask *ask)
{
	struct str text = buf_view(&ask->content.memory);
	struct base64 base64 = {0};

	buf_clear(&ask->piece);
	if (ask->base64) {
		if (!base64_feed(&base64, text, &ask->piece) || !base64_end(&base64, &ask->piece))
			return path_arg_bad(path_arg, "content", "INVALID_BASE64", "is not base64");
		text = buf_view(&ask->piece);
	}
	return files_write(&path_arg->files, path_arg->path, FILEOP_PARENTS, FILEOP_KEEP_MODE,
			   text);
}

static fallible files_write_store(struct path_arg *path_arg, struct write_ask *ask)
{
	uint64_t len = ask->content.len;

	// The amount of base64 padding is known only at the end: decode_to() counts exactly.
	if (ask->base64)
		len = len < 4 ? 0 : len / 4 * 3 - 2;
	if (len > FILES_CONTENT_MAX)
		return files_too_large(path_arg, len);
	if (ask->content.len <= FILEOP_SMALL)
		return put_small(path_arg, ask);
	return put_large(path_arg, ask);
}

fallible toolbox_files_write(struct path_arg *path_arg)
{
	on_exit_call(write_ask_done) struct write_ask ask = {
		.rest = BUF_INIT(REST_MAX),
		.piece = BUF_INIT(BATCH),
	};

	spill_buffer_init(&ask.content, path_arg->ref.entry->manager->tapes_dir);
	path_arg->field = "body";
	TRY(gateway_want_json(path_arg->x));
	TRY(take_body(path_arg, &ask));
	path_arg->code = "INVALID_JSON";
	TRY(json_read(buf_view(&ask.rest), &path_arg->json));
	TRY(json_want(path_arg->json, "body", JSON_OBJECT));
	TRY(files_write_read_rest(path_arg, &ask));
	path_arg_within(path_arg, PATH_ARG_SHORT_MS);
	TRY(path_arg_lock(path_arg));
	TRY(path_arg_refused(path_arg, files_write_store(path_arg, &ask)));
	path_arg_success(path_arg);
	return path_arg_answer(path_arg);
}

// ------------------------------------------------------------------------- from a body

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
	path_arg_at(path_arg, field, code);
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
	struct json_out *out;
	const char *etag = entry_etag(path_arg->x, stat);

	http_set(path_arg->x, "ETag", str_of(etag));
	out = path_arg_success(path_arg);
	json_put_int(out, "size", (int64_t)stat->size);
	entry_put_mode(out, stat->mode);
	json_put_text(out, "etag", etag);
	return path_arg_answer(path_arg);
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

fallible toolbox_files_put(struct path_arg *path_arg)
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
	// Only an upload that was cut by the client's disconnect can be resumed, not one that
	// failed on disk.
	if (err && ask.has_total &&
	    (err_kind(err) == ERR_BAD_PEER || err_kind(err) == ERR_SLOW_CLIENT))
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
