// dashboard: prints a link that signs a browser in, once. The code is in the fragment of the
// address, which browsers do not send, and it is worth nothing after its first use.
#include <stdlib.h>

#include "cli/body.h"
#include "cli/print.h"
#include "cli/remote.h"
#include "lib/fields.h"

#define LINKS_PATH "/v1/auth/links"
#define BODY_MAX 1024

// "127.0.0.1:8484" of the link; false: it is reached from other machines, too.
static bool is_loopback_link(const char *url, struct str *out)
{
	struct str rest = str_of(url), host;

	if (!str_starts(rest, "http://"))
		return false;
	rest = str_skip(rest, strlen("http://"));
	str_cut(&rest, '/', &host);
	*out = host;
	return str_starts(host, "127.0.0.1:") || str_starts(host, "localhost:") ||
	       str_starts(host, "[::1]:");
}

fallible cli_dashboard(struct call *call)
{
	auto_buf body = BUF_INIT(BODY_MAX), text = BUF_INIT(REMOTE_REPLY_MAX);
	struct json_out out = json_to(&body);
	const char *tenant = call_value(call, OPT_TENANT), *url;
	auto_remote remote = {0};
	auto_json reply = NULL;
	struct str host, port;

	json_begin(&out, '{');
	if (tenant)
		json_put_text(&out, "tenant", tenant);
	if (call_has(call, OPT_READ_ONLY)) {
		json_put_begin(&out, "scopes", '[');
		json_add_text(&out, "read");
		json_end(&out, ']');
	}
	json_end(&out, '}');
	TRY(remote_open(&remote, call));
	TRY(remote_ask(&remote, "POST", LINKS_PATH, &body, &text, &reply));
	if (call_has(call, OPT_JSON)) {
		print_json(buf_view(&text));
		return OK;
	}
	url = fields_text(reply, "url");
	print_line("%s", url);
	if (call_has(call, OPT_QUIET))
		return OK;
	print_note("the link signs in once, within a minute");
	if (getenv("SSH_CONNECTION") && is_loopback_link(url, &host)) {
		port = host;
		while (port.len && memchr(port.at, ':', port.len))
			port = str_skip(port, 1);
		print_note("from your machine, first: ssh -L " STR_FMT ":" STR_FMT " THIS-HOST",
			   STR_ARG(port), STR_ARG(host));
	}
	return OK;
}
