// Reads and writes tenants: quota, network mode, allowed templates and images. An absent quota is
// no bound. A body is accepted or refused as a whole.
#include "types/tenant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "types/who.h"

#define MIB (1ull << 20)
#define COUNT_MAX 1000000
#define MEGABYTES_MAX (1ull << 30)

// A tenant's name is part of file and template names, so it has no dot, slash or capital.
bool who_is_tenant(struct str name)
{
	for (size_t i = 0; i < name.len; i++) {
		char c = name.at[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && (c != '-' || i == 0))
			return false;
	}
	return name.len && name.len <= WHO_TENANT_MAX;
}

void tenant_done(struct tenant *tenant)
{
	free(tenant->templates);
	tenant->templates = NULL;
	tenant->template_count = 0;
	for (size_t i = 0; i < tenant->image_count; i++)
		free(tenant->images[i]);
	free(tenant->images);
	tenant->images = NULL;
	tenant->image_count = 0;
}

static fallible read_quota(const struct json *object, struct quota *out)
{
	static const char *const known[] = {"boxes", "memoryMB", "cpus", "diskMB", "execs", NULL};
	struct quota quota = {0};
	double cpus = 0;

	if (!object)
		return OK;
	TRY(json_want(object, "quota", JSON_OBJECT));
	TRY(json_only(object, known));
	TRY(json_u64(json_get(object, "boxes"), "quota.boxes", 1, COUNT_MAX, &quota.boxes));
	TRY(json_u64(json_get(object, "memoryMB"), "quota.memoryMB", 1, MEGABYTES_MAX,
		     &quota.memory));
	TRY(json_double(json_get(object, "cpus"), "quota.cpus", 0.001, COUNT_MAX, &cpus));
	TRY(json_u64(json_get(object, "diskMB"), "quota.diskMB", 1, MEGABYTES_MAX, &quota.disk));
	TRY(json_u64(json_get(object, "execs"), "quota.execs", 1, COUNT_MAX, &quota.execs));
	quota.memory *= MIB;
	quota.disk *= MIB;
	quota.cpu_milli = (uint64_t)(cpus * 1000 + 0.5);
	*out = quota;
	return OK;
}

static fallible read_templates(const struct json *array, struct tenant *out)
{
	size_t count = array ? json_count(array) : 0;

	if (!array)
		return OK;
	TRY(json_want(array, "templates", JSON_ARRAY));
	if (count > TENANT_TEMPLATES_MAX)
		return err_new(INVALID, "bad_field", "'templates' has more than %d names",
			       TENANT_TEMPLATES_MAX);
	out->templates = mem_new((count + 1) * sizeof(*out->templates));
	for (size_t i = 0; i < count; i++) {
		struct str name = {0};

		TRY(json_str(json_at(array, i), "templates", &name));
		if (str_is(name, "*"))
			out->all_templates = true;
		else if (id_is_template(name))
			memcpy(out->templates[out->template_count++], name.at, name.len);
		else
			return err_hint(err_new(INVALID, "bad_field",
						"'templates' must hold names of templates"),
					"[\"*\"] is all of the operator's but 'host'");
	}
	return OK;
}

static fallible tenant_read_images(const struct json *array, struct tenant *out)
{
	size_t count = array ? json_count(array) : 0;

	if (!array)
		return OK;
	TRY(json_want(array, "images", JSON_ARRAY));
	if (count > TENANT_IMAGES_MAX)
		return err_new(INVALID, "bad_field", "'images' has more than %d patterns",
			       TENANT_IMAGES_MAX);
	out->images_said = true;
	out->images = mem_new((count + 1) * sizeof(*out->images));
	for (size_t i = 0; i < count; i++) {
		struct str pattern = {0};

		TRY(json_str(json_at(array, i), "images", &pattern));
		if (!reference_is_pattern(pattern))
			return err_hint(err_new(INVALID, "bad_field",
						"'images' must hold patterns of names of images"),
					"HOST/PATH with or without :TAG, such as "
					"docker.io/library/*; [\"*\"] is all");
		out->images[out->image_count++] = mem_dup(pattern.at, pattern.len);
	}
	return OK;
}

bool tenant_may_pull(const struct tenant *tenant, const struct reference *image)
{
	for (size_t i = 0; i < tenant->image_count; i++)
		if (reference_matches(image, tenant->images[i]))
			return true;
	return !tenant->images_said;
}

static fallible tenant_read_default(const struct json *value, struct tenant *out)
{
	struct str name = STR("");

	TRY(json_str(value, "defaultTemplate", &name));
	if (name.len && (!id_is_template(name) || name.len >= sizeof(out->template)))
		return err_new(INVALID, "bad_field",
			       "'defaultTemplate' must be the name of a template");
	snprintf(out->template, sizeof(out->template), STR_FMT, STR_ARG(name));
	return OK;
}

enum policy_mode tenant_network(const struct tenant *tenant)
{
	return tenant->network_said ? tenant->network : POLICY_ALL;
}

static fallible tenant_read_network(const struct json *value, struct tenant *out)
{
	struct str word = {0};

	TRY(json_str(value, "network", &word));
	if (!word.at)
		return OK;
	for (int mode = 0; mode < POLICY_MODES; mode++)
		if (str_is(word, policy_mode_word((enum policy_mode)mode))) {
			out->network = (enum policy_mode)mode;
			out->network_said = true;
			return OK;
		}
	return err_new(INVALID, "bad_field", "'network' must be off, allow or all");
}

fallible tenant_read(const struct json *object, struct tenant *out)
{
	static const char *const known[] = {"quota",	       "host",	 "network", "templates",
					    "defaultTemplate", "images", NULL};
	auto_tenant tenant = {.created_ms = out->created_ms};
	struct tenant old = *out;

	memcpy(tenant.name, out->name, sizeof(tenant.name));
	if (object) {
		TRY(json_want(object, "body", JSON_OBJECT));
		TRY(json_only(object, known));
		TRY(read_quota(json_get(object, "quota"), &tenant.quota));
		TRY(json_bool(json_get(object, "host"), "host", &tenant.host));
		TRY(tenant_read_network(json_get(object, "network"), &tenant));
		TRY(read_templates(json_get(object, "templates"), &tenant));
		TRY(tenant_read_default(json_get(object, "defaultTemplate"), &tenant));
		TRY(tenant_read_images(json_get(object, "images"), &tenant));
	}
	*out = tenant;
	tenant = old;
	return OK;
}

static void put_bound(struct json_out *out, const char *key, uint64_t value)
{
	json_key(out, key);
	if (value)
		json_add_int(out, (int64_t)value);
	else
		json_add_null(out);
}

void quota_write(struct json_out *out, const struct quota *quota)
{
	json_begin(out, '{');
	put_bound(out, "boxes", quota->boxes);
	put_bound(out, "memoryMB", quota->memory / MIB);
	json_key(out, "cpus");
	if (quota->cpu_milli)
		json_add_double(out, (double)quota->cpu_milli / 1000);
	else
		json_add_null(out);
	put_bound(out, "diskMB", quota->disk / MIB);
	put_bound(out, "execs", quota->execs);
	json_end(out, '}');
}

void tenant_put_rights(struct json_out *out, const struct tenant *tenant)
{
	json_key(out, "quota");
	quota_write(out, &tenant->quota);
	json_put_bool(out, "host", tenant->host);
	json_put_text(out, "network", policy_mode_word(tenant_network(tenant)));
	json_key(out, "templates");
	json_begin(out, '[');
	if (tenant->all_templates)
		json_add_str(out, STR("*"));
	for (size_t i = 0; i < tenant->template_count; i++)
		json_add_str(out, str_of(tenant->templates[i]));
	json_end(out, ']');
	json_put_text(out, "defaultTemplate", tenant->template[0] ? tenant->template : NULL);
	json_put_begin(out, "images", '[');
	if (!tenant->images_said)
		json_add_str(out, STR("*"));
	for (size_t i = 0; i < tenant->image_count; i++)
		json_add_str(out, str_of(tenant->images[i]));
	json_end(out, ']');
}

void tenant_put(struct json_out *out, const struct tenant *tenant)
{
	json_put_text(out, "name", tenant->name);
	tenant_put_rights(out, tenant);
	json_put_time(out, "createdAt", tenant->created_ms);
}
