#include "sync/scrub.h"

#include "tap.h"

static const struct {
	const char *from, *to;
} scrubs[] = {
	{"{\"refresh\":\"t\",\"access\":\"a\"}", "{\"refresh\":\"\",\"access\":\"a\"}"},
	{"[{\"a\":{\"expiresRefreshAt\":12.5,\"n\":1.5}}]",
	 "[{\"a\":{\"expiresRefreshAt\":0,\"n\":1.5}}]"},
	{"{\"REFRESH_TOKEN\":[\"x\",{\"y\":7}],\"b\":true}",
	 "{\"REFRESH_TOKEN\":[\"\",{\"y\":0}],\"b\":true}"},
	{"{\"re\\u0066reshing\":true,\"z\":null}", "{\"refreshing\":false,\"z\":null}"},
	{" {\"big\":9007199254740991}", "{\"big\":9007199254740991}"},
	{"machine x refresh y\n", "machine x refresh y\n"},
	{"{not json", "{not json"},
	{"", ""},
};

TEST(fields, "R32 fields that contain refresh are emptied and kept, at any depth and in any case")
{
	for (size_t i = 0; i < sizeof(scrubs) / sizeof(*scrubs); i++) {
		auto_buf out = BUF_INIT(4096);

		CHECK_OK(scrub_secret(str_of(scrubs[i].from), false, &out));
		CHECK_STR(out.at ? out.at : "", scrubs[i].to);
	}
}

TEST(unknown, "R32 what cannot be read as JSON and may renew a token is refused")
{
	auto_buf out = BUF_INIT(4096);

	CHECK_ERR(scrub_secret(STR("{\"Refresh\":\"t\",}"), false, &out), INVALID);
	CHECK_ERR(scrub_secret(STR("token"), true, &out), INVALID);
	CHECK(out.len == 0);
}
