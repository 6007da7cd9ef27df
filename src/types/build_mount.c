// Reads the options of a mount: pairs with commas between them, each key a row. What cannot be
// given here is refused by its name, so that no option of a Dockerfile is silently without effect.
#include "types/build_mount.h"

#include <string.h>

#include "base/mem.h"

#define ID_MAX 65535
#define ID_BYTES 128

static const char *const mount_words[] = {
#define X(name, word) [BUILD_MOUNT_##name] = (word),
	BUILD_MOUNT_TYPES(X)
#undef X
};
#define MOUNT_TYPES (sizeof(mount_words) / sizeof(*mount_words))

void build_mount_done(struct build_mount *mount)
{
#define X(field, ...) free(mount->field);
	BUILD_MOUNT_TEXTS(X)
#undef X
	*mount = (struct build_mount){0};
}

static fallible bad_mount(struct str what, const char *why)
{
	return err_hint(err_new(INVALID, "bad_mount", "'" STR_FMT "' of a mount %s",
				(int)(what.len < 80 ? what.len : 80), what.at, why),
			"type is bind, cache, secret or tmpfs; docs/API.md lists the options");
}

static fallible mount_read_type(struct str word, struct build_mount *out)
{
	for (size_t i = 0; i < MOUNT_TYPES; i++)
		if (str_is(word, mount_words[i])) {
			out->type = (enum build_mount_type)i;
			return OK;
		}
	return bad_mount(word, "is not supported");
}

static fallible mount_read_flag(struct str value, bool has_value, bool *out)
{
	*out = !has_value || str_is(value, "true") || str_is(value, "1");
	return *out || str_is(value, "false") || str_is(value, "0")
		       ? OK
		       : bad_mount(value, "is neither true nor false");
}

static fallible mount_read_id(struct str value, uint32_t *out)
{
	uint64_t number;

	if (!str_to_u64(value, 0, ID_MAX, &number))
		return bad_mount(value, "is no id of a user or group");
	*out = (uint32_t)number;
	return OK;
}

// Options that have no effect: mounts are always private to their step, and never written back.
static bool mount_is_idle(struct str key)
{
	static const char *const idle[] = {"ro",      "readonly", "rw",	  "readwrite",
					   "sharing", "size",	  "type", NULL};

	for (size_t i = 0; idle[i]; i++)
		if (str_is(key, idle[i]))
			return true;
	return false;
}

static fallible mount_read_option(struct str pair, struct build_mount *out)
{
	bool has_value = memchr(pair.at, '=', pair.len) != NULL;
	struct str value = pair, key;

	str_cut(&value, '=', &key);
#define X(field, name, other, third)                                                               \
	if (has_value && (str_is(key, name) || str_is(key, other) || str_is(key, third))) {        \
		free(out->field);                                                                  \
		out->field = mem_dup(value.at, value.len);                                         \
		return value.len ? OK : bad_mount(key, "is empty");                                \
	}
	BUILD_MOUNT_TEXTS(X)
#undef X
	if (str_is(key, "required"))
		return mount_read_flag(value, has_value, &out->required);
	if (str_is(key, "uid"))
		return mount_read_id(value, &out->uid);
	if (str_is(key, "gid"))
		return mount_read_id(value, &out->gid);
	if (str_is(key, "mode"))
		return str_to_mode(value, &out->mode) ? OK : bad_mount(value, "is no octal mode");
	return mount_is_idle(key) ? OK : bad_mount(key, "is not supported");
}

// A name of a secret or cache: no path, whatever it is joined with.
static bool mount_is_id(const char *id)
{
	return id[0] && id[0] != '.' && strlen(id) <= ID_BYTES && !strchr(id, '/');
}

static bool mount_is_target(const char *target)
{
	struct str rest = str_of(target), part;
	bool named = false;

	while (str_cut(&rest, '/', &part)) {
		if (str_is(part, ".."))
			return false;
		named |= part.len && !str_is(part, ".");
	}
	return named;
}

static fallible mount_check(struct build_mount *mount)
{
	const char *word = mount_words[mount->type];
	bool secret = mount->type == BUILD_MOUNT_SECRET;

	if (secret && !mount->id && mount->target) {
		const char *slash = strrchr(mount->target, '/');

		mount->id = mem_str(slash ? slash + 1 : mount->target);
	}
	if (secret && (!mount->id || !mount_is_id(mount->id)))
		return bad_mount(str_of(mount->id ? mount->id : "id"),
				 "is no name of a secret: id=NAME");
	if (secret && !mount->target && !mount->env)
		mount->target = mem_fmt("/run/secrets/%s", mount->id);
	if (!secret && !mount->target)
		return bad_mount(str_of(word), "has no target");
	if (!secret && mount->env)
		return bad_mount(STR("env"), "is for secrets");
	if (mount->target && !mount_is_target(mount->target))
		return bad_mount(str_of(mount->target), "is no target");
	if (mount->type != BUILD_MOUNT_BIND && (mount->from || mount->source))
		return bad_mount(STR("from or source"), "is for bind");
	return OK;
}

fallible build_mount_read(struct str text, struct build_mount *out)
{
	struct str rest = text, pair, type = {0};

	*out = (struct build_mount){.mode = UINT32_MAX};
	if (!text.len || text.len > BUILD_MOUNT_MAX || memchr(text.at, 0, text.len))
		return bad_mount(STR("it"), "is empty or too long");
	while (str_cut(&rest, ',', &pair)) {
		if (str_starts(pair, "type="))
			type = str_skip(pair, strlen("type="));
		TRY(mount_read_option(pair, out));
	}
	if (type.at)
		TRY(mount_read_type(type, out));
	return mount_check(out);
}
