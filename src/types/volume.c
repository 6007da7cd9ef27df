// The rules of paths in a sandbox where volumes may be, and the JSON of a sandbox's volumes. A path
// is compared as bytes: names that differ are different directories, because no link is followed.
#include "types/volume.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"

void volume_mounts_done(struct volume_mounts *mounts)
{
	free(mounts->at);
	*mounts = (struct volume_mounts){0};
}

void volume_mounts_copy(const struct volume_mounts *from, struct volume_mounts *out)
{
	*out = (struct volume_mounts){.count = from->count};
	if (from->count)
		out->at = mem_new(from->count * sizeof(*out->at));
	for (size_t i = 0; i < from->count; i++)
		out->at[i] = from->at[i];
}

bool volume_mounts_agree(const struct volume_mounts *one, const struct volume_mounts *other)
{
	for (size_t i = 0; one->count == other->count && i < one->count; i++) {
		const struct volume_mount *a = &one->at[i], *b = &other->at[i];

		if (strcmp(a->id, b->id) != 0 || strcmp(a->path, b->path) != 0 ||
		    strcmp(a->subpath, b->subpath) != 0 || a->read_only != b->read_only)
			return false;
	}
	return one->count == other->count;
}

bool volume_is_subpath(struct str path)
{
	struct str rest = path, part;

	if (!path.len || path.len > VOLUME_PATH_MAX || path.at[path.len - 1] == '/')
		return false;
	for (size_t i = 0; i < path.len; i++)
		if ((unsigned char)path.at[i] < ' ' || path.at[i] == 0x7f)
			return false;
	while (rest.len && str_cut(&rest, '/', &part))
		if (!part.len || str_is(part, ".") || str_is(part, ".."))
			return false;
	return true;
}

bool volume_is_path(struct str path)
{
	static const char *const taken[] = {"dev", "proc", "run", "sys"};
	struct str rest = str_skip(path, 1), first;

	if (path.len > VOLUME_PATH_MAX || !str_starts(path, "/") || !volume_is_subpath(rest))
		return false;
	str_cut(&rest, '/', &first);
	for (size_t i = 0; i < sizeof(taken) / sizeof(*taken); i++)
		if (str_is(first, taken[i]))
			return false;
	return true;
}

bool volume_is_name(struct str name)
{
	return id_is_name(name) && !id_is_volume(name);
}

fallible volume_bad_name(void)
{
	return err_hint(err_new(INVALID, "bad_name", "this is not a name for a volume"),
			"1 to %d of a-z, 0-9 and -, beginning with no -, and not of the form of an "
			"id",
			ID_NAME_MAX);
}

// Whether one path is the other or lies beneath it.
static bool paths_overlap(const char *a, const char *b)
{
	size_t one = strlen(a), two = strlen(b), both = one < two ? one : two;
	const char *longer = one < two ? b : a;

	return !strncmp(a, b, both) && (!longer[both] || longer[both] == '/');
}

static fallible mount_read_paths(struct str path, struct str subpath, struct volume_mount *out)
{
	if (!volume_is_path(path))
		return err_hint(err_new(INVALID, "bad_field",
					"a path of 'volumes' is no place for a volume"),
				"an absolute path of up to %d bytes, without '..', '.' or '//', "
				"not / and not in /dev, /proc, /run or /sys",
				VOLUME_PATH_MAX);
	if (subpath.len && !volume_is_subpath(subpath))
		return err_hint(err_new(INVALID, "bad_field",
					"a subpath of 'volumes' is no directory of a volume"),
				"a relative path of up to %d bytes, without '..', '.' or '//'",
				VOLUME_PATH_MAX);
	snprintf(out->path, sizeof(out->path), STR_FMT, STR_ARG(path));
	snprintf(out->subpath, sizeof(out->subpath), STR_FMT, STR_ARG(subpath));
	return OK;
}

static fallible mount_read_one(const struct json *object, bool stored, struct volume_mount *out)
{
	static const char *const known[] = {"name", "path", "subpath", "readOnly", NULL};
	struct str name = {0}, path = {0}, subpath = {0}, id = {0};

	TRY(json_want(object, "volumes", JSON_OBJECT));
	if (!stored)
		TRY(json_only(object, known));
	TRY(json_str(json_get(object, "name"), "volumes.name", &name));
	TRY(json_str(json_get(object, "path"), "volumes.path", &path));
	TRY(json_str(json_get(object, "subpath"), "volumes.subpath", &subpath));
	TRY(json_bool(json_get(object, "readOnly"), "volumes.readOnly", &out->read_only));
	if (stored)
		TRY(json_str(json_get(object, "id"), "volumes.id", &id));
	if (!volume_is_name(name) && (stored || !id_is_volume(name)))
		return volume_bad_name();
	if (stored && !id_is_volume(id))
		return err_new(INVALID, "bad_field", "a volume's id is malformed");
	snprintf(out->name, sizeof(out->name), STR_FMT, STR_ARG(name));
	snprintf(out->id, sizeof(out->id), STR_FMT, STR_ARG(id));
	return mount_read_paths(path, subpath, out);
}

static fallible mounts_fill(const struct json *array, bool stored, struct volume_mounts *out)
{
	for (size_t i = 0; i < out->count; i++) {
		TRY(mount_read_one(json_at(array, i), stored, &out->at[i]));
		for (size_t k = 0; k < i; k++)
			if (paths_overlap(out->at[i].path, out->at[k].path))
				return err_new(INVALID, "bad_field",
					       "'%s' and '%s' are one within the other",
					       out->at[k].path, out->at[i].path);
	}
	return OK;
}

static fallible mounts_take(const struct json *array, bool stored, struct volume_mounts *out)
{
	struct volume_mounts mounts = {0};
	struct err *err;

	if (!array)
		return OK;
	TRY(json_want(array, "volumes", JSON_ARRAY));
	if (json_count(array) > VOLUME_MOUNTS_MAX)
		return err_new(INVALID, "bad_field", "a sandbox has at most %d volumes",
			       VOLUME_MOUNTS_MAX);
	mounts.count = json_count(array);
	if (!mounts.count)
		return OK;
	mounts.at = mem_new(mounts.count * sizeof(*mounts.at));
	err = mounts_fill(array, stored, &mounts);
	if (err)
		volume_mounts_done(&mounts);
	else
		*out = mounts;
	return err;
}

fallible volume_mounts_read(const struct json *array, struct volume_mounts *out)
{
	return mounts_take(array, false, out);
}

fallible volume_mounts_load(const struct json *array, struct volume_mounts *out)
{
	return mounts_take(array, true, out);
}

void volume_mounts_write(struct json_out *out, const struct volume_mounts *mounts)
{
	json_begin(out, '[');
	for (size_t i = 0; i < mounts->count; i++) {
		const struct volume_mount *mount = &mounts->at[i];

		json_begin(out, '{');
		json_put_text(out, "id", mount->id);
		json_put_text(out, "name", mount->name);
		json_put_text(out, "path", mount->path);
		if (mount->subpath[0])
			json_put_text(out, "subpath", mount->subpath);
		json_put_bool(out, "readOnly", mount->read_only);
		json_end(out, '}');
	}
	json_end(out, ']');
}
