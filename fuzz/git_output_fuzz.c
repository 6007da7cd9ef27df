// Whatever git seems to have printed, the answer is JSON.
#include "daytona/git_output.h"

#include "fuzz.h"

static void must_be_json(const struct buf *body)
{
	struct json *json = NULL;

	if (!buf_ok(body))
		return;
	err_free(json_read_any(buf_view(body), &json));
	MUST(json);
	json_free(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct str text = {(const char *)bytes, len};
	auto_buf status = BUF_INIT(1 << 22), branches = BUF_INIT(1 << 22),
		 history = BUF_INIT(1 << 22), remotes = BUF_INIT(1 << 22);
	struct json_out out = json_to(&status);

	if (git_output_status(text, &out))
		must_be_json(&status);
	out = json_to(&branches);
	git_output_branches(text, &out);
	must_be_json(&branches);
	out = json_to(&history);
	git_output_history(text, &out);
	must_be_json(&history);
	out = json_to(&remotes);
	git_output_remotes(text, &out);
	must_be_json(&remotes);
	return 0;
}
