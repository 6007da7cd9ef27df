// Routes for the artifacts of an execution: the list, one of them, all as an archive; and the
// comparison of two executions. Contents are hostile: headers forbid browsers to sniff their type
// or to run them in our origin, and nothing that was a path in a sandbox is a path here.
#include "api/results.h"

#include <stdio.h>
#include <string.h>

#include "api/executions.h"
#include "api/handlers.h"
#include "base/mem.h"
#include "codec/range.h"
#include "codec/tar.h"
#include "codec/text.h"
#include "loop/closer.h"
#include "manager/access.h"

#define PAGE 500
#define PAGE_BYTES (16u << 20)
#define RECORD_MAX (4u << 20)
#define DIFF_PATHS_MAX 1000

void results_of_done(struct results_of *of)
{
	if (of->place.proc)
		proc_unref(of->place.proc);
	of->place.proc = NULL;
}

static fallible results_of_find(struct http *x, struct str id, uint64_t number,
				struct results_of *out)
{
	struct gateway *gateway = gateway_of(x);
	struct executions *executions;
	struct err *err;

	TRY(access_ask(gateway_who(x), ACCESS_USE));
	out->x = x;
	TRY(executions_of(x, &executions));
	TRY(executions_place(executions, gateway_who(x), id, &out->place));
	if (number > out->place.attempts)
		return err_new(NOT_FOUND, "no_attempt", "the execution has %u attempts",
			       out->place.attempts);
	if (!number)
		number = out->place.attempts ? out->place.attempts : 1;
	out->attempt = (struct results_attempt){
		out->place.tenant, arena_dup(x->arena, id.at, id.len), (uint32_t)number};
	err = results_get(gateway->results, &out->attempt, x->arena, &out->row);
	if (err && err_kind(err) != ERR_NOT_FOUND)
		return err;
	out->stored = !err;
	err_free(err);
	return OK;
}

fallible results_of_request(struct http *x, struct results_of *out)
{
	struct str text = http_query(x, "attempt");
	uint64_t number = 0;

	if (text.at && !str_to_u64(text, 1, UINT32_MAX, &number))
		return err_new(INVALID, "bad_field", "'attempt' is a number from 1");
	return results_of_find(x, x->params[0], number, out);
}

fallible results_of_execution(struct http *x, struct str id, struct results_of *out)
{
	return results_of_find(x, id, 0, out);
}

// ------------------------------------------------------------------------------ the list

// Artifacts of a running attempt are not there yet.
static fallible results_want(const struct results_of *of)
{
	if (of->row.removed)
		return err_new(GONE, "results_removed",
			       "the artifacts were removed because all results took too much room");
	if (of->stored)
		return OK;
	return err_hint(err_new(NOT_FOUND, "no_artifacts", "nothing is stored of this attempt"),
			of->place.ended ? "it ended before its command began"
					: "artifacts are stored when the execution ends");
}

static void results_put_name(struct json_out *out, const char *name, struct str bytes)
{
	auto_buf coded = BUF_INIT(4 * FILEOP_PATH_MAX);
	char key[64];

	json_put_str(out, name, bytes);
	if (text_is_utf8(bytes))
		return;
	text_base64(&coded, bytes.at, bytes.len);
	snprintf(key, sizeof(key), "%sBase64", name);
	json_put_str(out, key, buf_view(&coded));
}

static void results_put_file(struct json_out *out, const struct store_file *file)
{
	char mode[16];

	json_begin(out, '{');
	results_put_name(out, "path", file->path);
	json_put_text(out, "type", file->target.len ? "symlink" : "file");
	json_put_int(out, "size", file->size);
	snprintf(mode, sizeof(mode), "%04o", (unsigned)file->mode & 07777);
	json_put_text(out, "mode", mode);
	if (file->target.len)
		results_put_name(out, "target", file->target);
	else
		json_put_text(out, "sha256", file->sha256);
	json_end(out, '}');
}

typedef fallible results_each_fn(const struct store_file *file, void *arg);

// Every file of the attempt by path, in pages.
static fallible results_each(const struct results_of *of, results_each_fn *each, void *arg)
{
	struct str after = STR("");
	size_t count = PAGE;

	while (count == PAGE) {
		auto_arena arena = arena_new();
		struct store_file *files;

		TRY(store_results_files(results_store(gateway_of(of->x)->results), &of->row, after,
					PAGE, arena, &files, &count));
		for (size_t i = 0; i < count; i++)
			TRY(each(&files[i], arg));
		if (count)
			after = (struct str){arena_dup(of->x->arena, files[count - 1].path.at,
						       files[count - 1].path.len),
					     files[count - 1].path.len};
	}
	return OK;
}

struct results_list {
	struct http *x;
	struct buf body;
	struct json_out out;
};

static fallible results_list_file(const struct store_file *file, void *arg)
{
	struct results_list *list = arg;

	results_put_file(&list->out, file);
	if (list->body.len < PAGE_BYTES / 64)
		return OK;
	TRY(http_write(list->x, list->body.at, list->body.len));
	buf_clear(&list->body);
	return OK;
}

fallible api_results_artifacts(struct http *x)
{
	auto_results_of of = {.x = x};
	struct results_list list = {.x = x, .body = BUF_INIT(PAGE_BYTES)};
	struct err *err;

	TRY(results_of_request(x, &of));
	TRY(results_want(&of));
	TRY(http_begin(x, 200, NULL));
	list.out = json_to(&list.body);
	json_begin(&list.out, '{');
	json_put_begin(&list.out, "items", '[');
	err = results_each(&of, results_list_file, &list);
	json_end(&list.out, ']');
	json_put_int(&list.out, "attempt", of.attempt.number);
	json_put_int(&list.out, "count", of.row.files);
	json_put_int(&list.out, "bytes", of.row.bytes);
	json_put_bool(&list.out, "partial", of.row.partial);
	json_key(&list.out, "missing");
	json_add_raw(&list.out, str_of(of.row.missing));
	json_end(&list.out, '}');
	if (!err && !buf_ok(&list.body))
		err = err_new(INTERNAL, "internal", "the list did not fit");
	if (!err)
		err = http_write(x, list.body.at, list.body.len);
	buf_done(&list.body);
	TRY(err);
	return http_end(x);
}

// ------------------------------------------------------------------------------ one file

static fallible results_outside(struct http *x, uint64_t size)
{
	http_set(x, "Content-Range",
		 str_of(arena_fmt(x->arena, "bytes */%llu", (unsigned long long)size)));
	return err_new(INVALID, "bad_range", "the artifact has %llu bytes",
		       (unsigned long long)size);
}

static fallible results_send(struct http *x, const struct results_of *of,
			     const struct store_file *file)
{
	struct blobs *blobs = results_blobs(gateway_of(x)->results);
	const char *etag = arena_fmt(x->arena, "\"%s\"", file->sha256);
	struct str known = http_field(x, "If-None-Match"), range = http_field(x, "Range"),
		   if_range = http_field(x, "If-Range");
	uint64_t size = (uint64_t)file->size, first = 0, len = size;
	int fd = -1, status = 200;
	struct err *err;

	http_set(x, "ETag", str_of(etag));
	http_set(x, "Accept-Ranges", STR("bytes"));
	http_set(x, "X-Content-Type-Options", STR("nosniff"));
	http_set(x, "Content-Security-Policy", STR("sandbox; default-src 'none'"));
	if (!http_is_set(x, "Content-Disposition"))
		http_set(x, "Content-Disposition", STR("attachment"));
	http_set(x, "X-File-Mode",
		 str_of(arena_fmt(x->arena, "%04o", (unsigned)file->mode & 07777)));
	if (known.at && str_is(known, etag))
		return http_reply_empty(x, 304);
	if (if_range.at && !str_is(if_range, etag))
		range = (struct str){0};
	switch (range_read(range, size, &first, &len)) {
	case RANGE_OUTSIDE:
		return results_outside(x, size);
	case RANGE_PART:
		status = 206;
		http_set(x, "Content-Range",
			 str_of(arena_fmt(
				 x->arena, "bytes %llu-%llu/%llu", (unsigned long long)first,
				 (unsigned long long)(first + len - 1), (unsigned long long)size)));
		break;
	default:
		first = 0;
		len = size;
	}
	TRY(blob_open(blobs, of->attempt.tenant, file->sha256, &fd));
	http_be_patient(x);
	err = http_begin_sized(x, status, "application/octet-stream", len);
	if (!err && !str_is(x->head.method, "HEAD"))
		err = http_send_file(x, fd, first, len);
	closer_drop(&fd);
	TRY(err);
	return http_end(x);
}

fallible api_results_artifact(struct http *x)
{
	auto_results_of of = {.x = x};
	struct store_file file;
	bool found = false;

	TRY(results_of_request(x, &of));
	TRY(results_want(&of));
	TRY(store_results_file(results_store(gateway_of(x)->results), &of.row, x->params[1],
			       x->arena, &file, &found));
	if (!found)
		return err_absent("no_artifact", "artifact", x->params[1]);
	if (file.target.len)
		return err_hint(err_new(CONFLICT, "is_symlink",
					"the artifact is a symbolic link, and is not followed"),
				"its target is in the list of artifacts");
	return results_send(x, &of, &file);
}

// --------------------------------------------------------------------------- the archive

struct results_tar {
	struct http *x;
	const struct results_of *of;
	char *room; // TAR_HEAD_MAX
};

// A path in an archive is relative.
static struct str results_tar_path(struct http *x, struct str path)
{
	while (path.len && path.at[0] == '/')
		path = str_skip(path, 1);
	return (struct str){arena_dup(x->arena, path.at, path.len), path.len};
}

static fallible results_tar_file(const struct store_file *file, void *arg)
{
	static const char zeroes[TAR_BLOCK];
	struct results_tar *tar = arg;
	struct http *x = tar->x;
	bool is_link = file->target.len > 0;
	struct tar_head head = {
		.type = is_link ? TAR_SYMLINK : TAR_FILE,
		.path = results_tar_path(x, file->path),
		.target = {arena_dup(x->arena, file->target.at, file->target.len),
			   file->target.len},
		.size = is_link ? 0 : (uint64_t)file->size,
		.mode = (uint32_t)file->mode & 0777,
		.mtime = tar->of->row.ended_ms / 1000,
	};
	size_t len = tar_write(&head, tar->room, TAR_HEAD_MAX);
	int fd = -1;
	struct err *err;

	if (!len)
		return err_new(INTERNAL, "internal", "a name is too long for an archive");
	TRY(http_write(x, tar->room, len));
	if (is_link || !file->size)
		return OK;
	TRY(blob_open(results_blobs(gateway_of(x)->results), tar->of->attempt.tenant, file->sha256,
		      &fd));
	err = http_send_file(x, fd, 0, (uint64_t)file->size);
	closer_drop(&fd);
	TRY(err);
	return http_write(x, zeroes, tar_padding((uint64_t)file->size));
}

fallible api_results_tar(struct http *x)
{
	static const char end[2 * TAR_BLOCK];
	auto_results_of of = {.x = x};
	struct results_tar tar = {.x = x, .of = &of, .room = arena_take(x->arena, TAR_HEAD_MAX)};

	TRY(results_of_request(x, &of));
	TRY(results_want(&of));
	http_be_patient(x);
	http_set(x, "X-Content-Type-Options", STR("nosniff"));
	if (!http_is_set(x, "Content-Disposition"))
		http_set(x, "Content-Disposition", STR("attachment; filename=\"artifacts.tar\""));
	TRY(http_begin(x, 200, "application/x-tar"));
	if (str_is(x->head.method, "HEAD"))
		return http_end(x);
	TRY(results_each(&of, results_tar_file, &tar));
	TRY(http_write(x, end, sizeof(end)));
	return http_end(x);
}

// ---------------------------------------------------------------------------- comparison

// One side: what is stored, and the record as JSON.
struct results_side {
	struct results_of of;
	struct json *record;
	struct store_file *files;
	size_t count, room;
};

static void results_side_done(struct results_side *side)
{
	results_of_done(&side->of);
	json_free(side->record);
	free(side->files);
}

static fallible results_side_file(const struct store_file *file, void *arg)
{
	struct results_side *side = arg;
	struct arena *arena = side->of.x->arena;

	if (side->count == side->room) {
		side->room = 2 * side->room + 64;
		side->files = mem_grow(side->files, side->room, sizeof(*side->files));
	}
	side->files[side->count++] = (struct store_file){
		.path = {arena_dup(arena, file->path.at, file->path.len), file->path.len},
		.target = {arena_dup(arena, file->target.at, file->target.len), file->target.len},
		.mode = file->mode,
		.size = file->size,
		.sha256 = arena_dup(arena, file->sha256, strlen(file->sha256)),
	};
	return OK;
}

static fallible results_side_read(struct http *x, struct str id, struct results_side *side)
{
	auto_buf text = BUF_INIT(RECORD_MAX);
	struct json_out out = json_to(&text);
	struct executions *executions;

	TRY(executions_of(x, &executions));
	TRY(results_of_execution(x, id, &side->of));
	if (!side->of.place.ended)
		return err_new(CONFLICT, "not_ended", "the execution has not ended");
	TRY(executions_write(executions, gateway_who(x), id, &out));
	TRY(json_read(buf_view(&text), &side->record), "read the record of an execution");
	return side->of.stored ? results_each(&side->of, results_side_file, side) : OK;
}

struct results_diff {
	struct results_side *sides[2];
	struct json_out *out;
	bool same; // so far
};

// "key": {"same": …, "this": …, "with": …} of a member of the records.
static void results_diff_member(struct results_diff *diff, const char *key, bool counts)
{
	struct buf texts[2] = {BUF_INIT(RECORD_MAX), BUF_INIT(RECORD_MAX)};
	bool same;

	for (int i = 0; i < 2; i++) {
		struct json_out out = json_to(&texts[i]);

		json_add_value(&out, json_get(diff->sides[i]->record, key));
	}
	same = str_eq(buf_view(&texts[0]), buf_view(&texts[1]));
	json_put_begin(diff->out, key, '{');
	if (counts)
		json_put_bool(diff->out, "same", same);
	json_key(diff->out, "this");
	json_add_raw(diff->out, buf_view(&texts[0]));
	json_key(diff->out, "with");
	json_add_raw(diff->out, buf_view(&texts[1]));
	json_end(diff->out, '}');
	buf_done(&texts[0]);
	buf_done(&texts[1]);
	diff->same &= same || !counts;
}

static void results_diff_log(struct results_diff *diff, bool is_stdout)
{
	const char *hashes[2] = {"", ""};

	json_put_begin(diff->out, is_stdout ? "stdout" : "stderr", '{');
	for (int i = 0; i < 2; i++) {
		const struct store_result *row = &diff->sides[i]->of.row;

		json_put_begin(diff->out, i ? "with" : "this", '{');
		if (diff->sides[i]->of.stored) {
			hashes[i] = is_stdout ? row->stdout_sha256 : row->stderr_sha256;
			json_put_int(diff->out, "bytes",
				     is_stdout ? row->stdout_bytes : row->stderr_bytes);
			json_put_text(diff->out, "sha256", hashes[i]);
			json_put_bool(diff->out, "truncated",
				      is_stdout ? row->stdout_truncated : row->stderr_truncated);
		}
		json_end(diff->out, '}');
	}
	json_put_bool(diff->out, "same", !strcmp(hashes[0], hashes[1]));
	json_end(diff->out, '}');
	diff->same &= !strcmp(hashes[0], hashes[1]);
}

static int results_diff_order(const struct results_diff *diff, size_t a, size_t b)
{
	const struct results_side *one = diff->sides[0], *two = diff->sides[1];
	struct str x, y;
	int order;

	if (a == one->count || b == two->count)
		return a == one->count ? 1 : -1;
	x = one->files[a].path;
	y = two->files[b].path;
	order = memcmp(x.at, y.at, x.len < y.len ? x.len : y.len);
	return order ? order : (x.len > y.len) - (x.len < y.len);
}

static bool results_diff_equal(const struct store_file *a, const struct store_file *b)
{
	return !strcmp(a->sha256, b->sha256) && str_eq(a->target, b->target) && a->mode == b->mode;
}

// Paths that only this one has, that only the other has, or whose content, mode or target differ.
static void results_diff_files(struct results_diff *diff)
{
	static const char *const words[] = {"onlyThis", "onlyWith", "changed"};
	size_t counts[3] = {0};

	json_put_begin(diff->out, "artifacts", '{');
	for (int kind = 0; kind < 3; kind++) {
		size_t a = 0, b = 0;

		json_put_begin(diff->out, words[kind], '[');
		while (a < diff->sides[0]->count || b < diff->sides[1]->count) {
			int order = results_diff_order(diff, a, b);
			const struct store_file *file = order > 0 ? &diff->sides[1]->files[b]
								  : &diff->sides[0]->files[a];
			bool counts_here = kind == 0   ? order < 0
					   : kind == 1 ? order > 0
						       : order == 0 &&
								 !results_diff_equal(
									 file,
									 &diff->sides[1]->files[b]);

			if (counts_here && counts[kind]++ < DIFF_PATHS_MAX)
				json_add_str(diff->out, file->path);
			a += order <= 0;
			b += order >= 0;
		}
		json_end(diff->out, ']');
		diff->same &= !counts[kind];
	}
	json_put_bool(diff->out, "same", !counts[0] && !counts[1] && !counts[2]);
	json_end(diff->out, '}');
}

fallible api_results_diff(struct http *x)
{
	on_exit_call(results_side_done) struct results_side one = {0};
	on_exit_call(results_side_done) struct results_side two = {0};
	auto_buf body = BUF_INIT(PAGE_BYTES);
	struct json_out out = json_to(&body);
	struct results_diff diff = {{&one, &two}, &out, true};
	struct str with = http_query(x, "with");

	if (!with.len)
		return err_new(INVALID, "bad_field", "'with' names another execution");
	TRY(results_side_read(x, x->params[0], &one));
	TRY(results_side_read(x, with, &two));
	json_begin(&out, '{');
	json_put_str(&out, "this", x->params[0]);
	json_put_str(&out, "with", with);
	results_diff_member(&diff, "outcome", true);
	results_diff_member(&diff, "exitCode", true);
	results_diff_member(&diff, "signal", true);
	results_diff_log(&diff, true);
	results_diff_log(&diff, false);
	results_diff_files(&diff);
	results_diff_member(&diff, "durations", false);
	json_put_bool(&out, "same", diff.same);
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}
