// Lines in the files of a tree that match a pattern.
#include "inbox/files.h"
#include "inbox/files_trail.h"
#include "inbox/globs.h"

#define PATTERN_MAX 4096

static fallible files_grep_read_flags(struct place *place, const struct json *json,
				      struct files_grep *grep)
{
	static const struct {
		const char *name;
		uint32_t flag;
	} flags[] = {
		{"fixed", REACH_FIXED},
		{"ignoreCase", REACH_NO_CASE},
		{"includeHidden", REACH_HIDDEN},
	};

	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++) {
		bool on = false;

		place->field = flags[i].name;
		place->code = "INVALID_TYPE";
		TRY(json_bool(json_get(json, flags[i].name), flags[i].name, &on));
		grep->flags |= on ? flags[i].flag : 0;
	}
	return OK;
}

static fallible read_grep(struct place *place, const struct json *json, struct files_grep *grep)
{
	place->field = "pattern";
	place->code = "INVALID_PATTERN";
	TRY(json_str(json_get(json, "pattern"), "pattern", &grep->pattern));
	if (!grep->pattern.len || grep->pattern.len > PATTERN_MAX)
		return err_new(INVALID, "bad_field", "'pattern' must have 1 to %d bytes",
			       PATTERN_MAX);
	TRY(files_grep_read_flags(place, json, grep));
	TRY(globs_read(place, json, "include", &grep->include));
	TRY(globs_read(place, json, "exclude", &grep->exclude));
	place->field = "limit";
	place->code = "INVALID_NUMBER";
	TRY(json_u64(json_get(json, "limit"), "limit", 1, 1000000, &grep->limit));
	place->field = "maxFileSize";
	TRY(json_u64(json_get(json, "maxFileSize"), "maxFileSize", 1, 1ull << 40, &grep->max_size));
	place->field = "pattern"; // what the box may still refuse
	place->code = "INVALID_PATTERN";
	return OK;
}

static void put_match(struct trail *trail, const struct reach_match *match)
{
	struct json_out *out = &trail->out;

	json_begin(out, '{');
	trail_put_path(out, trail, match->path);
	json_put_int(out, "line", (int64_t)match->line);
	json_put_int(out, "column", match->column);
	json_put_str(out, "text", match->text);
	trail_put_bytes(out, trail, (struct str){0}, match->path);
	json_end(out, '}');
}

static fallible grep_files(struct place *place)
{
	auto_trail trail = {.place = place};
	struct files_grep grep = {0};
	struct reach_match match;
	auto_json json = NULL;
	bool more = true;

	TRY(place_read(place, &json));
	TRY(read_grep(place, json, &grep));
	place_within(place, PLACE_LONG_MS);
	TRY(files_grep(&place->files, place->path, &grep, &trail.walk));
	TRY(trail_begin(&trail, "matches"));
	for (;;) {
		TRY(files_next_match(trail.walk, &match, &more));
		if (!more)
			return trail_end(&trail);
		put_match(&trail, &match);
		TRY(trail_flow(&trail));
	}
}

fallible inbox_files_grep(struct http *x)
{
	return place_serve(x, "file.grep", grep_files);
}
