// The API, from outside: where the daemon is, the key to it, and one request after the other. Every
// verb asks through here.
//
// Found without being asked for: --url or COVE_URL, else the file `url` in the data directory,
// which the supervisor writes (0644, one line, the real address, "http://127.0.0.1:8484") once it
// listens and removes when it ends. The key is COVE_TOKEN, else the file `operator.key` beside it
// (0600); that file's key is only ever sent to this very machine.
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "cli/call.h"
#include "http/client.h"
#include "wire/json.h"

#define REMOTE_DATA_DEFAULT "/var/lib/cove"
#define REMOTE_URL_FILE "url"
#define REMOTE_KEY_FILE "operator.key"
#define REMOTE_REPLY_MAX ((size_t)512 << 20)

struct remote {
	struct loop *loop;
	struct http_client *client;
	char *url, *token;
	char code[48]; // the API's own word for the last refusal: COMMAND_NOT_FOUND
};

// --data or COVE_DATA or the default.
const char *remote_data(const struct call *call);

// Finds the daemon and reaches it. UNAVAILABLE no_daemon when none runs here, no_server when it
// does not answer, FORBIDDEN no_key when its key may not be read. remote_close() in every case.
fallible remote_open(struct remote *remote, const struct call *call);
// The same with both known. `token` NULL: none.
fallible remote_open_at(struct remote *remote, struct loop *loop, const char *url,
			const char *token);
void remote_close(struct remote *remote);
#define auto_remote on_exit_call(remote_close) struct remote

// A line of a small file without its newline, the caller's; NOT_FOUND no_file, FORBIDDEN no_right.
fallible remote_line(const char *dir, const char *name, char **out);

// Asks, and reads the reply whole as JSON (NULL when it has no body). A refusal becomes the error
// that it describes. `body` NULL: none. The text stays in *text, if given, for printing as it came.
fallible remote_ask(struct remote *remote, const char *method, const char *path,
		    const struct buf *body, struct buf *text, struct json **out);
// For replies that stream: after the status is known. Anything but 2xx is read and becomes an
// error.
fallible remote_accept(struct remote *remote, int status);
// "/v1/sandboxes/" and the word, percent-escaped, and what follows.
char *remote_path(const char *collection, const char *word, const char *rest);
