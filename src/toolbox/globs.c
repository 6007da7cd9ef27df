// Copies the glob lists of request bodies into the exchange's arena. Each pattern has 1 to
// GLOB_BYTES bytes and a list at most GLOBS_MAX patterns; an error names the field in path_arg.
#include "toolbox/globs.h"

static fallible globs_copy(struct path_arg *path_arg, const struct json *value, const char *name,
			   const char **out)
{
	struct str text = {0};

	TRY(json_str(value, name, &text));
	if (!text.len || text.len > GLOB_BYTES)
		return err_new(INVALID, "bad_field", "'%s' must hold patterns of 1 to %d bytes",
			       name, GLOB_BYTES);
	*out = arena_dup(path_arg->x->arena, text.at, text.len);
	return OK;
}

fallible globs_read(struct path_arg *path_arg, const struct json *json, const char *name,
		    const char *const **out)
{
	const struct json *value = json_get(json, name);
	size_t count = value && json_type(value) == JSON_ARRAY ? json_count(value) : 1;
	const char **globs;

	if (!value)
		return OK;
	path_arg->field = name;
	path_arg->code = "INVALID_PATTERN";
	if (count > GLOBS_MAX)
		return err_new(INVALID, "bad_field", "'%s' may have %d entries", name, GLOBS_MAX);
	globs = arena_take(path_arg->x->arena, (count + 1) * sizeof(*globs));
	if (json_type(value) != JSON_ARRAY)
		TRY(globs_copy(path_arg, value, name, &globs[0]));
	else
		for (size_t i = 0; i < count; i++)
			TRY(globs_copy(path_arg, json_at(value, i), name, &globs[i]));
	path_arg->field = NULL;
	*out = globs;
	return OK;
}
