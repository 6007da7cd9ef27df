// Documents of images from registries: index, manifest and configuration, of OCI and of Docker
// (v2 schema 2). The texts are hostile. No I/O.
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "types/reference.h"

#define MANIFEST_BYTES_MAX (4u << 20) // of each document
#define MANIFEST_LAYERS_MAX 128
#define MANIFEST_BLOB_MAX (10ull << 30)
#define MANIFEST_DEPTH 3 // of indexes in one another

// The types that a request accepts.
#define MANIFEST_ACCEPT                                                                            \
	"application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, "    \
	"application/vnd.docker.distribution.manifest.list.v2+json, "                              \
	"application/vnd.docker.distribution.manifest.v2+json"

struct platform {
	char os[16], architecture[24], variant[16]; // variant "": any
};
// OS/ARCH[/VARIANT]; an empty text is this host's. INVALID wrong_platform.
fallible platform_read(struct str text, struct platform *out);
void platform_host(struct platform *out);
bool platform_is_host(const struct platform *platform); // its programs run here
void platform_write(const struct platform *platform, struct buf *out);

struct manifest_blob {
	char digest[REFERENCE_DIGEST + 1];
	uint64_t size;
};

struct manifest {
	struct manifest_blob next; // of an index: the manifest to read; else its digest is ""
	struct manifest_blob config;
	struct manifest_blob *layers;
	size_t count;
};
void manifest_done(struct manifest *manifest);
#define auto_manifest on_exit_call(manifest_done) struct manifest

// `type` is the Content-Type, which may be empty. Of an index the entry for `platform` is chosen.
// INVALID bad_media_type, bad_image, wrong_platform; TOO_LARGE archive_too_large. The caller owns
// *out.
fallible manifest_read(struct str text, struct str type, const struct platform *platform,
		       struct manifest *out);

struct manifest_config {
	char (*diff_ids)[REFERENCE_DIGEST + 1];
	size_t count;
	char *image;  // for types/image.h
	char *config; // "config" as it is: JSON
};
void manifest_config_done(struct manifest_config *config);
#define auto_manifest_config on_exit_call(manifest_config_done) struct manifest_config

// The configuration of an image with that many layers. `platform` is checked. As above.
fallible manifest_config_read(struct str text, size_t layers, const struct platform *platform,
			      struct manifest_config *out);
