// Entries of a directory, or of a tree: a walk of a hand, poured into JSON as it comes. A list that
// is short is one reply; from there on it is sent in pieces, and its memory is one piece.
#include "inbox/files.h"
#include "inbox/files_entry.h"
#include "inbox/files_trail.h"
#include "inbox/globs.h"

static fallible files_list_option(struct place *place, const struct json *json, const char *name,
				  bool *out)
{
	place->field = name;
	place->code = "INVALID_TYPE";
	TRY(json_bool(json_get(json, name), name, out));
	place->field = NULL;
	return OK;
}

static struct str base_name(struct str path)
{
	size_t at = path.len;

	while (at > 0 && path.at[at - 1] != '/')
		at--;
	return str_skip(path, at);
}

static void files_list_put_entry(struct json_out *out, const struct trail *trail,
				 const struct reach_entry *entry)
{
	json_begin(out, '{');
	json_put_str(out, "name", base_name(entry->path));
	trail_put_path(out, trail, entry->path);
	json_put_str(out, "relativePath", entry->path);
	entry_put_stat(out, &entry->stat);
	if (entry->stat.type == REACH_SYMLINK)
		json_put_str(out, "target", entry->target);
	trail_put_bytes(out, trail, base_name(entry->path), entry->path);
	json_end(out, '}');
}

static fallible pour_entries(struct trail *trail, const char *name)
{
	struct reach_entry entry;
	bool more = true;

	TRY(trail_begin(trail, name));
	for (;;) {
		TRY(files_next_entry(trail->walk, &entry, &more));
		if (!more)
			return trail_end(trail);
		files_list_put_entry(&trail->out, trail, &entry);
		TRY(trail_flow(trail));
	}
}

static fallible files_list_list(struct place *place)
{
	bool recursive = false, hidden = false;
	auto_trail trail = {.place = place};
	const struct json *options;
	auto_json json = NULL;
	uint32_t flags = 0;

	TRY(place_read(place, &json));
	options = json_get(json, "options");
	place->field = "options";
	TRY(json_want(options, "options", JSON_OBJECT));
	TRY(files_list_option(place, options, "recursive", &recursive));
	TRY(files_list_option(place, options, "includeHidden", &hidden));
	flags |= recursive ? REACH_RECURSIVE : 0;
	flags |= hidden ? REACH_HIDDEN : 0;
	place_within(place, PLACE_LONG_MS);
	TRY(files_list(&place->files, place->path, flags, 0, &trail.walk));
	return pour_entries(&trail, "files");
}

static fallible files_list_number(struct place *place, const struct json *json, const char *name,
				  uint64_t max, uint64_t *out)
{
	place->field = name;
	place->code = "INVALID_NUMBER";
	TRY(json_u64(json_get(json, name), name, 0, max, out));
	place->field = NULL;
	return OK;
}

static fallible read_types(struct place *place, const struct json *json, uint32_t *out)
{
	static const char *const words[] = {"file", "directory", "symlink", "other"};
	struct str text = {0};

	place->field = "type";
	place->code = "INVALID_TYPE";
	TRY(json_str(json_get(json, "type"), "type", &text));
	place->field = text.at ? "type" : NULL;
	for (uint32_t i = 0; text.at && i < 4; i++)
		if (str_is(text, words[i]))
			*out = 1u << i;
	if (text.at && !*out)
		return err_new(INVALID, "bad_field",
			       "'type' must be file, directory, symlink or other");
	place->field = NULL;
	return OK;
}

static fallible read_find(struct place *place, const struct json *json, struct files_find *find)
{
	bool hidden = false;
	uint64_t depth = 0;

	TRY(globs_read(place, json, "pattern", &find->include));
	TRY(globs_read(place, json, "include", &find->include));
	TRY(globs_read(place, json, "exclude", &find->exclude));
	TRY(read_types(place, json, &find->types));
	TRY(files_list_number(place, json, "minSize", 1ull << 53, &find->min_size));
	TRY(files_list_number(place, json, "maxSize", 1ull << 53, &find->max_size));
	TRY(files_list_number(place, json, "maxDepth", REACH_DEPTH_MAX, &depth));
	TRY(files_list_number(place, json, "limit", 1ull << 32, &find->limit));
	TRY(files_list_option(place, json, "includeHidden", &hidden));
	find->depth = (uint32_t)depth;
	find->flags = hidden ? REACH_HIDDEN : 0;
	return OK;
}

static fallible find_files(struct place *place)
{
	auto_trail trail = {.place = place};
	struct files_find find = {0};
	auto_json json = NULL;

	TRY(place_read(place, &json));
	TRY(read_find(place, json, &find));
	place_within(place, PLACE_LONG_MS);
	TRY(files_find(&place->files, place->path, &find, &trail.walk));
	return pour_entries(&trail, "files");
}

fallible inbox_files_list(struct http *x)
{
	return place_serve(x, "directory.list", files_list_list);
}

fallible inbox_files_find(struct http *x)
{
	return place_serve(x, "file.find", find_files);
}
