// Translates Daytona's create into cove's own body, which spec_read() then checks: a limit has one
// set of rules. Members that ask for something that cove lacks are refused by name.
#include "daytona/create.h"

#include <stdio.h>

#include "base/mem.h"
#include "daytona/network.h"
#include "daytona/storage.h"
#include "types/preview_token.h"

#define BODY_MAX (1 << 20)
#define GIB_MAX 1e6

static const struct {
	const char *key, *hint;
} absent[] = {
	{"linkedSandbox", "expose a port of the other sandbox"},
	{"outboundProxyUrl", "'domainAllowList' bounds what the sandbox may reach"},
	{"gpu", "leave it out"},
	{"gpuType", "leave it out"},
	{"kvm", "leave it out"},
	{"autoPauseInterval",
	 "an idle sandbox is frozen before it is stopped: use autoStopInterval"},
};

bool create_is_asked(const struct json *value)
{
	double number = 0;
	bool flag = false;

	if (!value)
		return false;
	switch (json_type(value)) {
	case JSON_NULL:
		return false;
	case JSON_BOOL:
		err_free(json_bool(value, "", &flag));
		return flag;
	case JSON_NUMBER:
		err_free(json_double(value, "", -1e300, 1e300, &number));
		return number < 0 || number > 0;
	case JSON_STRING:
		return json_chars(value).len;
	default:
		return json_count(value);
	}
}

static fallible refuse_absent(const struct json *body)
{
	for (size_t i = 0; i < sizeof(absent) / sizeof(*absent); i++)
		if (create_is_asked(json_get(body, absent[i].key)))
			return err_hint(err_new(NOT_OFFERED, "not_offered",
						"cove does not offer '%s'", absent[i].key),
					"%s", absent[i].hint);
	return OK;
}

bool create_from_line(struct str dockerfile, struct str *out_image)
{
	struct str line, image = {0};

	while (dockerfile.len && str_cut(&dockerfile, '\n', &line)) {
		if (line.len && line.at[line.len - 1] == '\r')
			line.len--;
		line = str_trim(line);
		if (!line.len || line.at[0] == '#')
			continue;
		if (image.len || line.len < 6 ||
		    !str_eq_nocase((struct str){line.at, 5}, STR("FROM ")))
			return false;
		image = str_trim(str_skip(line, 5));
		for (size_t i = 0; i < image.len; i++)
			if (image.at[i] == ' ' || image.at[i] == '\t')
				return false; // FROM … AS …, --platform
	}
	*out_image = image;
	return image.len;
}

fallible create_name(struct str name, bool (*is_own)(struct str name),
		     char out[FOREIGN_NAME_MAX + 2])
{
	if (foreign_name_write(name, is_own, out))
		return OK;
	return err_hint(err_new(INVALID, "bad_name", "this is not a name for cove"),
			"up to %d of a-z, 0-9 and -; other characters count two or three, and then "
			"4 are added",
			FOREIGN_NAME_MAX);
}

fallible create_dockerfile(const struct json *body, struct str *out)
{
	const struct json *build = json_get(body, "buildInfo");

	if (!build || json_type(build) == JSON_NULL)
		return OK;
	TRY(json_want(build, "buildInfo", JSON_OBJECT));
	TRY(json_str(json_get(build, "dockerfileContent"), "buildInfo.dockerfileContent", out));
	if (!out->len)
		return err_new(INVALID, "bad_field", "'buildInfo.dockerfileContent' is missing");
	return OK;
}

fallible create_hashes(const struct json *body, const struct json **out)
{
	const struct json *build = json_get(body, "buildInfo"), *hashes;

	*out = NULL;
	if (!build || json_type(build) != JSON_OBJECT)
		return OK;
	hashes = json_get(build, "contextHashes");
	if (!create_is_asked(hashes))
		return OK;
	TRY(json_want(hashes, "buildInfo.contextHashes", JSON_ARRAY));
	if (json_count(hashes) > STORAGE_HASHES_MAX)
		return err_new(INVALID, "bad_field", "'buildInfo.contextHashes' has more than %d",
			       STORAGE_HASHES_MAX);
	for (size_t i = 0; i < json_count(hashes); i++)
		if (!storage_is_hash(json_chars(json_at(hashes, i))))
			return err_new(INVALID, "bad_field",
				       "'buildInfo.contextHashes' has what is no hash");
	*out = hashes;
	return OK;
}

static fallible create_put_source(struct json_out *out, const struct json *body)
{
	struct str snapshot = {0}, dockerfile = {0}, image;
	char form[FOREIGN_NAME_MAX + 2];

	TRY(json_str(json_get(body, "snapshot"), "snapshot", &snapshot));
	TRY(create_dockerfile(body, &dockerfile));
	if (snapshot.len && dockerfile.len)
		return err_new(INVALID, "bad_field",
			       "'snapshot' and 'buildInfo' exclude each other");
	if (foreign_name_write(snapshot, id_is_template, form))
		snapshot = str_of(form);
	if (snapshot.len)
		json_put_str(out, "template", snapshot);
	else if (create_from_line(dockerfile, &image))
		json_put_str(out, "image", image);
	return OK;
}

static fallible create_put_limit(struct json_out *out, const struct json *body, const char *key,
				 const char *name, double scale)
{
	double value = 0;

	TRY(json_double(json_get(body, key), key, 0, GIB_MAX, &value));
	if (!(value > 0))
		return OK;
	json_key(out, name);
	if (scale > 1)
		json_add_int(out, (int64_t)(value * scale));
	else
		json_add_double(out, value);
	return OK;
}

static fallible create_put_limits(struct json_out *out, const struct json *body)
{
	json_put_begin(out, "limits", '{');
	TRY(create_put_limit(out, body, "cpu", "cpus", 1));
	TRY(create_put_limit(out, body, "memory", "memoryMB", 1024));
	TRY(create_put_limit(out, body, "disk", "diskMB", 1024));
	json_end(out, '}');
	return OK;
}

static fallible create_put_network(struct json_out *out, const struct json *body)
{
	struct network_lists lists = {0};

	TRY(network_read(body, &lists));
	network_put(out, &lists);
	return OK;
}

// [{volumeId, mountPath, subpath}]
static fallible create_put_volumes(struct json_out *out, const struct json *body)
{
	static const char *const keys[][2] = {
		{"volumeId", "name"}, {"mountPath", "path"}, {"subpath", "subpath"}};
	const struct json *list = json_get(body, "volumes");
	char form[FOREIGN_NAME_MAX + 2];

	if (!list)
		return OK;
	TRY(json_want(list, "volumes", JSON_ARRAY));
	json_put_begin(out, "volumes", '[');
	for (size_t i = 0; i < json_count(list); i++) {
		TRY(json_want(json_at(list, i), "volumes", JSON_OBJECT));
		json_begin(out, '{');
		for (size_t k = 0; k < sizeof(keys) / sizeof(*keys); k++) {
			struct str text = {0};

			TRY(json_str(json_get(json_at(list, i), keys[k][0]), keys[k][0], &text));
			if (!k && foreign_name_write(text, id_is_name, form))
				text = str_of(form);
			if (text.len)
				json_put_str(out, keys[k][1], text);
		}
		json_end(out, '}');
	}
	json_end(out, ']');
	return OK;
}

// [{ENV: name}, …]. A secret of cove has the name of its variable.
static fallible create_put_secrets(struct json_out *out, const struct json *body)
{
	const struct json *list = json_get(body, "secrets");
	struct json *value = NULL;
	struct str variable;

	if (!list)
		return OK;
	TRY(json_want(list, "secrets", JSON_ARRAY));
	json_put_begin(out, "secrets", '[');
	for (size_t i = 0; i < json_count(list); i++) {
		TRY(json_want(json_at(list, i), "secrets", JSON_OBJECT));
		for (size_t at = 0; json_next(json_at(list, i), &at, &variable, &value);) {
			struct str name = {0};

			TRY(json_str(value, "secrets", &name));
			if (!str_eq(name, variable))
				return err_hint(err_new(NOT_OFFERED, "not_offered",
							"a secret has the name of its variable"),
						"PUT /v1/secrets/{name} with the name of the "
						"variable");
			json_add_str(out, name);
		}
	}
	json_end(out, ']');
	return OK;
}

static fallible create_put_times(struct json_out *out, const struct json *body)
{
	uint64_t stop = CREATE_AUTO_STOP_MINUTES, ttl = 0;

	TRY(json_u64(json_get(body, "autoStopInterval"), "autoStopInterval", 0, CREATE_MINUTES_MAX,
		     &stop));
	TRY(json_u64(json_get(body, "ttlMinutes"), "ttlMinutes", 0, CREATE_MINUTES_MAX, &ttl));
	if (stop)
		json_put_int(out, "sleepAfter", (int64_t)stop * 60);
	else
		json_put_bool(out, "keepAlive", true);
	if (ttl)
		json_put_int(out, "ttl", (int64_t)ttl * 60);
	return OK;
}

static void create_put_member(struct json_out *out, const struct json *body, const char *key)
{
	if (!json_get(body, key))
		return;
	json_key(out, key);
	json_add_value(out, json_get(body, key));
}

static fallible create_write(const struct json *body, struct buf *text)
{
	struct json_out out = json_to(text);
	struct str name = {0}, user = {0};
	char form[FOREIGN_NAME_MAX + 2];

	TRY(json_str(json_get(body, "name"), "name", &name));
	TRY(json_str(json_get(body, "user"), "user", &user));
	json_begin(&out, '{');
	if (name.len) {
		TRY(create_name(name, id_is_name, form));
		json_put_text(&out, "name", form);
	}
	if (user.len)
		json_put_str(&out, "user", user);
	TRY(create_put_source(&out, body));
	TRY(create_put_limits(&out, body));
	TRY(create_put_network(&out, body));
	TRY(create_put_volumes(&out, body));
	TRY(create_put_secrets(&out, body));
	TRY(create_put_times(&out, body));
	create_put_member(&out, body, "env");
	create_put_member(&out, body, "labels");
	json_end(&out, '}');
	return buf_ok(text) ? OK : err_new(TOO_LARGE, "body_too_large", "the body is too large");
}

static void create_set_label(struct env_map *labels, const char *name, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	env_map_set(labels, str_of(name), str_of(text));
}

uint64_t create_archive_after_s(uint64_t minutes)
{
	return (minutes ? minutes : CREATE_MINUTES_MAX) * 60;
}

// Settings beside cove's own create. auto-delete -1 is off.
static fallible keep_intervals(const struct json *body, struct spec *spec)
{
	const struct json *given = json_get(body, "autoDeleteInterval");
	uint64_t archive = CREATE_AUTO_ARCHIVE_MINUTES;
	double minutes = -1;
	bool is_public = false;

	TRY(json_u64(json_get(body, "autoArchiveInterval"), "autoArchiveInterval", 0,
		     CREATE_MINUTES_MAX, &archive));
	TRY(json_double(given, "autoDeleteInterval", -CREATE_MINUTES_MAX, CREATE_MINUTES_MAX,
			&minutes));
	TRY(json_bool(json_get(body, "public"), "public", &is_public));
	if (is_public)
		env_map_set(&spec->labels, STR(PREVIEW_TOKEN_PUBLIC), STR("true"));
	spec->retention.archive_after_ms = create_archive_after_s(archive) * 1000;
	if (minutes >= 0)
		create_set_label(&spec->labels, ENV_MAP_AUTO_DELETE, (uint64_t)minutes);
	return OK;
}

static uint64_t create_least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

fallible create_read(const struct json *body, const struct spec_bounds *bounds, struct spec *out)
{
	auto_buf text = BUF_INIT(BODY_MAX);
	auto_json json = NULL;
	auto_spec spec = {0};

	TRY(refuse_absent(body));
	TRY(create_write(body, &text));
	TRY(json_read(buf_view(&text), &json));
	TRY(spec_read(json, bounds, &spec));
	if (!(spec.limits_said & 1u << LIMIT_MEMORY))
		spec.limits.memory = create_least(CREATE_MEMORY_MB * LIMITS_MIB,
						  bounds->memory_max);
	if (!(spec.limits_said & 1u << LIMIT_DISK))
		spec.limits.disk = CREATE_DISK_MB * LIMITS_MIB;
	if (!spec.user[0])
		snprintf(spec.login, sizeof(spec.login), CREATE_USER);
	TRY(keep_intervals(body, &spec));
	*out = spec;
	spec = (struct spec){0};
	return OK;
}
