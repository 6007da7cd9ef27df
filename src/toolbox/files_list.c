// Lists a directory, finds files of a tree, searches lines in them. A file worker in the box walks
// the tree; items are written to the JSON answer as they arrive. A short list is one reply; a long
// one is sent in pieces, so memory is bounded by one piece. A walk that fails before the first
// piece is answered with an error; one that fails later leaves the answer incomplete.
#include "codec/text.h"
#include "toolbox/files.h"
#include "toolbox/handlers.h"

#define FLUSH (48 * 1024)
#define BODY_MAX (FLUSH + 256 * 1024) // room for one more item with every byte escaped

// A tree walk as a JSON answer: {"success", "path", NAME: [...], "count", …}.
struct walk_writer {
	struct path_arg *path_arg;
	struct files_walk *walk;
	const char *root; // absolute, without a trailing slash
	struct buf body;
	struct json_out out;
	uint64_t count;
	bool streams; // a part of the answer has been sent
};

static void walk_writer_done(struct walk_writer *writer)
{
	http_back(writer->path_arg->x);
	files_drop(writer->walk);
	buf_done(&writer->body);
}

#define auto_walk_writer on_exit_call(walk_writer_done) struct walk_writer

// Writes the beginning, up to the first item. Nothing is sent yet.
static fallible walk_writer_begin(struct walk_writer *writer, const char *name)
{
	const char *root = path_arg_absolute(writer->path_arg, writer->path_arg->path);

	writer->root = strcmp(root, "/") != 0 ? root : "";
	writer->body = BUF_INIT(BODY_MAX);
	writer->out = gateway_success(&writer->body);
	path_arg_put_name(&writer->out, "path", writer->path_arg->shown);
	json_put_begin(&writer->out, name, '[');
	// A walk for a client that has disconnected is cancelled.
	return http_away(writer->path_arg->x, HTTP_PROBE_HEAD);
}

// Called after each item: sends the buffered items once they exceed one piece.
static fallible walk_writer_flow(struct walk_writer *writer)
{
	struct http *x = writer->path_arg->x;

	writer->count++;
	if (writer->body.len < FLUSH && buf_ok(&writer->body))
		return OK;
	if (!buf_ok(&writer->body))
		return err_new(INTERNAL, "internal", "an entry did not fit");
	http_back(x);
	if (!writer->streams)
		TRY(http_begin(x, 200, NULL));
	writer->streams = true;
	TRY(http_write(x, writer->body.at, writer->body.len));
	buf_clear(&writer->body);
	return OK;
}

// Writes the end of the answer, with the result of the walk.
static fallible walk_writer_end(struct walk_writer *writer)
{
	struct files_total total = {0};
	struct json_out *out = &writer->out;

	TRY(files_end(take_ptr(writer->walk), &total));
	http_back(writer->path_arg->x);
	json_end(out, ']');
	json_put_int(out, "count", (int64_t)writer->count);
	if (total.skipped)
		json_put_int(out, "skipped", (int64_t)total.skipped);
	if (total.more)
		json_put_bool(out, "truncated", true);
	if (!writer->streams)
		return gateway_answer(writer->path_arg->x, out);
	gateway_put_now(out);
	json_end(out, '}');
	TRY(http_write(writer->path_arg->x, writer->body.at, writer->body.len));
	return http_end(writer->path_arg->x);
}

static void walk_writer_whole(struct buf *to, const struct walk_writer *writer, struct str path)
{
	buf_text(to, writer->root);
	if (path.len)
		buf_char(to, '/');
	buf_str(to, path);
}

static void walk_writer_put_path(struct json_out *out, const struct walk_writer *writer,
				 struct str path)
{
	auto_buf text = BUF_INIT(4 * PATH_ARG_PATH_MAX);

	walk_writer_whole(&text, writer, path);
	json_put_str(out, "absolutePath", buf_view(&text));
}

static void put_coded(struct json_out *out, const char *key, struct str bytes)
{
	auto_buf text = BUF_INIT(8 * PATH_ARG_PATH_MAX);

	text_base64(&text, bytes.at, bytes.len);
	json_put_str(out, key, buf_view(&text));
}

// For names that are not UTF-8, behind the other fields.
static void walk_writer_put_bytes(struct json_out *out, const struct walk_writer *writer,
				  struct str name, struct str path)
{
	auto_buf text = BUF_INIT(4 * PATH_ARG_PATH_MAX);

	walk_writer_whole(&text, writer, path);
	if (name.len && !text_is_utf8(name))
		put_coded(out, "nameBase64", name);
	if (!text_is_utf8(buf_view(&text)))
		put_coded(out, "pathBase64", buf_view(&text));
}

static struct str base_name(struct str path)
{
	size_t at = path.len;

	while (at > 0 && path.at[at - 1] != '/')
		at--;
	return str_skip(path, at);
}

static void files_list_put_entry(struct json_out *out, const struct walk_writer *writer,
				 const struct fileop_entry *entry)
{
	json_begin(out, '{');
	json_put_str(out, "name", base_name(entry->path));
	walk_writer_put_path(out, writer, entry->path);
	json_put_str(out, "relativePath", entry->path);
	entry_put_stat(out, &entry->stat);
	if (entry->stat.type == FILEOP_SYMLINK)
		json_put_str(out, "target", entry->target);
	walk_writer_put_bytes(out, writer, base_name(entry->path), entry->path);
	json_end(out, '}');
}

static fallible copy_entries(struct walk_writer *writer, const char *name)
{
	struct fileop_entry entry;
	bool more = true;

	TRY(walk_writer_begin(writer, name));
	for (;;) {
		TRY(files_next_entry(writer->walk, &entry, &more));
		if (!more)
			return walk_writer_end(writer);
		files_list_put_entry(&writer->out, writer, &entry);
		TRY(walk_writer_flow(writer));
	}
}

fallible toolbox_files_list(struct path_arg *path_arg)
{
	bool recursive = false, hidden = false;
	auto_walk_writer writer = {.path_arg = path_arg};
	uint32_t flags = 0;

	TRY(path_arg_read(path_arg));
	path_arg->fields = json_get(path_arg->json, "options");
	path_arg->field = "options";
	TRY(json_want(path_arg->fields, "options", JSON_OBJECT));
	if (path_arg->fields) {
		TRY(path_arg_flag(path_arg, "recursive", &recursive));
		TRY(path_arg_flag(path_arg, "includeHidden", &hidden));
	}
	flags |= recursive ? FILEOP_RECURSIVE : 0;
	flags |= hidden ? FILEOP_HIDDEN : 0;
	path_arg_within(path_arg, PATH_ARG_LONG_MS);
	TRY(files_list(&path_arg->files, path_arg->path, flags, 0, &writer.walk));
	return copy_entries(&writer, "files");
}

static fallible read_types(struct path_arg *path_arg, uint32_t *out)
{
	static const char *const words[] = {"file", "directory", "symlink", "other"};
	struct str text = {0};

	path_arg_at(path_arg, "type", "INVALID_TYPE");
	TRY(json_str(json_get(path_arg->json, "type"), "type", &text));
	for (uint32_t i = 0; text.at && i < 4; i++)
		if (str_is(text, words[i]))
			*out = 1u << i;
	if (text.at && !*out)
		return err_new(INVALID, "bad_field",
			       "'type' must be file, directory, symlink or other");
	path_arg->field = NULL;
	return OK;
}

static fallible read_find(struct path_arg *path_arg, struct files_find *find)
{
	bool hidden = false;
	uint64_t depth = 0;

	TRY(path_arg_globs(path_arg, "pattern", &find->include));
	TRY(path_arg_globs(path_arg, "include", &find->include));
	TRY(path_arg_globs(path_arg, "exclude", &find->exclude));
	TRY(read_types(path_arg, &find->types));
	TRY(path_arg_number(path_arg, "minSize", 0, 1ull << 53, &find->min_size));
	TRY(path_arg_number(path_arg, "maxSize", 0, 1ull << 53, &find->max_size));
	TRY(path_arg_number(path_arg, "maxDepth", 0, FILEOP_DEPTH_MAX, &depth));
	TRY(path_arg_number(path_arg, "limit", 0, 1ull << 32, &find->limit));
	TRY(path_arg_flag(path_arg, "includeHidden", &hidden));
	find->depth = (uint32_t)depth;
	find->flags = hidden ? FILEOP_HIDDEN : 0;
	return OK;
}

fallible toolbox_files_find(struct path_arg *path_arg)
{
	auto_walk_writer writer = {.path_arg = path_arg};
	struct files_find find = {0};

	TRY(path_arg_read(path_arg));
	TRY(read_find(path_arg, &find));
	path_arg_within(path_arg, PATH_ARG_LONG_MS);
	TRY(files_find(&path_arg->files, path_arg->path, &find, &writer.walk));
	return copy_entries(&writer, "files");
}

#define PATTERN_MAX 4096

static fallible files_grep_read_flags(struct path_arg *path_arg, struct files_grep *grep)
{
	static const struct {
		const char *name;
		uint32_t flag;
	} flags[] = {
		{"fixed", FILEOP_FIXED},
		{"ignoreCase", FILEOP_NO_CASE},
		{"includeHidden", FILEOP_HIDDEN},
	};

	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++) {
		bool on = false;

		TRY(path_arg_flag(path_arg, flags[i].name, &on));
		grep->flags |= on ? flags[i].flag : 0;
	}
	return OK;
}

static fallible read_grep(struct path_arg *path_arg, struct files_grep *grep)
{
	path_arg_at(path_arg, "pattern", "INVALID_PATTERN");
	TRY(json_str(json_get(path_arg->json, "pattern"), "pattern", &grep->pattern));
	if (!grep->pattern.len || grep->pattern.len > PATTERN_MAX)
		return err_new(INVALID, "bad_field", "'pattern' must have 1 to %d bytes",
			       PATTERN_MAX);
	TRY(files_grep_read_flags(path_arg, grep));
	TRY(path_arg_globs(path_arg, "include", &grep->include));
	TRY(path_arg_globs(path_arg, "exclude", &grep->exclude));
	TRY(path_arg_number(path_arg, "limit", 1, 1000000, &grep->limit));
	TRY(path_arg_number(path_arg, "maxFileSize", 1, 1ull << 40, &grep->max_size));
	// The box may still refuse the pattern.
	path_arg_at(path_arg, "pattern", "INVALID_PATTERN");
	return OK;
}

static void put_match(struct walk_writer *writer, const struct fileop_match *match)
{
	struct json_out *out = &writer->out;

	json_begin(out, '{');
	walk_writer_put_path(out, writer, match->path);
	json_put_int(out, "line", (int64_t)match->line);
	json_put_int(out, "column", match->column);
	json_put_str(out, "text", match->text);
	walk_writer_put_bytes(out, writer, (struct str){0}, match->path);
	json_end(out, '}');
}

fallible toolbox_files_grep(struct path_arg *path_arg)
{
	auto_walk_writer writer = {.path_arg = path_arg};
	struct files_grep grep = {0};
	struct fileop_match match;
	bool more = true;

	TRY(path_arg_read(path_arg));
	TRY(read_grep(path_arg, &grep));
	path_arg_within(path_arg, PATH_ARG_LONG_MS);
	TRY(files_grep(&path_arg->files, path_arg->path, &grep, &writer.walk));
	TRY(walk_writer_begin(&writer, "matches"));
	for (;;) {
		TRY(files_next_match(writer.walk, &match, &more));
		if (!more)
			return walk_writer_end(&writer);
		put_match(&writer, &match);
		TRY(walk_writer_flow(&writer));
	}
}
