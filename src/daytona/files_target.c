// Paths are bytes that the box resolves with the rights of the sandbox's user: here they are only
// bounded. A relative path begins at the sandbox's work directory.
#include "daytona/files_target.h"

void files_target_within(struct files_target *target, int64_t ms)
{
	target->files.deadline = loop_now(gateway_of(target->x)->loop) + ms;
}

fallible files_target_serve(struct http *x, files_target_fn *work)
{
	struct files_target target = {.x = x};
	struct err *err;

	TRY(gateway_box(x, &target.ref));
	target.files = (struct files){
		.box = target.ref.box,
		.user = target.ref.entry->record.user,
		.base = record_workdir(&target.ref.entry->record),
	};
	files_target_within(&target, FILES_TARGET_SHORT_MS);
	err = box_ref_explain(work(&target));
	box_ref_end(&target.ref);
	return err;
}

fallible files_target_path(struct files_target *target, struct str text, const char *field,
			   const char **out)
{
	if (!text.len)
		return err_new(INVALID, "bad_path", "'%s' is missing or empty", field);
	if (text.len > FILEOP_PATH_MAX || memchr(text.at, 0, text.len))
		return err_new(INVALID, "bad_path", "'%s' is no path of up to %d bytes", field,
			       FILEOP_PATH_MAX);
	*out = arena_dup(target->x->arena, text.at, text.len);
	return OK;
}

fallible files_target_query(struct files_target *target, const char *key, const char **out)
{
	return files_target_path(target, http_query(target->x, key), key, out);
}

const char *files_target_absolute(const struct files_target *target, const char *path)
{
	auto_buf out = BUF_INIT(4 * FILEOP_PATH_MAX);
	const char *base = path[0] == '/' ? "" : target->files.base;
	struct str rest = str_of(arena_fmt(target->x->arena, "%s/%s", base, path)), part;

	while (str_cut(&rest, '/', &part)) {
		if (!part.len || str_is(part, "."))
			continue;
		buf_char(&out, '/');
		buf_str(&out, part);
	}
	return out.len ? arena_dup(target->x->arena, out.at, out.len) : "/";
}
