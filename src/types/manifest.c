// Reads indexes, manifests and configurations. A document's type is its mediaType, else the
// Content-Type; when both are given they must agree, and a document cannot be index and manifest at
// once. `urls` and `data` of descriptors are not used.
#include "types/manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "codec/json.h"
#include "types/image.h"

#if defined(__aarch64__)
#define ARCHITECTURE "arm64"
#define VARIANT "v8"
#elif defined(__x86_64__)
#define ARCHITECTURE "amd64"
#define VARIANT "v1"
#else
#error "the architecture's name in an image index is not known"
#endif

enum document {
	DOCUMENT_OTHER,
	DOCUMENT_INDEX,
	DOCUMENT_MANIFEST,
	DOCUMENT_CONFIG,
	DOCUMENT_LAYER
};

static const struct {
	const char *type;
	enum document document;
} types[] = {
	{"application/vnd.oci.image.index.v1+json", DOCUMENT_INDEX},
	{"application/vnd.docker.distribution.manifest.list.v2+json", DOCUMENT_INDEX},
	{"application/vnd.oci.image.manifest.v1+json", DOCUMENT_MANIFEST},
	{"application/vnd.docker.distribution.manifest.v2+json", DOCUMENT_MANIFEST},
	{"application/vnd.oci.image.config.v1+json", DOCUMENT_CONFIG},
	{"application/vnd.docker.container.image.v1+json", DOCUMENT_CONFIG},
	{"application/vnd.oci.image.layer.v1.tar", DOCUMENT_LAYER},
	{"application/vnd.oci.image.layer.v1.tar+gzip", DOCUMENT_LAYER},
	{"application/vnd.oci.image.layer.v1.tar+zstd", DOCUMENT_LAYER},
	{"application/vnd.docker.image.rootfs.diff.tar", DOCUMENT_LAYER},
	{"application/vnd.docker.image.rootfs.diff.tar.gzip", DOCUMENT_LAYER},
	{"application/vnd.docker.image.rootfs.diff.tar.zstd", DOCUMENT_LAYER},
};

static enum document document_of(struct str type)
{
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
		if (str_is(type, types[i].type))
			return types[i].document;
	return DOCUMENT_OTHER;
}

static fallible manifest_bad(const char *what)
{
	return err_hint(
		err_new(INVALID, "bad_image", "the image's %s is not as it should be", what),
		"the registry serves something else than an image");
}

static fallible manifest_bad_type(struct str type)
{
	return err_hint(
		err_new(INVALID, "bad_media_type", "the registry sent a '%.*s'",
			(int)(type.len < 80 ? type.len : 80), type.at),
		"images of OCI and of Docker's schema 2 are read, with layers of tar, gzip or "
		"zstd");
}

// ---------------------------------------------------------------------------------------- platform

void platform_host(struct platform *out)
{
	*out = (struct platform){.os = "linux", .architecture = ARCHITECTURE};
}

bool platform_is_host(const struct platform *platform)
{
	return !strcmp(platform->os, "linux") && !strcmp(platform->architecture, ARCHITECTURE) &&
	       (!platform->variant[0] || !strcmp(platform->variant, VARIANT));
}

static bool platform_take(struct str text, char *room, size_t size)
{
	for (size_t i = 0; i < text.len; i++)
		if (!((text.at[i] >= 'a' && text.at[i] <= 'z') ||
		      (text.at[i] >= '0' && text.at[i] <= '9')))
			return false;
	snprintf(room, size, STR_FMT, STR_ARG(text));
	return text.len && text.len < size;
}

fallible platform_read(struct str text, struct platform *out)
{
	struct platform platform = {0};
	struct str rest = text, os, architecture, variant = {0};
	bool good;

	platform_host(&platform);
	if (!text.len) {
		*out = platform;
		return OK;
	}
	good = str_cut(&rest, '/', &os) && rest.at && str_cut(&rest, '/', &architecture) &&
	       platform_take(os, platform.os, sizeof(platform.os)) &&
	       platform_take(architecture, platform.architecture, sizeof(platform.architecture));
	if (good && rest.at)
		good = str_cut(&rest, '/', &variant) && !rest.at &&
		       platform_take(variant, platform.variant, sizeof(platform.variant));
	if (!good)
		return err_hint(err_new(INVALID, "wrong_platform", "this is no platform"),
				"OS/ARCH[/VARIANT], such as linux/" ARCHITECTURE);
	*out = platform;
	return OK;
}

void platform_write(const struct platform *platform, struct buf *out)
{
	buf_fmt(out, "%s/%s%s%s", platform->os, platform->architecture,
		platform->variant[0] ? "/" : "", platform->variant);
}

// `object` has os, architecture, variant. False: malformed, or none.
static bool platform_of(const struct json *object, struct platform *out)
{
	if (!object || json_type(object) != JSON_OBJECT)
		return false;
	*out = (struct platform){0};
	return platform_take(json_chars(json_get(object, "os")), out->os, sizeof(out->os)) &&
	       platform_take(json_chars(json_get(object, "architecture")), out->architecture,
			     sizeof(out->architecture)) &&
	       (!json_chars(json_get(object, "variant")).len ||
		platform_take(json_chars(json_get(object, "variant")), out->variant,
			      sizeof(out->variant)));
}

// 0: it does not fit; the highest fits best.
static int platform_fit(const struct platform *have, const struct platform *want)
{
	if (strcmp(have->os, want->os) != 0 || strcmp(have->architecture, want->architecture) != 0)
		return 0;
	if (want->variant[0])
		return !strcmp(have->variant, want->variant) ? 2 : 0;
	return !have->variant[0] || !strcmp(have->variant, VARIANT) ? 2 : 1;
}

static fallible platform_none(const struct platform *want, const struct buf *have)
{
	auto_buf text = BUF_INIT(64);

	platform_write(want, &text);
	return err_hint(err_new(INVALID, "wrong_platform", "the image has nothing for %s%s%s",
				text.at, have->len ? "; it has " : "", have->len ? have->at : ""),
			"--platform names another one; sandboxes run only this host's");
}

// -------------------------------------------------------------------------------------- documents

static fallible manifest_member(const struct json *object, const char *key, enum json_type type,
				struct json **out)
{
	struct json *value = json_get(object, key);

	if (!value || json_type(value) != type)
		return manifest_bad(key);
	*out = value;
	return OK;
}

static fallible manifest_blob_read(const struct json *descriptor, uint64_t max,
				   struct manifest_blob *out)
{
	const struct json *size;
	struct str digest;

	if (!descriptor || json_type(descriptor) != JSON_OBJECT)
		return manifest_bad("descriptor");
	digest = json_chars(json_get(descriptor, "digest"));
	if (!reference_is_digest(digest))
		return manifest_bad("digest");
	size = json_get(descriptor, "size");
	if (!size || json_type(size) != JSON_NUMBER)
		return manifest_bad("size");
	TRY(json_u64(size, "size", 0, 1ull << 53, &out->size));
	if (out->size > max)
		return err_hint(err_new(TOO_LARGE, "archive_too_large",
					"a part of the image has %llu bytes, more than %llu MiB",
					(unsigned long long)out->size,
					(unsigned long long)(max >> 20)),
				"cove takes parts of up to 10 GiB");
	snprintf(out->digest, sizeof(out->digest), STR_FMT, STR_ARG(digest));
	return OK;
}

static fallible manifest_choose(const struct json *index, const struct platform *want,
				struct manifest *out)
{
	auto_buf have = BUF_INIT(1024);
	const struct json *best = NULL;
	struct json *list = NULL;
	int best_fit = 0;

	TRY(manifest_member(index, "manifests", JSON_ARRAY, &list));
	for (size_t i = 0; i < json_count(list); i++) {
		const struct json *one = json_at(list, i);
		struct platform platform;
		int fit = 0;

		if (!one || json_type(one) != JSON_OBJECT)
			return manifest_bad("index");
		// An entry without a platform, such as an index in an index, fits last.
		if (!json_get(one, "platform")) {
			fit = json_count(list) == 1;
		} else if (platform_of(json_get(one, "platform"), &platform)) {
			fit = platform_fit(&platform, want);
			if (strcmp(platform.os, "unknown") != 0 && have.len < 900) {
				buf_text(&have, have.len ? ", " : "");
				platform_write(&platform, &have);
			}
		}
		if (fit > best_fit) {
			best_fit = fit;
			best = one;
		}
	}
	if (!best)
		return platform_none(want, &have);
	if (document_of(json_chars(json_get(best, "mediaType"))) != DOCUMENT_MANIFEST &&
	    document_of(json_chars(json_get(best, "mediaType"))) != DOCUMENT_INDEX)
		return manifest_bad_type(json_chars(json_get(best, "mediaType")));
	return manifest_blob_read(best, MANIFEST_BYTES_MAX, &out->next);
}

static fallible manifest_read_layers(const struct json *manifest, struct manifest *out)
{
	struct json *config = NULL, *layers = NULL;

	TRY(manifest_member(manifest, "config", JSON_OBJECT, &config));
	TRY(manifest_member(manifest, "layers", JSON_ARRAY, &layers));
	if (document_of(json_chars(json_get(config, "mediaType"))) != DOCUMENT_CONFIG)
		return manifest_bad_type(json_chars(json_get(config, "mediaType")));
	TRY(manifest_blob_read(config, MANIFEST_BYTES_MAX, &out->config));
	if (!json_count(layers))
		return manifest_bad("list of layers");
	if (json_count(layers) > MANIFEST_LAYERS_MAX)
		return err_hint(err_new(TOO_LARGE, "archive_too_large",
					"the image has %zu layers, more than %d",
					json_count(layers), MANIFEST_LAYERS_MAX),
				"build it with fewer steps, or squash it");
	out->layers = mem_new(json_count(layers) * sizeof(*out->layers));
	for (size_t i = 0; i < json_count(layers); i++) {
		const struct json *layer = json_at(layers, i);

		if (!layer || json_type(layer) != JSON_OBJECT)
			return manifest_bad("list of layers");
		if (document_of(json_chars(json_get(layer, "mediaType"))) != DOCUMENT_LAYER)
			return manifest_bad_type(json_chars(json_get(layer, "mediaType")));
		TRY(manifest_blob_read(layer, MANIFEST_BLOB_MAX, &out->layers[out->count]));
		out->count++;
	}
	return OK;
}

void manifest_done(struct manifest *manifest)
{
	free(manifest->layers);
	*manifest = (struct manifest){0};
}

// The document's type: its own word, else the header's.
static fallible manifest_type(const struct json *document, struct str header, struct str *out)
{
	struct str own = json_chars(json_get(document, "mediaType")), rest = header, said = {0};

	if (header.len)
		str_cut(&rest, ';', &said);
	said = str_trim(said);
	if (own.len && document_of(said) != DOCUMENT_OTHER && !str_eq(own, said))
		return manifest_bad_type(own);
	*out = own.len ? own : said;
	return OK;
}

fallible manifest_read(struct str text, struct str type, const struct platform *platform,
		       struct manifest *out)
{
	auto_manifest manifest = {0};
	auto_json document = NULL;
	struct str word = {0};
	auto_err bad = json_read(text, &document);

	if (bad || json_type(document) != JSON_OBJECT)
		return manifest_bad("manifest");
	TRY(manifest_type(document, type, &word));
	if (json_get(document, "manifests") && json_get(document, "layers"))
		return err_hint(err_new(INVALID, "bad_media_type",
					"the document is index and manifest at once"),
				"the registry serves something else than an image");
	switch (document_of(word)) {
	case DOCUMENT_INDEX:
		TRY(manifest_choose(document, platform, &manifest));
		break;
	case DOCUMENT_MANIFEST:
		TRY(manifest_read_layers(document, &manifest));
		break;
	default:
		return manifest_bad_type(word);
	}
	*out = manifest;
	manifest = (struct manifest){0};
	return OK;
}

// ------------------------------------------------------------------------------------
// configuration

void manifest_config_done(struct manifest_config *config)
{
	free(config->diff_ids);
	free(config->image);
	free(config->config);
	*config = (struct manifest_config){0};
}

static fallible manifest_read_diff_ids(const struct json *document, size_t layers,
				       struct manifest_config *out)
{
	struct json *rootfs = NULL, *ids = NULL;

	TRY(manifest_member(document, "rootfs", JSON_OBJECT, &rootfs));
	TRY(manifest_member(rootfs, "diff_ids", JSON_ARRAY, &ids));
	if (json_count(ids) != layers)
		return manifest_bad("list of layers");
	out->diff_ids = mem_new(layers * sizeof(*out->diff_ids));
	for (size_t i = 0; i < layers; i++) {
		struct str id = json_chars(json_at(ids, i));

		if (!reference_is_digest(id))
			return manifest_bad("list of layers");
		memcpy(out->diff_ids[i], id.at, id.len);
		out->count++;
	}
	return OK;
}

fallible manifest_config_read(struct str text, size_t layers, const struct platform *platform,
			      struct manifest_config *out)
{
	auto_manifest_config config = {0};
	auto_buf image = BUF_INIT(IMAGE_BYTES_MAX), raw = BUF_INIT(MANIFEST_BYTES_MAX);
	struct json_out raw_out = json_to(&raw);
	auto_json document = NULL;
	const struct json *inner;
	struct platform have;
	auto_err bad = json_read(text, &document);

	if (bad || json_type(document) != JSON_OBJECT)
		return manifest_bad("config");
	if (!platform_of(document, &have))
		return manifest_bad("platform");
	if (!platform_fit(&have, platform)) {
		auto_buf words = BUF_INIT(64);

		platform_write(&have, &words);
		return platform_none(platform, &words);
	}
	TRY(manifest_read_diff_ids(document, layers, &config));
	inner = json_get(document, "config");
	if (inner && json_type(inner) != JSON_OBJECT)
		return manifest_bad("config");
	TRY(image_write(inner, &image));
	if (inner)
		json_add_value(&raw_out, inner);
	else
		buf_text(&raw, "{}");
	if (!buf_ok(&raw))
		return manifest_bad("config");
	config.image = buf_take(&image);
	config.config = buf_take(&raw);
	*out = config;
	config = (struct manifest_config){0};
	return OK;
}
