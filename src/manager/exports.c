// A layer for each of a pulled image, two for a snapshot (its base, and what differs), one for
// every other template. The packed layers that a registry had are not kept, so digests of layers
// differ from the registry's.
#include "manager/exports.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/secret.h"
#include "codec/json.h"
#include "loop/closer.h"
#include "manager/access.h"
#include "manager/pull.h"
#include "types/image.h"

#define WORK_MS (40 * 60 * 1000) // longer than the warden's patience
#define DOCUMENT_MAX (1 << 20)

#define TYPE_MANIFEST "application/vnd.oci.image.manifest.v1+json"
#define TYPE_CONFIG "application/vnd.oci.image.config.v1+json"
#define TYPE_LAYER "application/vnd.oci.image.layer.v1.tar"
#define LAYOUT "{\"imageLayoutVersion\":\"1.0.0\"}"

struct export_layer {
	char name[TEMPLATE_NAME_MAX], parent[TEMPLATE_NAME_MAX]; // of the warden
	uint32_t part;
	int fd;
	uint64_t bytes;
	char digest[ORDER_DIGEST + 1], diff_id[ORDER_DIGEST + 1];
};

// What is to be exported, and what has been written of it.
struct export_plan {
	struct manager *manager;
	const struct export_request *request;
	char tenant[WHO_TENANT_MAX + 1]; // of the layers
	bool holds;			 // the layers
	char name[TEMPLATE_NAME_MAX], note[ORDER_NOTE_MAX];
	const char *kind;
	char *config; // of an image: JSON
	struct platform platform;
	int64_t created_ms;
	struct export_layer *layers;
	size_t count;
};

void export_free(struct export *export)
{
	if (!export)
		return;
	for (size_t i = 0; i < export->count; i++) {
		if (export->files[i].fd >= 0)
			closer_drop(&export->files[i].fd);
		free(export->files[i].text);
	}
	free(export->files);
	free(export);
}

static void plan_done(struct export_plan *plan)
{
	for (size_t i = 0; i < plan->count; i++) {
		if (plan->holds)
			pulled_hold(plan->manager, plan->tenant, plan->layers[i].name, false);
		if (plan->layers[i].fd >= 0)
			closer_drop(&plan->layers[i].fd);
	}
	free(plan->layers);
	free(plan->config);
}

static struct export_layer *plan_add(struct export_plan *plan, const char *name)
{
	struct export_layer *layer;

	plan->layers = mem_grow(plan->layers, plan->count + 1, sizeof(*plan->layers));
	layer = &plan->layers[plan->count++];
	*layer = (struct export_layer){.fd = -1};
	snprintf(layer->name, sizeof(layer->name), "%s", name);
	return layer;
}

// Does not wait: the image is borrowed. All its layers are held, so that squashed, too, none goes.
static fallible plan_image(struct export_plan *plan, const struct pulled_image *image)
{
	size_t first = plan->request->squash && image->count ? image->count - 1 : 0;

	TRY(platform_read(str_of(image->platform), &plan->platform));
	plan->config = mem_str(image->config);
	snprintf(plan->tenant, sizeof(plan->tenant), "%s", image->tenant);
	plan->holds = true;
	for (size_t i = first; i < image->count; i++) {
		struct export_layer *layer = plan_add(plan, image->parts[i].layer);

		if (i > first)
			snprintf(layer->parent, sizeof(layer->parent), "%s",
				 image->parts[i - 1].layer);
		pulled_hold(plan->manager, plan->tenant, layer->name, true);
	}
	return OK;
}

static fallible plan_fill(struct export_plan *plan, const struct who *who)
{
	char stored[TEMPLATE_NAME_MAX];
	struct template template;

	TRY(templates_get(plan->manager, who, plan->request->name, &template));
	memcpy(plan->name, template.name, sizeof(plan->name));
	memcpy(plan->note, template.note, sizeof(plan->note));
	plan->kind = template.kind;
	plan->created_ms = template.created_ms;
	platform_host(&plan->platform);
	if (template.image)
		return plan_image(plan, template.image);
	memcpy(stored, template.name, sizeof(stored));
	TRY(templates_resolve(plan->manager, who, stored));
	if (strcmp(template.kind, "snapshot") != 0 || plan->request->squash) {
		plan_add(plan, stored);
		return OK;
	}
	plan_add(plan, stored)->part = ORDER_PART_BASE;
	plan_add(plan, stored)->part = ORDER_PART_CHANGES;
	return OK;
}

static fallible plan_write_layer(struct export_plan *plan, struct export_layer *layer)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	struct manager *manager = plan->manager;
	struct order order = {
		.kind = ORDER_EXPORT, .part = layer->part, .zstd = plan->request->zstd};
	int none[ORDER_FDS_MAX];

	layer->fd = openat(manager->pull->blobs, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (layer->fd < 0)
		return err_sys(errno, "make a file for a layer");
	memcpy(order.name, layer->name, sizeof(order.name));
	memcpy(order.parent, layer->parent, sizeof(order.parent));
	TRY(ask_order_with(manager->ask, &order, layer->fd, answer, none,
			   loop_now(manager->loop) + WORK_MS));
	layer->bytes = answer->bytes;
	memcpy(layer->digest, answer->digest, sizeof(layer->digest));
	memcpy(layer->diff_id, answer->diff_id, sizeof(layer->diff_id));
	return OK;
}

// ----------------------------------------------------------------------------------------
// documents

static void export_hash(struct str text, char out[ORDER_DIGEST + 1])
{
	uint8_t sum[SECRET_HASH];

	secret_sha256(text.at, text.len, sum);
	for (int i = 0; i < SECRET_HASH; i++)
		snprintf(out + 2 * i, 3, "%02x", sum[i]);
}

// The configuration that an imported archive had, which follows the last layer. It is a file of the
// template: whatever it is, nothing but text comes of it.
static struct json *plan_read_config(const struct export_plan *plan)
{
	const struct export_layer *last = &plan->layers[plan->count - 1];
	auto_free char *text = mem_new(IMAGE_BYTES_MAX);
	auto_image image = {0};
	struct json *json = NULL;
	ssize_t got = pread(last->fd, text, IMAGE_BYTES_MAX, (off_t)last->bytes);
	struct str found = {text, got > 0 ? (size_t)got : 0};
	auto_err bad = OK;

	if (got <= 0)
		return NULL;
	bad = image_read(found, &image);
	if (!bad)
		err_free(json_read(found, &json));
	return json;
}

// What the note of a snapshot says stands above what its base said.
static void config_put(const struct export_plan *plan, struct json_out *out)
{
	static const struct {
		const char *key, *noted;
		enum json_type type;
	} rows[] = {
		{"User", "user", JSON_STRING},		{"Env", NULL, JSON_ARRAY},
		{"Entrypoint", NULL, JSON_ARRAY},	{"Cmd", NULL, JSON_ARRAY},
		{"WorkingDir", "workdir", JSON_STRING}, {"Labels", NULL, JSON_OBJECT},
		{"ExposedPorts", NULL, JSON_OBJECT},	{"Volumes", NULL, JSON_OBJECT},
		{"StopSignal", NULL, JSON_STRING},
	};
	auto_json config = plan_read_config(plan);
	auto_json note = NULL;

	if (plan->note[0])
		err_free(json_read(str_of(plan->note), &note));
	json_begin(out, '{');
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct json *value = note && rows[i].noted ? json_get(note, rows[i].noted)
								 : NULL;

		if (!value && config)
			value = json_get(config, rows[i].key);
		if (!value || json_type(value) != rows[i].type)
			continue;
		json_key(out, rows[i].key);
		json_add_value(out, value);
	}
	json_end(out, '}');
}

static void export_put_config(const struct export_plan *plan, struct json_out *out)
{
	json_begin(out, '{');
	json_put_time(out, "created", plan->created_ms);
	json_put_text(out, "architecture", plan->platform.architecture);
	json_put_text(out, "os", plan->platform.os);
	if (plan->platform.variant[0])
		json_put_text(out, "variant", plan->platform.variant);
	json_key(out, "config");
	if (plan->config)
		json_add_raw(out, str_of(plan->config));
	else
		config_put(plan, out);
	json_put_begin(out, "rootfs", '{');
	json_put_text(out, "type", "layers");
	json_put_begin(out, "diff_ids", '[');
	for (size_t i = 0; i < plan->count; i++) {
		auto_free char *digest = mem_fmt("sha256:%s", plan->layers[i].diff_id);

		json_add_str(out, str_of(digest));
	}
	json_end(out, ']');
	json_end(out, '}');
	json_end(out, '}');
}

static void export_put_descriptor(struct json_out *out, const char *type, const char *digest,
				  uint64_t size)
{
	auto_free char *name = mem_fmt("sha256:%s", digest);

	json_put_text(out, "mediaType", type);
	json_put_text(out, "digest", name);
	json_put_int(out, "size", (int64_t)size);
}

static void export_put_manifest(const struct export_plan *plan, const char *config, size_t size,
				struct json_out *out)
{
	json_begin(out, '{');
	json_put_int(out, "schemaVersion", 2);
	json_put_text(out, "mediaType", TYPE_MANIFEST);
	json_put_begin(out, "config", '{');
	export_put_descriptor(out, TYPE_CONFIG, config, size);
	json_end(out, '}');
	json_put_begin(out, "layers", '[');
	for (size_t i = 0; i < plan->count; i++) {
		json_begin(out, '{');
		export_put_descriptor(out,
				      plan->request->zstd ? TYPE_LAYER "+zstd" : TYPE_LAYER "+gzip",
				      plan->layers[i].digest, plan->layers[i].bytes);
		json_end(out, '}');
	}
	json_end(out, ']');
	json_put_begin(out, "annotations", '{');
	json_put_text(out, "io.cove.kind", plan->kind);
	json_put_text(out, "io.cove.name", plan->name);
	json_end(out, '}');
	json_end(out, '}');
}

static void export_put_index(const struct export_plan *plan, const char *manifest, size_t size,
			     struct json_out *out)
{
	json_begin(out, '{');
	json_put_int(out, "schemaVersion", 2);
	json_put_text(out, "mediaType", "application/vnd.oci.image.index.v1+json");
	json_put_begin(out, "manifests", '[');
	json_begin(out, '{');
	export_put_descriptor(out, TYPE_MANIFEST, manifest, size);
	json_put_begin(out, "platform", '{');
	json_put_text(out, "architecture", plan->platform.architecture);
	json_put_text(out, "os", plan->platform.os);
	if (plan->platform.variant[0])
		json_put_text(out, "variant", plan->platform.variant);
	json_end(out, '}');
	json_put_begin(out, "annotations", '{');
	json_put_text(out, "org.opencontainers.image.ref.name", plan->name);
	json_end(out, '}');
	json_end(out, '}');
	json_end(out, ']');
	json_end(out, '}');
}

// A file once, though two layers may be equal.
static struct export_file *export_add(struct export *export, const char *path, uint64_t size)
{
	struct export_file *file;

	for (size_t i = 0; i < export->count; i++)
		if (!strcmp(export->files[i].path, path))
			return NULL;
	export->files = mem_grow(export->files, export->count + 1, sizeof(*export->files));
	file = &export->files[export->count++];
	*file = (struct export_file){.fd = -1, .size = size};
	snprintf(file->path, sizeof(file->path), "%s", path);
	return file;
}

static void export_add_text(struct export *export, const char *path, struct str text)
{
	struct export_file *file = export_add(export, path, text.len);

	if (file)
		file->text = mem_dup(text.at, text.len);
}

static void export_add_blob(struct export *export, const char *digest, struct str text)
{
	auto_free char *path = mem_fmt("blobs/sha256/%s", digest);

	export_add_text(export, path, text);
}

static fallible export_describe(struct export_plan *plan, struct export *export)
{
	auto_buf config = BUF_INIT(DOCUMENT_MAX), manifest = BUF_INIT(DOCUMENT_MAX);
	auto_buf index = BUF_INIT(DOCUMENT_MAX);
	char config_hash[ORDER_DIGEST + 1], manifest_hash[ORDER_DIGEST + 1];
	struct json_out out = json_to(&config);

	export_put_config(plan, &out);
	export_hash(buf_view(&config), config_hash);
	out = json_to(&manifest);
	export_put_manifest(plan, config_hash, config.len, &out);
	export_hash(buf_view(&manifest), manifest_hash);
	out = json_to(&index);
	export_put_index(plan, manifest_hash, manifest.len, &out);
	if (!buf_ok(&config) || !buf_ok(&manifest) || !buf_ok(&index))
		return err_sys(0, "describe an export");
	export_add_text(export, "oci-layout", STR(LAYOUT));
	export_add_text(export, "index.json", buf_view(&index));
	export_add(export, "blobs/", 0);
	export_add(export, "blobs/sha256/", 0);
	export_add_blob(export, manifest_hash, buf_view(&manifest));
	export_add_blob(export, config_hash, buf_view(&config));
	for (size_t i = 0; i < plan->count; i++) {
		struct export_layer *layer = &plan->layers[i];
		auto_free char *path = mem_fmt("blobs/sha256/%s", layer->digest);
		struct export_file *file = export_add(export, path, layer->bytes);

		if (file)
			file->fd = take_fd(&layer->fd);
	}
	return OK;
}

static fallible plan_write(struct export_plan *plan, struct export **out)
{
	auto_export export = mem_new_of(struct export);

	for (size_t i = 0; i < plan->count; i++)
		TRY(plan_write_layer(plan, &plan->layers[i]));
	TRY(export_describe(plan, export));
	*out = take_ptr(export);
	return OK;
}

fallible exports_make(struct manager *manager, const struct who *who,
		      const struct export_request *request, struct export **out)
{
	on_exit_call(plan_done) struct export_plan plan = {.manager = manager, .request = request};
	struct account *account = NULL;
	struct err *err;

	TRY(access_ask(who, ACCESS_TEMPLATES));
	TRY(pulled_ready(manager));
	if (!manager->pull)
		return err_new(NOT_OFFERED, "not_offered", "templates cannot be exported here");
	TRY(plan_fill(&plan, who));
	TRY(templates_take_share(manager, who, &account));
	err = plan_write(&plan, out);
	templates_give_share(&account);
	return templates_reword(err, who, request->name);
}
