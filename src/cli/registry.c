// The verbs registry login, ls and logout: credentials of the tenant at registries. A password
// comes from stdin, or is typed without echo: never from argv, which every user of the host can
// read.
#include "base/mem.h"
#include "base/secret.h"
#include "cli/collection.h"
#include "cli/credential.h"
#include "cli/tty.h"
#include "lib/fields.h"
#include "types/reference.h"

#define REGISTRIES_PATH "/v1/registries"
#define SECRET_MAX (16 * 1024)
#define BODY_MAX (128 * 1024)

// Without --username: what docker's files have.
static fallible registry_put_login(struct json_out *out, const struct call *call)
{
	auto_secret_buf password = BUF_SECRET(SECRET_MAX);
	auto_credential credential = {0};
	const char *username = call_value(call, OPT_USER);
	auto_free char *image = mem_fmt("%s/x", call->words[0]);
	struct reference at;

	if (username) {
		TRY(tty_read_secret("Password", false, &password));
		json_put_text(out, "username", username);
		json_put_str(out, "password", buf_view(&password));
		return OK;
	}
	TRY(reference_read(str_of(image), &at));
	TRY(credential_find(at.host, &credential));
	if (credential.identity) {
		json_put_text(out, "identityToken", credential.identity);
	} else if (credential.username && credential.password) {
		json_put_text(out, "username", credential.username);
		json_put_text(out, "password", credential.password);
	} else {
		return err_hint(err_new(INVALID, "no_credential",
					"docker's files have no credential for %s", at.host),
				"--username NAME; the password is then asked for");
	}
	return OK;
}

fallible cli_registry_login(struct call *call)
{
	auto_secret_buf body = BUF_SECRET(BODY_MAX);
	auto_free char *path = remote_path(REGISTRIES_PATH, call->words[0], "");
	struct json_out out = json_to(&body);

	json_begin(&out, '{');
	TRY(registry_put_login(&out, call));
	if (call_has(call, OPT_SHARED))
		json_put_bool(&out, "shared", true);
	json_end(&out, '}');
	return remote_act(call, "PUT", path, &body, NULL);
}

static void registry_put_yes(const struct json *login, const char *key, struct buf *out)
{
	buf_text(out, fields_flag(login, key) ? "yes" : "no");
}

fallible cli_registry_ls(struct call *call)
{
	static const struct column columns[] = {
		{"HOST", "host", NULL},
		{"USERNAME", "username", NULL},
		{"SHARED", "shared", registry_put_yes},
		{"CREATED", "createdAt", column_age},
		{.head = NULL},
	};

	return collection_ls(call, &(struct collection){REGISTRIES_PATH, "", "host", columns});
}

fallible cli_registry_logout(struct call *call)
{
	return collection_rm(call, REGISTRIES_PATH);
}
