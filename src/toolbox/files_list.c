// Lists a directory or searches a tree. A file worker in the box walks it; entries are written to
// the JSON answer as they arrive. A short list is one reply; a long one is sent in pieces, so
// memory is bounded by one piece.
#include "toolbox/files.h"
#include "toolbox/files_entry.h"
#include "toolbox/files_walk_writer.h"
#include "toolbox/globs.h"
#include "toolbox/handlers.h"

static fallible files_list_option(struct path_arg *path_arg, const struct json *json,
				  const char *name, bool *out)
{
	path_arg->field = name;
	path_arg->code = "INVALID_TYPE";
	TRY(json_bool(json_get(json, name), name, out));
	path_arg->field = NULL;
	return OK;
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

static fallible files_list_list(struct path_arg *path_arg)
{
	bool recursive = false, hidden = false;
	auto_walk_writer writer = {.path_arg = path_arg};
	const struct json *options;
	auto_json json = NULL;
	uint32_t flags = 0;

	TRY(path_arg_read(path_arg, &json));
	options = json_get(json, "options");
	path_arg->field = "options";
	TRY(json_want(options, "options", JSON_OBJECT));
	TRY(files_list_option(path_arg, options, "recursive", &recursive));
	TRY(files_list_option(path_arg, options, "includeHidden", &hidden));
	flags |= recursive ? FILEOP_RECURSIVE : 0;
	flags |= hidden ? FILEOP_HIDDEN : 0;
	path_arg_within(path_arg, PATH_ARG_LONG_MS);
	TRY(files_list(&path_arg->files, path_arg->path, flags, 0, &writer.walk));
	return copy_entries(&writer, "files");
}

static fallible files_list_number(struct path_arg *path_arg, const struct json *json,
				  const char *name, uint64_t max, uint64_t *out)
{
	path_arg->field = name;
	path_arg->code = "INVALID_NUMBER";
	TRY(json_u64(json_get(json, name), name, 0, max, out));
	path_arg->field = NULL;
	return OK;
}

static fallible read_types(struct path_arg *path_arg, const struct json *json, uint32_t *out)
{
	static const char *const words[] = {"file", "directory", "symlink", "other"};
	struct str text = {0};

	path_arg->field = "type";
	path_arg->code = "INVALID_TYPE";
	TRY(json_str(json_get(json, "type"), "type", &text));
	path_arg->field = text.at ? "type" : NULL;
	for (uint32_t i = 0; text.at && i < 4; i++)
		if (str_is(text, words[i]))
			*out = 1u << i;
	if (text.at && !*out)
		return err_new(INVALID, "bad_field",
			       "'type' must be file, directory, symlink or other");
	path_arg->field = NULL;
	return OK;
}

static fallible read_find(struct path_arg *path_arg, const struct json *json,
			  struct files_find *find)
{
	bool hidden = false;
	uint64_t depth = 0;

	TRY(globs_read(path_arg, json, "pattern", &find->include));
	TRY(globs_read(path_arg, json, "include", &find->include));
	TRY(globs_read(path_arg, json, "exclude", &find->exclude));
	TRY(read_types(path_arg, json, &find->types));
	TRY(files_list_number(path_arg, json, "minSize", 1ull << 53, &find->min_size));
	TRY(files_list_number(path_arg, json, "maxSize", 1ull << 53, &find->max_size));
	TRY(files_list_number(path_arg, json, "maxDepth", FILEOP_DEPTH_MAX, &depth));
	TRY(files_list_number(path_arg, json, "limit", 1ull << 32, &find->limit));
	TRY(files_list_option(path_arg, json, "includeHidden", &hidden));
	find->depth = (uint32_t)depth;
	find->flags = hidden ? FILEOP_HIDDEN : 0;
	return OK;
}

static fallible find_files(struct path_arg *path_arg)
{
	auto_walk_writer writer = {.path_arg = path_arg};
	struct files_find find = {0};
	auto_json json = NULL;

	TRY(path_arg_read(path_arg, &json));
	TRY(read_find(path_arg, json, &find));
	path_arg_within(path_arg, PATH_ARG_LONG_MS);
	TRY(files_find(&path_arg->files, path_arg->path, &find, &writer.walk));
	return copy_entries(&writer, "files");
}

fallible toolbox_files_list(struct http *x)
{
	return path_arg_serve(x, "directory.list", files_list_list);
}

fallible toolbox_files_find(struct http *x)
{
	return path_arg_serve(x, "file.find", find_files);
}
