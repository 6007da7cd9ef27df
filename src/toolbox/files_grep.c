// POST /api/grep: lines in the files of a tree that match a pattern. A file worker in the box
// searches; matches are written to the JSON answer as they arrive, so memory is bounded by one
// piece.
#include "toolbox/files.h"
#include "toolbox/files_walk_writer.h"
#include "toolbox/globs.h"
#include "toolbox/handlers.h"

#define PATTERN_MAX 4096

static fallible files_grep_read_flags(struct path_arg *path_arg, const struct json *json,
				      struct files_grep *grep)
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

		path_arg->field = flags[i].name;
		path_arg->code = "INVALID_TYPE";
		TRY(json_bool(json_get(json, flags[i].name), flags[i].name, &on));
		grep->flags |= on ? flags[i].flag : 0;
	}
	return OK;
}

static fallible read_grep(struct path_arg *path_arg, const struct json *json,
			  struct files_grep *grep)
{
	path_arg->field = "pattern";
	path_arg->code = "INVALID_PATTERN";
	TRY(json_str(json_get(json, "pattern"), "pattern", &grep->pattern));
	if (!grep->pattern.len || grep->pattern.len > PATTERN_MAX)
		return err_new(INVALID, "bad_field", "'pattern' must have 1 to %d bytes",
			       PATTERN_MAX);
	TRY(files_grep_read_flags(path_arg, json, grep));
	TRY(globs_read(path_arg, json, "include", &grep->include));
	TRY(globs_read(path_arg, json, "exclude", &grep->exclude));
	path_arg->field = "limit";
	path_arg->code = "INVALID_NUMBER";
	TRY(json_u64(json_get(json, "limit"), "limit", 1, 1000000, &grep->limit));
	path_arg->field = "maxFileSize";
	TRY(json_u64(json_get(json, "maxFileSize"), "maxFileSize", 1, 1ull << 40, &grep->max_size));
	path_arg->field = "pattern"; // the box may still refuse the pattern
	path_arg->code = "INVALID_PATTERN";
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

static fallible grep_files(struct path_arg *path_arg)
{
	auto_walk_writer writer = {.path_arg = path_arg};
	struct files_grep grep = {0};
	struct fileop_match match;
	auto_json json = NULL;
	bool more = true;

	TRY(path_arg_read(path_arg, &json));
	TRY(read_grep(path_arg, json, &grep));
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

fallible toolbox_files_grep(struct http *x)
{
	return path_arg_serve(x, "file.grep", grep_files);
}
