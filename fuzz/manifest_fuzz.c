// Manifests, indexes and configurations of registries: what is accepted is within its bounds.
#include "types/manifest.h"

#include <string.h>

#include "fuzz.h"
#include "types/image.h"

static void try_config(struct str text, const struct platform *platform)
{
	auto_manifest_config config = {0};
	auto_image image = {0};
	auto_err err = manifest_config_read(text, 1, platform, &config);

	if (err)
		return;
	MUST(config.count == 1 && reference_is_digest(str_of(config.diff_ids[0])));
	err = image_read(str_of(config.image), &image);
	MUST(!err && config.config);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct str text = {(const char *)bytes, len};
	auto_manifest manifest = {0};
	struct platform platform;
	auto_err err = platform_read(text, &platform);

	if (err)
		platform_host(&platform);
	try_config(text, &platform);
	err_free(err);
	err = manifest_read(text, (struct str){0}, &platform, &manifest);
	if (err)
		return 0;
	if (manifest.next.digest[0]) {
		MUST(reference_is_digest(str_of(manifest.next.digest)) && !manifest.count);
		return 0;
	}
	MUST(manifest.count && manifest.count <= MANIFEST_LAYERS_MAX);
	for (size_t i = 0; i < manifest.count; i++)
		MUST(reference_is_digest(str_of(manifest.layers[i].digest)) &&
		     manifest.layers[i].size <= MANIFEST_BLOB_MAX);
	return 0;
}
