// Clones of repositories into a sandbox, by the server: with its time limit, and without a terminal
// that asks for a password.
#include "lib/box.h"
#include "lib/fields.h"

#define BODY_MAX ((size_t)64 << 10)

enum cove_kind cove_git_clone(struct cove_box *box, const struct cove_git_clone *clone,
			      struct cove_error *error)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out out = json_to(&body);

	json_begin(&out, '{');
	fields_put_text(&out, "repoUrl", clone->url);
	fields_put_text(&out, "branch", clone->branch);
	fields_put_text(&out, "targetDir", clone->directory);
	fields_put_number(&out, "depth", clone->depth);
	fields_put_number(&out, "timeoutMs", (double)clone->timeout_ms);
	json_end(&out, '}');
	return private_call(box->cove, lib_box_post(box, "/api/git/checkout", &body, NULL), error);
}
