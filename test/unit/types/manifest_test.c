#include "types/manifest.h"

#include "base/mem.h"
#include "tap.h"

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define BLOB(type) "{\"mediaType\":\"" type "\",\"digest\":\"sha256:" HEX "\",\"size\":5}"
#define OCI "application/vnd.oci.image."
#define CONFIG "\"config\":" BLOB(OCI "config.v1+json")
#define LAYER BLOB(OCI "layer.v1.tar+gzip")

static const struct platform arm = {"linux", "arm64", ""};

// The reason of a refusal; "": none.
static const char *manifest_reason(const char *text, const char *type)
{
	static char room[40];
	auto_manifest manifest = {0};
	auto_err err = manifest_read(str_of(text), str_of(type), &arm, &manifest);

	snprintf(room, sizeof(room), "%s", err ? err_reason(err) : "");
	return room;
}

TEST(manifests, "a manifest has a configuration and layers")
{
	auto_manifest manifest = {0};
	auto_err err = manifest_read(
		STR("{\"schemaVersion\":2," CONFIG ",\"layers\":[" LAYER "," LAYER "]}"),
		STR(OCI "manifest.v1+json; charset=utf-8"), &arm, &manifest);

	CHECK(!err && manifest.count == 2 && manifest.layers[1].size == 5);
	CHECK_STR(manifest.config.digest, "sha256:" HEX);
}

TEST(types, "types must be known, and agree")
{
	CHECK_STR(manifest_reason("{}", ""), "bad_media_type");
	CHECK_STR(
		manifest_reason("{\"mediaType\":\"" OCI "manifest.v1+json\"}", OCI "index.v1+json"),
		"bad_media_type");
	CHECK_STR(manifest_reason("{\"manifests\":[],\"layers\":[]}", OCI "index.v1+json"),
		  "bad_media_type");
	CHECK_STR(manifest_reason("{" CONFIG ",\"layers\":[" BLOB("foreign") "]}",
				  OCI "manifest.v1+json"),
		  "bad_media_type");
	CHECK_STR(manifest_reason("{" CONFIG ",\"layers\":[]}", OCI "manifest.v1+json"),
		  "bad_image");
	CHECK_STR(manifest_reason("[]", OCI "manifest.v1+json"), "bad_image");
}

#define ENTRY(digit, where)                                                                        \
	"{\"mediaType\":\"" OCI "manifest.v1+json\",\"digest\":\"sha256:" digit                    \
	"123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\",\"size\":1,"            \
	"\"platform\":{" where "}}"
#define PLACE(os, arch) "\"os\":\"" os "\",\"architecture\":\"" arch "\""

TEST(indexes, "of an index the first entry that fits best is taken, and `unknown` never")
{
	auto_manifest manifest = {0};
	auto_err err = manifest_read(
		STR("{\"manifests\":[" ENTRY("1", PLACE("unknown", "unknown")) "," ENTRY(
			"2", PLACE("linux",
				   "arm64") ",\"variant\":\"v9\"") "," ENTRY("3",
									     PLACE("linux",
										   "arm64")) "]}"),
		STR(OCI "index.v1+json"), &arm, &manifest);

	CHECK(!err && manifest.next.digest[7] == '3' && !manifest.count);
	CHECK_STR(manifest_reason("{\"manifests\":[" ENTRY("1", PLACE("linux", "s390x")) "]}",
				  OCI "index.v1+json"),
		  "wrong_platform");
}

TEST(platforms, "a platform is OS/ARCH, with a variant or without")
{
	struct platform platform;
	auto_err bad = platform_read(STR("linux"), &platform);
	auto_err worse = platform_read(STR("linux/arm64/v8/x"), &platform);
	auto_err good = platform_read(STR("linux/arm64/v8"), &platform);

	CHECK(bad && worse && !good);
	CHECK_STR(platform.variant, "v8");
}

TEST(configs, "a configuration has one diff id for each layer")
{
	auto_manifest_config config = {0};
	auto_err err = manifest_config_read(
		STR("{\"os\":\"linux\",\"architecture\":\"arm64\",\"config\":{\"User\":\"a\"},"
		    "\"rootfs\":{\"diff_ids\":[\"sha256:" HEX "\"]}}"),
		1, &arm, &config);
	auto_manifest_config other = {0};
	auto_err few = manifest_config_read(STR("{\"os\":\"linux\",\"architecture\":\"arm64\","
						"\"rootfs\":{\"diff_ids\":[]}}"),
					    1, &arm, &other);

	CHECK(!err && few);
	CHECK_STR(config.image, "{\"User\":\"a\"}");
}
