// A file as a body: PUT. The bytes go from the client's socket to a file in the box that has no
// name yet, in a worker; it takes its name when all of them are there. So a client that vanishes, a
// full disk or a sandbox that ends leave the old file whole. What came until then is parked when
// its length was known: the client may ask how much that is, and send the rest with Content-Range.
#include "door/escort.h"
#include "inbox/files.h"
#include "inbox/files_entry.h"
#include "inbox/park.h"
#include "inbox/raw.h"
#include "loop/pump.h"
#include "wire/range.h"

#define COMMIT_MS 120000
#define SIZE_MOST (UINT64_MAX / 4)

struct put_ask {
	uint32_t mode, flags;
	bool has_range, asks; // asks: how far it has come
	uint64_t first, len, total;
	bool has_total;
	struct parking parking;
};

static fallible bad(struct place *place, const char *field, const char *code, const char *why)
{
	place->field = field;
	place->code = code;
	return err_new(INVALID, "bad_field", "%s %s", field, why);
}

static fallible files_put_read_ask(struct place *place, struct put_ask *ask)
{
	struct http *x = place->x;
	struct str mode = http_query(x, "mode"), range = http_field(x, "Content-Range");
	uint64_t announced = 0;
	bool known = http_length(x, &announced);

	*ask = (struct put_ask){.mode = REACH_KEEP_MODE, .flags = REACH_PARENTS, .len = SIZE_MOST};
	if (mode.at && !entry_mode(mode, &ask->mode))
		return bad(place, "mode", "INVALID_MODE", "is not a mode, as 0644 is");
	if (str_is(str_trim(http_field(x, "If-None-Match")), "*"))
		ask->flags |= REACH_EXCLUSIVE;
	ask->has_range = range.at != NULL;
	if (ask->has_range && !range_content(str_trim(range), &ask->first, &ask->len, &ask->total))
		return bad(place, "Content-Range", "INVALID_RANGE",
			   "must be 'bytes FIRST-LAST/TOTAL' or 'bytes */TOTAL'");
	ask->asks = ask->has_range && ask->len == 0;
	if (ask->has_range && known && announced != ask->len)
		return bad(place, "Content-Range", "INVALID_RANGE",
			   "and Content-Length tell different lengths");
	if (!ask->has_range)
		ask->total = known ? announced : 0;
	ask->has_total = ask->has_range || known;
	ask->parking = (struct parking){
		.user = place->files.user,
		.path = place_absolute(place, place->path),
		.total = ask->total,
	};
	return OK;
}

// How much of it is here: 202.
static fallible answer_part(struct place *place, const struct put_ask *ask, uint64_t have)
{
	auto_buf body = BUF_INIT(64 * 1024);
	struct json_out out = door_success(&body);
	struct http *x = place->x;

	if (have)
		http_set(x, "Range",
			 str_of(arena_fmt(x->arena, "bytes=0-%llu", (unsigned long long)have - 1)));
	place_put_name(&out, "path", place->shown);
	json_put_int(&out, "received", (int64_t)have);
	json_put_int(&out, "total", (int64_t)ask->total);
	door_put_now(&out);
	json_end(&out, '}');
	return http_reply_json(x, 202, &body);
}

static fallible answer_whole(struct place *place, const struct reach_stat *stat)
{
	auto_buf body = BUF_INIT(64 * 1024);
	struct json_out out = door_success(&body);
	const char *etag = raw_etag(place->x, stat);

	http_set(place->x, "ETag", str_of(etag));
	place_put_name(&out, "path", place->shown);
	json_put_int(&out, "size", (int64_t)stat->size);
	entry_put_mode(&out, stat->mode);
	json_put_text(&out, "etag", etag);
	return door_answer(place->x, &out);
}

static fallible no_upload(void)
{
	return err_hint(err_new(CONFLICT, "no_upload", "there is no upload to go on with"),
			"ask with 'Content-Range: bytes */TOTAL', or begin again");
}

// The upload that this request goes on with, at the place where it does; or a new one.
static fallible find_upload(struct place *place, const struct put_ask *ask,
			    struct files_upload **out)
{
	struct memory *memory = memory_of(place->x);
	struct files_upload *upload = NULL;
	struct err *err;
	uint64_t have = 0;

	if (!ask->has_range || ask->first == 0)
		return files_begin(&place->files, place->path, ask->flags, ask->mode, out);
	upload = park_take(memory, &place->visit, &ask->parking);
	if (!upload)
		return no_upload();
	err = pump_length(files_upload_fd(upload), &have);
	if (!err && have < ask->first)
		err = no_upload();
	if (!err)
		err = pump_cut(files_upload_fd(upload), ask->first);
	if (err) {
		park_put(memory, &place->visit, &ask->parking, upload);
		return err;
	}
	*out = upload;
	return OK;
}

// What was cut by the client's end, and not by the disk's, may go on.
static bool may_go_on(const struct put_ask *ask, const struct err *err)
{
	return ask->has_total &&
	       (err_kind(err) == ERR_BAD_PEER || err_kind(err) == ERR_SLOW_CLIENT);
}

static fallible answer_ask(struct place *place, const struct put_ask *ask)
{
	struct memory *memory = memory_of(place->x);
	struct files_upload *upload = park_take(memory, &place->visit, &ask->parking);
	uint64_t have = 0;
	struct err *err;

	if (!upload)
		return answer_part(place, ask, 0);
	err = pump_length(files_upload_fd(upload), &have);
	park_put(memory, &place->visit, &ask->parking, upload);
	TRY(err);
	return answer_part(place, ask, have);
}

static fallible receive(struct place *place, int fd, uint64_t max, uint64_t *out)
{
	auto_escort escort = escort_begin(place->visit.entry, place->x);

	return http_recv_file(place->x, fd, max, out);
}

static fallible files_put_put(struct place *place)
{
	struct files_upload *upload = NULL;
	struct reach_stat stat = {0};
	struct put_ask ask;
	struct err *err;
	uint64_t got = 0;

	TRY(place_query(place));
	TRY(place_raw(place, place->x->params[1]));
	TRY(files_put_read_ask(place, &ask));
	if (ask.asks)
		return answer_ask(place, &ask);
	TRY(find_upload(place, &ask, &upload));
	err = receive(place, files_upload_fd(upload), ask.len, &got);
	if (!err && ask.has_range && got != ask.len)
		err = bad(place, "Content-Range", "INVALID_RANGE", "tells another length");
	if (err && may_go_on(&ask, err))
		park_put(memory_of(place->x), &place->visit, &ask.parking, upload);
	else if (err)
		files_abort(upload);
	TRY(err);
	if (ask.has_range && ask.first + got < ask.total) {
		park_put(memory_of(place->x), &place->visit, &ask.parking, upload);
		return answer_part(place, &ask, ask.first + got);
	}
	TRY(files_commit(upload, loop_now(door_of(place->x)->loop) + COMMIT_MS, &stat));
	return answer_whole(place, &stat);
}

fallible inbox_files_put(struct http *x)
{
	return place_serve(x, "file.write", files_put_put);
}
