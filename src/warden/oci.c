// Unpacks an image into one root directory. Layers are flattened: a box then mounts one lower
// directory, whiteouts are applied once, and no overlay attribute is needed.
//
// The image is untrusted, and this code runs in the jail. Each blob that is used must have the size
// and digest by which the image names it.
//
// syscalls: openat openat2 close read pread64 lseek fstat newfstatat faccessat faccessat2
#include "warden/oci.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/weak.h"
#include "codec/json.h"
#include "os/path.h"
#include "types/image.h"

#define DOCUMENT_MAX (4u << 20)
#define LAYERS_MAX 128
#define INDEX_DEPTH 3
#define HEX (2 * SECRET_HASH)

#if defined(__aarch64__)
#define ARCHITECTURE "arm64"
#elif defined(__x86_64__)
#define ARCHITECTURE "amd64"
#else
#error "the architecture's name in an image index is not known"
#endif

static const char *const manifest_types[] = {
	"application/vnd.oci.image.manifest.v1+json",
	"application/vnd.docker.distribution.manifest.v2+json",
};
static const char *const index_types[] = {
	"application/vnd.oci.image.index.v1+json",
	"application/vnd.docker.distribution.manifest.list.v2+json",
};
static const char *const layer_types[] = {
	"application/vnd.oci.image.layer.v1.tar",
	"application/vnd.oci.image.layer.v1.tar+gzip",
	"application/vnd.oci.image.layer.v1.tar+zstd",
	"application/vnd.docker.image.rootfs.diff.tar",
	"application/vnd.docker.image.rootfs.diff.tar.gzip",
};

#define IS_ONE_OF(table, s) is_one_of(table, sizeof(table) / sizeof(*(table)), s)

static bool is_one_of(const char *const *table, size_t count, struct str s)
{
	for (size_t i = 0; i < count; i++)
		if (str_is(s, table[i]))
			return true;
	return false;
}

static bool image_has(int dir, const char *name, mode_t type)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && (st.st_mode & S_IFMT) == type;
}

bool oci_is_image(int dir)
{
	if (image_has(dir, "oci-layout", S_IFREG) && image_has(dir, "index.json", S_IFREG))
		return true;
	return image_has(dir, "manifest.json", S_IFREG) && !image_has(dir, "usr", S_IFDIR) &&
	       !image_has(dir, "etc", S_IFDIR);
}

// A field of the image's documents is malformed.
static fallible image_bad(const char *what)
{
	return err_new(INVALID, "bad_image", "the image's %s is not as it should be", what);
}

static fallible member(const struct json *object, const char *key, enum json_type type,
		       struct json **out)
{
	if (json_type(object) != JSON_OBJECT)
		return image_bad(key);
	*out = json_get(object, key);
	if (!*out || json_type(*out) != type)
		return image_bad(key);
	return OK;
}

static fallible text_member(const struct json *object, const char *key, struct str *out)
{
	struct json *value = NULL;

	TRY(member(object, key, JSON_STRING, &value));
	return json_str(value, key, out);
}

static fallible hash_file(int fd, char hex[HEX + 1])
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	uint8_t sum[SECRET_HASH];
	char piece[2048];
	ssize_t got = 0;
	off_t at = 0;
	bool ok = ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1;

	while (ok && (got = pread(fd, piece, sizeof(piece), at)) > 0) {
		at += got;
		ok = EVP_DigestUpdate(ctx, piece, (size_t)got) == 1;
	}
	ok = ok && got == 0 && EVP_DigestFinal_ex(ctx, sum, NULL) == 1;
	EVP_MD_CTX_free(ctx);
	if (!ok)
		return err_sys(errno, "hash a blob");
	for (int i = 0; i < SECRET_HASH; i++)
		snprintf(hex + 2 * i, 3, "%02x", sum[i]);
	return OK;
}

static bool oci_is_hex(struct str s)
{
	for (size_t i = 0; i < s.len; i++)
		if (!strchr("0123456789abcdef", s.at[i]) || !s.at[i])
			return false;
	return s.len == HEX;
}

static fallible check_hash(int fd, struct str want)
{
	char hex[HEX + 1];

	TRY(hash_file(fd, hex));
	if (!weak(DIGEST) && !str_is(want, hex))
		return err_new(INVALID, "digest_mismatch",
			       "a blob does not match its digest: " STR_FMT, STR_ARG(want));
	return OK;
}

static fallible open_file(int stage, const char *path, int *out_fd)
{
	auto_fd fd = -1;
	struct stat st;
	auto_err err = path_open(stage, path, O_RDONLY | O_NONBLOCK, &fd);

	if (err || fstat(fd, &st) || !S_ISREG(st.st_mode))
		return err_new(INVALID, "bad_image", "the image lacks '%.100s'", path);
	*out_fd = take_fd(&fd);
	return OK;
}

// Opens the blob that a descriptor names, and checks its size and digest.
static fallible open_blob(int stage, const struct json *descriptor, int *out_fd)
{
	struct str digest = {0};
	uint64_t size = UINT64_MAX;
	auto_fd fd = -1;
	struct stat st;
	char path[32 + HEX];

	TRY(text_member(descriptor, "digest", &digest));
	if (!str_starts(digest, "sha256:") || !oci_is_hex(str_skip(digest, 7)))
		return image_bad("digest");
	TRY(json_u64(json_get(descriptor, "size"), "size", 0, UNPACK_BYTES_MAX, &size));
	snprintf(path, sizeof(path), "blobs/sha256/%.*s", HEX, digest.at + 7);
	TRY(open_file(stage, path, &fd));
	if (fstat(fd, &st) || (!weak(DIGEST) && size != UINT64_MAX && (uint64_t)st.st_size != size))
		return err_new(INVALID, "digest_mismatch",
			       "a blob does not have the size that the image names");
	TRY(check_hash(fd, str_skip(digest, 7)));
	*out_fd = take_fd(&fd);
	return OK;
}

static fallible read_document(int fd, struct json **out)
{
	auto_buf text = BUF_INIT(DOCUMENT_MAX);
	char piece[2048];
	ssize_t got;
	off_t at = 0;

	while ((got = pread(fd, piece, sizeof(piece), at)) > 0) {
		buf_add(&text, piece, (size_t)got);
		at += got;
	}
	if (got < 0)
		return err_sys(errno, "read a document of the image");
	if (!buf_ok(&text))
		return err_new(INVALID, "bad_image", "a document of the image is too large");
	return json_read(buf_view(&text), out);
}

static fallible oci_read_file(int stage, const char *path, struct json **out)
{
	auto_fd fd = -1;

	TRY(open_file(stage, path, &fd));
	return read_document(fd, out);
}

// Checks the image's configuration and writes the part that a sandbox needs into the root
// (types/image.h).
static fallible write_config(const struct json *image, size_t layers, const struct unpack *unpack)
{
	const struct json *rootfs = json_get(image, "rootfs"), *config = json_get(image, "config");
	const struct json *ids = rootfs ? json_get(rootfs, "diff_ids") : NULL;
	auto_buf text = BUF_INIT(IMAGE_BYTES_MAX);

	if (!ids || json_type(ids) != JSON_ARRAY || json_count(ids) != layers)
		return image_bad("list of layers");
	if (config && json_type(config) != JSON_OBJECT)
		return image_bad("config");
	TRY(image_write(config, &text));
	return path_write(unpack->extract.root, &IMAGE_FILE[1], 0644, text.at);
}

static fallible check_count(const struct json *layers)
{
	if (json_count(layers) > LAYERS_MAX)
		return err_new(INVALID, "too_many_layers", "the image has more than %d layers",
			       LAYERS_MAX);
	return json_count(layers) ? OK : image_bad("list of layers");
}

// The digest of the n-th layer's tar, by the configuration.
static fallible oci_diff_id(const struct json *image, size_t n, char hex[HEX + 1])
{
	struct json *rootfs = NULL, *ids = NULL;
	struct str digest = {0};

	TRY(member(image, "rootfs", JSON_OBJECT, &rootfs));
	TRY(member(rootfs, "diff_ids", JSON_ARRAY, &ids));
	if (n >= json_count(ids))
		return image_bad("list of layers");
	TRY(json_str(json_at(ids, n), "diff_ids", &digest));
	if (!str_starts(digest, "sha256:") || !oci_is_hex(str_skip(digest, 7)))
		return image_bad("digest");
	snprintf(hex, HEX + 1, "%.*s", HEX, digest.at + 7);
	return OK;
}

static fallible apply_manifest(int stage, const struct json *manifest, struct unpack *unpack)
{
	struct json *layers = NULL, *config = NULL;
	auto_json image = NULL;
	auto_fd fd = -1;

	TRY(member(manifest, "layers", JSON_ARRAY, &layers));
	TRY(check_count(layers));
	TRY(member(manifest, "config", JSON_OBJECT, &config));
	TRY(open_blob(stage, config, &fd), "open the config");
	TRY(read_document(fd, &image));
	if (json_type(image) != JSON_OBJECT)
		return image_bad("config");
	for (size_t i = 0; i < json_count(layers); i++) {
		const struct json *layer = json_at(layers, i);
		struct str type = {0};
		char diff_id[HEX + 1];
		auto_fd blob = -1;

		TRY(oci_diff_id(image, i, diff_id));
		TRY(text_member(layer, "mediaType", &type));
		if (!IS_ONE_OF(layer_types, type))
			return err_new(INVALID, "bad_media_type", "a layer is of type '%.*s'",
				       (int)(type.len < 80 ? type.len : 80), type.at);
		TRY(open_blob(stage, layer, &blob), "open layer %zu", i);
		TRY(unpack_layer(unpack, blob, (int)i, diff_id), "unpack layer %zu", i);
	}
	return write_config(image, json_count(layers), unpack);
}

// 2: for this machine; 1: unspecified; 0: for another.
static int platform_rank(const struct json *descriptor)
{
	const struct json *platform = json_get(descriptor, "platform");
	struct str os = {0}, architecture = {0};
	auto_err err = OK;

	if (!platform || json_type(platform) != JSON_OBJECT)
		return 1;
	err = json_str(json_get(platform, "os"), "os", &os);
	if (!err)
		err = json_str(json_get(platform, "architecture"), "architecture", &architecture);
	return !err && str_is(os, "linux") && str_is(architecture, ARCHITECTURE) ? 2 : 0;
}

static fallible oci_choose(const struct json *index, const struct json **out)
{
	struct json *manifests = NULL;
	const struct json *best = NULL;
	int best_fit = 0;

	TRY(member(index, "manifests", JSON_ARRAY, &manifests));
	if (json_count(manifests) > LAYERS_MAX)
		return image_bad("index");
	for (size_t i = 0; i < json_count(manifests); i++) {
		const struct json *one = json_at(manifests, i);
		int fit = json_type(one) == JSON_OBJECT ? platform_rank(one) : 0;

		if (fit > best_fit) {
			best_fit = fit;
			best = one;
		}
	}
	if (!best)
		return err_new(INVALID, "wrong_platform", "the image has nothing for linux/%s",
			       ARCHITECTURE);
	*out = best;
	return OK;
}

static fallible apply_index(int stage, const struct json *index, int depth, struct unpack *unpack)
{
	const struct json *chosen = NULL;
	auto_json document = NULL;
	struct str type = {0};
	auto_fd fd = -1;

	TRY(oci_choose(index, &chosen));
	TRY(text_member(chosen, "mediaType", &type));
	if (!IS_ONE_OF(manifest_types, type) && !IS_ONE_OF(index_types, type))
		return err_new(INVALID, "bad_media_type", "the index names a '%.*s'",
			       (int)(type.len < 80 ? type.len : 80), type.at);
	TRY(open_blob(stage, chosen, &fd), "open the manifest");
	TRY(read_document(fd, &document));
	if (IS_ONE_OF(manifest_types, type))
		return apply_manifest(stage, document, unpack);
	if (depth >= INDEX_DEPTH)
		return image_bad("index");
	return apply_index(stage, document, depth + 1, unpack);
}

static fallible copy_text(struct str s, char out[UNPACK_NAME_MAX])
{
	if (s.len >= UNPACK_NAME_MAX)
		return image_bad("file name");
	memcpy(out, s.at, s.len);
	out[s.len] = 0;
	return OK;
}

// `docker save`: files by path. The digests are the config's file name and its list of layers.
static fallible apply_saved(int stage, const struct json *saved, char *path, struct unpack *unpack)
{
	const struct json *manifest = json_type(saved) == JSON_ARRAY ? json_at(saved, 0) : NULL;
	struct json *layers = NULL, *ids;
	auto_json image = NULL;
	struct str name = {0}, hex;
	auto_fd fd = -1;

	if (!manifest || json_count(saved) != 1)
		return err_hint(err_new(INVALID, "bad_image", "the archive holds not one image"),
				"save a single image");
	TRY(member(manifest, "Layers", JSON_ARRAY, &layers));
	TRY(check_count(layers));
	TRY(text_member(manifest, "Config", &name));
	TRY(copy_text(name, path));
	TRY(open_file(stage, path, &fd));
	hex = str_ends(name, ".json") ? (struct str){name.at, name.len - 5} : name;
	TRY(check_hash(fd, str_skip(hex, hex.len > HEX ? hex.len - HEX : 0)));
	TRY(read_document(fd, &image));
	if (json_type(image) != JSON_OBJECT)
		return image_bad("config");
	ids = json_get(json_get(image, "rootfs"), "diff_ids");
	for (size_t i = 0; i < json_count(layers); i++) {
		struct str digest = {0};
		auto_fd blob = -1;

		TRY(json_str(json_at(layers, i), "Layers", &name));
		TRY(json_str(json_at(ids, i), "diff_ids", &digest));
		TRY(copy_text(name, path));
		TRY(open_file(stage, path, &blob));
		if (!str_starts(digest, "sha256:") || !oci_is_hex(str_skip(digest, 7)))
			return image_bad("digest");
		TRY(check_hash(blob, str_skip(digest, 7)));
		TRY(unpack_tar(unpack, blob, (int)i), "unpack layer %zu", i);
	}
	return write_config(image, json_count(layers), unpack);
}

fallible oci_apply(int stage, struct unpack *unpack)
{
	auto_free char *path = mem_new(UNPACK_NAME_MAX);
	auto_json document = NULL;
	auto_json layout = NULL;
	struct str version = {0};

	if (!image_has(stage, "oci-layout", S_IFREG)) {
		TRY(oci_read_file(stage, "manifest.json", &document));
		return apply_saved(stage, document, path, unpack);
	}
	TRY(oci_read_file(stage, "oci-layout", &layout));
	TRY(text_member(layout, "imageLayoutVersion", &version));
	if (!str_starts(version, "1."))
		return image_bad("layout version");
	TRY(oci_read_file(stage, "index.json", &document));
	return apply_index(stage, document, 0, unpack);
}
