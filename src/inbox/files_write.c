// A file that comes inside of JSON. The body is read as a stream: its content, unescaped, is put
// aside while the rest is still unknown, because clients send the encoding behind it and may send
// the path there. Then it goes to the box: a small one in one message, a large one through an
// upload that takes its name at the end. Nothing is written before the whole body was judged.
#include "inbox/files.h"
#include "inbox/files_source.h"
#include "inbox/spool.h"
#include "loop/pump.h"
#include "wire/base64.h"
#include "wire/json_flow.h"

#define ROOM (64 * 1024)
#define BATCH (256 * 1024)    // to the box at a time
#define REST_MAX (128 * 1024) // everything but the content

struct write_ask {
	struct spool content;
	struct buf rest, piece;
	bool has_content, base64;
};

static void write_ask_done(struct write_ask *ask)
{
	spool_done(&ask->content);
	buf_done(&ask->rest);
	buf_done(&ask->piece);
}

static fallible bad_content(struct place *place, const char *code, const char *why)
{
	place->field = "content";
	place->code = code;
	return err_new(INVALID, "bad_field", "'content' %s", why);
}

static fallible too_long(struct place *place, uint64_t len)
{
	place->actual_size = len;
	place->max_size = FILES_CONTENT_MAX;
	return err_hint(
		err_new(TOO_LARGE, "file_too_large", "a body may have %d bytes", FILES_BODY_MAX),
		"use PUT /api/files/PATH, which takes any size");
}

static fallible take_part(struct place *place, struct json_flow *flow, struct str part,
			  struct write_ask *ask)
{
	enum json_flow_verdict verdict;

	do {
		verdict = json_flow(flow, &part, &ask->piece);
		TRY(spool_add(&ask->content, buf_view(&ask->piece)));
		buf_clear(&ask->piece);
	} while (verdict == JSON_FLOW_FULL);
	if (verdict == JSON_FLOW_MORE)
		return OK;
	place->field = flow->state && flow->seen ? "content" : "body";
	place->code = "INVALID_JSON";
	return err_new(INVALID, "bad_json", "the body is not JSON: %s", flow->fault);
}

// The body's content to the spool, the rest of it to ask->rest.
static fallible take_body(struct place *place, struct write_ask *ask)
{
	struct http *x = place->x;
	uint64_t announced = 0, total = 0;
	bool known = http_length(x, &announced);
	size_t size = known && announced < ROOM ? (size_t)announced + 1 : ROOM, n = 1;
	char *room = arena_take(x->arena, size);
	struct json_flow flow;

	if (known && announced > FILES_BODY_MAX)
		return too_long(place, announced);
	json_flow_init(&flow, "content", &ask->rest);
	for (;;) {
		TRY(http_read(x, room, size, &n));
		if (n == 0)
			break;
		total += n;
		if (total > FILES_BODY_MAX)
			return too_long(place, total);
		TRY(take_part(place, &flow, (struct str){room, n}, ask));
	}
	ask->has_content = flow.seen;
	if (ask->rest.len)
		return OK;
	place->field = "body";
	return err_new(INVALID, "bad_field", "the body is empty");
}

static fallible files_write_read_rest(struct place *place, const struct json *json,
				      struct write_ask *ask)
{
	struct str encoding = {0};

	TRY(place_user(place, json));
	TRY(place_path(place, json, "path", NULL));
	place->field = "encoding";
	place->code = "INVALID_ENCODING";
	TRY(json_str(json_get(json, "encoding"), "encoding", &encoding));
	ask->base64 = str_is(encoding, "base64");
	if (encoding.at && !ask->base64 && !str_is(encoding, "utf-8") && !str_is(encoding, "utf8"))
		return err_new(INVALID, "bad_field", "'encoding' must be utf-8 or base64");
	place->field = "content";
	place->code = "INVALID_TYPE";
	TRY(json_want(json_get(json, "content"), "content", JSON_STRING));
	if (!json_get(json, "content"))
		return bad_content(place, "REQUIRED", "is missing");
	// One whose name was written with escapes came with the rest.
	if (!ask->has_content)
		TRY(spool_add(&ask->content, json_chars(json_get(json, "content"))));
	place->field = NULL;
	return OK;
}

// The next bytes of the file, decoded, into ask->piece; none at the end.
static fallible next_piece(struct place *place, struct write_ask *ask, struct base64 *base64,
			   uint64_t *at, char *room)
{
	size_t n = 1;

	buf_clear(&ask->piece);
	while (ask->piece.len == 0 && n > 0) {
		TRY(spool_read(&ask->content, *at, room, BATCH, &n));
		*at += n;
		if (n ? !base64_feed(base64, (struct str){room, n}, &ask->piece)
		      : !base64_end(base64, &ask->piece))
			return bad_content(place, "INVALID_BASE64", "is not base64");
	}
	return OK;
}

static fallible decode_to(struct place *place, struct write_ask *ask, int file)
{
	char *room = arena_take(place->x->arena, BATCH);
	struct base64 base64 = {0};
	uint64_t at = 0, total = 0;

	for (;;) {
		TRY(next_piece(place, ask, &base64, &at, room));
		if (ask->piece.len == 0)
			return OK;
		total += ask->piece.len;
		if (total > FILES_CONTENT_MAX)
			return source_too_large(place, total);
		TRY(pump_put(file, ask->piece.at, ask->piece.len));
	}
}

static fallible put_large(struct place *place, struct write_ask *ask)
{
	struct files_upload *upload = NULL;
	struct reach_stat stat;
	struct err *err;

	place_within(place, PLACE_LONG_MS);
	TRY(files_begin(&place->files, place->path, REACH_PARENTS, REACH_KEEP_MODE, &upload));
	err = ask->base64 ? decode_to(place, ask, files_upload_fd(upload))
			  : spool_pour(&ask->content, files_upload_fd(upload));
	if (!err)
		return files_commit(upload, place->files.deadline, &stat);
	files_abort(upload);
	return err;
}

static fallible put_small(struct place *place, struct write_ask *ask)
{
	struct str text = buf_view(&ask->content.memory);
	struct base64 base64 = {0};

	buf_clear(&ask->piece);
	if (ask->base64) {
		if (!base64_feed(&base64, text, &ask->piece) || !base64_end(&base64, &ask->piece))
			return bad_content(place, "INVALID_BASE64", "is not base64");
		text = buf_view(&ask->piece);
	}
	return files_write(&place->files, place->path, REACH_PARENTS, REACH_KEEP_MODE, text);
}

static fallible files_write_store(struct place *place, struct write_ask *ask)
{
	uint64_t len = ask->content.len;

	// How much padding there is shows at the end: decode_to() counts.
	if (ask->base64)
		len = len < 4 ? 0 : len / 4 * 3 - 2;
	if (len > FILES_CONTENT_MAX)
		return source_too_large(place, len);
	if (ask->content.len <= REACH_SMALL)
		return put_small(place, ask);
	return put_large(place, ask);
}

static fallible files_write_file(struct place *place)
{
	on_exit_call(write_ask_done) struct write_ask ask = {
		.rest = BUF_INIT(REST_MAX),
		.piece = BUF_INIT(BATCH),
	};
	auto_buf body = BUF_INIT(64 * 1024);
	struct json_out out = door_success(&body);
	auto_json json = NULL;

	spool_init(&ask.content, place->visit.entry->fleet->tapes_dir);
	place->field = "body";
	TRY(door_want_json(place->x));
	TRY(take_body(place, &ask));
	place->code = "INVALID_JSON";
	TRY(json_read(buf_view(&ask.rest), &json));
	TRY(json_want(json, "body", JSON_OBJECT));
	TRY(files_write_read_rest(place, json, &ask));
	place_within(place, PLACE_SHORT_MS);
	TRY(place_lock(place));
	TRY(place_refused(place, files_write_store(place, &ask)));
	place_put_name(&out, "path", place->shown);
	return door_answer(place->x, &out);
}

fallible inbox_files_write(struct http *x)
{
	return place_serve(x, "file.write", files_write_file);
}
